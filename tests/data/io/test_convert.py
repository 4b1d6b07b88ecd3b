"""Graphs from NetworkX and from adjacency matrices."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch

from epagcl.core.errors import InputError
from epagcl.data.io.convert import from_networkx, from_scipy

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
def test_networkx_graphs_of_every_type(kind):
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


def test_networkx_nodes_of_any_type_are_kept():
    graph = nx.grid_2d_graph(2, 2)
    data = from_networkx(graph, np.eye(4))
    assert data.node_ids.tolist() == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert data.clone().to("cpu").node_ids.tolist() == data.node_ids.tolist()


def test_networkx_weights_are_used_and_other_attributes_reported(caplog):
    graph = path_graph()  # a-b, b-c
    graph.add_edge("a", "c", weight=4.0, colour="red")
    data = from_networkx(graph)
    weights = dict(zip(map(tuple, data.edge_index.T.tolist()), data.edge_weight.tolist(), strict=True))
    assert (weights[0, 1], weights[2, 1], weights[2, 0]) == (0.5, 0.5, 2.0)  # 1, 1 and 4, scaled to mean 1
    assert messages(caplog) == ["networkx graph: edge attributes other than weight are not used"]


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
def test_networkx_errors(features, message):
    with pytest.raises(InputError) as error:
        from_networkx(path_graph(), features)
    assert str(error.value) == message


def test_networkx_attributes_that_are_not_numeric_or_of_equal_length():
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


def test_scipy_stored_zeros_are_not_edges():
    adjacency = scipy.sparse.coo_array(([1.0, 0.0], ([0, 1], [1, 2])), shape=(3, 3))
    assert from_scipy(adjacency, np.eye(3)).edge_index.tolist() == [[0, 1], [1, 0]]


def test_scipy_values_are_weights():
    data = from_scipy(scipy.sparse.csr_array([[0, 0.5, 0], [0.5, 0, 1.5], [0, 1.5, 0]]), np.eye(3))
    assert data.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert data.edge_weight.tolist() == [0.5, 0.5, 1.5, 1.5]


def test_scipy_equal_values_are_no_weights():
    assert "edge_weight" not in from_scipy(scipy.sparse.csr_array([[0, 0.5], [0.5, 0]]), np.eye(2))


def test_scipy_errors():
    with pytest.raises(InputError, match=r"^adjacency matrix: shape \(2, 3\); it must be square, nodes × nodes$"):
        from_scipy(scipy.sparse.csr_array((2, 3)), np.eye(2))
    with pytest.raises(InputError, match=r"^adjacency matrix: 3 feature rows for 2 nodes; give one row per node$"):
        from_scipy(scipy.sparse.csr_array([[0, 1], [1, 0]]), np.eye(3))


# ---- Tables, and wrong types


def test_networkx_reads_tables_by_their_index():
    table = pd.DataFrame({"p": [5, 1, 3, 9], "q": [6, 2, 4, 9]}, index=["c", "a", "b", "other"])
    labels = pd.Series(["l3", "l1", "l2"], index=["c", "a", "b"])
    data = from_networkx(path_graph(), table, labels)
    assert data.x.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert data.feature_names == ["p", "q"]
    assert data.y.tolist() == [0, 1, 2]
    assert from_networkx(path_graph(), labels=labels.to_frame()).y.tolist() == [0, 1, 2]


def test_networkx_reads_tables_with_a_default_index_by_position():
    table = pd.DataFrame([[1, 2], [3, 4], [5, 6]])
    data = from_networkx(path_graph(), table, pd.Series([0, 1, 0]))
    assert data.x.tolist() == table.to_numpy().tolist()
    assert data.feature_names == ["0", "1"]
    assert data.y.tolist() == [0, 1, 0]
    shuffled = nx.Graph([(2, 0), (0, 1)])  # here the index holds the nodes
    assert from_networkx(shuffled, table, pd.Series([0, 1, 2])).x[:, 0].tolist() == [5, 1, 3]
    pairs = pd.Series(range(4), index=pd.MultiIndex.from_product([[0, 1], [1, 0]]))
    assert from_networkx(nx.grid_2d_graph(2, 2), np.eye(4), pairs).y.tolist() == [1, 0, 3, 2]


def test_networkx_refuses_tables_of_other_nodes():
    table = pd.DataFrame({"p": [5, 1, 3]}, index=["c", "a", "d"])
    with pytest.raises(InputError) as error:
        from_networkx(path_graph(), table)
    assert str(error.value) == (
        "networkx graph: the index of features lacks 1 of 3 nodes (first: 'b'); "
        "give every node a row, or an array in the order of graph.nodes"
    )
    with pytest.raises(InputError, match=r"^networkx graph: the index of labels lacks 3 of 3 nodes \(first: 'a'\); "):
        from_networkx(path_graph(), labels=pd.Series([0, 1, 0], index=[4, 5, 6]))
    with pytest.raises(InputError, match=r"^networkx graph: 'a' is in the index of labels twice; keep one row"):
        from_networkx(path_graph(), labels=pd.Series([0, 1, 0, 1], index=list("abca")))
    with pytest.raises(InputError, match=r"^networkx graph: row b: column 'p' is infinite; fill it"):
        from_networkx(path_graph(), pd.DataFrame({"p": [5, 1, float("inf")]}, index=["c", "a", "b"]))


def test_networkx_encodes_a_mixed_table():
    table = pd.DataFrame({"p": [5, 1, None], "city": ["Rome", "Oslo", "Rome"]}, index=["c", "a", "b"])
    data = from_networkx(path_graph(), table)
    assert data.feature_names == ["p", "p=missing", "city=Rome", "city=Oslo"]
    assert data.x[:, 1:].tolist() == [[0, 0, 1], [1, 1, 0], [0, 1, 0]]


def test_scipy_reads_tables_by_position(caplog):
    polars = pytest.importorskip("polars")
    adjacency = scipy.sparse.csr_array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    table = pd.DataFrame({"p": [1, 3, 5], "q": [2, 4, 6]})
    for features in (table, polars.from_pandas(table)):
        data = from_scipy(adjacency, features, pd.Series([0, 1, 0]))
        assert data.x.tolist() == table.to_numpy().tolist()
        assert data.feature_names == ["p", "q"]
    assert messages(caplog) == []
    data = from_scipy(adjacency, table.set_index(pd.Index(["c", "a", 1])), pd.Series([0, 1, 0], index=[7, 8, 9]))
    assert data.x.tolist() == table.to_numpy().tolist()
    assert messages(caplog) == [
        f"adjacency matrix: the index of {what} is not used; row k belongs to node k of the matrix"
        for what in ("features", "labels")
    ]
    with pytest.raises(
        InputError, match=r"the index of features is 0, 1, ... in another order; call sort_index\(\) if"
    ):
        from_scipy(adjacency, table.iloc[::-1])


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.strided])
def test_scipy_of_a_tensor(layout):
    adjacency = torch.tensor([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]], requires_grad=True)
    adjacency = adjacency if layout == torch.strided else adjacency.detach().to_sparse(layout=layout)
    assert from_scipy(adjacency, np.eye(3)).edge_index.tolist() == PATH
    assert from_scipy(adjacency.bfloat16(), np.eye(3)).edge_index.tolist() == PATH


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: from_networkx([(0, 1)], np.eye(2)),
            "networkx graph: list is not a NetworkX graph; give a networkx.Graph, or use epagcl.from_tables",
        ),
        (
            lambda: from_networkx(path_graph(), []),
            "networkx graph: features are an empty list; name an attribute of the nodes, or give an array",
        ),
        (lambda: from_networkx(path_graph(), [[1], [2, 3], [4]]), "networkx graph: features have rows of different"),
        (lambda: from_networkx(path_graph(), np.eye(3) * 1j), "networkx graph: features of type complex128; give real"),
        (
            lambda: from_networkx(path_graph(), labels=scipy.sparse.eye_array(3)),
            "networkx graph: labels are a sparse matrix; give one label per node, as an array or list",
        ),
        (lambda: from_scipy(np.eye(3), None), "adjacency matrix: no features; give an array with one row per node"),
        (
            lambda: from_scipy(None, np.eye(3)),
            "adjacency matrix: NoneType is not a matrix of numbers; give a SciPy matrix or a NumPy array",
        ),
        (lambda: from_scipy([["a", "b"], ["c", "d"]], np.eye(2)), "adjacency matrix: list is not a matrix of"),
        (
            lambda: from_networkx(nx.Graph, np.eye(2)),
            "networkx graph: type is not a NetworkX graph; give a networkx.Graph",
        ),
    ],
)
def test_wrong_types(make, message):
    with pytest.raises(InputError) as error:
        make()
    assert str(error.value).startswith(message)


@pytest.mark.parametrize("how", ["attribute", "keys", "named"])
def test_networkx_kinds_of_edges(how, caplog):
    graph = nx.MultiDiGraph(path_graph())
    graph.remove_edges_from(list(graph.edges))
    attribute = {"attribute": "type", "named": "colour"}.get(how)
    for u, v, kind in (("a", "b", "mail"), ("b", "c", "call"), ("a", "b", "call")):
        graph.add_edge(u, v, key=kind if how == "keys" else None, **({} if attribute is None else {attribute: kind}))
    data = from_networkx(graph, type="colour" if how == "named" else None)
    assert data.relation_names == ["call", "mail"]
    assert data.edge_index[:, data.edge_relation[:, 1] > 0].tolist() == [[0, 1], [1, 0]]
    assert from_networkx(graph, directed="in", type="none").relation_names == ["in"]
    ignored = [] if attribute is None else ["networkx graph: edge attributes other than weight are not used"]
    assert [text for text in messages(caplog) if "attributes" in text] == ignored


def test_networkx_numbered_keys_are_no_kinds_and_unknown_attributes_are_refused():
    graph = nx.MultiGraph(path_graph())
    graph.add_edge("a", "b")
    assert "edge_relation" not in from_networkx(graph)
    with pytest.raises(InputError, match="no edge has the attribute 'colour' for type=; its edges have none"):
        from_networkx(graph, type="colour")
    with pytest.raises(InputError, match="directed='up': unknown"):
        from_networkx(graph, directed="up")


def test_scipy_directions():
    adjacency = scipy.sparse.csr_array([[0, 1, 1], [0, 0, 0], [0, 0, 0]])
    data = from_scipy(adjacency, np.eye(3), directed="out")
    assert data.relation_names == ["out"]
    assert data.edge_index[:, data.edge_relation[:, 0] > 0].tolist() == [[0, 0], [1, 2]]
    assert "edge_relation" not in from_scipy(adjacency, np.eye(3))
