"""The table that compares what embeddings keep with their accuracies."""

import json

import pytest

from benchmarks import retention
from epagcl.core.errors import InputError

RESULT = {
    "date": "2026-01-02T00:00:00",
    "hardware": {"device": "GPU"},
    "commit": "abcdef0123",
    "graphs": {
        "Flickr": {
            "raw": 75.0,
            "rows": [
                {"row": "DGI", "accuracy": 53.0, "features": [0.01, 0.2, 0.3], "edges": [0.6, 0.5, 0.6]},
                {"row": "propagated", "accuracy": 85.0, "features": [0.3, 0.2, 0.3], "edges": [0.6, 0.5, 0.6]},
                {"row": "EPAGCL+", "accuracy": 92.0, "features": [0.31, 0.2, 0.3], "edges": [0.6, 0.5, 0.6]},
            ],
        },
        "Cora": {
            "raw": 64.0,
            "rows": [
                {"row": "DGI", "accuracy": 84.0, "features": [0.08, 0.05, 0.09], "edges": [0.9, 0.7, 0.9]},
                {"row": "propagated", "accuracy": 83.0, "features": [0.09, 0.05, 0.09], "edges": [0.9, 0.7, 0.9]},
            ],
        },
    },
}


def test_the_table_counts_failed_models_and_their_verdicts():
    text = " ".join(retention.verdict_table(RESULT).split())
    assert "| Flickr | 3 | 1 | 1 | 0 | 0 |" in text
    assert "| Cora | 2 | 0 | – | – | – |" in text
    assert "1 of 1 of them are called poor, and 0 of 1 good." in text
    assert (
        "Of the others, 0 of 4 are called poor; of those within 2 points of the best row of their graph, 0 of 3."
        in text
    )
    assert "Measured on GPU, 2026-01-02, commit abcdef0" in text


def test_a_model_far_behind_propagated_features_has_failed():
    model, propagated = RESULT["graphs"]["Cora"]["rows"]
    graph = {"raw": 60.0, "rows": [{**model, "accuracy": 69.0}, {**propagated, "accuracy": 80.0}]}
    text = retention.verdict_table({**RESULT, "graphs": {"Cora": graph}})
    assert "| Cora | 2 | 1 | 0 | 0 | 1 |" in text


def test_measures_are_correlated_with_accuracy_within_graphs():
    text = " ".join(retention.correlation_table(RESULT).split())
    assert "| kept features | 0.00 | −1.00 | 1.00 | 2 |" in text
    assert "| verdict: the worse of both | 0.87 | 0.87 | 0.87 | 1 |" in text


def test_the_verdict_is_the_worse_of_both_measures():
    row = RESULT["graphs"]["Cora"]["rows"][0]
    assert retention._verdict(row) == "good"
    assert retention._verdict({**row, "edges": [0.55, 0.7, 0.9]}) == "poor"
    assert retention._verdict({**row, "features": [None] * 3, "edges": [None] * 3}) == "good"  # both are left out


def test_graphs_that_the_comparison_lacks_are_left_out(tmp_path):
    comparison = tmp_path / "comparison.json"
    comparison.write_text(json.dumps({"results": {}}))
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "g.json").write_text(json.dumps({"graph": "g", "rows": []}))
    with pytest.raises(InputError, match=r"no graph of comparison\.json is measured"):
        retention.merge(tmp_path / "runs", comparison)


def test_merging_adds_the_accuracies_of_the_comparison(tmp_path):
    cell = {"row": "DGI", "protocols": {"strict": {"accuracy": {"mean": 0.53}}}}
    raw = {"row": "raw features", "protocols": {"strict": {"accuracy": {"mean": 0.75}}}}
    comparison = tmp_path / "comparison.json"
    comparison.write_text(json.dumps({"results": {"Flickr": [raw, cell]}}))
    folder = tmp_path / "runs"
    folder.mkdir()
    rows = [{"row": title, "features": [0.1, 0.2, 0.3], "edges": [0.5, 0.5, 0.5]} for title in ("DGI", "unknown")]
    file = {
        **{key: RESULT[key] for key in ("date", "hardware", "commit")},
        "versions": {},
        "graph": "Flickr",
        "rows": rows,
    }
    (folder / "Flickr.json").write_text(json.dumps(file))
    merged = retention.merge(folder, comparison)
    assert merged["graphs"] == {"Flickr": {"raw": 75.0, "rows": [{**rows[0], "accuracy": 53.0}]}}


def test_models_are_measured_untrained_and_trained(tmp_path, monkeypatch):
    monkeypatch.setattr(retention, "recipe", lambda graph, name: {"epochs": 2, "source": "ours"})
    retention.retention("demo", tmp_path, methods=("cca-ssg",), device="cpu")
    (file,) = tmp_path.glob("*.json")
    content = json.loads(file.read_text())
    assert [row["row"] for row in content["rows"]] == ["untrained CCA-SSG", "CCA-SSG"]
    for row in content["rows"]:
        assert all(0 <= value <= 1 for value in row["features"] + row["edges"])
    assert content["rows"][0]["features"][1:] == content["rows"][1]["features"][1:]  # the same references
