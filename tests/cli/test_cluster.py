import json

import numpy as np
import pandas as pd
import pytest

from epagcl.runs import write_embeddings

Y = np.arange(90) % 3
Z = np.eye(3)[Y] + 0.1 * np.random.default_rng(0).normal(size=(90, 3))


@pytest.fixture
def z(tmp_path):
    pd.DataFrame({"who": range(90), "team": np.array(["a", "b", "c"])[Y]}).to_csv(tmp_path / "l.csv", index=False)
    return write_embeddings(Z, None, tmp_path / "z.npy")[0]


def test_clusters_go_to_a_table_with_their_stability(run, z):
    code, out, _ = run("cluster", z, "--k", 3, "--out", "c.csv")
    assert code == 0
    assert out.splitlines()[0] == "kmeans: 3 clusters of 30, 30, 30 nodes"
    assert out.splitlines()[-2:] == [
        "stability 1.00: other samples of the nodes give the same clusters.",
        "written: c.csv",
    ]
    clusters = pd.read_csv("c.csv")["cluster"].to_numpy()
    assert [len(set(clusters[c == Y])) for c in range(3)] == [1, 1, 1]


def test_labels_are_compared(run, z):
    arguments = ("cluster", z, "--method", "hdbscan", "--labels", "l.csv", "--id", "who", "--label", "team", "--json")
    code, out, _ = run(*arguments)
    result = json.loads(out)
    assert (code, result["k"], result["agreement"]) == (0, 3, {"nmi": 1.0, "ari": 1.0})
    out = run("cluster", z, "--k", 3, "--labels", "l.csv", "--id", "who", "--label", "team")[1]
    assert "agreement with the labels: NMI 1.000, ARI 1.000" in out


@pytest.mark.slow
def test_auto_shows_what_was_tried(run, z):
    code, out, _ = run("cluster", z)
    assert code == 0
    assert "k = 3 was chosen from 2 to 15" in out
    assert "silhouette" in out.splitlines()[1]


def test_mistakes_end_in_one_line(run, z):
    assert run("cluster", z, "--k", "many") == (2, "", "epagcl: --k many: give a number, or auto\n")
    assert run("cluster", z, "--method", "em")[2] == "epagcl: --method em: choose one of kmeans, hdbscan\n"
