"""Graphs of other programs: GraphML, GEXF, GML and node-link JSON."""

import json

import networkx
import pytest

from epagcl.core.errors import InputError
from epagcl.data import read_graph
from tests.data.io.helpers import pairs, read_error


@pytest.fixture
def graph(tmp_path, monkeypatch):
    """A path of three nodes with attributes, and an empty folder that is the current one."""
    monkeypatch.chdir(tmp_path)
    graph = networkx.path_graph(["x", "y", "z"])
    for node, age, city in zip(graph, (30, 40, 50), ("Rome", "Oslo", "Rome"), strict=True):
        graph.add_node(node, age=age, city=city)
    graph["x"]["y"]["weight"] = 2.5
    return graph


def write(graph: networkx.Graph, suffix: str) -> str:
    if suffix == "json":
        nodes = [{"id": node, **attributes} for node, attributes in graph.nodes(data=True)]
        links = [{"source": u, "target": v, **attributes} for u, v, attributes in graph.edges(data=True)]
        with open("g.json", "w") as file:
            json.dump({"directed": False, "multigraph": False, "graph": {}, "nodes": nodes, "links": links}, file)
    else:
        getattr(networkx, f"write_{suffix}")(graph, f"g.{suffix}")
    return f"g.{suffix}"


@pytest.mark.parametrize("suffix", ["graphml", "gexf", "json"])
def test_attributes_are_features(graph, suffix):
    data = read_graph(write(graph, suffix))
    assert pairs(data) == {("x", "y"), ("y", "z")}
    assert data.feature_names == ["age", "city=Rome", "city=Oslo"]
    # Weights 2.5 and 1 (the edge without one), scaled to mean 1.
    assert data.edge_weight.tolist() == pytest.approx([2.5 / 1.75, 2.5 / 1.75, 1 / 1.75, 1 / 1.75])
    labelled = read_graph(edges=f"g.{suffix}", label="city")
    assert labelled.label_names == ["Oslo", "Rome"]
    assert labelled.x.tolist() == [[30], [40], [50]]


def test_gml_has_integer_ids(graph):
    data = read_graph(write(graph, "gml"))
    assert data.node_ids.tolist() == [0, 1, 2]
    assert data.feature_names == ["age", "city=Rome", "city=Oslo"]


@pytest.mark.parametrize("key", ["links", "edges"])
def test_both_names_of_links_are_read(key, tmp_path):
    content = {"nodes": [{"id": [0, 1], "a": 1}, {"id": 7, "a": 2}], key: [{"source": [0, 1], "target": 7}]}
    (tmp_path / "g.json").write_text(json.dumps(content))
    assert read_graph(tmp_path / "g.json").node_ids.tolist() == ["[0, 1]", "7"]


def test_features_may_come_from_another_file(graph, tmp_path):
    name = write(graph, "graphml")
    (tmp_path / "f.csv").write_text("id,a\nx,1\ny,2\nz,3\n")
    assert read_graph(name, features="f.csv").feature_names == ["a"]
    assert read_error({"path": name, "edges": name}) == "g.graphml: has the edges; leave out edges="


def test_a_graph_without_attributes_needs_features(graph):
    bare = networkx.Graph(graph.edges)
    name = write(bare, "graphml")
    assert read_error({"path": name}) == (
        "g.graphml: no node features; give a table with one row per node (features=), "
        "or features='structure' to compute some from the edges"
    )
    assert read_graph(name, need_features=False).num_nodes == 3


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("g.json", "{", "g.json: not a JSON file; give node-link JSON"),
        ("g.json", "[]", "g.json: no lists nodes and links (or edges); give"),
        ("g.json", '{"nodes": [{}], "links": []}', "g.json: entry 0 (counted from 0) has no id; give"),
        ("g.json", '{"nodes": [{"id": 1}], "links": []}', "g.json: no edges; a graph needs at least one"),
        ("g.graphml", "<graphml>", "g.graphml: not a readable .graphml file ("),
        ("g.gml", "junk ]", "g.gml: not a readable .gml file ("),
    ],
)
def test_damaged_files(name, text, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(text)
    assert read_error({"path": name}).startswith(message)


@pytest.mark.parametrize("suffix", ["graphml", "json"])
def test_kinds_and_directions_of_edges(graph, suffix):
    directed = networkx.DiGraph(graph)
    directed.remove_edges_from([("y", "x"), ("z", "y")])
    directed.edges["x", "y"]["type"], directed.edges["y", "z"]["type"] = "mail", "call"
    name = write(directed, suffix)
    assert read_graph(name).relation_names == ["call", "mail"]
    assert read_graph(name, directed="out").relation_names == ["call:out", "mail:out"]
    assert "edge_relation" not in read_graph(name, type="none")


@pytest.mark.parametrize("suffix", ["graphml", "json"])
def test_an_attribute_called_label_may_be_a_class(suffix, graph):
    """If it differs in every node, it is the text of a drawing."""
    networkx.set_node_attributes(graph, {"x": "good", "y": "bad", "z": "good"}, "label")
    labelled = read_graph(write(graph, suffix), label="label")
    assert labelled.label_names == ["bad", "good"]
    assert labelled.feature_names == ["age", "city=Rome", "city=Oslo"]
    networkx.set_node_attributes(graph, {"x": "Ann", "y": "Bob", "z": "Eve"}, "label")
    assert read_graph(write(graph, suffix)).feature_names == ["age", "city=Rome", "city=Oslo"]


def test_lists_of_numbers_in_json_are_vectors(tmp_path, caplog):
    caplog.set_level("INFO")
    nodes = [{"id": k, "x": [k, 1.5, -k], "tags": ["a"] * k, "age": k} for k in range(3)]
    links = [{"source": 0, "target": 1}, {"source": 1, "target": 2}]
    (tmp_path / "g.json").write_text(json.dumps({"nodes": nodes, "links": links}))
    assert read_graph(tmp_path / "g.json").feature_names == ["x[0]", "x[1]", "x[2]", "age"]
    assert "skipped: tags (lists or objects)" in caplog.text


@pytest.mark.parametrize("suffix", ["graphml", "gexf", "gml", "json"])
def test_nodes_without_edges_and_attributes_are_kept(suffix, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    graph = networkx.Graph([(3, 1), (1, 2)])
    graph.add_node(7)
    data = read_graph(write(graph, suffix), features="structure")
    assert len(data.node_ids) == len(data.x) == 4
    assert 3 not in data.edge_index


@pytest.mark.parametrize("ids", [[1, 1, 2], [1, "1", 2]])
def test_a_node_that_is_listed_twice_is_refused(ids, tmp_path):
    nodes = [{"id": node} for node in ids]
    (tmp_path / "g.json").write_text(json.dumps({"nodes": nodes, "links": [{"source": 1, "target": 2}]}))
    with pytest.raises(InputError, match=r"id 1 is in .* keep one row per node"):
        read_graph(tmp_path / "g.json", features="structure")
