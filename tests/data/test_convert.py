"""Graphs from NetworkX and SciPy, and the numbering of labels."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
import torch

from epagcl.data.convert import encode_labels, feature_tensor, from_networkx, from_scipy, id_array
from epagcl.errors import InputError

PATH = [[0, 1, 1, 2], [1, 0, 2, 1]]


def path_graph(kind=nx.Graph) -> nx.Graph:
    graph = kind()
    graph.add_node("a", x=[1.0, 2.0], age=30, topic="cs")
    graph.add_node("b", x=[3.0, 4.0], age=40, topic="bio")
    graph.add_node("c", x=[5.0, 6.0], age=50)
    graph.add_edges_from([("a", "b"), ("b", "c")])
    return graph


def messages(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_networkx_of_every_kind(kind):
    data = from_networkx(path_graph(kind), labels="topic")
    assert data.edge_index.tolist() == PATH
    assert data.x.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert data.y.tolist() == [1, 0, -1]
    assert data.label_names == ["bio", "cs"]
    assert data.node_ids.tolist() == ["a", "b", "c"]


def test_networkx_parallel_edges_are_merged(caplog):
    graph = path_graph(nx.MultiGraph)
    graph.add_edge("a", "b")
    assert from_networkx(graph).edge_index.tolist() == PATH
    assert "networkx graph: 1 duplicate edge removed" in messages(caplog)


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        (None, [[1, 2], [3, 4], [5, 6]]),
        ("age", [[30], [40], [50]]),
        (["age", "x"], [[30, 1, 2], [40, 3, 4], [50, 5, 6]]),
        (np.array([[1], [2], [3]]), [[1], [2], [3]]),
        ([[1.0], [2.0], [3.0]], [[1], [2], [3]]),
        (torch.tensor([[1], [2], [3]]), [[1], [2], [3]]),
    ],
)
def test_networkx_features(features, expected):
    x = from_networkx(path_graph(), features).x
    assert x.dtype == torch.float32
    assert x.tolist() == expected


def test_networkx_sparse_features_and_label_array():
    data = from_networkx(path_graph(), scipy.sparse.eye_array(3), labels=[2, 0, 1])
    assert data.x.layout == torch.sparse_csr
    assert data.x.to_dense().tolist() == torch.eye(3).tolist()
    assert data.y.tolist() == [2, 0, 1]
    assert "label_names" not in data


def test_networkx_isolated_nodes_and_integer_names():
    graph = nx.Graph([(10, 20)])
    graph.add_node(5)
    data = from_networkx(graph, np.eye(3))
    assert data.node_ids.dtype == np.int64
    assert data.node_ids.tolist() == [10, 20, 5]
    assert data.edge_index.tolist() == [[0, 1], [1, 0]]


def test_networkx_names_of_any_kind_are_kept():
    graph = nx.grid_2d_graph(2, 2)
    data = from_networkx(graph, np.eye(4))
    assert data.node_ids.tolist() == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert data.clone().to("cpu").node_ids.tolist() == data.node_ids.tolist()


def test_networkx_edge_weights_are_said(caplog):
    graph = path_graph()
    graph.add_edge("a", "c", weight=2.0)
    from_networkx(graph)
    assert "networkx graph: edge weights and attributes are not used" in messages(caplog)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ("nope", "networkx graph: no node has the attribute 'nope'; give the name of one, or an array"),
        (
            "topic",
            "networkx graph: 1 of 3 nodes have no attribute 'topic' (first: 'c'); give every node one",
        ),
        (np.ones((2, 1)), "networkx graph: 2 feature rows for 3 nodes; give one row per node"),
        (np.ones(3), "networkx graph: features have shape (3,); they must be nodes × columns"),
        (np.array([["a"]] * 3), "networkx graph: features of type <U1; give numbers"),
    ],
)
def test_networkx_failure(features, message):
    with pytest.raises(InputError) as error:
        from_networkx(path_graph(), features)
    assert str(error.value) == message


def test_networkx_attributes_that_do_not_fit():
    graph = path_graph()
    graph.nodes["c"]["topic"] = "cs"
    with pytest.raises(InputError, match="attribute 'topic' is not numeric; encode it as numbers or leave it out"):
        from_networkx(graph, "topic")
    graph.nodes["c"]["x"] = [1.0]
    with pytest.raises(InputError, match="attribute 'x' has vectors of different lengths; make them equal"):
        from_networkx(graph)


def test_networkx_without_edges():
    graph = nx.empty_graph(3)
    with pytest.raises(InputError, match=r"^networkx graph: no edges; a graph needs at least one$"):
        from_networkx(graph, np.eye(3))


@pytest.mark.parametrize("make", [scipy.sparse.csr_array, scipy.sparse.coo_matrix, np.array])
def test_scipy(make, caplog):
    adjacency = make([[0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
    data = from_scipy(adjacency, np.arange(8).reshape(4, 2), labels=["u", None, "v", "u"])
    assert data.edge_index.tolist() == PATH
    assert data.num_nodes == 4
    assert data.y.tolist() == [0, -1, 1, 0]
    assert data.label_names == ["u", "v"]
    assert data.node_ids.tolist() == [0, 1, 2, 3]
    assert messages(caplog) == ["adjacency matrix: directed edges made undirected: 3 given, 2 pairs"]


def test_scipy_stored_zeros_are_no_edges():
    adjacency = scipy.sparse.coo_array(([1.0, 0.0], ([0, 1], [1, 2])), shape=(3, 3))
    assert from_scipy(adjacency, np.eye(3)).edge_index.tolist() == [[0, 1], [1, 0]]


def test_scipy_weights_are_said(caplog):
    from_scipy(scipy.sparse.csr_array([[0, 0.5], [0.5, 0]]), np.eye(2))
    assert messages(caplog) == ["adjacency matrix: edge weights and attributes are not used"]


def test_scipy_failures():
    with pytest.raises(InputError, match=r"^adjacency matrix: shape \(2, 3\); it must be square, nodes × nodes$"):
        from_scipy(scipy.sparse.csr_array((2, 3)), np.eye(2))
    with pytest.raises(InputError, match=r"^adjacency matrix: 3 feature rows for 2 nodes; give one row per node$"):
        from_scipy(scipy.sparse.csr_array([[0, 1], [1, 0]]), np.eye(3))


@pytest.mark.parametrize(
    ("labels", "y", "names"),
    [
        ([0, 1, 1, 2], [0, 1, 1, 2], None),
        ([0, -1, 1], [0, -1, 1], None),
        ([0.0, float("nan"), 1.0], [0, -1, 1], None),
        ([10, 2, 10], [1, 0, 1], ["2", "10"]),
        (["10", "2", ""], [1, 0, -1], ["2", "10"]),
        (["b", "a", None, " b "], [1, 0, -1, 1], ["a", "b"]),
        (["b", 1, "a"], [2, 0, 1], ["1", "a", "b"]),
        (torch.tensor([[1], [0]]), [1, 0], None),
        (np.array([True, False]), [1, 0], None),
        ([None, None, 0], [-1, -1, 0], None),
    ],
)
def test_labels(labels, y, names):
    found, found_names = encode_labels(labels, "l")
    assert found.dtype == torch.int64
    assert found.tolist() == y
    assert found_names == names


def test_labels_plus_and_minus_one_warn(caplog):
    assert encode_labels([-1, 1, 1], "l")[0].tolist() == [-1, 0, 0]
    assert messages(caplog) == ["l: label −1 means no label (nodes with it: 1)"]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0.5, 1], "l: labels are not whole numbers; give class numbers 0, 1, ... or names"),
        ([float("inf"), 1], "l: labels are not whole numbers; give class numbers 0, 1, ... or names"),
        ([-4, 1], "l: label -4; give class numbers 0, 1, ... (−1 for none) or names"),
        ([[0, 1], [1, 0]], "l: labels have shape (2, 2); give one per node"),
    ],
)
def test_label_failure(labels, message):
    with pytest.raises(InputError) as error:
        encode_labels(labels, "l")
    assert str(error.value) == message


def test_sparse_features_keep_their_entries():
    matrix = scipy.sparse.coo_matrix(([1.0, 2.0, 4.0], ([0, 0, 1], [2, 2, 0])), shape=(2, 3))
    x = feature_tensor(matrix, "f")
    assert x.layout == torch.sparse_csr
    assert x.dtype == torch.float32
    assert x.to_dense().tolist() == [[0, 0, 3], [4, 0, 0]]


def test_id_arrays():
    assert id_array([3, np.int64(4)]).dtype == np.int64
    assert id_array([2**70, 1]).tolist() == [2**70, 1]
    assert id_array(["a", 1]).tolist() == ["a", 1]
