import pytest

from epagcl.core.torchrun import (
    launched_rank,
    launched_ranks,
    local_rank,
    local_ranks,
    may_restart_apart,
    requeues,
    restarts,
)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, (1, 0, 0, 0)),
        ({"WORLD_SIZE": "4"}, (1, 0, 0, 0)),  # set by something else
        ({"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "TORCHELASTIC_RESTART_COUNT": "2"}, (1, 0, 0, 0)),
        ({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "TORCHELASTIC_RESTART_COUNT": "2"}, (4, 3, 1, 2)),
    ],
    ids=["alone", "other", "one", "four"],
)
def test_the_environment_of_torchrun(monkeypatch, environment, expected):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RESTART_COUNT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert (launched_ranks(), launched_rank(), local_rank(), restarts()) == expected


@pytest.mark.parametrize(
    ("machines", "most", "shared", "expected"),
    [("2", "3", "True", True), ("1", "3", "True", False), ("2", "0", "True", False), ("2", "3", "False", False)],
)
def test_machines_with_one_store_may_restart_apart(monkeypatch, machines, most, shared, expected):
    monkeypatch.setenv("GROUP_WORLD_SIZE", machines)
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", most)
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", shared)
    assert may_restart_apart() is expected


@pytest.mark.parametrize(("environment", "expected"), [({}, 1), ({"LOCAL_WORLD_SIZE": "4"}, 4)])
def test_the_ranks_of_a_machine(monkeypatch, environment, expected):
    for name, value in {"RANK": "0", "WORLD_SIZE": "8", "LOCAL_RANK": "0", **environment}.items():
        monkeypatch.setenv(name, value)
    assert local_ranks() == expected


@pytest.mark.parametrize(("text", "expected"), [(None, 0), ("", 0), ("2", 2)])
def test_the_requeues_of_a_slurm_job(monkeypatch, text, expected):
    monkeypatch.delenv("SLURM_RESTART_COUNT", raising=False)
    if text is not None:
        monkeypatch.setenv("SLURM_RESTART_COUNT", text)
    assert requeues() == expected
