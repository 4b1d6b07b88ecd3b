"""Labels: which columns are read, and which label each node has."""

import numpy as np
import pandas as pd
import pytest
import torch

from epagcl.data import from_tables, read_graph
from tests.data.io.helpers import EDGES, ENDS, FEATURES, TABLE, from_tables_error, logged, read_error


@pytest.mark.parametrize(
    ("name", "content", "y", "names"),
    [
        ("l.csv", "id,label\nz,cs\nx,bio\n", [0, -1, 1], ["bio", "cs"]),
        ("l.csv", "label,id\ncs,z\nNA,x\n", [-1, -1, 0], ["cs"]),
        ("l.csv", "z,0\nx,1\ny,\n", [1, -1, 0], None),
        ("l.csv", "who,what\nz,0\nx,1\n", [1, -1, 0], None),
        ("l.csv", "who,what\nx,b\ny,a\n", [1, 0, -1], ["a", "b"]),
        ("l.csv", "paper_id,area\nx,b\ny,a\n", [1, 0, -1], ["a", "b"]),
        ("l.csv", "id,label\nx,01\ny,1\nz,+5\n", [1, 2, 0], ["+5", "01", "1"]),
        ("l.csv", "id,label\nx,1.0\ny,\nz,0.0\n", [1, -1, 0], None),
        ("l.csv", "id,y\nx,10\ny,2\nz,10\n", [1, 0, 1], ["2", "10"]),
        ("l.txt", "0\n2\n1\n", [0, 2, 1], None),
        ("l.csv", 'label\ncs\nbio\n""\n', [1, 0, -1], ["bio", "cs"]),
        ("l.npy", np.array([1, 0, -1]), [1, 0, -1], None),
        ("l.npy", np.array([[1.0], [np.nan], [0.0]]), [1, -1, 0], None),
        ("l.npy", np.array(["b", "a", "b"]), [1, 0, 1], ["a", "b"]),
        ("l.parquet", pd.DataFrame({"id": ["x", "z"], "class": ["p", "q"]}), [0, -1, 1], ["p", "q"]),
        ("l.parquet", pd.DataFrame({"y": [2, 1, 0]}), [2, 1, 0], None),
    ],
)
def test_labels_from_files(name, content, y, names, files):
    data = read_graph(**files(edges=("e.csv", EDGES), features=("f.csv", FEATURES), labels=(name, content)))
    assert data.y.tolist() == y
    assert data.get("label_names") == names


def test_ignored_columns_are_reported(files, caplog):
    labels = ("l.csv", "id,year,label\nx,2001,a\ny,2002,b\n")
    data = read_graph(**files(edges=("e.csv", EDGES), features=("f.csv", FEATURES), labels=labels))
    assert data.y.tolist() == [0, 1, -1]
    assert logged(caplog) == ["l.csv: ids in id, labels in label; not used: year"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "l.csv",
            "id,label\nx,a\nq,b\n",
            "l.csv: line 3: 1 id not in the graph (q); drop these rows, or add the nodes to the features",
        ),
        (
            "l.csv",
            "id,label\nx,a\nx,b\n",
            "l.csv: id x is in line 2 and line 3 (1 repeated row); keep one row per node",
        ),
        ("l.txt", "0\n1\n", "l.txt: 2 labels for 3 nodes; give one per node"),
        ("l.npy", np.zeros(4), "l.npy: 4 labels for 3 nodes; give one per node"),
        ("l.npy", np.array(3), "l.npy: 1 label for 3 nodes; give one per node"),
        ("l.npy", np.zeros((3, 2)), "l.npy: labels have shape (3, 2); give one per node"),
        ("l.txt", "0\n-3\n1\n", "l.txt: label -3; give class numbers 0, 1, ... (−1 for none) or names"),
        ("l.txt", "0\n0.5\n1\n", "l.txt: labels are not whole numbers; give class numbers 0, 1, ... or names"),
        ("l.json", "{}", "l.json: cannot read .json as a table; give .csv, .tsv, .txt, .parquet"),
    ],
)
def test_errors_of_labels(name, content, message, files):
    arguments = files(edges=("e.csv", EDGES), features=("f.csv", FEATURES), labels=(name, content))
    assert read_error(arguments) == message


@pytest.mark.parametrize(
    "labels",
    [
        pd.DataFrame({"id": ["z", "x"], "label": ["red", "blue"]}),
        pd.DataFrame({"label": ["red", "blue"]}, index=["z", "x"]),
        pd.DataFrame({"label": ["red", "blue"], "id": ["z", "x"]}, index=[8, 4]),
        pd.Series(["red", "blue"], index=["z", "x"]),
        pd.Series(["red", "blue"], index=["z", "x"], name="name"),
        ["blue", None, "red"],
        np.array(["blue", "", "red"]),
        pd.Series(["blue", None, "red"]),
    ],
)
def test_labels_of_every_type(labels):
    data = from_tables(ENDS, TABLE, labels)
    assert data.y.tolist() == [0, -1, 1]
    assert data.label_names == ["blue", "red"]


