"""Validation: every error with its message, every repair with its note."""

import logging

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data, HeteroData

from epagcl.core.errors import InputError
from epagcl.data.checking import both_directions, check, repair_notes, undirected_pairs

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def graph(**changes) -> Data:
    return Data(**({"x": torch.arange(6.0).reshape(3, 2), "edge_index": PATH} | changes))


def sparse(layout: str, values: list[float] | None = None) -> torch.Tensor:
    coo = torch.sparse_coo_tensor([[0, 2, 2], [1, 0, 1]], values or [1.0, 2.0, 3.0], (3, 2), check_invariants=True)
    return {"coo": coo, "csr": coo.to_sparse_csr(), "csc": coo.to_sparse_csc()}[layout]


def notes(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_clean_graph_passes_unchanged_and_silently(caplog):
    data = check(graph(y=torch.tensor([0, 1, -1])))
    assert torch.equal(data.edge_index, PATH)
    assert torch.equal(data.x, torch.arange(6.0).reshape(3, 2))
    assert data.y.tolist() == [0, 1, -1]
    assert data.num_nodes == 3
    assert notes(caplog) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": None}, "g: no node features; add x, a matrix with one row per node"),
        ({"x": torch.ones(3)}, "g: features have shape (3,); they must be nodes × columns"),
        ({"x": torch.ones(3, 0)}, "g: features have shape (3, 0); they must be nodes × columns"),
        ({"num_nodes": 4}, "g: 3 feature rows for 4 nodes; give one row per node"),
        ({"x": torch.ones(1, 2)}, "g: 1 node; a graph needs at least 2"),
        ({"edge_index": None}, "g: no edge_index; give edges as a [2, E] tensor"),
        ({"edge_index": PATH.T}, "g: edge_index has shape (4, 2); it must be [2, E]"),
        ({"edge_index": PATH.float()}, "g: edge_index is torch.float32; node numbers must be integers"),
        ({"edge_index": PATH > 0}, "g: edge_index is torch.bool; node numbers must be integers"),
        ({"edge_index": PATH[:, :0]}, "g: no edges; a graph needs at least one"),
        (
            {"edge_index": torch.tensor([[1], [1]])},
            "g: no edges between different nodes; a graph needs at least one",
        ),
        (
            {"edge_weight": torch.zeros(PATH.shape[1])},
            "g: all edges have weight 0; a graph needs at least one above 0",
        ),
        (
            {"edge_index": torch.tensor([[0, 2], [1, -1]])},
            "g: edge 1 (2, -1) has a negative node number; nodes are numbered from 0",
        ),
        (
            {"edge_index": torch.tensor([[0, 3], [1, 0]])},
            "g: edge 1 (3, 0) has a node number that is out of range; with 3 feature rows, nodes are 0 to 2",
        ),
        ({"y": torch.zeros(3, 2)}, "g: labels have shape (3, 2); give one class number per node"),
        ({"y": torch.zeros(2)}, "g: 2 labels for 3 nodes; give one per node, −1 for none"),
        (
            {"y": torch.tensor([0, 0.5, 1])},
            "g: labels are not whole numbers; give classes 0, 1, ... (−1 for none)",
        ),
        (
            {"y": torch.tensor([0, float("inf"), 1])},
            "g: labels are not whole numbers; give classes 0, 1, ... (−1 for none)",
        ),
        ({"y": torch.tensor([0, -2, 1])}, "g: label -2; give class numbers 0, 1, ... (−1 for none)"),
    ],
)
def test_errors(changes, message):
    with pytest.raises(InputError) as error:
        check(graph(**changes), source="g")
    assert str(error.value) == message


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("layout", ["dense", "coo", "csr", "csc"])
def test_features_that_are_not_finite_name_the_first_place(layout, bad):
    x = sparse("coo", [1.0, 2.0, bad]).to_dense() if layout == "dense" else sparse(layout, [1.0, 2.0, bad])
    with pytest.raises(InputError) as error:
        check(graph(x=x), source="g")
    assert str(error.value) == (
        "g: 1 missing, NaN or infinite feature value, the first in row 2, column 1 (counted from 0); fill or drop them"
    )


