"""The table that compares what embeddings keep with their accuracies."""

import json

from benchmarks import retention

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
    text = " ".join(retention.agreement_table(RESULT).split())
    assert "| Flickr | 1.00 | 1 | 1 |" in text
    assert "| Cora | −1.00 | 0 | – |" in text
    assert "of up to 3 trained and untrained models, mean 0.00." in text
    assert "1 of 1 are called poor, and 0 good. Of the 4 others, 0 are called poor." in text
    assert "Measured on GPU, 2026-01-02, commit abcdef0" in text


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
