"""Benchmarks: the plain implementations compute the same loss, and the measurements are complete."""

import importlib
import json
from pathlib import Path

import pytest
import torch

from benchmarks import health, precision, propagated, tables
from benchmarks.cpu import epoch_times, physics_times, training_memory
from benchmarks.plain import LOSSES, in_batches
from epagcl.core.errors import InputError
from epagcl.data import block_model
from epagcl.losses.infonce.loss import info_nce, info_nce_batched


@pytest.fixture
def graph():
    data = block_model(300, num_features=60, topic_words=20, seed=0)
    data.name = "small"
    return data


@pytest.mark.parametrize("name", LOSSES)
def test_plain_losses_equal_info_nce(name):
    u, v = (torch.randn(300, 6, dtype=torch.float64, requires_grad=True) for _ in range(2))
    expected = info_nce(u, v, 0.3)
    loss = LOSSES[name](u, v, 0.3)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(torch.autograd.grad(loss, u), torch.autograd.grad(expected, u))


@pytest.mark.parametrize("nodes", [512, 300, 100])  # full batches, a smaller last batch, a single batch
def test_the_plain_batched_loss_equals_info_nce_batched(nodes):
    u, v = (torch.randn(nodes, 6, dtype=torch.float64, requires_grad=True) for _ in range(2))
    order = torch.randperm(nodes)
    expected = info_nce_batched(torch.cat([u, v]), 0.3, 256, order)
    loss = in_batches(u, v, 0.3, order)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(torch.autograd.grad(loss, [u, v]), torch.autograd.grad(expected, [u, v]))


@pytest.mark.slow
def test_epoch_times_cover_every_implementation(graph):
    result = epoch_times(graph, epochs=1)
    assert set(result["seconds"]) == {"epagcl", *LOSSES}
    assert all(seconds > 0 for seconds in result["seconds"].values())
    assert training_memory(graph)["one_dense_block_gib"] == pytest.approx(4 * 600**2 / 2**30)


def test_physics_times_contain_batches_and_all_pairs(graph):
    result = physics_times(graph, epochs=1)
    assert set(result["seconds"]) == {"epagcl", "plain, batches of 256"}
    assert all(seconds > 0 for seconds in (*result["seconds"].values(), result["all_pairs_seconds"]))
    assert result["batch_size"] == 256
    json.dumps(result)


def test_times_of_the_method_without_training(graph):
    row = propagated.timed(graph, "small", "cpu", repeats=1)
    assert (row["nodes"], row["features"]) == (300, 60)
    times = [row[key] for key in row if key.endswith("_seconds")]
    assert len(times) == 4
    assert all(seconds > 0 for seconds in times)
    assert 0 < row["accuracy"] <= 1
    assert "accuracy" not in propagated.timed(graph, "ogbn-arxiv", "cpu", repeats=1)


def test_every_module_can_be_imported():
    for path in Path(tables.__file__).parent.glob("*.py"):
        importlib.import_module(f"benchmarks.{path.stem}")


@pytest.mark.slow
def test_the_health_benchmark_measures_every_seed(monkeypatch):
    monkeypatch.setattr(health, "SEEDS", 2)
    row = health._observe("demo", "short", "epagcl", {"epochs": 1, "hidden": 16, "dim": 8, "projection": 8})
    assert (row["graph"], row["dim"]) == ("demo", 8)
    for name in ("accuracy", "raw", "effective_rank", "alignment", "distance", "uniformity"):
        assert len(row[name]) == 2, name
    assert 0 < row["agreement"] < 1
    (verdicts,) = health.summary({"rows": [row | {"changes": {}}]}).values()
    assert verdicts[0] in ("good", "fair", "poor")


def test_the_methods_benchmark_needs_a_gpu(monkeypatch):
    from benchmarks.methods import methods

    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(InputError, match="no CUDA device here"):
        methods()


def test_the_table_of_methods_shows_time_ratio_and_memory():
    rows = [
        {"method": "EPAGCL", "graph": "Cora", "ms": 0.5, "gib": 0.1, "times_epagcl": 1.0},
        {"method": "GMI", "graph": "Cora", "ms": 1.5, "gib": 0.25, "times_epagcl": 3.0},
        {"method": "GMI", "graph": "big", "ms": None, "gib": None, "times_epagcl": None},
    ]
    provenance = {"hardware": {"device": "GPU"}, "versions": {"torch": "2"}, "date": "2026-01-01T", "commit": "abc"}
    table = tables.methods_table({"rows": rows, **provenance})
    assert "| GMI | 1.50 ms (3.0×), 0.2 GiB | out of memory |" in table
    assert "| EPAGCL | 0.50 ms (1.0×), 0.1 GiB | – |" in table
    assert table.endswith("\n\nMeasured on GPU, torch 2, 2026-01-01, commit abc.\n")


@pytest.mark.slow
def test_the_precision_benchmark_compares_the_same_seeds(graph, use_bf16, monkeypatch):
    monkeypatch.setattr("benchmarks.precision.SPLITS", 2)
    row = precision.compare(graph, precision.Task("small", epochs=1, seeds=2))
    assert {name: len(values) for name, values in row["accuracy"].items()} == {"fp32": 2, "bf16": 2}
    summary = precision.summary([row | {"accuracy": {"fp32": [0.5, 0.75], "bf16": [0.5, 1.0]}}])
    assert summary["mean_difference"] == 0.125
    assert summary["standard_error"] == pytest.approx(0.125)


def test_the_precision_benchmark_needs_the_instructions():
    with pytest.raises(InputError, match="no bf16 instructions"):
        precision.precision()


def test_the_table_of_times_without_training():
    row = {"graph": "cora", "nodes": 2708, "features": 1433, "fit_seconds": 0.0712, "components_seconds": 0.0626}
    rows = [row | {"embed_seconds": 0.00143, "peak_memory_gib": 0.061}]
    result = {"rows": rows, "hardware": {"device": "GPU"}, "date": "2026-01-02T03:04:05", "repeats": 5}
    assert "| Cora | 2,708 | 1,433 | 71 ms | 63 ms | 1.4 ms | 0.06 GiB |" in propagated.table(result)
    on_cpu = propagated.table(result | {"rows": [rows[0] | {"peak_memory_gib": None}]})
    assert "| 1.4 ms | – |" in on_cpu
    assert "Medians of 5 repetitions" in on_cpu


def test_the_table_of_deviations_has_every_figure_that_differs_from_a_published_one(monkeypatch):
    def measured(row, graph, mean):
        accuracy = {"accuracy": {"mean": mean}}
        return {"row": row, "graph": {"name": graph}, "protocols": {"strict": accuracy, "public": accuracy}}

    # Published for GRACE on Cora: 85.34 by the paper, 83.3 for random splits, 81.9 for the public split.
    cells = {"Cora": [measured("GRACE", "Cora", 0.838), measured("raw features", "Cora", 0.1)]}
    monkeypatch.setattr(tables, "_comparison", lambda: cells)
    lines = [line for line in tables.deviations_table().splitlines() if line.startswith("| GRACE")]
    assert lines == [
        "| GRACE | Cora | the paper | strict | 85.3 | 83.8 | -1.5 |",
        "| GRACE | Cora | others | public | 81.9 | 83.8 | +1.9 |",
    ]
    assert "raw features" not in tables.deviations_table()
