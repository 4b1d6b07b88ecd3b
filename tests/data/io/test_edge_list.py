"""Edge lists: which columns are read, and which node each row without an id belongs to."""

import numpy as np
import pandas as pd
import pytest

from epagcl.data import from_tables, read_graph
from tests.data.io.helpers import FEATURES, PATH, X, from_tables_error, logged, pairs, read_error, rows


def test_columns_named_source_and_target_are_found_anywhere(files, caplog):
    text = "year,Target,weight,SRC\n2001,y,0.5,x\n2002,z,0.7,y\n"
    data = read_graph(**files(edges=("e.csv", text), features=("f.csv", FEATURES)))
    assert pairs(data) == PATH
    assert logged(caplog) == ["e.csv: edges join SRC and Target, weighted by weight; not used: year"]


def test_ignored_columns_are_reported(files, caplog):
    read_graph(**files(edges=("e.csv", "0,1,0.5\n1,2,0.7\n"), features=("x.npy", np.array(X))))
    assert logged(caplog) == ["e.csv: edges join column 1 and column 2; not used: column 3"]


def test_ids_are_ordered_row_by_row_source_before_target(files):
    data = read_graph(**files(edges=("e.csv", "b,a\nd,b\nc,a\n"), features=("x.npy", np.arange(4)[:, None])))
    assert data.node_ids.tolist() == ["b", "a", "d", "c"]


NUMBERED_PAIRS = {(0, 1), (0, 2), (0, 3), (1, 4)}


def test_the_index_is_not_an_end_of_an_edge(caplog):
    edges = pd.DataFrame({"p": [0, 0, 0, 4], "q": [1, 2, 3, 1]}, index=pd.Index([9, 8, 7, 6], name="row"))
    for table in (edges, edges.set_index(pd.MultiIndex.from_product([[1, 2], [3, 4]]))):
        assert pairs(from_tables(table, np.eye(5))) == NUMBERED_PAIRS
    named = edges.set_axis(["source", "target"], axis=1).rename_axis("source")
    assert pairs(from_tables(named, np.eye(5))) == NUMBERED_PAIRS
    assert logged(caplog) == []
    assert from_tables_error(edges[["p"]], np.eye(5)).startswith(
        "edges: one column (the index does not count: reset_index()); an edge"
    )


def test_integer_ids_are_row_numbers(files, caplog):
    data = read_graph(**files(edges=("e.csv", "3,1\n1,0\n"), features=("x.npy", np.arange(10).reshape(5, 2))))
    assert data.node_ids.dtype == np.int64
    assert data.node_ids.tolist() == [0, 1, 2, 3, 4]
    assert pairs(data) == {(0, 1), (1, 3)}
    assert logged(caplog) == []


@pytest.mark.parametrize(("edges", "ids"), [("x,y\ny,z\n", ["x", "y", "z"]), ("30,10\n10,20\n", [30, 10, 20])])
def test_other_ids_take_rows_by_first_appearance_with_a_warning(edges, ids, files, caplog):
    data = read_graph(**files(edges=("e.csv", edges), features=("x.npy", np.array(X))))
    assert data.node_ids.tolist() == ids
    assert data.x.tolist() == X
    order = ", ".join(f"row {row} = {node}" for row, node in enumerate(ids))
    assert logged(caplog) == [
        "x.npy: no ids; its rows were matched to the nodes in order of first appearance in e.csv "
        f"({order}); if this is wrong, give the ids with nodes="
    ]


def test_a_row_for_node_0_without_edges_is_reported(files, caplog):
    """With ids 1, 2 and three rows, ids may count from 0, or from 1 with a node 3 without edges."""
    data = read_graph(**files(edges=("e.csv", "1,2\n"), features=("x.npy", np.array(X))))
    assert rows(data) == {0: [1, 2], 1: [3, 4], 2: [5, 6]}
    assert logged(caplog) == [
        "x.npy: no ids; its rows are numbered from 0, and node 0 has no edge in e.csv; "
        "if this is wrong, give the ids with nodes="
    ]


