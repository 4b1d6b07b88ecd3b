"""Features: which column holds ids, and which node each row belongs to."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch

from epagcl.data import from_tables, read_graph
from tests.data.io.helpers import (
    EDGES,
    ENDS,
    FEATURES,
    PATH,
    TABLE,
    X,
    from_tables_error,
    logged,
    pairs,
    read_error,
    rows,
)


def test_isolated_nodes_of_the_table_are_kept(files):
    data = read_graph(**files(edges=("e.csv", EDGES), features=("f.csv", FEATURES + "lone,7,8\n")))
    assert data.num_nodes == 4
    assert rows(data)["lone"] == [7, 8]
    assert pairs(data) == PATH


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("f.csv", "a,b,node_id\n1,2,x\n3,4,y\n5,6,z\n"),
        ("f.csv", "x,1,2\ny,3,4\nz,5,6\n"),
        ("f.csv", "paper,a,b\nx,1,2\ny,3,4\nz,5,6\n"),
        ("f.csv", ",0,1\nx,1,2\ny,3,4\nz,5,6\n"),
        ("f.csv", ",id,a,b\n0,x,1,2\n1,y,3,4\n2,z,5,6\n"),
        ("f.tsv", "Name\ta\tb\nx\t1\t2\ny\t3\t4\nz\t5\t6\n"),
        ("f.parquet", pd.DataFrame({"id": ["x", "y", "z"], "a": [1, 3, 5], "b": [2.0, 4.0, 6.0]})),
        ("f.parquet", pd.DataFrame({"a": [1, 3, 5], "b": [2, 4, 6]}, index=["x", "y", "z"])),
    ],
)
def test_tables_with_ids(name, table, files):
    data = read_graph(**files(edges=("e.csv", EDGES), features=(name, table)))
    assert rows(data) == {"x": [1, 2], "y": [3, 4], "z": [5, 6]}
    assert pairs(data) == PATH


def test_first_column_of_integers_is_the_id_if_the_edges_use_it(files):
    data = read_graph(**files(edges=("e.csv", "10,20\n20,30\n"), features=("f.csv", "30,1\n10,2\n20,3\n")))
    assert rows(data) == {30: [1], 10: [2], 20: [3]}


def test_table_without_ids_is_an_array(files):
    data = read_graph(**files(edges=("e.csv", "0,1\n1,2\n"), features=("f.csv", "a,b\n0.5,2\n0.5,4\n0.7,1\n")))
    assert data.x.numpy().tolist() == np.float32([[0.5, 2], [0.5, 4], [0.7, 1]]).tolist()
    assert data.node_ids.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("n.txt", "z\ny\nx\n"),
        ("n.txt", "id\nz\ny\nx\n"),
        ("n.csv", "group,id\n1,z\n1,y\n2,x\n"),
        ("n.parquet", pd.DataFrame({"id": ["z", "y", "x"]})),
    ],
)
def test_nodes_give_the_ids_of_the_rows(name, text, files, caplog):
    data = read_graph(**files(edges=("e.csv", EDGES), features=("x.npy", np.array(X)), nodes=(name, text)))
    assert rows(data) == {"z": [1, 2], "y": [3, 4], "x": [5, 6]}
    assert pairs(data) == PATH
    assert logged(caplog) == []


def test_a_nodes_file_has_one_id_per_line(files):
    names = files(
        edges=("e.csv", '"New York","Rome, Italy"\n'),
        features=("x.npy", np.eye(2)),
        nodes=("n.txt", "Rome, Italy\nNew York\n"),
    )
    assert read_graph(**names).node_ids.tolist() == ["Rome, Italy", "New York"]


def test_nodes_may_be_negative(files):
    names = files(edges=("e.csv", "-1,-2\n"), features=("x.npy", np.eye(2)), nodes=("n.txt", "-2\n-1\n"))
    assert rows(read_graph(**names)) == {-2: [1, 0], -1: [0, 1]}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "f.csv",
            "x,1,2\ny,3,oops\nz,5,6\n",
            "f.csv: column 'column 3' is not numeric ('oops' in line 2); "
            "correct it, leave the value blank, or give columns_as={'column 3': 'category'}",
        ),
        (
            "f.csv",
            "id,a,b\nx,1,2\ny,NaN,\nz,5,inf\n",
            "f.csv: line 4: column 'b' is infinite; fill it, or drop the row",
        ),
        (
            "f.csv",
            "id,a\nx,1\ny,2\nx,3\nz,4\n",
            "f.csv: id x is in line 2 and line 4 (1 repeated row); keep one row per node",
        ),
        ("f.csv", "id,a\nx,1\n,2\n", "f.csv: line 3: the id is missing; fill it or drop the row"),
        ("f.csv", "id\nx\ny\nz\n", "f.csv: no feature column besides the ids; add at least one"),
        ("f.csv", "1,2\n3,4\n", "f.csv: 2 rows for 3 distinct nodes in e.csv; give the ids of the rows with nodes="),
        (
            "f.npy",
            np.ones((4, 2)),
            "f.npy: 4 rows for 3 distinct nodes in e.csv; give the ids of the rows with nodes=",
        ),
        ("f.npy", np.ones(3), "f.npy: features have shape (3,); they must be nodes × columns"),
        ("f.npy", np.array([["a"]] * 3), "f.npy: features of type <U1; give numbers"),
        (
            "f.npy",
            "junk",
            "f.npy: contains Python objects or is not a NumPy file; save a plain array with np.save(path, x)",
        ),
        (
            "f.npy",
            np.array([[1, 2], [np.nan, np.inf], [5, 6]]),
            "f.npy: 2 missing, NaN or infinite feature values, the first in row 1, column 0 (counted from 0); "
            "fill or drop them",
        ),
        (
            "f.npz",
            scipy.sparse.csr_array([[0, 1], [0, 0], [0, np.nan]]),
            "f.npz: 1 missing, NaN or infinite feature value, the first in row 2, column 1 (counted from 0); "
            "fill or drop them",
        ),
        (
            "f.npz",
            "junk",
            "f.npz: contains Python objects or is not a NumPy file; save a plain array with np.save(path, x)",
        ),
        (
            "f.json",
            "{}",
            "f.json: cannot read features from .json; give .npy, .npz, .csv, .tsv, .txt, .parquet",
        ),
    ],
)
def test_errors_of_features(name, content, message, files):
    assert read_error(files(edges=("e.csv", EDGES), features=(name, content))) == message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x\ny\n", "n.txt: 2 ids for 3 rows of x.npy; give one per row"),
        ("x\ny\ny\n", "n.txt: id y is in line 2 and line 3 (1 repeated row); keep one row per node"),
        ("x\ny\nw\n", "n.txt: no row for 1 node of e.csv (z); give every node a row, or drop its edges"),
    ],
)
def test_errors_of_nodes(content, message, files):
    arguments = files(edges=("e.csv", EDGES), features=("x.npy", np.array(X)), nodes=("n.txt", content))
    assert read_error(arguments) == message


def test_nodes_and_a_table_with_ids_exclude_each_other(files):
    arguments = files(edges=("e.csv", EDGES), features=("f.csv", FEATURES), nodes=("n.txt", "x\ny\nz\n"))
    assert read_error(arguments) == (
        "n.txt: f.csv has ids itself; leave out nodes=, or remove the ids from the features"
    )


@pytest.mark.parametrize(
    "features",
    [
        TABLE,
        TABLE[::-1],
        TABLE[["a", "id", "b"]],
        TABLE.set_index("id"),
        TABLE.set_index("id").rename_axis(None),
        TABLE.rename(columns={"id": "paper"}).set_index("paper")[::-1],
        TABLE.set_index(pd.Index([4, 2, 9])),
    ],
)
def test_a_pandas_table_gives_the_ids(features):
    data = from_tables(ENDS, features)
    assert rows(data) == dict(zip("xyz", X, strict=True))
    assert data.feature_names == ["a", "b"]
    assert pairs(data) == {("x", "y"), ("y", "z")}


@pytest.mark.parametrize(
    "features",
    [
        np.array(X),
        torch.tensor(X),
        X,
        scipy.sparse.csr_array(X),
        scipy.sparse.coo_matrix(X),
        torch.tensor(X).to_sparse(),
    ],
)
def test_nodes_give_the_ids_of_an_array(features):
    for nodes in (
        ["z", "x", "y"],
        np.array(["z", "x", "y"]),
        pd.Series(["z", "x", "y"], index=[5, 6, 7]),
        TABLE.iloc[[2, 0, 1]],
    ):
        data = from_tables(ENDS, features, nodes=nodes)
        assert rows(data) == dict(zip("zxy", X, strict=True))
        assert "feature_names" not in data


def test_an_index_that_does_not_match_is_not_a_feature(caplog):
    shuffled = TABLE.drop(columns="id").set_index(pd.Index([14, 12, 19]))
    data = from_tables(ENDS, shuffled)
    assert rows(data) == dict(zip("xyz", X, strict=True))
    assert logged(caplog)[0] == "features: ignored the index, which does not hold the ids of the edges"
    assert logged(caplog)[1].endswith("(row 0 = x, row 1 = y, row 2 = z); if this is wrong, give the ids with nodes=")


def test_a_sorted_table_keeps_its_ids():
    table = pd.DataFrame({"a": [30, 10, 20]}).sort_values("a")
    assert rows(from_tables([(0, 1), (1, 2)], table)) == {1: [10], 2: [20], 0: [30]}


@pytest.mark.parametrize(
    ("features", "options", "words"),
    [
        (np.eye(2), {}, "features: 2 rows for 3 distinct nodes in edges; give the ids of the rows with nodes="),
        (np.eye(2), {"nodes": ["x", "y", "z"]}, "nodes: 3 ids for 2 rows of features; give one per row"),
        (TABLE, {"nodes": ["x", "y", "z"]}, "nodes: features has ids itself; leave out nodes=, "),
        (np.eye(3), {"nodes": ["x", "y", "y"]}, "nodes: id y is in row 1 (counted from 0) and row 2"),
        (TABLE[:2], {}, "features: no row for 1 node of edges (z); give every node a row, or drop its edges"),
        (TABLE.assign(b=["1", "2", "tall"]), {}, "features: column 'b' is not numeric ('tall' in row 2 (counted"),
        ([[1, 2], [3]], {}, "features: rows of different lengths; make them equal"),
        ({"a": [1, 2, 3]}, {}, "features: features of type object; give numbers"),
    ],
)
def test_errors_in_memory(features, options, words):
    assert from_tables_error(ENDS, features, **options).startswith(words)


CHAIN = [(0, 1), (1, 2), (2, 3)]


def test_numbers_in_memory_are_ids_only_by_name(tmp_path, caplog):
    table = pd.DataFrame({"year": [2, 0, 3, 1], "a": [1, 2, 3, 4]})
    data = from_tables(CHAIN, table)
    assert (data.node_ids.tolist(), data.feature_names) == ([0, 1, 2, 3], ["year", "a"])
    assert from_tables(CHAIN, table.astype(object)).feature_names == ["year", "a"]
    assert from_tables(CHAIN, table.rename(columns={"year": "node"})).node_ids.tolist() == [2, 0, 3, 1]
    assert logged(caplog) == []
    assert from_tables(CHAIN, table.astype({"year": str})).node_ids.tolist() == [2, 0, 3, 1]
    (tmp_path / "e.csv").write_text("0,1\n1,2\n2,3\n")
    table.to_csv(tmp_path / "f.csv", index=False)
    assert read_graph(edges=tmp_path / "e.csv", features=tmp_path / "f.csv").node_ids.tolist() == [2, 0, 3, 1]
    warning = "the first column is read as ids; name it id, or name another column id"
    assert logged(caplog) == [f"features: {warning}", f"f.csv: {warning}"]


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_an_index_that_was_saved_as_a_column_is_not_a_feature(name):
    data = from_tables(CHAIN, pd.DataFrame({name: [2, 0, 3, 1], "a": [1, 2, 3, 4]}))
    assert (data.node_ids.tolist(), data.feature_names) == ([2, 0, 3, 1], ["a"])


def test_with_nodes_no_column_is_guessed_to_hold_ids():
    table = pd.DataFrame({"year": [2, 0, 3, 1], "a": [1, 2, 3, 4]})
    data = from_tables(CHAIN, table, nodes=[3, 2, 1, 0])
    assert rows(data) == {3: [2, 1], 2: [0, 2], 1: [3, 3], 0: [1, 4]}
    text = from_tables(CHAIN, table.assign(year=list("xyzw")), nodes=[3, 2, 1, 0])
    assert text.feature_names == ["year=w", "year=x", "year=y", "year=z", "a"]


def test_an_index_with_the_ids_of_the_edges_wins_over_a_weak_name():
    for name in ("name", "node", "index"):
        table = TABLE.set_index("id").rename_axis("paper").assign(**{name: [7, 8, 9]})
        data = from_tables(ENDS, table)
        assert data.node_ids.tolist() == ["x", "y", "z"]
        assert data.feature_names == ["a", "b", name]
        other = TABLE.rename(columns={"id": name}).set_index(pd.Index(["p", "q", "r"], name="paper"))
        assert from_tables(ENDS, other).node_ids.tolist() == ["x", "y", "z"]
