import json
from pathlib import Path

import pandas as pd
import pytest

from tests.cli.conftest import FAST


@pytest.mark.slow
def test_epr_of_named_graphs_and_tables(run, files):
    code, out, _ = run("epr", "demo", "--top", 3)
    assert code == 0
    for words in ("EPR", "per node", "homophily", "Theorem 3.3", "degree: 0 to", "Edges whose removal lowers EPR most"):
        assert words in out
    code, out, _ = run("epr", "--edges", "e.csv", "--labels", "l.csv", "--json", "--top", 2)
    assert code == 0
    harmful = json.loads(out)["most_harmful"]
    assert len(harmful) == 2
    assert all(node.startswith("user-") for edge in harmful for node in edge["ids"])
    table = pd.read_csv(files / "l.csv")
    table[table.index > 20].to_csv(files / "part.csv", index=False)
    code, out, _ = run("epr", "--edges", "e.csv", "--labels", "part.csv", "--json")
    assert code == 0
    assert json.loads(out)["num_nodes"] == 99


def test_operators_with_labels_and_features(run, files):
    code, out, _ = run("epr", "--edges", "e.csv", "--labels", "l.csv", "--features", "f.csv", "--json")
    assert code == 0
    result = json.loads(out)
    raw, one_hop, *_ = result["operators"]
    assert (raw["name"], raw["per_node"], raw["gain"]) == ("X", 0, 1)
    assert 0 < one_hop["per_node"] < result["epr_self_loops"]["per_node"]  # a node's own message is never wrong
    assert 0 < one_hop["estimate"] < 1
    assert 0 < result["structure_score"] < 1


def test_labels_or_features_are_enough(run, files, caplog):
    code, out, _ = run("epr", "--edges", "e.csv", "--features", "f.csv")
    assert code == 0
    assert "no labels; EPR is estimated from the features, give --labels" in caplog.text
    assert "estimate, no labels" in out
    assert "structure score" in out
    assert "per node" not in out
    assert "lowers EPR" not in out
    code, out, _ = run("epr", "--edges", "e.csv", "--labels", "l.csv")
    assert code == 0
    assert "PageRank, α = 0.15" in out
    assert "no labels" not in out
    code, _, err = run("epr", "--edges", "e.csv")
    assert code == 2
    assert "e: no labels and no features" in err
    assert "give --labels, or --features to estimate it" in err


@pytest.mark.slow
def test_first_layer_of_a_trained_model(run, files):
    graph = ("--edges", "e.csv", "--features", "f.csv", "--labels", "l.csv")
    code, *_ = run("train", *graph, "--method", "epagcl", "--out", "run", "--quiet", *FAST)
    assert code == 0
    code, out, _ = run("epr", *graph, "--model", "run", "--json")
    assert code == 0
    *_, layer = json.loads(out)["operators"]
    assert layer["name"] == "EPAGCL, first layer"
    assert 0 < layer["per_node"] < 1
    code, _, err = run("epr", "--edges", "e.csv", "--labels", "l.csv", "--model", "run")
    assert code == 2
    assert "--model run: needs features" in err
    code, _, err = run("epr", *graph, "--model", "absent")
    assert code == 2
    assert "no such folder" in err
    code, *_ = run("train", *graph, "--method", "gcn", "--epochs", 1, "--out", "gcn", "--quiet", "--map", "none")
    assert code == 0
    code, _, err = run("epr", *graph, "--model", "gcn")
    assert code == 2
    assert "--model is GCN, whose first layer has no known messages" in err


def test_kinds_of_edges_have_their_own_rates(run):
    data = Path(__file__).parents[2] / "examples" / "data" / "organisation"
    graph = ("epr", "--edges", data / "contacts.csv", "--features", data / "people.csv", "--label", "team")
    code, out, _ = run(*graph)
    assert code == 0
    assert "relation" in out
    rates = {row["name"]: row["epr"]["per_node"] for row in json.loads(run(*graph, "--json")[1])["relations"]}
    assert rates["manages"] == 0 < rates["mail"] < rates["call"]
    assert "relations" not in json.loads(run(*graph, "--type", "none", "--json")[1])
