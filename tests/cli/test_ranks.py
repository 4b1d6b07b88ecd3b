"""The command line as ``torchrun`` starts it."""

import sys

import pytest

from epagcl.cli.app import main


@pytest.fixture
def on_rank(monkeypatch):
    """Call ``epagcl`` as one of two ranks, and return its exit code."""

    def run(rank, *arguments):
        for name, value in {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2}.items():
            monkeypatch.setenv(name, str(value))
        monkeypatch.setattr(sys, "argv", ["epagcl", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code

    return run


def test_commands_other_than_train_and_embed_run_on_one_rank(on_rank, capsys):
    assert on_rank(0, "epr", "demo") == 2
    assert capsys.readouterr().err == "epagcl: epagcl epr runs on one rank; start it without torchrun\n"


@pytest.mark.parametrize("command", ["train", "embed"])
def test_methods_that_run_on_one_rank_say_so_in_one_line(on_rank, capsys, command, tmp_path):
    out = str(tmp_path / ("run" if command == "train" else "z.npy"))
    assert on_rank(0, command, "demo", "--method", "dgi", "--out", out, "--quiet") == 2
    message = "epagcl: dgi runs on one rank; start it without torchrun, or choose another --method\n"
    assert capsys.readouterr().err == message
    assert list(tmp_path.iterdir()) == []


def test_one_line_per_machine_is_enough_for_a_mistake(on_rank, capsys):
    assert on_rank(1, "train", "demo", "--method", "dgi", "--epoch", "3") == 2
    assert capsys.readouterr() == ("", "")


def test_subgraphs_are_for_one_rank(on_rank, capsys, tmp_path):
    options = ("--method", "epagcl", "--subgraphs", "neighbours", "--out", str(tmp_path / "z.npy"), "--quiet")
    assert on_rank(0, "embed", "demo", *options) == 2
    message = "epagcl: --subgraphs neighbours: for one rank; start the command without torchrun, or leave it out\n"
    assert capsys.readouterr().err == message
