import csv
import os
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch.distributed import HashStore

import epagcl
from epagcl.core.errors import InputError
from epagcl.core.hardware import force_bf16
from epagcl.distributed import group
from epagcl.distributed.group import Ranks, _leave, active_ranks, alone, rank_timeout, several_ranks
from tests.ranks import on_ranks

SETTINGS = {"method": "epagcl", "epochs": 9, "hidden": 8, "dim": 4, "projection": 4, "precision": "fp32", "lr": 0.001}
OPTIONS = ["--runs", "1", "--map", "none", "--out", "run"]
OPTIONS += [word for key, value in SETTINGS.items() for word in (f"--{key}", str(value))]


def start(folder, *command, ranks=2, restarts=0, machines=1, endpoint="localhost:0", **environment):
    """Start torchrun on one machine of some, with a module or a script on several ranks."""
    arguments = ["--nproc-per-node", str(ranks), "--max-restarts", str(restarts), "--rdzv-backend", "c10d"]
    arguments += ["--rdzv-endpoint", endpoint, "--monitor-interval", "0.1", "--nnodes", str(machines)]
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", *arguments, *command],
        cwd=folder,
        # Without GPUs: there may be fewer of them than ranks.
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "EPAGCL_CHECKPOINT_SECONDS": "0",
            **environment,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def torchrun(folder, *command, **options):
    """Run a module or a script on several ranks of one machine."""
    process = start(folder, *command, **options)
    out, errors = process.communicate(timeout=240)
    return subprocess.CompletedProcess(command, process.returncode, out, errors)


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


@pytest.mark.long
def test_machines_that_count_their_restarts_differently_meet_again(tmp_path):
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        endpoint = f"localhost:{listener.getsockname()[1]}"
    command = [str(Path(__file__).parent / "faulty.py"), "train", "demo", *OPTIONS]
    environment = {"FAULT": "kill", "EPAGCL_RANK_TIMEOUT": "60", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    options = {"ranks": 1, "restarts": 2, "machines": 2, "endpoint": endpoint, **environment}
    machines = [start(tmp_path, *command, **options) for _ in range(2)]
    # The machine with the rank that lives sees that the other one waits for it, and does not count its own restart.
    errors = [machine.communicate(timeout=300)[1] for machine in machines]
    assert [machine.returncode for machine in machines] == [0, 0], errors
    assert len(losses(tmp_path / "run")) == SETTINGS["epochs"]


def test_the_wait_for_rank_0_is_bounded_and_rank_0_leaves_last():
    store = HashStore()
    with pytest.raises(RuntimeError, match="timed out: rank 0 has not finished"):
        _leave(store, Ranks(1, 2), seconds=0.3)
    start = time.monotonic()
    _leave(store, Ranks(0, 2), seconds=0.3)  # the other has died
    assert time.monotonic() - start < 5
    with ThreadPoolExecutor(2) as threads:
        left = threads.submit(_leave, store, Ranks(0, 3), 30.0)
        other = [threads.submit(_leave, store, Ranks(rank, 3), 30.0) for rank in (1, 2)]
        assert [future.result(timeout=30) for future in (left, *other)] == [None] * 3


@pytest.mark.parametrize(
    ("alive", "error", "expected"),
    [
        ([0, 1], "timed out", "no answer from rank 2 within 8 s: it hangs or has died; see its output"),
        ([0], "Timeout", "no answer from ranks 1, 2 within 8 s: they hang or have died; see their output"),
        ([0, 1, 2], "connection closed", "no answer from another rank: it hangs or has died; see its output"),
    ],
    ids=["one", "two", "unknown"],
)
def test_the_message_names_the_ranks_that_do_not_answer(monkeypatch, alive, error, expected):
    monkeypatch.setattr(group, "GRACE_SECONDS", 0.0)
    store = HashStore()
    for rank in alive:
        store.set(f"runs/{rank}", "1")
    message = group._lost_message(store, 0, 3, 8.0, RuntimeError(error))
    assert message == f"rank 0 of 3: {expected}, then --resume the run"


@pytest.mark.parametrize(("shared", "prefix"), [("True", "epagcl-2"), ("False", "epagcl-0")])
def test_only_a_store_that_outlives_a_restart_is_divided_by_restarts(monkeypatch, shared, prefix):
    prefixes = []

    def stop(name, store):
        prefixes.append(name)
        raise InputError("seen")

    environment = {"RANK": "0", "WORLD_SIZE": "2", "TORCHELASTIC_RESTART_COUNT": "2"}
    for key, value in {**environment, "TORCHELASTIC_USE_AGENT_STORE": shared}.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setattr(group, "rendezvous", lambda url, timeout: iter([(HashStore(), 0, 2)]))
    monkeypatch.setattr(group.dist, "PrefixStore", stop)
    with pytest.raises(InputError, match="seen"), several_ranks("cpu"):
        pass
    assert prefixes == [prefix]


@pytest.mark.long
def test_a_hanging_rank_ends_the_run_with_a_message_in_bounded_time(tmp_path):
    script = str(Path(__file__).parent / "faulty.py")
    start = time.monotonic()
    command = [script, "train", "demo", *OPTIONS]
    result = torchrun(tmp_path, *command, FAULT="hang", EPAGCL_RANK_TIMEOUT="8")
    assert result.returncode != 0
    assert "epagcl: rank 0 of 2: no answer from rank 1 within 8 s" in result.stderr
    assert time.monotonic() - start < 120