def test_ids_from_one_to_the_number_of_rows_are_counted_from_one(files, caplog):
    data = read_graph(**files(edges=("e.csv", "3,1\n1,2\n"), features=("x.npy", np.array(X))))
    assert rows(data) == {1: [1, 2], 2: [3, 4], 3: [5, 6]}
    assert pairs(data) == {(1, 2), (1, 3)}
    assert logged(caplog) == [
        "x.npy: no ids; its rows were matched to the nodes by number, since e.csv counts from 1 "
        "(row 0 = 1, row 1 = 2, row 2 = 3); if this is wrong, give the ids with nodes="
    ]
    caplog.clear()
    names = files(edges=("e.csv", "3,1\n1,2\n"), features=("x.npy", np.array(X)), nodes=("n.txt", "3\n1\n2\n"))
    assert rows(read_graph(**names)) == {3: [1, 2], 1: [3, 4], 2: [5, 6]}
    assert logged(caplog) == []


def test_negative_ids_need_nodes(files):
    assert read_error(files(edges=("e.csv", "0,1\n1,-1\n"), features=("x.npy", np.eye(3)))) == (
        "e.csv: line 2: node -1 is negative, and the rows of x.npy are numbered from 0; "
        "give the ids of the rows with nodes="
    )


@pytest.mark.parametrize(
    ("labels", "doubt"), [("id,label\nx,0\ny,1\n", True), ("id,label\nx,0\npaper,1\n", False), (None, True)]
)
def test_a_first_edge_that_may_be_a_header_is_reported(labels, doubt, files, caplog):
    names = files(edges=("e.csv", "paper,cites\nx,y\ny,z\n"), **({"labels": ("l.csv", labels)} if labels else {}))
    assert read_graph(**names, need_features=False).num_nodes == 5
    message = "e.csv: line 1 (paper, cites) is read as an edge; if it is a header, call its columns source and target"
    assert logged(caplog) == [message] * doubt


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x\ny\n", "e.csv: one column; an edge list needs two, source and target, as a,b"),
        ("x,y\ny,w\n", "f.csv: no row for 1 node of e.csv (w); give every node a row, or drop its edges"),
        (
            "y,x\na,b\nc,d\n",
            "f.csv: no row for 4 nodes of e.csv (a, b, c, ...); give every node a row, or drop its edges",
        ),
        (
            "paper,cites\nx,y\np,z\n",
            "f.csv: no row for 3 nodes of e.csv (paper, cites, p); "
            "if line 1 is a header, call its columns source and target",
        ),
    ],
)
def test_errors_of_edges(content, message, files):
    assert read_error(files(edges=("e.csv", content), features=("f.csv", FEATURES))) == message


RATINGS = "user_id,item_id\n1,1\n1,2\n2,2\n"


def test_ids_of_two_kinds_do_not_merge(files):
    names = files(edges=("e.csv", RATINGS), labels=("l.csv", "id,label\nuser:1,a\nitem:2,b\n"))
    data = read_graph(**names, bipartite=True, need_features=False)
    assert data.node_ids.tolist() == ["user:1", "item:1", "item:2", "user:2"]
    assert pairs(data) == {("item:1", "user:1"), ("item:2", "user:1"), ("item:2", "user:2")}
    assert data.y.tolist() == [0, -1, 1, -1]


def test_ids_of_two_kinds_that_overlap_are_refused(files):
    names = files(edges=("e.csv", RATINGS)) | {"need_features": False}
    assert read_error(names) == (
        "e.csv: 2 ids (1, 2) in user_id and in item_id; if these are two kinds of nodes, give bipartite=True, "
        "else source='user_id', target='item_id'"
    )
    assert read_graph(**names, source="user_id", target="item_id").num_nodes == 2


def test_other_tables_name_the_kind_where_it_is_in_doubt(files):
    names = files(edges=("e.csv", "user,item\n1,2\n2,3\n"), features=("f.csv", "id,a\n1,1\nuser:2,2\nitem:2,3\n3,4\n"))
    assert rows(read_graph(**names, bipartite=True)) == {"user:1": [1], "user:2": [2], "item:2": [3], "item:3": [4]}
    names = files(edges=("e.csv", "user,item\n1,2\n2,3\n"), features=("f.csv", "id,a\n1,1\n2,2\n3,4\n"))
    assert (
        read_error(names | {"bipartite": True}) == "f.csv: id 2 is of both kinds, user and item; write user:2 or item:2"
    )


