import os

import pytest

from epagcl.core.errors import InputError
from epagcl.core.outputs import RUN_FILES, RUN_MARKS, check_kept


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