def test_features_that_are_not_finite_are_counted():
    x = torch.tensor([[1.0, 2.0], [float("nan"), float("inf")], [0.0, 1.0]])
    with pytest.raises(InputError, match="g: 2 missing, NaN or infinite feature values, the first in row 1, column 0 "):
        check(graph(x=x), source="g")


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_sparse_features_become_float32_csr(layout):
    x = check(graph(x=sparse(layout).double())).x
    assert x.layout == torch.sparse_csr
    assert x.dtype == torch.float32
    assert x.to_dense().tolist() == [[0, 1], [0, 0], [2, 3]]


def test_sparse_duplicates_are_summed():
    x = torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (3, 2), check_invariants=True)
    assert check(graph(x=x)).x.to_dense().tolist() == [[0, 3], [0, 0], [0, 0]]


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.bool])
def test_dense_features_become_float32(dtype):
    x = torch.tensor([[0, 1], [1, 0], [1, 1]], dtype=dtype)
    checked = check(graph(x=x)).x
    assert checked.dtype == torch.float32
    assert checked.tolist() == [[0, 1], [1, 0], [1, 1]]


@pytest.mark.parametrize(
    ("edge_index", "expected"),
    [
        ([[0, 1, 1, 2, 1], [1, 0, 2, 1, 1]], ["g: 1 self-loop removed"]),
        ([[0, 1, 1, 2, 1, 0], [1, 0, 2, 1, 1, 0]], ["g: 2 self-loops removed"]),
        ([[0, 1, 1, 2, 1], [1, 0, 2, 1, 2]], ["g: 1 duplicate edge removed"]),
        ([[0, 1, 1, 2, 1, 0], [1, 0, 2, 1, 2, 1]], ["g: 2 duplicate edges removed"]),
        ([[0, 2, 1], [1, 1, 0]], ["g: directed edges made undirected: 3 given, 2 pairs"]),
        (
            [[2, 1, 1, 1, 1], [1, 0, 0, 1, 2]],
            [
                "g: 1 self-loop removed",
                "g: 1 duplicate edge removed",
                "g: directed edges made undirected: 3 given, 2 pairs",
            ],
        ),
    ],
)
def test_repairs_are_logged(edge_index, expected, caplog):
    data = check(graph(edge_index=torch.tensor(edge_index)), source="g")
    assert torch.equal(data.edge_index, PATH)
    assert notes(caplog) == expected
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


@pytest.mark.parametrize(
    ("edge_index", "note"),
    [
        ([[0, 2], [1, 1]], "g: 2 edges given once each; used in both directions"),
        ([[2], [1]], "g: 1 edge given once; used in both directions"),
    ],
)
def test_edges_in_one_direction_are_logged_as_information(edge_index, note, caplog):
    caplog.set_level(logging.INFO)
    data = check(graph(edge_index=torch.tensor(edge_index)), source="g")
    assert data.edge_index.shape[1] == 2 * len(edge_index[0])
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [(logging.INFO, note)]


def test_quiet_logs_nothing(caplog):
    caplog.set_level(logging.INFO)
    check(graph(edge_index=torch.tensor([[0, 1, 1], [1, 1, 2]])), quiet=True)
    assert notes(caplog) == []


def test_edge_attributes_are_dropped_with_a_warning(caplog):
    data = check(graph(edge_attr=torch.ones(4)), source="g")
    assert "edge_attr" not in data
    assert notes(caplog) == ["g: edge_attr is not used; give weights of edges as edge_weight"]


def test_weights_of_repeated_edges_add_up_and_both_directions_are_averaged():
    edge_index = torch.tensor([[0, 1, 1, 1, 2], [1, 0, 2, 2, 2]])
    data = check(graph(edge_index=edge_index, edge_weight=torch.tensor([1, 3, 1, 5, 100])), quiet=True)
    assert data.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert data.edge_weight.tolist() == [0.5, 0.5, 1.5, 1.5]  # 2 and 6, relative to their mean
    once = check(graph(edge_index=torch.tensor([[2, 1], [1, 0]]), edge_weight=torch.tensor([[3.0], [1.0]])))
    assert torch.equal(once.edge_weight, data.edge_weight)


def test_equal_weights_are_no_weights(caplog):
    assert "edge_weight" not in check(graph(edge_weight=torch.full((4,), 7.0)))
    assert notes(caplog) == []


