import csv
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import epagcl
from epagcl.core.errors import InputError
from epagcl.core.hardware import force_bf16
from epagcl.distributed.group import Ranks, active_ranks, alone, rank_timeout, several_ranks
from tests.ranks import on_ranks

SETTINGS = {"method": "epagcl", "epochs": 9, "hidden": 8, "dim": 4, "projection": 4, "precision": "fp32", "lr": 0.001}
OPTIONS = ["--runs", "1", "--map", "none", "--out", "run"]
OPTIONS += [word for key, value in SETTINGS.items() for word in (f"--{key}", str(value))]


def torchrun(folder, *command, ranks=2, restarts=0, **environment):
    """Run a module or a script on several ranks."""
    arguments = ["--nproc-per-node", str(ranks), "--max-restarts", str(restarts), "--rdzv-backend", "c10d"]
    arguments += ["--rdzv-endpoint", "localhost:0", "--monitor-interval", "0.1"]
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *arguments, *command],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "EPAGCL_CHECKPOINT_SECONDS": "0", **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )


def losses(folder):
    with (folder / "history.csv").open(newline="") as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


def sums_and_values(ranks):
    total = ranks.sum_(torch.tensor([1.0, ranks.rank]))
    first = ranks.from_first({"rank": ranks.rank})
    every = ranks.gathered(ranks.rank)
    try:
        ranks.on_first(lambda: int("x"))
    except ValueError as error:
        raised = str(error)
    return total.tolist(), first, every, raised, ranks.on_first(lambda: ranks.rank), active_ranks() is ranks


@pytest.mark.slow
def test_all_ranks_have_the_same_values():
    for total, first, every, raised, value, active in on_ranks(3, sums_and_values):
        assert (total, first, every) == ([3.0, 3.0], {"rank": 0}, [0, 1, 2])
        assert "invalid literal" in raised
        assert (value, active) == (0, True)


def test_a_process_without_torchrun_works_alone():
    with several_ranks() as ranks:
        assert (ranks.rank, ranks.size, ranks.is_first, active_ranks()) == (0, 1, True, None)
        assert ranks.from_first(3) == 3
        assert ranks.gathered(3) == [3]
        assert ranks.all_agree("x", True)
    with alone():
        assert active_ranks() is None
    assert Ranks(1, 2).is_first is False


@pytest.mark.parametrize("text", ["0", "-1", "soon"])
def test_a_timeout_is_a_number_of_seconds(monkeypatch, text):
    monkeypatch.setenv("EPAGCL_RANK_TIMEOUT", text)
    with pytest.raises(InputError, match="give a number of seconds above 0"):
        rank_timeout()


@pytest.mark.slow
def test_a_killed_rank_is_restarted_and_the_run_goes_on_from_the_checkpoint(tmp_path):
    script = str(Path(__file__).parent / "faulty.py")
    command = [script, "train", "demo", *OPTIONS]
    result = torchrun(tmp_path, *command, restarts=1, FAULT="kill")
    assert result.returncode == 0, result.stderr
    assert "run folder: run" in result.stdout
    settings = epagcl.load_model(tmp_path / "run").get_params()
    with force_bf16(False):
        model = epagcl.EPAGCL(**{**settings, "device": "cpu"}).fit(epagcl.load("demo"))
    # Every epoch is there once, as in an uninterrupted training by one process.
    assert losses(tmp_path / "run") == pytest.approx([row["loss"] for row in model.history_], rel=1e-5)


@pytest.mark.slow
def test_a_hanging_rank_ends_the_run_with_a_message_in_bounded_time(tmp_path):
    script = str(Path(__file__).parent / "faulty.py")
    start = time.monotonic()
    command = [script, "train", "demo", *OPTIONS]
    result = torchrun(tmp_path, *command, FAULT="hang", EPAGCL_RANK_TIMEOUT="8")
    assert result.returncode != 0
    assert "epagcl: rank 0 of 2: no answer from rank 1 within 8 s" in result.stderr
    assert time.monotonic() - start < 120
