import pytest

from benchmarks import half
from epagcl.core.errors import InputError
from epagcl.study.store import Store


@pytest.fixture
def task(monkeypatch):
    """A small task on the CPU, whose epochs are not timed."""
    cells = half.cells
    own = {"device": "cpu", "hidden": 8, "dim": 4, "projection": 4}
    monkeypatch.setattr(
        half, "cells", lambda *args, settings, **options: cells(*args, settings={**settings, **own}, **options)
    )
    monkeypatch.setattr(half, "_epoch_ms", lambda cell, half: 1.0 if half else 2.0)
    task = half.Task("epagcl", "demo", 2, 1)
    monkeypatch.setattr(half, "TASKS", (task,))
    return task


def test_the_cells_differ_in_their_activations_only(task):
    found = half.task_cells(task)
    assert {name: cell.models[0].half_activations for name, cell in found.items()} == {"fp16": True, "float32": False}
    keys = [cell.key(0) for cell in found.values()]
    assert keys[0] != keys[1]
    assert keys[0]["settings"] == keys[1]["settings"]


def test_paired_runs_become_a_row_of_the_table(task, tmp_path):
    assert half._row(task, Store(tmp_path)) is None
    half.train(tmp_path)
    row = half._row(task, Store(tmp_path))
    assert (row["seeds"], row["ms"]) == ([0, 1], {"fp16": 1.0, "float32": 2.0})
    assert row["accuracy"]["fp16"] == row["accuracy"]["float32"]  # on a CPU without Triton
    row["accuracy"] = {"fp16": [0.5, 0.6], "float32": [0.5, 0.58]}
    origin = {
        "hardware": {"device": "a GPU"},
        "versions": {"torch": "2"},
        "date": "2026-11-20T00",
        "commit": "0123456789",
    }
    lines = half.table({**origin, "rows": [row]}).splitlines()
    assert lines[2] == "| EPAGCL | demo | 2.00 ms | 1.00 ms | 2 | 54.0 | +1.0 |"  # two runs have no interval
    assert "Measured on a GPU, torch 2, 2026-11-20, commit 0123456." in " ".join(lines)


def test_it_needs_a_gpu_and_paired_runs(task, tmp_path, monkeypatch):
    monkeypatch.setattr(half.torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="no CUDA device"):
        half.half(tmp_path, 1, 1.0)
    monkeypatch.setattr(half.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(half, "run_workers", lambda *_: 0)
    with pytest.raises(InputError, match="no task has two paired runs"):
        half.half(tmp_path, 1, 1.0)
    monkeypatch.setattr(half, "run_workers", lambda *_: 1)
    with pytest.raises(InputError, match="a process failed"):
        half.half(tmp_path, 1, 1.0)