def test_a_header_is_recognised_by_the_ids_of_the_features(files):
    names = files(edges=("e.csv", "paper,cites\nx,y\ny,z\n"), features=("f.csv", FEATURES))
    assert pairs(read_graph(**names)) == PATH


WEIGHTED = "source,target,weight,amount\nx,y,1,3\ny,z,3,1\n"


def weights(data) -> dict[tuple[str, str], float]:
    """Return the weight of each pair by id."""
    ends = map(tuple, data.node_ids[data.edge_index.numpy()].T.tolist())
    return dict(zip(ends, data.edge_weight.tolist(), strict=True))


def test_a_column_of_weights_is_used(files):
    arguments = files(edges=("e.csv", WEIGHTED), features=("f.csv", FEATURES))
    assert weights(read_graph(**arguments)) == {("x", "y"): 0.5, ("y", "x"): 0.5, ("y", "z"): 1.5, ("z", "y"): 1.5}
    assert weights(read_graph(**arguments, weight="amount"))["x", "y"] == 1.5
    assert "edge_weight" not in read_graph(**arguments, weight="none")


def test_weights_of_repeated_edges_are_added_up(files, caplog):
    text = "source,target,weight\nx,y,1\nx,y,2\ny,z,1\n"
    data = read_graph(**files(edges=("e.csv", text), features=("f.csv", FEATURES)))
    assert weights(data)["x", "y"] == 3 * weights(data)["y", "z"]
    assert logged(caplog) == ["e.csv: 1 duplicate edge merged; their weights are added up"]


def test_an_end_named_weight_is_no_weight(files):
    data = read_graph(**files(edges=("e.csv", "source,weight\nx,y\ny,z\n"), features=("f.csv", FEATURES)))
    assert pairs(data) == PATH
    assert "edge_weight" not in data


@pytest.mark.parametrize("value", ["-1", "", "heavy", "nan", "inf"])
def test_wrong_weights_name_the_line(files, value):
    text = f"source,target,weight\nx,y,1\ny,z,{value}\n"
    message = read_error(files(edges=("e.csv", text), features=("f.csv", FEATURES)))
    assert message.startswith("e.csv: line 3: the column 'weight' ")
    assert message.endswith("weights are numbers that are at least 0; mend it, or give weight='none'")


def test_an_unknown_column_of_weights_is_refused(files):
    message = read_error(files(edges=("e.csv", WEIGHTED), features=("f.csv", FEATURES)) | {"weight": "mass"})
    assert message.startswith("e.csv: no column 'mass' for weight=")


def test_weights_with_a_decimal_comma(files):
    files(e=("e.csv", "source;target;weight\nx;y;0,5\ny;z;1.000,5\n"))
    data = read_graph(edges="e.csv", need_features=False)
    assert weights(data)["y", "z"] == pytest.approx(2001 * weights(data)["x", "y"])


def test_a_missing_weight_is_called_so(files):
    files(e=("e.csv", "source,target,weight\nx,y,2\ny,z,\n"))
    message = read_error({"edges": "e.csv", "need_features": False})
    assert message.startswith("e.csv: line 3: the column 'weight' has no value; weights are numbers")


def test_ids_with_and_without_leading_zeros(files, caplog):
    files(e=("e.csv", "source,target\n007,8\n7,8\n"), f=("f.csv", "id,a\n7,1\n8,2\n"))
    assert read_graph(edges="e.csv", need_features=False).node_ids.tolist() == ["007", "8", "7"]
    assert "e.csv: '007' and '7' are two nodes (1 such pair); if they are one, write them alike" in caplog.messages
    files(e=("e.csv", "source,target\n007,008\n"))
    message = read_error({"edges": "e.csv", "features": "f.csv"})
    assert message == "f.csv: no row for 2 nodes of e.csv (007, 008); f.csv writes 007 as 7: write the ids alike"


def test_ids_in_another_case_are_pointed_out(files):
    files(e=("e.csv", "source,target\nann,bob\n"), f=("f.csv", "id,a\nANN,1\nBOB,2\n"))
    message = read_error({"edges": "e.csv", "features": "f.csv"})
    assert message == "f.csv: no row for 2 nodes of e.csv (ann, bob); f.csv writes ann as ANN: write the ids alike"
