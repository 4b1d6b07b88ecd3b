"""The model card of a run: every fact is that of the run, and its code runs."""

import copy
import json
import re

import numpy as np
import pytest

from epagcl import EPAGCL, EPAGCLPlus, SupervisedGCN
from epagcl.core.config import read_config
from epagcl.data import block_model, write_npz
from epagcl.runs.card import write_card
from epagcl.runs.evaluation import Plan
from epagcl.runs.execute import run

SMALL = {"hidden": 16, "dim": 8, "projection": 8, "device": "cpu"}


@pytest.fixture(scope="module")
def graph():
    return block_model(100, num_classes=3, num_features=60, topic_words=20, seed=1)


@pytest.fixture(scope="module")
def finished(graph, tmp_path_factory):
    """A run folder with its graph's file, its metrics and its configuration."""
    folder = tmp_path_factory.mktemp("run")
    method = EPAGCL(epochs=2, temperature=0.25, **SMALL)
    metrics = run(graph, method, folder, name="g", plan=Plan(references=True), source={"file": "/home/me/my g.npz"})
    write_npz(graph, folder / "my g.npz")
    return folder, metrics, read_config(folder / "config.toml")


def card(finished, **changes):
    folder, metrics, config = finished
    return write_card(folder, {**copy.deepcopy(metrics), **changes}, config).read_text(encoding="utf-8")


