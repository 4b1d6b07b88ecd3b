import json
import os
import stat

import pytest

from epagcl.core.files import atomic_path, write_json


def test_success_replaces_the_file_and_failure_keeps_the_old_one(tmp_path):
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


def test_files_have_the_permissions_of_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        with atomic_path(tmp_path / "a.txt") as temporary:
            temporary.write_text("one")
            temporary.chmod(0o600)  # as some writers create it
        assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640
        assert os.umask(0o027) == 0o027  # the umask itself is unchanged
    finally:
        os.umask(before)


def test_json_is_indented_and_keeps_letters(tmp_path):
    write_json({"name": "épa", "runs": [1]}, tmp_path / "a.json")
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert json.loads(text) == {"name": "épa", "runs": [1]}
    assert text.startswith('{\n  "name": "épa"')
    assert text.endswith("}\n")
