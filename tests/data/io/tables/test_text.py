"""Text tables: separators, headers, comments, and one line for every mistake."""

import gzip
import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epagcl.data import read_graph
from epagcl.data.io.tables.text import _NOT_PLAIN, TextTable
from tests.data.io.helpers import (
    EDGES,
    FEATURES,
    PATH,
    X,
    logged,
    pairs,
    read_error,
)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("e.csv", EDGES),
        ("e.csv", "x,y\ny,z\n"),
        ("e.csv", "x,y\ny,z"),
        ("e.csv", "x,y\r\ny,z\r\n"),
        ("e.csv", "x,y\ry,z\r"),
        ("e.csv", "\ufeffsource,target\nx,y\ny,z\n"),
        ("e.csv", '"x","y"\n"y","z"\n'),
        ("e.csv", " x , y \n\ny, z\n"),
        ("e.csv", "x;y\ny;z\n"),
        ("e.csv", "From,To\nx,y\ny,z\n"),
        ("e.csv", "# comment\n% another, with a comma\nx,y\ny,z\n"),
        ("e.CSV", EDGES),
        ("e.tsv", "u\tv\nx\ty\ny\tz\n"),
        ("e.txt", "x y\ny   z\n"),
        ("e.txt", "x\ty\ny\tz\n"),
        ("e.txt", "x,y\ny,z\n"),
        ("e.csv.gz", gzip.compress(EDGES.encode(), mtime=0)),
        ("e.tsv.gz", gzip.compress(b"x\ty\ny\tz\n", mtime=0)),
        ("e.parquet", pd.DataFrame({"any": ["x", "y"], "name": ["y", "z"]})),
    ],
)
def test_every_format_gives_the_same_edges(name, text, files, caplog):
    data = read_graph(**files(edges=(name, text), features=("f.csv", FEATURES)))
    assert pairs(data) == PATH
    assert data.node_ids.tolist() == ["x", "y", "z"]
    assert data.x.tolist() == X
    assert data.num_nodes == 3
    assert logged(caplog) == []


def test_unknown_names_above_integers_are_a_header(files, caplog):
    caplog.set_level(logging.INFO)
    data = read_graph(**files(edges=("e.csv", "paper,cites\n0,1\n1,2\n"), features=("x.npy", np.array(X))))
    assert pairs(data) == {(0, 1), (1, 2)}
    assert logged(caplog) == ["e.csv: the first row is read as a header (paper, cites)"]


def test_comments_between_rows_are_reported_and_ids_may_contain_the_character(files, caplog):
    data = read_graph(
        **files(edges=("e.csv", "a#1,b%\n# no edge,here\nb%,c\n"), features=("f.csv", "id,v\na#1,1\nb%,2\nc,3\n"))
    )
    assert pairs(data) == {("a#1", "b%"), ("b%", "c")}
    assert logged(caplog) == ["e.csv: skipped as comments (# or %): 1 line"]


def test_the_header_gives_the_feature_names(tmp_path):
    (tmp_path / "e.csv").write_text("0,1\n1,2\n")
    for name, text, expected in (
        ("f.csv", "age, body height\n1,2\n3,4\n5,6\n", ["age", "body height"]),
        ("g.csv", ",p,q\n0,1,2\n1,3,4\n2,5,6\n", ["p", "q"]),
        ("h.csv", "1,2\n3,4\n5,6\n", None),
    ):
        (tmp_path / name).write_text(text)
        data = read_graph(edges=tmp_path / "e.csv", features=tmp_path / name)
        assert data.get("feature_names") == expected
        assert data.x.tolist() == X


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "e.csv",
            "# x,y\n",
            "e.csv: the file is empty (lines that start with # or % are comments); give one row per line",
        ),
        ("e.csv", "source,target\n", "e.csv: no rows below the header; give one row per line"),
        ("e.csv", "x,y\nz,y\ny,z,x\n", "e.csv: line 3: 3 fields instead of 2; quote fields that contain the separator"),
        (
            "e.csv",
            "u,w,v\nx,y\n",
            "e.csv: 3 names in the header, but 2 fields in line 2; give each row a field for every name",
        ),
        ("e.csv", "u,v\nx,y,z\n", "e.csv: 2 names in the header, but 3 fields in line 2; name every column"),
        (
            "e.csv",
            'x,y\n"y,z\n',
            "e.csv: row 1 (counted from 0): a quote is opened and never closed; close or remove it",
        ),
        ("e.csv", "x,y\ny,é\n".encode("latin-1"), "e.csv: not UTF-8 text; save the file as UTF-8"),
        (
            "e.csv",
            "x,y\n".encode("utf-16"),
            "e.csv: not UTF-8 text (it has zero bytes, as UTF-16 does); save the file as UTF-8",
        ),
        ("e.csv.gz", "x,y\n", "e.csv.gz: not a complete gzip file; compress it again, or give it uncompressed"),
    ],
)
def test_errors_name_the_place_and_the_fix(name, content, message, files):
    assert read_error(files(edges=(name, content), features=("f.csv", FEATURES))) == message


@pytest.mark.parametrize(
    ("text", "columns", "expected"),
    [
        ("a,1\nb,2\n", [1], [[1], [2]]),
        ("7,x\n8,y\n", [0, 1], [["7", "x"], ["8", "y"]]),
        ("007,1\n8,2\n", [0], [["007"], ["8"]]),
        ("True,1\nFalse,2\n", [0], [["True"], ["False"]]),
    ],
)
def test_ids_are_read_without_changing_their_text(text, columns, expected, tmp_path):
    (tmp_path / "t.csv").write_text(text)
    table = TextTable(tmp_path / "t.csv", ".csv")
    assert table.ids(columns).tolist() == expected