def test_edges_of_weight_0_are_removed_with_a_warning(caplog):
    edge_index = torch.tensor([[0, 1, 0], [1, 2, 2]])
    data = check(graph(edge_index=edge_index, edge_weight=torch.tensor([1.0, 0.0, 3.0])), source="g")
    assert data.edge_index.tolist() == [[0, 0, 1, 2], [1, 2, 0, 0]]
    assert data.edge_weight.tolist() == [0.5, 1.5, 0.5, 1.5]
    assert notes(caplog)[0] == "g: 1 edge of weight 0 removed"


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (torch.ones(3), r"g: edge_weight is \(3,\) of torch.float32; give one number per edge, \(4,\)"),
        (torch.ones(4, 2), r"g: edge_weight is \(4, 2\) of"),
        (torch.tensor([1.0, -2.0, 1.0, 1.0]), r"g: edge 1 .* has the weight -2; weights must be finite and not"),
        (torch.tensor([1.0, 1.0, torch.nan, 1.0]), r"g: edge 2 .* has the weight nan"),
    ],
)
def test_wrong_weights_are_refused(weight, message):
    with pytest.raises(InputError, match=message):
        check(graph(edge_weight=weight), source="g")


def test_attributes_of_nodes_and_graph_are_copied():
    names = ["a", "b", "c", "d"]  # one per edge by chance: still not an edge attribute
    mask = torch.tensor([True, False, True])
    ids = np.array(["u", "v", "w"], dtype=object)
    data = check(graph(train_mask=mask, node_ids=ids, label_names=names, time=torch.ones(4)))
    assert torch.equal(data.train_mask, mask)
    assert data.node_ids is ids
    assert data.label_names == names
    assert "time" not in data  # four values for four edges


def test_masks_survive_if_there_are_as_many_nodes_as_edges():
    edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
    data = check(graph(edge_index=edge_index, train_mask=torch.ones(3) > 0, edge_time=torch.ones(3)), quiet=True)
    assert data.train_mask.tolist() == [True] * 3
    assert "edge_time" not in data


def test_the_input_is_not_modified():
    data = graph(edge_index=torch.tensor([[0, 1, 1], [1, 1, 2]]), y=torch.tensor([0.0, 1.0, float("nan")]))
    before = data.clone()
    check(data, quiet=True)
    assert torch.equal(data.edge_index, before.edge_index)
    assert data.y.dtype == torch.float32
    assert vars(data._store).keys() == vars(before._store).keys()


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (torch.tensor([0.0, float("nan"), 2.0]), [0, -1, 2]),
        (torch.tensor([[0], [1], [2]]), [0, 1, 2]),
        (torch.tensor([True, False, True]), [1, 0, 1]),
        (torch.tensor([1, 0, 1], dtype=torch.int32), [1, 0, 1]),
    ],
)
def test_labels_become_int64(y, expected):
    checked = check(graph(y=y)).y
    assert checked.dtype == torch.int64
    assert checked.tolist() == expected


def test_no_labels_stay_none():
    assert check(graph()).y is None


@pytest.mark.parametrize(
    ("parts", "num_nodes"),
    [
        ({}, 3),
        ({"num_nodes": 5}, 5),
        ({"y": torch.tensor([0, 1, 0, -1])}, 4),
        ({"x": torch.ones(6, 1)}, 6),
        ({"num_nodes": 4, "y": torch.tensor([0, 1, 0, -1])}, 4),
    ],
)
def test_a_graph_without_features(parts, num_nodes):
    data = check(Data(edge_index=PATH, **parts), features=False)
    assert data.num_nodes == num_nodes
    assert ("x" in data) == ("x" in parts)
    assert torch.equal(data.edge_index, PATH)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"x": torch.full((3, 1), torch.nan)}, "g: 3 missing, NaN or infinite feature values, the first in row 0, "),
        ({"y": torch.zeros(2)}, "g: edge 2 (1, 2) has a node number that is out of range; with 2 nodes, nodes are 0 "),
        ({"num_nodes": 4, "y": torch.zeros(3)}, "g: 3 labels for 4 nodes; give one per node, −1 for none"),
        ({"edge_index": -PATH}, "g: edge 0 (0, -1) has a negative node number; nodes are numbered from 0"),
        ({"edge_index": PATH * 0}, "g: 1 node; a graph needs at least 2"),
        ({"edge_index": None, "y": torch.zeros(3)}, "g: no edge_index; give edges as a [2, E] tensor"),
    ],
)
def test_a_graph_without_features_is_checked(parts, message):
    with pytest.raises(InputError) as error:
        check(Data(**({"edge_index": PATH} | parts)), source="g", features=False)
    assert str(error.value).startswith(message)


