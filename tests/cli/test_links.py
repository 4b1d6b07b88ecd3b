import json

import numpy as np
import pandas as pd
import pytest

FAST = ("--method", "propagated", "--dim", "8", "--device", "cpu")


@pytest.mark.slow
def test_links_of_files(run, files):
    code, out, _ = run("links", "--edges", "e.csv", "--features", "f.csv", *FAST)
    assert code == 0
    assert "Adamic–Adar" in out
    assert "hits@50" in out
    assert "95% interval" in out


@pytest.mark.slow
def test_json_of_a_split_by_time(run, files, caplog):
    table = pd.read_csv("e.csv")
    table["day"] = pd.to_datetime("2024-01-01") + pd.to_timedelta(np.arange(len(table)), unit="D")
    table.to_csv("timed.csv", index=False)
    code, out, _ = run("links", "--edges", "timed.csv", "--features", "f.csv", "--time", "day", *FAST, "--json")
    result = json.loads(out)
    assert (code, result["split"], result["method"]) == (0, "by time", "propagated")
    assert sum(result["edges"].values()) == len(table)
    assert len(result["rows"]) == 8
    assert "timed.csv: the last edges by day are held out" in caplog.messages
    assert "timed.csv: edges join source and target, at the times in day" in caplog.messages


@pytest.mark.slow
def test_structural_features_see_training_edges_only(run, files, monkeypatch):
    from epagcl.data.structural import features

    seen = []
    compute = features.with_structural_features
    monkeypatch.setattr(
        features, "with_structural_features", lambda data, **o: (seen.append(data), compute(data, **o))[1]
    )
    code, out, _ = run("links", "--edges", "e.csv", "--features", "structure,f.csv", *FAST, "--json")
    assert (code, len(seen)) == (0, 1)
    assert seen[0].edge_index.shape[1] == 2 * json.loads(out)["edges"]["train"]
    code, out, _ = run("links", "--edges", "e.csv", "--features", "structure", *FAST, "--json")
    assert (code, seen[1].x) == (0, None)


@pytest.mark.slow
def test_named_graphs_and_settings(run):
    code, out, _ = run("links", "demo", "--method", "propagated", "--dim", 8, "--json", "--quiet", "--split-seed", 1)
    assert (code, json.loads(out)["edges"]["test"] > 400) == (0, True)


def test_mistakes_end_in_one_line(run, files):
    message = "epagcl: --time day: names a column of the edges; give --edges\n"
    assert run("links", "demo", "--time", "day") == (2, "", message)
    code, _, err = run("links", "--edges", "e.csv", "--features", "f.csv", "--time", "day", *FAST)
    assert (code, err.splitlines()[-1].startswith("epagcl: e.csv: no column 'day' for --time;")) == (2, True)
    code, _, err = run("links", "demo", "--method", "gcn")
    assert (code, err.splitlines()[-1]) == (2, "epagcl: method: gcn learns from labels; give one that learns without")
