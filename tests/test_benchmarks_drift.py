"""The benchmark of an old model on a growing graph, and its table."""

import pytest

from benchmarks import drift


def row(novelty: float, old: float, new: float) -> dict:
    shift = {"median": 0.1 + novelty, "p95": 0.3, "changed_neighbours": 0.25}
    accuracies = {"old_accuracy": old, "new_accuracy": new}
    return {"seed": 0, "growth": 0.5, "new_classes": 1.0, "novelty": novelty, **shift, **accuracies}


def test_the_table_compares_the_advice_with_the_loss():
    result = {
        "date": "2026-01-02T00:00:00",
        "settings": {"epochs": 20},
        "old_nodes": 800,
        "rows": [row(0.3, 60.0, 80.0), row(0.0, 90.0, 90.5), row(0.1, 85.0, 86.0)],
    }
    text = " ".join(drift.table(result).split())
    assert "| 50% | 100% | 30% | 40% | 25% | 60.0 | 80.0 |" in text
    assert "novelty 1.00" in text
    assert (
        "Where the advice is to train again, the old model loses 20.0 points on average, and at least 2 on 1 of 1"
        in text
    )
    assert "is to keep the model, the old model loses 0.8 points on average, and at least 2 on 0 of 2 graphs" in text


@pytest.mark.slow
def test_new_classes_are_novel(monkeypatch):
    monkeypatch.setattr(drift, "SPLITS", 1)
    small = {"epochs": 1, "hidden": 8, "projection": 8, "dim": 8}
    result = drift.grown((0.5,), (0.0, 1.0), (0,), old_nodes=120, **small)
    same, new = result["rows"]
    assert same["novelty"] < 0.1 < new["novelty"] <= 1 / 3
    assert same["median"] > new["median"] > 0
    assert result["settings"]["epochs"] == 1