def test_labels_by_number():
    assert from_tables(ENDS, TABLE, torch.tensor([1, 0, 1])).y.tolist() == [1, 0, 1]
    assert from_tables_error(ENDS, TABLE, [1, 0]) == "labels: 2 labels for 3 nodes; give one per node"
    assert "labels: row 1 (counted from 0): 1 id not in the graph (w)" in from_tables_error(
        ENDS, TABLE, pd.Series([0, 1], index=["x", "w"])
    )


NODES = pd.DataFrame({"a": [10, 20, 30, 40]})


CHAIN = [(0, 1), (1, 2), (2, 3)]


ORDER = [2, 0, 3, 1]


def labels_by_id(data) -> dict:
    return dict(zip(data.node_ids.tolist(), data.y.tolist(), strict=True))


@pytest.mark.parametrize("labels", [pd.Series([0, 1, 2, 3]), pd.DataFrame({"label": [0, 1, 2, 3]})])
def test_labels_beside_shuffled_features_are_matched_by_index(labels, caplog):
    assert labels_by_id(from_tables(CHAIN, NODES.iloc[ORDER], labels)) == {0: 0, 1: 1, 2: 2, 3: 3}
    assert logged(caplog) == []
    some = from_tables([(2, 0)], NODES.iloc[[2, 0]], labels.replace({2: 1}))
    assert labels_by_id(some) == {2: 1, 0: 0}
    by_column = from_tables(CHAIN, NODES.iloc[ORDER].reset_index(), labels)
    assert labels_by_id(by_column) == {0: 0, 1: 1, 2: 2, 3: 3}
    assert logged(caplog)[-1] == (
        "labels: matched by index to the ids of features; if the labels are in row order, give them as an array"
    )


def test_labels_without_an_index_are_in_the_order_of_the_rows(caplog):
    polars = pytest.importorskip("polars")
    for labels in ([0, 1, 2, 3], np.arange(4), torch.arange(4), polars.Series([0, 1, 2, 3])):
        assert labels_by_id(from_tables(CHAIN, NODES.iloc[ORDER], labels)) == {2: 0, 0: 1, 3: 2, 1: 3}
    named = from_tables(CHAIN, NODES, pd.Series([0, 1, 2, 3]), nodes=ORDER)  # the ids of the rows of both
    assert labels_by_id(named) == {2: 0, 0: 1, 3: 2, 1: 3}
    assert logged(caplog) == []


def test_labels_whose_index_has_other_ids_are_refused():
    words = "labels: the index is 0, 1, ..., but the index of features is not; use the ids as index, or give an array "
    assert from_tables_error(ENDS, TABLE.set_index("id"), pd.Series([0, 1, 1])).startswith(words)
    assert from_tables(ENDS, TABLE, pd.Series([0, 1, 1])).y.tolist() == [0, 1, 1]  # both indexes are row numbers
    assert (
        from_tables_error(CHAIN, NODES.reset_index(), pd.Series(range(5)))
        == "labels: 5 labels for 4 nodes; give one per node"
    )


def test_remaining_row_numbers_are_not_ids_of_labels():
    papers = pd.DataFrame({"paper": [1, 2, 3, 4], "topic": [0, 1, 0, 1]})
    ends = [(1, 2), (2, 3), (3, 4)]
    features = pd.DataFrame({"a": [1, 2, 3, 4]}, index=[1, 2, 3, 4])
    assert labels_by_id(from_tables(ends, features, papers.iloc[1:])) == {1: -1, 2: 1, 3: 0, 4: 1}
    by_index = papers.set_index("paper").rename_axis(None).assign(year=2001)
    assert labels_by_id(from_tables(ends, features, by_index.iloc[1:], label="topic")) == {1: -1, 2: 1, 3: 0, 4: 1}
    text = pd.DataFrame({"paper": ["x", "y", "z"], "topic": [0, 1, 0]}).iloc[1:]
    assert labels_by_id(from_tables(ENDS, TABLE, text)) == {"x": -1, "y": 1, "z": 0}


def test_a_word_that_means_no_label_is_reported(files, caplog):
    labels = ("l.csv", "id,label\nx,NA\ny,a\nz,null\n")
    data = read_graph(**files(edges=("e.csv", EDGES), features=("f.csv", FEATURES), labels=labels))
    assert data.y.tolist() == [-1, 0, -1]
    assert logged(caplog) == ["l.csv: 'NA' or 'null' means no label (2 rows)"]


def test_labels_with_leading_zeros_are_names(files, caplog):
    labels = ("l.csv", "id,label\nx,01\ny,1\n")
    data = read_graph(**files(edges=("e.csv", EDGES), features=("f.csv", FEATURES), labels=labels))
    assert data.label_names == ["01", "1"]
    assert logged(caplog) == ["l.csv: labels such as '01' are read as names, not as numbers"]
