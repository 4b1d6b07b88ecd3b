"""Node ids: integers or text, their order, and one line for missing or repeated ones."""

import numpy as np
import pandas as pd
import pytest

from epagcl.data import from_tables, read_graph
from epagcl.data.io.ids import examples, id_array, positions, union
from tests.data.io.helpers import FEATURES, pairs, read_error, rows


@pytest.mark.parametrize(
    ("edges", "features", "ids"),
    [
        ("1,2\n2,3\n", "id,v\n1,1\n2,2\n3,3\n", [1, 2, 3]),
        ("1.0,2.0\n2.0,3.0\n", "id,v\n1,1\n2,2\n3,3\n", [1, 2, 3]),
        ("007,7\n7,8\n", "id,v\n7,1\n007,2\n8,3\n", ["7", "007", "8"]),
        ("1,u\n2,w\n", "id,v\n1,1\n2,2\nu,3\nw,4\n", ["1", "2", "u", "w"]),
        ("1,2\n2,3\n", "id,v\n1,1\n2,2\n3,3\nlone,4\n", ["1", "2", "3", "lone"]),
        ("NA,null\nnull,nan\n", "id,v\nNA,1\nnull,2\nnan,3\n", ["NA", "null", "nan"]),
        ("True,False\n", "id,v\nTrue,1\nFalse,2\n", ["True", "False"]),
        ("1.5,2\n2,3\n", "id,v\n1.5,1\n2,2\n3,3\n", ["1.5", "2", "3"]),
        ("99999999999999999999,1\n", "id,v\n1,1\n99999999999999999999,2\n", ["1", "99999999999999999999"]),
        ("-1,-2\n", "id,v\n-1,1\n-2,2\n", [-1, -2]),
        ("1,2\n2,10\n1e1,1\n", "id,v\n1,1\n2,2\n10,3\n1e1,4\n", ["1", "2", "10", "1e1"]),
        ("+5,5\n5,-0\n", "id,v\n5,1\n+5,2\n-0,3\n", ["5", "+5", "-0"]),
        ("Zoë,王\n", "id,v\nZoë,1\n王,2\n", ["Zoë", "王"]),
    ],
)
def test_ids_are_integers_or_text(edges, features, ids, files):
    data = read_graph(**files(edges=("e.csv", edges), features=("f.csv", features)))
    assert data.node_ids.tolist() == ids
    assert rows(data) == {node: [float(k + 1)] for k, node in enumerate(ids)}
    expected = {frozenset(line.replace(".0", "").split(",")) for line in edges.split()}
    assert {frozenset(map(str, pair)) for pair in pairs(data)} == expected


def test_ids_of_any_type():
    data = from_tables([("a", (0, 1)), ((0, 1), 7)], {}.get("none"), labels=["p", "q", "p"])
    assert data.node_ids.tolist() == ["a", "(0, 1)", "7"]
    assert from_tables([("1", "2"), ("2", "30")], None).node_ids.tolist() == [1, 2, 30]


def test_id_arrays():
    assert id_array([3, np.int64(4)]).dtype == np.int64
    assert id_array([2**70, 1]).tolist() == [2**70, 1]
    assert id_array(["a", 1]).tolist() == ["a", 1]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("e.csv", "x,y\n\n#\ny,\n", "e.csv: line 4: the target id is missing; fill it or drop the row"),
        ("e.csv", "u,v\n1,2\n,2\n", "e.csv: line 3: the source id is missing; fill it or drop the row"),
        ("e.csv", "x,y\n   ,z\n", "e.csv: line 2: the source id is missing; fill it or drop the row"),
        ("e.csv", "x,y\ny\n", "e.csv: line 2: the target id is missing; fill it or drop the row"),
        (
            "e.parquet",
            pd.DataFrame({"u": ["x", None], "v": ["y", "z"]}),
            "e.parquet: row 1 (counted from 0): the source id is missing; fill it or drop the row",
        ),
    ],
)
def test_a_missing_id_names_its_row(name, content, message, files):
    assert read_error(files(edges=(name, content), features=("f.csv", FEATURES))) == message


def test_positions_compare_as_text_if_one_side_is_text():
    integers, text = np.array([3, 1]), np.array(["1", "3", "x"], dtype=object)
    assert positions(integers, text).tolist() == [1, 0]
    assert positions(text, integers).tolist() == [1, 0, -1]


def test_union_appends_new_ids():
    assert union(np.array([3, 1]), np.array([1, 2])).tolist() == [3, 1, 2]
    assert union(np.array([3, 1]), np.array(["1", "x"], dtype=object)).tolist() == ["3", "1", "x"]
    assert union(np.array([3, 1]), np.array(["1"], dtype=object)).dtype == np.int64


def test_examples_are_the_first_three():
    assert examples(np.arange(3)) == "0, 1, 2"
    assert examples(np.arange(4)) == "0, 1, 2, ..."


def test_ids_that_merge_are_reported(files, caplog):
    data = read_graph(**files(edges=("e.csv", "7,8\n7.0,9\n")), need_features=False)
    assert data.node_ids.tolist() == [7, 8, 9]
    assert "e.csv: ids written differently are one node: '7' and '7.0' (1 such pair)" in caplog.messages


@pytest.mark.parametrize("edges", [",\n", "source,target\n,\n", "\t\n", ",,\n"])
def test_a_table_without_any_id_is_one_line(files, edges):
    arguments = files(edges=("e.csv", edges), features=("f.csv", FEATURES))
    assert read_error(arguments).endswith(": the source id is missing; fill it or drop the row")
