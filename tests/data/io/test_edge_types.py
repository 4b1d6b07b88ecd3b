import logging

import numpy as np
import pandas as pd
import pytest

from epagcl.data import from_tables, read_graph
from epagcl.data.io.edge_types import edge_types
from tests.data.io.helpers import FEATURES, logged, read_error

KINDS = "source,target,type,how\nx,y,mail,a\ny,z,call,a\nx,y,call,b\n"


def relations(data) -> dict[str, set[tuple[str, str]]]:
    """Return the messages of each relation: the receiver and the sender."""
    ends = data.node_ids[data.edge_index.numpy()].T
    return {
        name: {tuple(pair) for pair in ends[weight > 0].tolist()}
        for name, weight in zip(data.relation_names, data.edge_relation.T.numpy(), strict=True)
    }


def both(*pairs: tuple[str, str]) -> set[tuple[str, str]]:
    return {*pairs, *(pair[::-1] for pair in pairs)}


def test_a_column_named_type_has_the_kinds(files, caplog):
    caplog.set_level(logging.INFO, logger="epagcl")
    data = read_graph(**files(edges=("e.csv", KINDS), features=("f.csv", FEATURES)))
    assert relations(data) == {"call": both(("y", "z"), ("x", "y")), "mail": both(("x", "y"))}
    lines = [record.getMessage() for record in caplog.records]
    assert "e.csv: edges join source and target, of the kinds in type; not used: how" in lines
    assert "e.csv: column 'type': 2 kinds of edges (call, mail)" in lines


@pytest.mark.parametrize("name", ["Type", "edge type", "relation"])
def test_other_names_of_the_column(files, name):
    data = read_graph(**files(edges=("e.csv", KINDS.replace("type", name)), features=("f.csv", FEATURES)))
    assert data.relation_names == ["call", "mail"]


def test_the_user_names_the_column_or_merges_all_kinds(files, caplog):
    arguments = files(edges=("e.csv", KINDS), features=("f.csv", FEATURES))
    assert set(read_graph(**arguments, type="how").relation_names) == {"a", "b"}
    caplog.clear()
    merged = read_graph(**arguments, type="none")
    assert "edge_relation" not in merged
    assert "e.csv: edges join source and target; not used: type, how" in logged(caplog)
    assert read_error(arguments | {"type": "colour"}).startswith("e.csv: no column 'colour' for type=")


def test_directions_of_a_table(files):
    arguments = files(edges=("e.csv", "source,target\nx,y\ny,z\n"), features=("f.csv", FEATURES))
    data = read_graph(**arguments, directed="both")
    assert relations(data) == {"out": {("x", "y"), ("y", "z")}, "in": {("y", "x"), ("z", "y")}}
    assert "edge_relation" not in read_graph(**arguments, directed="symmetric")
    assert read_error(arguments | {"directed": "up"}) == "directed='up': unknown; give one of symmetric, both, in, out"


def test_tables_in_memory():
    edges = pd.DataFrame({"source": [0, 1], "target": [1, 2], "relation": ["a", "b"]})
    data = from_tables(edges, np.eye(3), directed="out")
    assert data.relation_names == ["a:out", "b:out"]
    assert "edge_relation" not in from_tables(edges, np.eye(3), type="none")


def test_missing_kinds_are_a_kind(caplog):
    kinds = edge_types(pd.Series(["mail", None, " ", "mail"]), "e.csv: type")
    assert kinds.names == ["mail", "none"]
    assert kinds.numbers.tolist() == [0, 1, 1, 0]
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "e.csv: type: 2 edges without a kind; they are of the kind 'none'"
    ]


def test_numbers_are_names_and_one_kind_is_none():
    assert edge_types([2, 10, 2], "type").names == ["10", "2"]
    assert edge_types(["a", "a"], "type") is None
