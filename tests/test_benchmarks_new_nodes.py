"""The benchmark of new nodes, and its tables."""

import pytest

from benchmarks import new_nodes

RESULT = {
    "date": "2026-01-02T00:00:00",
    "hardware": {"cpu": "a CPU", "device": "cpu", "threads": 1},
    "new": 100,
    "epochs": 5,
    "load": 3.2,
    "read": [
        {
            "method": "EPAGCL",
            "files": "CSV",
            "nodes": 2000,
            "megabytes": 12.3,
            "local_seconds": 0.5,
            "whole_seconds": 4.0,
        },
        {
            "method": "EPAGCL",
            "files": "graph on disk",
            "nodes": 2000,
            "megabytes": 20.0,
            "local_seconds": 0.1,
            "whole_seconds": None,
        },
    ],
    "time": [
        {
            "method": "EPAGCL",
            "nodes": 200_000,
            "edges": 400_000,
            "hops": 2,
            "nodes_used": 1234,
            "local_seconds": 0.25,
            "whole_seconds": 5.0,
            "error": 0.0,
        }
    ],
    "error": [
        {
            "method": "propagated",
            "graph": name,
            "hops": 2,
            "share_used": 0.5,
            "median": 0.05,
            "p95": 0.1,
            "estimate": 0.06,
        }
        for name in ("Cora", "CiteSeer")
    ],
}


def test_the_tables():
    text = " ".join(new_nodes.table(RESULT).split())
    assert "| EPAGCL | 200,000 | 2 | 1,234 | 0.25 s | 5.0 s | 20× | 0.0% |" in text
    assert "| propagated | 2 | 5.0% (10.0%) | 5.0% (10.0%) |" in text
    assert "Measured on a CPU, 2026-01-02." in text
    assert "| EPAGCL | CSV, 12 MB | 0.50 s | 4.0 s |" in text
    assert "| EPAGCL | graph on disk, 20 MB | 0.10 s | – |" in text
    assert "Processor time of one thread on a busy machine (load 3)." in text


@pytest.mark.slow
def test_a_graph_is_measured(monkeypatch):
    monkeypatch.setattr(new_nodes, "NEW", 10)
    monkeypatch.setattr(new_nodes, "TRAINED_ON", 100)
    monkeypatch.setattr(new_nodes, "ERROR_METHODS", ("propagated",))
    monkeypatch.setattr(new_nodes.torch, "set_num_threads", lambda count: None)
    result = new_nodes.new_nodes((("propagated", 300),), ("demo",), (("propagated", 300),))
    assert [row["files"] for row in result["read"]] == ["CSV", "Parquet", "graph on disk"]
    assert [row["whole_seconds"] is None for row in result["read"]] == [False, False, True]
    (row,) = result["time"]
    assert (row["nodes"], row["hops"]) == (300, 2)
    assert 10 < row["nodes_used"] < 300
    assert 0 < row["error"] < 1
    assert [row["hops"] for row in result["error"]] == [1, 2, 3]
    medians = [row["median"] for row in result["error"]]
    assert medians == sorted(medians, reverse=True)