def sections(text: str) -> dict[str, str]:
    return dict(re.findall(r"^## (\w+)\n\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE))


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def code(text: str, folder, monkeypatch) -> dict:
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(folder)
    names: dict = {}
    exec(block, names)
    return names


@pytest.mark.slow
def test_the_header_is_in_the_form_that_model_hubs_read(finished):
    text = card(finished)
    assert text.startswith("---\n")
    yaml = pytest.importorskip("yaml")
    assert yaml.safe_load(text.split("---\n")[1]) == {
        "library_name": "epagcl",
        "pipeline_tag": "graph-ml",
        "tags": ["graph-neural-networks", "node-embeddings", "self-supervised-learning", "epagcl"],
        "metrics": ["accuracy", "f1"],
    }


def test_every_fact_is_that_of_the_run(finished):
    _, metrics, _ = finished
    text = card(finished, health=[])
    parts = sections(text)
    assert list(parts) == ["Graph", "Settings", "Scores", "Use", "Limits", "Provenance"]
    assert "\n# EPAGCL on g\n" in text
    assert "Xu et al., Why Does Dropping Edges Usually Outperform" in text
    assert rows(parts["Graph"]) == [
        ["name", "g"],
        ["nodes", "100"],
        ["edges", f"{metrics['graph']['edges']}"],
        ["features", "60"],
        ["classes", "3"],
        ["EPR per node", f"{metrics['graph']['epr_per_node']:.4f}"],
        ["EPR per edge", f"{metrics['graph']['epr_per_edge']:.4f}"],
    ]
    changed = {row[0].strip("`"): row[1] for row in rows(parts["Settings"])}
    assert changed == {"hidden": "16", "dim": "8", "projection": "8", "epochs": "2", "temperature": "0.25"}
    scores = {row[0]: row[1] for row in rows(parts["Scores"])}
    for name, result in {**metrics["references"], "EPAGCL": metrics["evaluation"]}.items():
        mean, std = (100 * np.array([result["accuracy"]["mean"], result["accuracy"]["std"]])).tolist()
        assert scores[name] == f"{mean:.2f} ± {std:.2f}"
    assert "protocol strict, splits random 10/10/80 (seeds 0, 1, 2, 3, 4), mean ± standard" in parts["Scores"]
    assert f"NMI {metrics['evaluation']['clustering']['nmi']:.3f}" in parts["Scores"]
    provenance = dict(rows(parts["Provenance"]))
    assert (provenance["date"], provenance["seed"], provenance["epochs"]) == (metrics["date"], "0", "2")
    assert f"torch {metrics['versions']['torch']}" in provenance["versions"]


def test_its_code_returns_the_embeddings_of_the_run(finished, monkeypatch):
    folder, _, _ = finished
    text = card(finished)
    assert "/home" not in text
    z = code(text, folder, monkeypatch)["z"]
    np.testing.assert_allclose(z.numpy(), np.load(folder / "embeddings.npy"), rtol=1e-5, atol=1e-6)


def test_health_is_listed_with_its_meaning(finished):
    health = [{"name": "effective rank", "value": 9.4, "shown": "9 of 8", "verdict": "good", "words": "A | B\nC"}]
    assert rows(sections(card(finished, health=health))["Health"]) == [
        ["effective rank", "9 of 8", "good", "A \\| B C"]
    ]


def test_unknown_facts_are_left_out(finished):
    folder, metrics, _ = finished
    graph = {**metrics["graph"], "name": "x", "classes": None, "epr_per_node": None, "epr_per_edge": None}
    method = {**EPAGCL().settings(), "device": "cuda"}
    reduced = {key: value for key, value in metrics.items() if key not in ("evaluation", "references")}
    reduced |= {"graph": graph, "method": method, "commit": None}
    text = write_card(folder, reduced, {}).read_text(encoding="utf-8")
    parts = sections(text)
    assert parts["Scores"].strip() == "The model was not evaluated."
    assert parts["Settings"].strip() == "All settings have their default values."
    assert "EPR" not in parts["Graph"]
    assert "commit" not in parts["Provenance"]
    assert "None" not in text
    assert "metrics:" not in text
    assert "# data: the graph, a torch_geometric.data.Data with 60 feature columns" in parts["Use"]


@pytest.mark.parametrize(
    ("data", "nodes", "line"),
    [
        ({}, 2708, 'data = epagcl.load("Cora")'),
        ({}, 300, "# data: the graph"),  # a user's graph of the same name
        ({"edges": "a/e.csv", "features": "b/f.npy", "labels": "l.csv", "nodes": "n.txt"}, 300,
         'data = epagcl.read_graph(edges="e.csv", features="f.npy", nodes="n.txt")'),
        ({"edges": "e.csv", "source": "a", "target": "b", "bipartite": True}, 300,
         'data = epagcl.read_graph(edges="e.csv", source="a", target="b", bipartite=True)'),
        ({"edges": "e.csv", "weight": "w", "type": "kind", "directed": "out"}, 300,
         'data = epagcl.read_graph(edges="e.csv", weight="w", type="kind", directed="out")'),
    ],
)  # fmt: skip
def test_the_code_loads_the_graph(finished, data, nodes, line):
    folder, metrics, _ = finished
    graph = {**metrics["graph"], "name": "Cora", "nodes": nodes}
    assert line in write_card(folder, {**metrics, "graph": graph}, {"data": data}).read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_supervised_model_predicts(graph, tmp_path, monkeypatch):
    data = graph.clone()
    metrics = run(data, SupervisedGCN(epochs=2, hidden=8, device="cpu"), tmp_path, name="g", plan=Plan())
    text = write_card(tmp_path, metrics, {"data": {"file": "g.npz"}}).read_text(encoding="utf-8")
    assert "self-supervised" not in text
    assert "of the model's own predictions: protocol strict" in text
    assert "one run." in text
    write_npz(graph, tmp_path / "g.npz")
    y = code(text, tmp_path, monkeypatch)["y"]
    assert y.shape == (100,)
    assert set(y.tolist()) <= {0, 1, 2}


def test_settings_of_version_0_1_are_listed_under_their_current_name(finished):
    folder, metrics, _ = finished
    method = {**EPAGCL().settings(), "features": "row-sum", "drop": "eq7", "add": "eq7"}
    del method["feature_scaling"]
    text = write_card(folder, {**metrics, "method": method}, {}).read_text(encoding="utf-8")
    assert [row[:3] for row in rows(sections(text)["Settings"])] == [["`feature_scaling`", "row-sum", "given"]]


def test_the_method_of_this_package_has_no_paper(graph, tmp_path):
    model = EPAGCLPlus(epochs=1, hidden=8, dim=4, projection=4, device="cpu")
    run(graph, model, tmp_path, name="mine", map_kind="none")
    text = (tmp_path / "README.md").read_text()
    assert "It has no paper of its own; it is EPAGCL (Xu et al., AAAI 2025) with" in text
    assert "Paper:" not in text
    assert "- epagcl+" in text


def test_the_columns_of_a_table_are_listed(finished):
    folder, metrics, config = finished
    column = {"name": "a|b", "kind": "number", "words": "log", "features": 1}
    graph = {**metrics["graph"], "columns": [column] * 45}
    text = write_card(folder, {**metrics, "graph": graph}, config).read_text(encoding="utf-8")
    part = sections(text)["Columns"]
    assert part.count("| a\\|b | number | log | 1 |") == 40
    assert "5 more columns in `columns.json`." in part
    assert "needs a table with the same columns, which the model encodes as in training." in text
    assert "Columns" not in sections(write_card(folder, metrics, config).read_text(encoding="utf-8"))


def test_kinds_of_edges_are_listed(finished):
    folder, metrics, config = finished
    kinds = [{"name": "mail", "edges": 1200, "epr_per_node": 0.25}, {"name": "call", "edges": 3, "epr_per_node": None}]
    text = write_card(folder, {**metrics, "graph": {**metrics["graph"], "relations": kinds}}, config).read_text()
    assert "| edges mail | 1,200, EPR per node 0.2500 |" in sections(text)["Graph"]
    assert "| edges call | 3 |" in text