def test_isolated_nodes_are_kept():
    data = check(Data(x=torch.ones(5, 1), edge_index=torch.tensor([[1, 3], [3, 1]])))
    assert data.num_nodes == 5
    assert data.edge_index.tolist() == [[1, 3], [3, 1]]


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8])
def test_small_integers_become_int64(dtype):
    assert check(graph(edge_index=PATH.to(dtype))).edge_index.dtype == torch.int64


@st.composite
def edge_lists(draw) -> tuple[int, list[tuple[int, int]]]:
    num_nodes = draw(st.integers(2, 9))
    node = st.integers(0, num_nodes - 1)
    return num_nodes, draw(st.lists(st.tuples(node, node), max_size=40))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(edge_lists())
def test_result_is_the_set_of_pairs(case):
    num_nodes, edges = case
    expected = sorted({(min(edge), max(edge)) for edge in edges if edge[0] != edge[1]})
    data = Data(x=torch.ones(num_nodes, 1), edge_index=torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T)
    if not expected:
        with pytest.raises(InputError, match="no edges"):
            check(data)
        return
    checked = check(data, quiet=True)
    edges = list(map(tuple, checked.edge_index.T.tolist()))
    assert edges == sorted(expected + [(j, i) for i, j in expected])
    assert list(map(tuple, undirected_pairs(data.edge_index, num_nodes).T.tolist())) == expected
    assert torch.equal(check(checked).edge_index, checked.edge_index)


@settings(max_examples=100, deadline=None)
@given(edge_lists())
def test_repair_notes_count_the_repairs(case):
    num_nodes, edges = case
    edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
    pairs = undirected_pairs(edge_index, num_nodes)
    notes = repair_notes(edge_index, pairs, num_nodes)
    proper = [edge for edge in edges if edge[0] != edge[1]]
    loops, repeats = len(edges) - len(proper), len(proper) - len(set(proper))
    expected = [f"{loops} self-loop{'s' * (loops > 1)} removed"] * (loops > 0)
    expected += [f"{repeats} duplicate edge{'s' * (repeats > 1)} removed"] * (repeats > 0)
    reverse = {edge[::-1] for edge in proper}
    given = len(set(proper))
    if not reverse & set(proper) and proper:
        once = "given once each" if given > 1 else "given once"
        expected.append(f"{given} edge{'s' * (given > 1)} {once}; used in both directions")
    elif reverse != set(proper):
        expected.append(f"directed edges made undirected: {given} given, {pairs.shape[1]} pairs")
    assert [note for _, note in notes] == expected
    for level, note in notes:
        assert level == (logging.INFO if "given once" in note else logging.WARNING)
    assert both_directions(pairs, num_nodes).shape[1] == 2 * pairs.shape[1]


def test_other_graph_types_name_the_converters():
    import networkx as nx

    with pytest.raises(
        InputError, match=r"Graph is not a torch_geometric.data.Data; create one with epagcl.from_networkx"
    ):
        check(nx.path_graph(3))


def test_a_heterogeneous_graph_names_the_conversion():
    kinds = HeteroData({"a": {"x": torch.eye(4)}, ("a", "to", "a"): {"edge_index": torch.tensor([[0, 1], [1, 2]])}})
    with pytest.raises(InputError, match=r"several kinds of nodes; convert it with epagcl.from_hetero\(data\)"):
        check(kinds)
    assert check(kinds.to_homogeneous()).num_edges == 4


def test_weights_that_float32_cannot_hold_are_refused():
    """One of them would become 0, and its edge would be lost when the graph is checked again."""
    data = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1], [1, 2]]))
    data.edge_weight = torch.tensor([1e-300, 1e300], dtype=torch.float64)
    with pytest.raises(
        InputError, match=r"^graph: edge weights differ by more than float32 can hold; scale the smallest"
    ):
        check(data)
