import json
import os
from pathlib import Path

import pytest
import torch

from epagcl.data import load
from epagcl.epr import rate
from epagcl.paper import reported
from epagcl.paper.artefact import Request
from epagcl.paper.epr import ARTEFACT, agreeing, graph_key, rates
from epagcl.study.code_version import code_version
from epagcl.study.store import Store


def request(tmp_path, *names, root=None):
    return Request(
        datasets=names, methods=(), runs=2, protocols=("strict",), store=Store(tmp_path / "store"), root=root
    )


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    return json.loads(json.dumps(ARTEFACT.measure(request(tmp_path_factory.mktemp("epr"), "demo"))))


def invented(**graphs):
    """Return a result with the given EPRs (per node, per edge, 2 hops, 3 hops) and the paper's values."""
    rows = {}
    for name, (node, edge, two, three) in graphs.items():
        rows[name] = {"nodes": 10, "edges": 20, "classes": 3, "homophily": 1 - edge, "chance": 0.6}
        rows[name] |= {"per_node": node, "per_edge": edge, "per_node_d1": node + 0.01, "per_edge_d1": edge + 0.01}
        rows[name] |= {"hops_2": two, "hops_3": three}
    values = {name: value for name, value in reported()["epr"].items() if name in rows}
    return {"graphs": rows, "absent": {}, "reported": values}


def test_a_damaged_record_is_computed_again(tmp_path, demo):
    asked = request(tmp_path, "demo")
    data = load("demo")
    key = {"what": "epr", "graph": graph_key("demo", data), "code": code_version(rate, rates)}
    for damaged in ({}, {**demo["graphs"]["demo"], "per_node": float("nan")}):
        asked.store.write(key, damaged)
        assert ARTEFACT.measure(asked)["graphs"] == demo["graphs"]
        assert asked.store.read(key)["per_node"] == demo["graphs"]["demo"]["per_node"]


def test_rates_of_a_path():
    # 0 – 1 – 2 with 2 in another class: none, half and all of the messages to 0, 1 and 2 are wrong; Â = 1/√2.
    path, y = torch.tensor([[0, 1], [1, 2]]), torch.tensor([0, 0, 1])
    record = rates(path, y)
    assert record["per_node"] == pytest.approx(0.5)
    assert record["per_edge"] == pytest.approx(0.5)
    assert record["homophily"] == 0.5
    assert record["chance"] == pytest.approx(1 - (4 + 1) / 9)
    assert (record["nodes"], record["edges"], record["classes"]) == (3, 2, 2)
    assert record["hops_2"] == 1  # 0 and 2 reach each other only
    assert record["hops_3"] == pytest.approx(0.5)  # odd walks end at neighbours
    assert rates(path, torch.tensor([0, 0, 0]))["hops_3"] is None  # the graph is homophilous


def test_self_loops_count_under_the_root():
    star, y = torch.tensor([[0, 0, 1], [1, 2, 3]]), torch.tensor([0, 0, 1, 1])
    record = rates(star, y)
    a, b, c = 4**-0.5, 2**-0.5, 2**-0.5  # edges 0–1, 0–2 (wrong), 1–3 (wrong), degrees 2, 2, 1, 1
    assert record["per_edge"] == pytest.approx((b + c) / (a + b + c))
    a, b, c = 9**-0.5, 6**-0.5, 6**-0.5
    assert record["per_edge_d1"] == pytest.approx((b + c) / (a + b + c))


def test_the_key_of_a_graph_depends_on_its_edges_and_labels():
    data = load("demo", features=False)
    key = graph_key("demo", data)
    assert key["edges"] == 5016
    edited = data.clone()
    edited.edge_index = data.edge_index.flip(1)  # other order of the same edges
    assert graph_key("demo", edited) == key
    edited.y = (data.y + 1) % 7
    assert graph_key("demo", edited) != key


def test_table_figure_and_text_of_the_packaged_graph(demo, tmp_path):
    (table,) = ARTEFACT.tables(demo)
    (row,) = table.rows
    assert row[:4] == ["demo", "2,700", "5,016", "7"]
    assert row[-2:] == ["–", "–"]
    assert 0 < float(row[4]) < 0.5
    assert sorted(path.name for path in ARTEFACT.draw(demo, tmp_path)) == ["epr.png", "epr.svg"]
    first, second = ARTEFACT.reading(demo)
    assert "cannot be checked" in first
    assert "holds here: per node, 1 of 1 are below" in second


def test_a_measurement_is_stored(demo, tmp_path, monkeypatch):
    stored = request(tmp_path, "demo")
    assert ARTEFACT.measure(stored) == demo
    monkeypatch.setattr("epagcl.paper.epr.error_passing_rate", lambda *_, **__: pytest.fail("computed twice"))
    assert ARTEFACT.measure(stored) == demo


def test_an_absent_graph_has_a_row_with_its_reported_value(tmp_path, monkeypatch):
    monkeypatch.setattr("epagcl.paper.epr.load_all", lambda *_, **__: {"WikiCS": "data are absent"})
    result = ARTEFACT.measure(request(tmp_path, "WikiCS"))
    (row,) = ARTEFACT.tables(result)[0].rows
    assert (row[0], row[4], row[-2]) == ("WikiCS", "data are absent", "0.288")
    assert ARTEFACT.draw(result, tmp_path)
    assert ARTEFACT.reading(result) == ["None of the graphs could be loaded, so nothing was measured."]


def test_text_follows_the_numbers():
    per_node = invented(Cora=(0.1684, 0.1702, 0.24, None), Texas=(0.94, 0.93, 0.45, 0.84))
    assert agreeing(per_node, "per_node") == ["Cora"]
    definition, half, order = ARTEFACT.reading(per_node)
    assert "1 agree to three decimals with the mean over nodes" in definition
    assert "does not report Proposition 3.2" in definition
    assert "does not hold here: per node, 1 of 2 are below" in half
    assert "Texas (0.940)" in half
    assert "lower EPR than one on 1 of 1 (Texas), three hops on 1 (Texas); Texas falls below 0.5" in order
    assert "two hops have a higher EPR than one on 1 of 1" in order

    per_edge = invented(Cora=(0.2, 0.168, 0.1, None), Texas=(0.4, 0.6, 0.7, 0.8))
    definition, half, order = ARTEFACT.reading(per_edge)
    assert "The table reports Proposition 3.2" in definition
    assert "holds here: per node, 2 of 2 are below" in half
    assert "lower EPR than one on 0 of 1, three hops on 0; none falls below 0.5" in order

    neither = invented(Cora=(0.2, 0.21, 0.1, None))
    assert "None of the definitions" in ARTEFACT.reading(neither)[0]
    assert ARTEFACT.tables(neither)[0].rows[0][-1] == "no"


def test_default_graphs_are_the_named_ones():
    assert len(ARTEFACT.datasets) == 17
    assert set(reported()["epr"]) <= set(ARTEFACT.datasets)
    assert "demo" not in ARTEFACT.datasets


@pytest.mark.parametrize(("name", "rate"), [("Cora", 0.168), ("CiteSeer", 0.286)])
def test_the_paper_reports_the_mean_over_nodes(name, rate, tmp_path):
    root = os.environ.get("EPAGCL_DATA")
    if not root or not (Path(root) / f"{name}.npz").exists():
        pytest.skip(f"{name}.npz is not in EPAGCL_DATA")
    result = ARTEFACT.measure(request(tmp_path, name))
    assert round(result["graphs"][name]["per_node"], 3) == rate
    assert ARTEFACT.tables(result)[0].rows[0][-1] == "yes"
