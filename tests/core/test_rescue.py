import tempfile
from pathlib import Path

from epagcl.core.errors import OutputError
from epagcl.core.rescue import rescue

ERROR = OutputError("z.npy: cannot be written (No space left on device)")


def test_the_result_is_written_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    error = rescue(ERROR, lambda folder: (folder / "z.npy").write_text("z"), "the embedding")
    [folder] = tmp_path.iterdir()
    assert str(error) == f"{ERROR}. The embedding is kept in {folder}"
    assert (folder / "z.npy").read_text() == "z"


def test_the_home_folder_is_tried_next(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "temporary").mkdir()
    (tmp_path / "home").mkdir()

    def write(folder):
        if folder.parent.name == "temporary":
            raise OSError("full")

    assert "kept in " + str(tmp_path / "home") in str(rescue(ERROR, write, "the model"))
    assert list((tmp_path / "temporary").iterdir()) == []


def test_if_nothing_can_be_written_the_error_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "missing")

    def fail(folder):
        raise OutputError("full")

    assert rescue(ERROR, fail, "the model") is ERROR
    assert list(tmp_path.iterdir()) == []
