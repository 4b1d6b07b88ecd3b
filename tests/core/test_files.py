import pytest

from epagcl.core.files import atomic_path


def test_success_replaces_and_failure_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    with atomic_path(path) as temporary:
        assert temporary.suffix == ".txt"
        assert temporary.parent == tmp_path
        temporary.write_text("one")

    def fail():
        with atomic_path(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "one"
    assert list(tmp_path.iterdir()) == [path]
