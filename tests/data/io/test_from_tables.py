"""Edges, nodes and labels in memory, of every type."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch

from epagcl.data import from_tables
from tests.data.io.helpers import ENDS, TABLE, X, from_tables_error, logged, pairs

#: The edges 0–1, 0–2, 0–3, 4–1: not symmetric, so that a test fails if rows and columns are mixed up.
NUMBERED = np.array([[0, 1], [0, 2], [0, 3], [4, 1]])


NUMBERED_PAIRS = {(0, 1), (0, 2), (0, 3), (1, 4)}


@pytest.mark.parametrize(
    "edges",
    [
        pd.DataFrame(NUMBERED, columns=["source", "target"]),
        pd.DataFrame(NUMBERED[:, ::-1], columns=["dst", "src"]),
        pd.DataFrame(NUMBERED),
        pd.DataFrame(NUMBERED, columns=["p", "q"], index=[7, 5, 3, 1]),
        pd.DataFrame(NUMBERED, columns=["p", "q"]).set_index(["p", "q"]),
        pd.DataFrame(NUMBERED, columns=["source", "target"]).set_index("source"),
        NUMBERED,
        NUMBERED.T,
        NUMBERED.astype(np.int32),
        NUMBERED.astype(float),
        torch.tensor(NUMBERED),
        torch.tensor(NUMBERED.T),
        tuple(torch.tensor(NUMBERED.T)),
        list(NUMBERED.T),
        (pd.Series(NUMBERED[:, 0], index=[3, 2, 1, 0]), pd.Series(NUMBERED[:, 1])),
        (NUMBERED[:, 0].tolist(), NUMBERED[:, 1].tolist()),
        NUMBERED.tolist(),
        [tuple(pair) for pair in NUMBERED.tolist()],
        {tuple(pair) for pair in NUMBERED.tolist()},
        zip(*NUMBERED.T.tolist(), strict=True),
        list(torch.tensor(NUMBERED)),
        list(NUMBERED),
    ],
)
def test_edges_of_every_type(edges):
    data = from_tables(edges, np.arange(5).reshape(5, 1))
    assert pairs(data) == NUMBERED_PAIRS
    assert data.node_ids.tolist() == [0, 1, 2, 3, 4]
    assert data.x[:, 0].tolist() == [0, 1, 2, 3, 4]


def test_two_edges_are_pairs_unless_they_are_two_arrays(caplog):
    x = np.eye(4)
    nested = [[0, 1], [2, 3]]
    by_pairs, by_columns = {(0, 1), (2, 3)}, {(0, 2), (1, 3)}
    assert pairs(from_tables(nested, x)) == by_pairs
    assert pairs(from_tables(tuple(map(tuple, nested)), x)) == by_pairs
    assert pairs(from_tables(tuple(nested), x)) == by_columns
    assert pairs(from_tables([torch.tensor(ends) for ends in nested], x)) == by_columns
    assert logged(caplog) == []
    assert pairs(from_tables(np.array(nested), x)) == by_pairs
    assert pairs(from_tables(torch.tensor(nested), x)) == by_columns
    assert [text.split(":")[1].split(",")[1].strip() for text in logged(caplog)] == [
        "read as an array [E",
        "read as a tensor [2",
    ]


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        ("e.csv", "edges: a str; give a table"),
        (None, "edges: a NoneType; give a table"),
        (["ab", "cd"], "edges: edge 0 (counted from 0) is 'ab'; give pairs of ids"),
        ([(0, 1), (0, 1, 2)], "edges: edge 1 (counted from 0) is (0, 1, 2); give pairs of ids"),
        ([(0, 1), (0, None)], "edges: edge 1 (counted from 0) is (0, None); give pairs of ids"),
        (scipy.sparse.eye_array(3), "edges: a SciPy matrix; use epagcl.from_scipy, or give pairs"),
        (torch.eye(3).to_sparse(), "edges: a sparse tensor; use epagcl.from_scipy, or give pairs"),
        (np.eye(3), "edges: an array of shape (3, 3); give a table"),
        (([1], [1, 2]), "edges: 1 sources for 2 targets; give one of each per edge"),
        ([], "edges: no edges; a graph needs at least one"),
        (pd.DataFrame({"a": [1, 2]}), "edges: one column; an edge list needs two, source and target, as a,b"),
        (ENDS[:0], "edges: the table is empty; give one row per node or edge"),
        (
            pd.DataFrame({"u": ["x", None], "v": ["y", "z"]}),
            "edges: row 1 (counted from 0): the source id is missing; fill it or drop the row",
        ),
    ],
)
def test_errors_of_edges(edges, words):
    assert from_tables_error(edges, TABLE).startswith(words)


@pytest.mark.parametrize(
    "nodes",
    [
        dict.fromkeys("zxy").keys(),
        dict.fromkeys("zxy"),
        iter("zxy"),
        np.array([["z"], ["x"], ["y"]]),
        pd.Index(["z", "x", "y"]),
    ],
)
def test_nodes_of_every_type(nodes):
    assert from_tables(ENDS, np.array(X), nodes=nodes).node_ids.tolist() == ["z", "x", "y"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": {"x", "y", "z"}}, "nodes: a set has no order; give a list, in the order of the rows"),
        ({"nodes": "xyz"}, "nodes: a str; give a list of ids, one per row"),
        ({"nodes": 3}, "nodes: a int; give a list of ids, one per row"),
        ({"nodes": scipy.sparse.eye_array(3)}, "nodes: a sparse matrix; give a list of ids, one per row"),
        ({"nodes": torch.eye(3).to_sparse()}, "nodes: a sparse matrix; give a list of ids, one per row"),
        ({"nodes": np.array(3)}, "nodes: an array of shape (); give one id per row"),
        ({"nodes": np.eye(3)}, "nodes: an array of shape (3, 3); give one id per row"),
        (
            {"labels": scipy.sparse.eye_array(3)},
            "labels: labels are a sparse matrix; give one label per node, as an array or list",
        ),
        ({"labels": {"x": 1}}, "labels: labels are a dict; give an array, a list or a pandas Series"),
        ({"features": np.eye(3) * 1j}, "features: features of type complex128; give real numbers"),
        ({"features": torch.eye(3) * 1j}, "features: features of type torch.complex64; give real numbers"),
        ({"features": scipy.sparse.eye_array(3) * 1j}, "features: features of type complex128; give real numbers"),
        (
            {"features": TABLE.assign(a=[1j, 2, 3])},
            "features: column 'a' is not numeric ('1j' in row 0 (counted from 0)); "
            "correct it, leave the value blank, or give columns_as={'a': 'category'}",
        ),
    ],
)
def test_wrong_types(options, message):
    assert from_tables_error(ENDS, **{"features": np.eye(3)} | options) == message


def test_tensors_with_a_gradient():
    x = torch.eye(3, requires_grad=True)
    data = from_tables(ENDS, x, torch.tensor([0.0, 1.0, 0.0], requires_grad=True))
    assert data.y.tolist() == [0, 1, 0]
    assert not data.x.requires_grad
    assert from_tables(ENDS, x, {"x": 0, "y": 1, "z": 0}.values()).y.tolist() == [0, 1, 0]
