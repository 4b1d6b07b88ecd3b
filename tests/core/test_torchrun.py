import pytest

from epagcl.core.torchrun import launched_rank, launched_ranks, local_rank, restarts


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
