import json

import pandas as pd
import pytest

from epagcl.runs import write_embeddings
from tests.tasks.test_anomalies import crowd


@pytest.fixture
def z(tmp_path):
    rows, edges = crowd()
    pd.DataFrame(edges.T.numpy(), columns=["source", "target"]).to_csv(tmp_path / "e.csv", index=False)
    features = pd.DataFrame({"id": range(60), "a": [1.0] * 60, "b": [-1.0 if k == 9 else 1.0 for k in range(60)]})
    features.sample(frac=1, random_state=0).to_csv(tmp_path / "f.csv", index=False)
    return write_embeddings(rows, None, tmp_path / "z.npy")[0]


def test_the_most_anomalous_nodes_are_listed_with_reasons(run, z):
    code, out, _ = run("anomalies", z, "--edges", "e.csv", "--top", 3, "--k", 10, "--out", "scores.csv")
    assert code == 0
    first = out.splitlines()[3].split()
    assert first[0] == "3"
    assert "unlike its neighbours" in out.splitlines()[3]
    assert "the 3 highest scores of 60 nodes" in out
    assert out.splitlines()[-1] == "written: scores.csv"
    assert pd.read_csv("scores.csv").columns.tolist() == [
        *("id", "score", "neighbourhood", "density", "degree", "reason"),
    ]


def test_features_are_matched_by_id(run, z):
    code, out, _ = run("anomalies", z, "--edges", "e.csv", "--features", "f.csv", "--top", 60, "--k", 10, "--json")
    result = json.loads(out)
    assert (code, result["nodes"]) == (0, 60)
    by_features = max(result["top"], key=lambda row: row["features"])
    assert by_features["id"] == 9


def test_without_a_graph(run, z):
    code, out, _ = run("anomalies", z, "--density", "knn", "--json", "--top", 1)
    assert (code, json.loads(out)["top"][0]["id"]) == (0, 3)
    assert run("anomalies", z, "--features", "f.csv") == (
        *(2, ""),
        "epagcl: --features needs the graph; give --edges\n",
    )


def test_a_graph_of_other_nodes(run, z):
    pd.DataFrame({"source": ["a"], "target": ["b"]}).to_csv("other.csv", index=False)
    code, out, err = run("anomalies", z, "--edges", "other.csv")
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith("epagcl: other: 2 nodes without an embedding (a, b); embed this graph")
