"""Which columns of a table are the ends of edges: by name, by position, or refused."""

import numpy as np
import pandas as pd
import pytest

from epagcl.data import from_tables, read_graph
from tests.data.io.helpers import FEATURES, PATH, from_tables_error, pairs, read_error


def edges(header: str) -> str:
    """Return edges x–y and y–z whose ends are the columns in capitals."""
    columns = header.split(",")
    lines = [header.lower()]
    for ends in (["x", "y"], ["y", "z"]):
        ends = iter(ends)
        lines.append(",".join(next(ends) if name.isupper() else "7" for name in columns))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "header",
    [
        "SOURCE,TARGET",
        "id,SRC,DST",
        "SENDER,RECEIVER,amount",
        "amount,PAYER,PAYEE",
        "PROTEIN1,PROTEIN2,combined_score",
        "NODE_A,NODE_B,w",
        "FROM_ACCOUNT,TO_ACCOUNT,amount",
        "date,FOLLOWER,FOLLOWEE",
        "ALPHA,BETA",
        "ALPHA,BETA,weight,timestamp",
    ],
)
def test_names_of_ends(header, files):
    names = files(edges=("e.csv", edges(header)), features=("f.csv", FEATURES))
    assert pairs(read_graph(**names)) == PATH


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (
            "tx_id,PAYER,PAYEE,amount",
            "e.csv: edges may join payer and payee, or tx_id; give source='payer', target='payee'",
        ),
        (
            "SENDER,RECEIVER,buyer,seller",
            "e.csv: edges may join sender and receiver, or buyer, seller; give source='sender', target='receiver'",
        ),
        (
            "ALPHA,BETA,gamma",
            "e.csv: 3 columns (alpha, beta, gamma), and no names that mean the ends of edges; "
            "name them, such as source='alpha', target='beta'",
        ),
    ],
)
def test_a_doubt_is_refused_with_the_fix(header, message, files):
    assert read_error(files(edges=("e.csv", edges(header)), features=("f.csv", FEATURES))) == message


def test_without_header_the_first_two_columns_are_the_ends(files):
    names = files(edges=("e.txt", "x y 0.5\ny z 0.7\n"), features=("f.csv", FEATURES))
    assert pairs(read_graph(**names)) == PATH


def test_without_header_a_number_of_the_edge_is_not_an_end(files):
    text = "".join(f"{100 + k},{k % 3},{(k + 1) % 3}\n" for k in range(12))
    names = files(edges=("e.csv", text), features=("x.npy", np.eye(3)))
    assert read_error(names) == (
        "e.csv: column 1 has another value in each row, so it may number the edges; "
        "name the ends, such as source='2', target='3'"
    )
    assert pairs(read_graph(**names, source="2", target="3")) == {(0, 1), (0, 2), (1, 2)}


def test_nodes_called_n1_and_n2_are_no_header(files):
    names = files(edges=("e.csv", "n1,n2\nn2,n3\n"), features=("x.npy", np.eye(3)))
    assert pairs(read_graph(**names)) == {("n1", "n2"), ("n2", "n3")}


def test_many_other_columns_are_shortened(caplog):
    table = pd.DataFrame({"source": ["x", "y"], "target": ["y", "z"]} | {f"c{k}": [1, 2] for k in range(1868)})
    from_tables(table, np.eye(3))
    assert "edges: edges join source and target; not used: c0, c1, c2, c3, c4 and 1,863 more" in caplog.messages


def test_a_table_of_an_array_has_no_names():
    array = pd.DataFrame([[0, 1, 5], [1, 2, 5]])
    assert pairs(from_tables(array, np.eye(3))) == {(0, 1), (1, 2)}
    named = array.set_axis(["p", "q", "r"], axis=1)
    assert from_tables_error(named, np.eye(3)).startswith("edges: 3 columns (p, q, r), and no names that mean the ends")