def test_missing_values_are_nan_except_in_ids(tmp_path):
    (tmp_path / "t.csv").write_text("id,a\nNA,NA\nnull,2\n")
    table = TextTable(tmp_path / "t.csv", ".csv")
    table.header = table.has_header(["id"])
    frame = table.values(0)
    assert frame[0].tolist() == ["NA", "null"]
    assert frame[1].isna().tolist() == [True, False]
    assert (table.place(0), table.title(1)) == ("line 2", "column 'a'")


def test_codes_with_leading_zeros_keep_them(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('id,zip,age,quoted,note\na,01001,7,"007",in 01 days\nb,,8,12,none\nc,94105,9,13,b\n')
    table = TextTable(path, ".csv")
    table.header = True
    values = table.values(0)
    assert values[1].tolist()[::2] == ["01001", "94105"]
    assert pd.isna(values[1][1])
    assert values[2].tolist() == [7, 8, 9]
    assert values[3].tolist() == ["007", "12", "13"]


def test_decimal_commas_beside_semicolons(files):
    table = "id;price;size\nx;3,5;1\ny;1.234,50;2\nz;7;3\n"
    for text in (table, table.split("\n", 1)[1]):
        data = read_graph(**files(edges=("e.csv", EDGES), features=("f.csv", text)))
        assert data.x.shape == (3, 2)
        assert data.encoding.columns[0].decimal_comma
        assert data.x[:, 0].argsort().tolist() == [0, 2, 1]


@pytest.mark.parametrize("name", ["paper_id", "customerId", "Customer ID"])
def test_a_name_that_ends_in_id_is_a_header(name, files):
    data = read_graph(**files(edges=("e.csv", EDGES), features=("f.csv", f"{name},kind\nx,p\ny,q\nz,p\n")))
    assert data.feature_names == ["kind=p", "kind=q"]


@given(st.lists(st.lists(st.text("0123456789-+.e", min_size=1, max_size=3), min_size=2, max_size=2), min_size=1))
def test_plain_integers_are_told_as_by_the_pattern(rows):
    raw = "source,target\n" + "".join(f"{one},{two}\n" for one, two in rows)
    table = TextTable(Path("e.csv"), ".csv", raw.encode())
    for header in (False, True):
        table.header = header
        assert table._integers_are_plain() == (_NOT_PLAIN.search(raw.encode()) is None)


@pytest.mark.parametrize(
    ("name", "text", "first_row", "header"),
    [
        ("f.tsv", "#protein_id\tsize\tnote\n9606.A\t5\tx\n", ["protein_id", "size", "note"], True),
        ("f.tsv", "# a comment\n#name\tnote\nA\tx\nB\ty\n", ["name", "note"], True),
        ("e.txt", "# Nodes: 3 Edges: 2\n# FromNodeId\tToNodeId\n0 1\n1 2\n", ["FromNodeId", "ToNodeId"], True),
        ("e.txt", "# Nodes: 3\n0 1\n1 2\n", ["0", "1"], False),
        ("e.txt", "# two columns of ids\n0 1\n1 2\n", ["0", "1"], False),
        ("e.csv", "#x,y\n\na,b\n", ["a", "b"], False),
        ("e.csv", "a,b\n#x,y\nb,c\n", ["a", "b"], False),
    ],
)
def test_a_comment_above_the_first_row_may_be_a_header(name, text, first_row, header, tmp_path):
    (tmp_path / name).write_text(text)
    table = TextTable(tmp_path / name, Path(name).suffix)
    assert table.first_row == first_row
    assert table.has_header(("nothing",)) is header
    table.header = header
    rows = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(table.values(None)) == len(rows)
    assert table.place(0) == f"line {text.splitlines().index(rows[0]) + 1}"


def test_a_table_of_text_with_a_marked_header(files, caplog):
    """Its rows were features without names, and a word of the header was an id."""
    proteins = "#string_protein_id\tannotation\tfamily\n" + "".join(f"P{k}\tx{k % 2}\ty{k % 3}\n" for k in range(6))
    edges = "#node1\tnode2\n" + "".join(f"P{k}\tP{k + 1}\n" for k in range(5))
    files(e=("e.tsv", edges), f=("f.tsv", proteins))
    data = read_graph(edges="e.tsv", features="f.tsv")
    assert data.node_ids.tolist() == [f"P{k}" for k in range(6)]
    assert {name.partition("=")[0] for name in data.feature_names} == {"annotation", "family"}


def test_lines_inside_quotes_are_no_rows_and_no_comments(tmp_path, caplog):
    """A line of a text that begins with # was left out of it."""
    bio = '"# Title\n#tag\n\n""quoted"", too"'
    (tmp_path / "f.csv").write_text(f'id,bio,n\na,{bio},1\n# a comment\nb,{bio},2\nc,5" pipe,3\nd,"x",soon\n')
    table = TextTable(tmp_path / "f.csv", ".csv")
    table.header = True
    values = table.values(0)
    assert values[1].tolist() == ['# Title\n#tag\n\n"quoted", too'] * 2 + ['5" pipe', "x"]
    assert [table.place(row) for row in range(4)] == ["line 2", "line 7", "line 11", "line 12"]
    assert caplog.messages == ["f.csv: skipped as comments (# or %): 1 line"]


def test_a_quote_that_is_not_closed_hides_no_comments(tmp_path):
    (tmp_path / "e.csv").write_text('5" a,b\n# c\nb,c\n')
    table = TextTable(tmp_path / "e.csv", ".csv")
    assert table.values(None).to_numpy().tolist() == [['5" a', "b"], ["b", "c"]]
