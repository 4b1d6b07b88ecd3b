import os

import pytest

from epagcl.core.errors import InputError
from epagcl.core.outputs import RUN_FILES, RUN_MARKS, check_folder, check_kept, check_writable


def test_an_input_is_not_replaced_under_any_of_its_names(tmp_path):
    labels = tmp_path / "l.csv"
    labels.touch()
    (tmp_path / "link.csv").symlink_to(labels)
    os.link(labels, tmp_path / "hard.csv")
    for name in ("l.csv", "link.csv", "hard.csv", "../" + tmp_path.name + "/l.csv"):
        with pytest.raises(InputError, match="is an input of this command; give another out="):
            check_kept(tmp_path / name, None, "cora", labels)


@pytest.mark.parametrize("mark", RUN_MARKS)
def test_files_of_a_run_are_not_replaced(tmp_path, mark):
    for name in RUN_FILES:
        (tmp_path / name).touch()
    for name in set(RUN_MARKS) - {mark}:
        (tmp_path / name).unlink()
    with pytest.raises(InputError, match=r"nodes\.csv: belongs to the run in this folder"):
        check_kept(tmp_path / "nodes.csv")
    check_kept(tmp_path / "predictions.csv")
    (tmp_path / mark).unlink()
    check_kept(tmp_path / "nodes.csv")  # not of a run


def test_other_files_may_be_replaced(tmp_path):
    (tmp_path / "p.csv").touch()
    check_kept(tmp_path / "p.csv", tmp_path / "l.csv", None)
    check_kept(tmp_path / "new.csv", tmp_path / "l.csv")
    check_kept(None, tmp_path / "l.csv")


def test_a_file_is_written_to_a_folder_that_may_be_new(tmp_path):
    check_writable(tmp_path / "new" / "c.json")
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert list((tmp_path / "new").iterdir()) == []
    with pytest.raises(InputError, match="new: is a folder; give the name of a file"):
        check_writable(tmp_path / "new")
    (tmp_path / "afile").touch()
    with pytest.raises(InputError, match=r"afile/c\.json: cannot be written \(.*\); give another path"):
        check_writable(tmp_path / "afile" / "c.json")


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "afile").touch()
    for folder in (tmp_path / "afile", tmp_path / "afile" / "a" / "b"):
        with pytest.raises(InputError, match=r"afile: is a file, not a folder; give another store=$"):
            check_folder(folder, "store")
    check_folder(tmp_path / "new" / "a")
    assert not (tmp_path / "new").exists()
