"""Users' files: which row belongs to which node, and one clear line for every mistake."""

import gzip
import logging
import pickle
import time

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from torch_geometric.data import Data

from epagcl.core.errors import InputError, MissingExtra
from epagcl.data import tables
from epagcl.data.io.npz import write_npz
from epagcl.data.io.readers import read_graph
from epagcl.runs.export import write_embeddings

EDGES = "source,target\nx,y\ny,z\n"
FEATURES = "id,a,b\nx,1,2\ny,3,4\nz,5,6\n"
X = [[1, 2], [3, 4], [5, 6]]
PATH = {("x", "y"), ("y", "z")}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Write files by name into an empty folder, which is the current one; the names back."""
    monkeypatch.chdir(tmp_path)

    def write(**contents):
        names = {}
        for part, (name, content) in contents.items():
            names[part] = name
            if isinstance(content, np.ndarray):
                np.save(name, content)
            elif isinstance(content, pd.DataFrame):
                content.to_parquet(name)
            elif scipy.sparse.issparse(content):
                scipy.sparse.save_npz(name, content)
            else:
                (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return names

    return write


def pairs(data: Data) -> set[tuple]:
    """The undirected pairs by id."""
    ends = data.node_ids[data.edge_index.numpy()].T.tolist()
    return {tuple(pair) for pair in ends if list(pair) == sorted(pair)}


def rows(data: Data) -> dict:
    """The features by id."""
    return dict(zip(data.node_ids.tolist(), data.x.to_dense().tolist(), strict=True))


def said(caplog) -> list[str]:
    """What was logged, without the note on direction that a list with each edge once always brings."""
    return [text for record in caplog.records if "in both directions" not in (text := record.getMessage())]


# ---- Edges


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
def test_edges_in_every_form(name, text, files, caplog):
    data = read_graph(**files(edges=(name, text), features=("f.csv", FEATURES)))
    assert pairs(data) == PATH
    assert data.node_ids.tolist() == ["x", "y", "z"]
    assert data.x.tolist() == X
    assert data.num_nodes == 3
    assert said(caplog) == []


def test_columns_named_source_and_target_are_found_anywhere(files, caplog):
    text = "year,Target,weight,SRC\n2001,y,0.5,x\n2002,z,0.7,y\n"
    data = read_graph(**files(edges=("e.csv", text), features=("f.csv", FEATURES)))
    assert pairs(data) == PATH
    assert said(caplog) == ["e.csv: only the ends of edges are read; ignored: year, weight"]


def test_header_with_unknown_names_is_seen_above_integers(files, caplog):
    caplog.set_level(logging.INFO)
    data = read_graph(**files(edges=("e.csv", "paper,cites\n0,1\n1,2\n"), features=("x.npy", np.array(X))))
    assert pairs(data) == {(0, 1), (1, 2)}
    assert said(caplog) == ["e.csv: the first row is read as a header (paper, cites)"]


def test_extra_columns_without_header_are_said(files, caplog):
    read_graph(**files(edges=("e.csv", "0,1,0.5\n1,2,0.7\n"), features=("x.npy", np.array(X))))
    assert said(caplog) == ["e.csv: only the ends of edges are read; ignored: column 3"]


def test_comments_between_rows_are_said_and_ids_may_hold_the_sign(files, caplog):
    data = read_graph(
        **files(edges=("e.csv", "a#1,b%\n# no edge,here\nb%,c\n"), features=("f.csv", "id,v\na#1,1\nb%,2\nc,3\n"))
    )
    assert pairs(data) == {("a#1", "b%"), ("b%", "c")}
    assert said(caplog) == ["e.csv: skipped as comments (# or %): 1 line"]


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
        ("Zoë,王\n", "id,v\nZoë,1\n王,2\n", ["Zoë", "王"]),
    ],
)
def test_kinds_of_ids(edges, features, ids, files):
    data = read_graph(**files(edges=("e.csv", edges), features=("f.csv", features)))
    assert data.node_ids.tolist() == ids
    assert rows(data) == {node: [float(k + 1)] for k, node in enumerate(ids)}
    expected = {frozenset(line.replace(".0", "").split(",")) for line in edges.split()}
    assert {frozenset(map(str, pair)) for pair in pairs(data)} == expected


def test_source_before_target_row_by_row(files):
    data = read_graph(**files(edges=("e.csv", "b,a\nd,b\nc,a\n"), features=("x.npy", np.arange(4)[:, None])))
    assert data.node_ids.tolist() == ["b", "a", "d", "c"]


# ---- Which row belongs to which node


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
    data = read_graph(**files(edges=("e.csv", "0,1\n1,2\n"), features=("f.csv", "a,b\n0.5,2\n0.5,4\n0.1,6\n")))
    assert data.x.numpy().tolist() == np.float32([[0.5, 2], [0.5, 4], [0.1, 6]]).tolist()
    assert data.node_ids.tolist() == [0, 1, 2]


def test_integer_ids_are_row_numbers(files, caplog):
    data = read_graph(**files(edges=("e.csv", "3,1\n1,0\n"), features=("x.npy", np.arange(10).reshape(5, 2))))
    assert data.node_ids.dtype == np.int64
    assert data.node_ids.tolist() == [0, 1, 2, 3, 4]
    assert pairs(data) == {(0, 1), (1, 3)}
    assert said(caplog) == []


@pytest.mark.parametrize(("edges", "ids"), [("x,y\ny,z\n", ["x", "y", "z"]), ("30,10\n10,20\n", [30, 10, 20])])
def test_other_ids_take_rows_by_first_appearance_and_it_is_said(edges, ids, files, caplog):
    data = read_graph(**files(edges=("e.csv", edges), features=("x.npy", np.array(X))))
    assert data.node_ids.tolist() == ids
    assert data.x.tolist() == X
    order = ", ".join(f"row {row} = {node}" for row, node in enumerate(ids))
    assert said(caplog) == [
        "x.npy: has no ids; its rows were given to the nodes in order of first appearance in e.csv "
        f"({order}); say otherwise with --nodes"
    ]


def test_a_row_for_a_node_0_without_edges_is_said(files, caplog):
    """Ids 1, 2 and three rows: counted from 0, or from 1 and a node 3 without edges."""
    data = read_graph(**files(edges=("e.csv", "1,2\n"), features=("x.npy", np.array(X))))
    assert rows(data) == {0: [1, 2], 1: [3, 4], 2: [5, 6]}
    assert said(caplog) == [
        "x.npy: has no ids; its rows are numbered from 0, and node 0 has no edge in e.csv; say otherwise with --nodes"
    ]


def test_ids_from_one_to_the_number_of_rows_are_counted_from_one(files, caplog):
    data = read_graph(**files(edges=("e.csv", "3,1\n1,2\n"), features=("x.npy", np.array(X))))
    assert rows(data) == {1: [1, 2], 2: [3, 4], 3: [5, 6]}
    assert pairs(data) == {(1, 2), (1, 3)}
    assert said(caplog) == [
        "x.npy: has no ids; its rows were given to the nodes by number, since e.csv counts from 1 "
        "(row 0 = 1, row 1 = 2, row 2 = 3); say otherwise with --nodes"
    ]
    caplog.clear()
    names = files(edges=("e.csv", "3,1\n1,2\n"), features=("x.npy", np.array(X)), nodes=("n.txt", "3\n1\n2\n"))
    assert rows(read_graph(**names)) == {3: [1, 2], 1: [3, 4], 2: [5, 6]}
    assert said(caplog) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("n.txt", "z\ny\nx\n"),
        ("n.txt", "id\nz\ny\nx\n"),
        ("n.csv", "group,id\n1,z\n1,y\n2,x\n"),
        ("n.parquet", pd.DataFrame({"id": ["z", "y", "x"]})),
    ],
)
def test_nodes_name_the_rows(name, text, files, caplog):
    data = read_graph(**files(edges=("e.csv", EDGES), features=("x.npy", np.array(X)), nodes=(name, text)))
    assert rows(data) == {"z": [1, 2], "y": [3, 4], "x": [5, 6]}
    assert pairs(data) == PATH
    assert said(caplog) == []


def test_nodes_file_takes_whole_lines(files):
    names = files(
        edges=("e.csv", '"New York","Rome, Italy"\n'),
        features=("x.npy", np.eye(2)),
        nodes=("n.txt", "Rome, Italy\nNew York\n"),
    )
    assert read_graph(**names).node_ids.tolist() == ["Rome, Italy", "New York"]


def test_nodes_may_be_negative(files):
    names = files(edges=("e.csv", "-1,-2\n"), features=("x.npy", np.eye(2)), nodes=("n.txt", "-2\n-1\n"))
    assert rows(read_graph(**names)) == {-2: [1, 0], -1: [0, 1]}


@pytest.mark.parametrize("dense", [True, False])
def test_npz_features(dense, files):
    files(e=("e.csv", "0,1\n1,2\n"), s=("s.npz", scipy.sparse.csr_array([[0, 1.5], [0, 0], [2, 0]])))
    if dense:
        np.savez("s.npz", anything=np.array([[0, 1.5], [0, 0], [2, 0]]))
    x = read_graph(edges="e.csv", features="s.npz").x
    assert x.layout == (torch.strided if dense else torch.sparse_csr)
    assert x.dtype == torch.float32
    assert x.to_dense().tolist() == [[0, 1.5], [0, 0], [2, 0]]


# ---- Labels


@pytest.mark.parametrize(
    ("name", "content", "y", "names"),
    [
        ("l.csv", "id,label\nz,cs\nx,bio\n", [0, -1, 1], ["bio", "cs"]),
        ("l.csv", "label,id\ncs,z\nNA,x\n", [-1, -1, 0], ["cs"]),
        ("l.csv", "z,0\nx,1\ny,\n", [1, -1, 0], None),
        ("l.csv", "who,what\nz,0\nx,1\n", [1, -1, 0], None),
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
def test_labels(name, content, y, names, files):
    data = read_graph(**files(edges=("e.csv", EDGES), features=("f.csv", FEATURES), labels=(name, content)))
    assert data.y.tolist() == y
    assert data.get("label_names") == names


def test_further_columns_of_labels_are_said(files, caplog):
    labels = ("l.csv", "id,year,label\nx,2001,a\ny,2002,b\n")
    data = read_graph(**files(edges=("e.csv", EDGES), features=("f.csv", FEATURES), labels=labels))
    assert data.y.tolist() == [0, 1, -1]
    assert said(caplog) == ["l.csv: labels are read from column 'label'; ignored: column 'year'"]


# ---- Without features


@pytest.mark.parametrize(
    ("edges", "others", "ids", "y"),
    [
        ("b,a\na,c\n", {}, ["b", "a", "c"], None),
        ("30,10\n10,20\n", {}, [30, 10, 20], None),
        ("2,0\n0,1\n", {}, [0, 1, 2], None),
        ("3,1\n1,2\n", {}, [3, 1, 2], None),
        ("b,a\na,c\n", {"labels": ("l.csv", "id,label\nc,1\na,0\n")}, ["b", "a", "c"], [-1, 0, 1]),
        ("b,a\na,c\n", {"labels": ("l.csv", "id,label\nc,1\nlone,0\n")}, ["b", "a", "c", "lone"], [-1, -1, 1, 0]),
        ("3,0\n0,1\n", {"labels": ("l.csv", "id,label\n2,1\n1,0\n")}, [0, 1, 2, 3], [-1, 0, 1, -1]),
        ("5,0\n0,1\n", {"labels": ("l.csv", "id,label\nx,1\n0,0\n")}, ["5", "0", "1", "x"], [-1, 0, -1, 1]),
        ("3,0\n0,1\n", {"labels": ("l.npy", np.array([0, 1, 1, 0, 1]))}, [0, 1, 2, 3, 4], [0, 1, 1, 0, 1]),
        ("3,1\n1,2\n", {"labels": ("l.txt", "0\n1\n2\n")}, [1, 2, 3], [0, 1, 2]),
        ("b,a\na,c\n", {"labels": ("l.txt", "0\n1\n2\n")}, ["b", "a", "c"], [0, 1, 2]),
        ("b,a\na,c\n", {"nodes": ("n.txt", "z\na\n")}, ["z", "a", "b", "c"], None),
        ("2,0\n0,1\n", {"nodes": ("n.txt", "1\n0\n2\n")}, [1, 0, 2], None),
        (
            "b,a\na,c\n",
            {"nodes": ("n.txt", "c\nb\na\n"), "labels": ("l.npy", np.array([0, 1, 2]))},
            ["c", "b", "a"],
            [0, 1, 2],
        ),
    ],
)
def test_without_features_the_nodes_are_all_ids(edges, others, ids, y, files):
    data = read_graph(**files(edges=("e.csv", edges), **others), need_features=False)
    assert "x" not in data
    assert data.node_ids.tolist() == ids
    assert data.num_nodes == len(ids)
    assert {frozenset(map(str, pair)) for pair in pairs(data)} == {frozenset(row.split(",")) for row in edges.split()}
    assert (None if data.y is None else data.y.tolist()) == y


def test_features_that_are_given_are_read_where_none_are_needed(files):
    data = read_graph(**files(edges=("e.csv", EDGES), features=("f.csv", FEATURES)), need_features=False)
    assert data.x.tolist() == X


def test_labelled_nodes_without_edges_are_said(files, caplog):
    names = files(edges=("e.csv", EDGES), labels=("l.csv", "id,label\nx,0\np,1\nq,1\n"))
    read_graph(**names, need_features=False)
    assert said(caplog) == ["l.csv: 2 nodes without edges (p, q) added to those of e.csv"]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            {"labels": ("l.csv", "id,label\np,0\nq,1\n")},
            "l.csv: line 2: 2 ids not in the graph (p, q); use the ids of e.csv",
        ),
        (
            {"labels": ("l.csv", "who,what\nx,a\ny,b\n")},
            "l.csv: line 1: 1 id not in the graph (who); if line 1 is a header, call its columns id and label",
        ),
        (
            {"labels": ("l.csv", "who,what\nx,a\ny,b\np,a\n")},
            "l.csv: line 1: 2 ids not in the graph (who, p); if line 1 is a header, call its columns id and label",
        ),
        (
            {"labels": ("l.txt", "0\n1\n")},
            "l.txt: 2 rows for 3 distinct nodes in e.csv; give the ids of the rows with --nodes",
        ),
        (
            {"labels": ("l.txt", "0\n1\n2\n"), "nodes": ("n.txt", "x\nw\n")},
            "l.txt: 3 labels for 4 nodes; give one per node",
        ),
    ],
)
def test_without_features_mistaken(parts, message, files):
    assert fails(files(edges=("e.csv", EDGES), **parts) | {"need_features": False}) == message


@pytest.mark.parametrize(
    ("labels", "doubt"), [("id,label\nx,0\ny,1\n", True), ("id,label\nx,0\npaper,1\n", False), (None, True)]
)
def test_a_header_that_was_not_seen_is_doubted(labels, doubt, files, caplog):
    names = files(edges=("e.csv", "paper,cites\nx,y\ny,z\n"), **({"labels": ("l.csv", labels)} if labels else {}))
    assert read_graph(**names, need_features=False).num_nodes == 5
    message = "e.csv: line 1 (paper, cites) is read as an edge; if it is a header, call its columns source and target"
    assert said(caplog) == [message] * doubt


def test_whole_files_without_features(tmp_path):
    data = whole()
    del data.x
    write_npz(data, tmp_path / "g.npz")
    torch.save(data.to_dict(), tmp_path / "g.pt")
    for name in ("g.npz", "g.pt"):
        with pytest.raises(InputError, match=rf"^{name}: no node features; give a table"):
            read_graph(tmp_path / name)
        again = read_graph(tmp_path / name, need_features=False)
        assert "x" not in again
        assert again.num_nodes == 3
        assert again.y.tolist() == [0, 1, 0]
    torch.save({"edge_index": data.edge_index}, tmp_path / "g.pt")
    assert read_graph(tmp_path / "g.pt", need_features=False).num_nodes == 3


# ---- One file


def whole() -> Data:
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    return Data(x=torch.tensor(X).float(), edge_index=edge_index, y=torch.tensor([0, 1, 0]))


def test_npz_of_the_project(tmp_path):
    write_npz(whole(), tmp_path / "g.npz")
    data = read_graph(tmp_path / "g.npz")
    assert data.x.to_dense().tolist() == X
    assert data.edge_index.tolist() == whole().edge_index.tolist()
    assert data.y.tolist() == [0, 1, 0]


@pytest.mark.parametrize("as_dict", [True, False])
def test_pt(as_dict, tmp_path):
    data = whole()
    data.train_mask = torch.tensor([True, False, True])
    torch.save(data.to_dict() if as_dict else data, tmp_path / "g.pt")
    loaded = read_graph(tmp_path / "g.pt")
    assert loaded.x.tolist() == X
    assert loaded.edge_index.tolist() == data.edge_index.tolist()
    assert loaded.y.tolist() == [0, 1, 0]
    assert loaded.train_mask.tolist() == [True, False, True]


class _Trap:
    """Runs code when a pickle is trusted."""

    def __reduce__(self):
        return (print, ("executed",))


@pytest.mark.parametrize("outer", [lambda trap: trap, lambda trap: {"x": trap}, lambda trap: Data(x=trap)])
def test_pt_never_runs_code(outer, tmp_path, capsys):
    torch.save(outer(_Trap()), tmp_path / "g.pt")
    with pytest.raises(
        InputError,
        match=r"^g.pt: not a graph that can be loaded safely; save its tensors with torch.save\(data.to_dict",
    ):
        read_graph(tmp_path / "g.pt")
    assert "executed" not in capsys.readouterr().out


@pytest.mark.parametrize("content", [b"hello", pickle.dumps({"x": 1}), bytes(range(256)), b"PK\x03\x04 cut short"])
def test_pt_that_is_none(content, tmp_path):
    (tmp_path / "g.pt").write_bytes(content)
    with pytest.raises(InputError, match=r"^g.pt: .*; save its tensors with torch.save\(data.to_dict\(\), path\)"):
        read_graph(tmp_path / "g.pt")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1, 2], "g.pt: holds a list, not a graph; "),
        ({"x": [1.0]}, "g.pt: x is a list, not a tensor; "),
        ({1: torch.ones(1)}, "g.pt: a dict with keys that are not names; "),
    ],
)
def test_pt_with_something_else(content, message, tmp_path):
    torch.save(content, tmp_path / "g.pt")
    with pytest.raises(InputError) as error:
        read_graph(tmp_path / "g.pt")
    assert (
        str(error.value)
        == message
        + "save its tensors with torch.save(data.to_dict(), path), or all of it with epagcl.data.write_npz(data, path)"
    )


def test_pt_without_features_names_what_is_missing(tmp_path):
    torch.save({"edge_index": whole().edge_index}, tmp_path / "g.pt")
    with pytest.raises(InputError, match=r"^g.pt: no node features; "):
        read_graph(tmp_path / "g.pt")


# ---- Mistakes


def fails(arguments: dict) -> str:
    with pytest.raises(InputError) as error:
        read_graph(**arguments)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("e.csv", "", "e.csv: the file is empty; write it anew"),
        (
            "e.csv",
            "# x,y\n",
            "e.csv: the file is empty (lines that start with # or % are comments); give one row per line",
        ),
        ("e.csv", "source,target\n", "e.csv: no rows below the header; give one row per line"),
        ("e.csv", "x\ny\n", "e.csv: one column; an edge list needs two, source and target, as a,b"),
        ("e.csv", "x,y\n\n#\ny,\n", "e.csv: line 4: the target id is missing; fill it or drop the row"),
        ("e.csv", "u,v\n1,2\n,2\n", "e.csv: line 3: the source id is missing; fill it or drop the row"),
        ("e.csv", "x,y\n   ,z\n", "e.csv: line 2: the source id is missing; fill it or drop the row"),
        ("e.csv", "x,y\ny\n", "e.csv: line 2: the target id is missing; fill it or drop the row"),
        ("e.csv", "x,y\nz,y\ny,z,x\n", "e.csv: line 3: 3 fields instead of 2; quote fields that hold the separator"),
        ("e.csv", "u,w,v\nx,y\n", "e.csv: 3 names in the header, but 2 fields in line 2; name every column"),
        ("e.csv", "u,v\nx,y,z\n", "e.csv: 2 names in the header, but 3 fields in line 2; name every column"),
        (
            "e.csv",
            'x,y\n"y,z\n',
            "e.csv: row 1 (counted from 0): a quote is opened and never closed; close or remove it",
        ),
        ("e.csv", "x,y\ny,é\n".encode("latin-1"), "e.csv: not UTF-8 text; save the file as UTF-8"),
        ("e.csv", "x,y\n".encode("utf-16"), "e.csv: line 1: not UTF-8 text; save the file as UTF-8"),
        ("e.csv.gz", "x,y\n", "e.csv.gz: not a whole gzip file; compress it anew, or give it uncompressed"),
        ("e.xlsx", "x", "e.xlsx: cannot read .xlsx as a table; give .csv, .tsv, .txt, .parquet"),
        ("e", "x", "e: cannot read a file without suffix as a table; give .csv, .tsv, .txt, .parquet"),
        ("e.csv", "x,y\ny,w\n", "f.csv: no row for 1 node of e.csv (w); give every node a row, or drop its edges"),
        (
            "e.csv",
            "y,x\na,b\nc,d\n",
            "f.csv: no row for 4 nodes of e.csv (a, b, c, ...); give every node a row, or drop its edges",
        ),
        (
            "e.csv",
            "paper,cites\nx,y\n",
            "f.csv: no row for 2 nodes of e.csv (paper, cites); "
            "if line 1 is a header, call its columns source and target",
        ),
        ("e.csv", "x,x\n", "e.csv: no edges between different nodes; a graph needs at least one"),
        (
            "e.parquet",
            pd.DataFrame({"u": ["x", None], "v": ["y", "z"]}),
            "e.parquet: row 1 (counted from 0): the source id is missing; fill it or drop the row",
        ),
        (
            "e.parquet",
            pd.DataFrame({"u": [], "v": []}),
            "e.parquet: the table is empty; give one row per node or edge",
        ),
    ],
)
def test_edges_mistaken(name, content, message, files):
    assert fails(files(edges=(name, content), features=("f.csv", FEATURES))) == message


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "f.csv",
            "id,a,city\nx,1,Rome\ny,3,Oslo\nz,5,Rome\n",
            "f.csv: column 'city' is not numeric ('Rome' in line 2); "
            "encode it as numbers (one column per value) or drop it",
        ),
        (
            "f.csv",
            "x,1,2\ny,3,oops\nz,5,6\n",
            "f.csv: column 3 is not numeric ('oops' in line 2); encode it as numbers (one column per value) or drop it",
        ),
        (
            "f.csv",
            "id,a,b\nx,1,2\ny,NaN,\nz,5,inf\n",
            "f.csv: 3 missing, NaN or infinite feature values, the first in line 3, column 'a'; fill or drop them",
        ),
        (
            "f.csv",
            "id,a\nx,1\ny,1e39\nz,2\n",
            "f.csv: 1 missing, NaN or infinite feature value, the first in line 3, column 'a'; fill or drop them",
        ),
        (
            "f.csv",
            "id,a\nx,1\ny,2\nx,3\nz,4\n",
            "f.csv: id x stands in line 2 and line 4 (1 repeated row); keep one row per node",
        ),
        ("f.csv", "id,a\nx,1\n,2\n", "f.csv: line 3: the id is missing; fill it or drop the row"),
        ("f.csv", "id\nx\ny\nz\n", "f.csv: no column of features beside the ids; add at least one"),
        ("f.csv", "1,2\n3,4\n", "f.csv: 2 rows for 3 distinct nodes in e.csv; give the ids of the rows with --nodes"),
        (
            "f.npy",
            np.ones((4, 2)),
            "f.npy: 4 rows for 3 distinct nodes in e.csv; give the ids of the rows with --nodes",
        ),
        ("f.npy", np.ones(3), "f.npy: features have shape (3,); they must be nodes × columns"),
        ("f.npy", np.array([["a"]] * 3), "f.npy: features of type <U1; give numbers"),
        ("f.npy", "junk", "f.npy: holds Python objects or is no NumPy file; save a plain array with np.save(path, x)"),
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
        ("f.npz", "junk", "f.npz: holds Python objects or is no NumPy file; save a plain array with np.save(path, x)"),
        (
            "f.json",
            "{}",
            "f.json: cannot read features from .json; give .npy, .npz, .csv, .tsv, .txt, .parquet",
        ),
        (
            "f.parquet",
            pd.DataFrame({"id": ["x", "y", "z"], "when": pd.to_datetime(["2001-01-01"] * 3)}),
            "f.parquet: column 'when' is not numeric ('2001-01-01 00:00:00' in row 0 (counted from 0)); "
            "encode it as numbers (one column per value) or drop it",
        ),
    ],
)
def test_features_mistaken(name, content, message, files):
    assert fails(files(edges=("e.csv", EDGES), features=(name, content))) == message


def test_pickled_arrays_are_refused(files):
    arguments = files(edges=("e.csv", EDGES), features=("f.npy", ""))
    np.save("f.npy", np.array([{}, 1], dtype=object), allow_pickle=True)
    assert fails(arguments).startswith("f.npy: holds Python objects or is no NumPy file; ")
    np.savez("f.npz", a=np.ones((3, 1)), b=np.ones(1))
    assert fails(arguments | {"features": "f.npz"}) == (
        "f.npz: holds a, b; give one dense array, or one from scipy.sparse.save_npz"
    )


def test_sparse_file_with_indices_out_of_range_is_refused(files):
    arguments = files(edges=("e.csv", EDGES), features=("f.npz", scipy.sparse.csr_array(np.eye(3))))
    parts = dict(np.load("f.npz"))
    np.savez("f.npz", **(parts | {"indices": parts["indices"] + 1000}))
    assert fails(arguments).startswith("f.npz: ")


def test_negative_ids_need_nodes(files):
    assert fails(files(edges=("e.csv", "0,1\n1,-1\n"), features=("x.npy", np.eye(3)))) == (
        "e.csv: line 2: node -1 is negative, and the rows of x.npy are numbered from 0; "
        "give the ids of the rows with --nodes"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x\ny\n", "n.txt: 2 ids for 3 rows of x.npy; give one per row"),
        ("x\ny\ny\n", "n.txt: id y stands in line 2 and line 3 (1 repeated row); keep one row per node"),
        ("x\ny\nw\n", "n.txt: no row for 1 node of e.csv (z); give every node a row, or drop its edges"),
    ],
)
def test_nodes_mistaken(content, message, files):
    arguments = files(edges=("e.csv", EDGES), features=("x.npy", np.array(X)), nodes=("n.txt", content))
    assert fails(arguments) == message


def test_nodes_beside_a_table_with_ids(files):
    arguments = files(edges=("e.csv", EDGES), features=("f.csv", FEATURES), nodes=("n.txt", "x\ny\nz\n"))
    assert fails(arguments) == (
        "n.txt: f.csv names its nodes itself; leave out --nodes, or take the ids out of the features"
    )


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
            "who,what\nx,a\ny,b\n",
            "l.csv: line 1: 1 id not in the graph (who); if line 1 is a header, call its columns id and label",
        ),
        (
            "l.csv",
            "id,label\nx,a\nx,b\n",
            "l.csv: id x stands in line 2 and line 3 (1 repeated row); keep one row per node",
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
def test_labels_mistaken(name, content, message, files):
    arguments = files(edges=("e.csv", EDGES), features=("f.csv", FEATURES), labels=(name, content))
    assert fails(arguments) == message


def test_arguments_mistaken(files, tmp_path):
    names = files(edges=("e.csv", EDGES), features=("f.csv", FEATURES))
    assert fails({}) == "no graph given; give a .npz or .pt file, or --edges and --features"
    assert fails({"need_features": False}) == "no graph given; give a .npz or .pt file, or --edges"
    assert fails({"edges": "e.csv"}) == ("e.csv: no node features; give a table with one row per node (--features)")
    assert fails({"path": "g.npz", **names}) == ("g.npz: a graph file stands alone; leave out --edges, --features")
    assert fails({"path": "g.npz"}) == "g.npz: no such file; check the name"
    assert fails(names | {"edges": "nowhere/e.csv"}) == "nowhere/e.csv: no such file; check the name"
    assert fails({"path": tmp_path}) == f"{tmp_path}: is a folder; give a file"
    assert fails({"path": "e.csv"}) == ("e.csv: a table is no whole graph; give it as --edges, with --features")
    assert fails({"path": "e.csv", "need_features": False}) == "e.csv: a table is no whole graph; give it as --edges"
    (tmp_path / "g.json").write_text("{}")
    assert fails({"path": "g.json"}) == "g.json: cannot read .json; give .npz or .pt, or --edges"


def test_broken_parquet(files):
    message = fails(files(edges=("e.parquet", "junk"), features=("f.csv", FEATURES)))
    assert message.startswith("e.parquet: not a readable Parquet file (")


def test_missing_pyarrow_names_the_extra(files, monkeypatch):
    names = files(edges=("e.parquet", pd.DataFrame({"u": ["x"], "v": ["y"]})), features=("f.csv", FEATURES))
    monkeypatch.setattr(tables.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"^reading Parquet needs pyarrow: pip install 'epagcl\[parquet\]'$"):
        read_graph(**names)


# ---- Whole ways


@pytest.mark.parametrize("ids", [["x", "é", "10"], [30, 10, 20]])
def test_ids_and_names_survive_a_file_of_the_project(ids, files):
    table = "id,a\n" + "".join(f"{node},{k}\n" for k, node in enumerate(ids))
    labels = f"id,label\n{ids[2]},cs\n{ids[0]},bio\n"
    edges = f"{ids[0]},{ids[1]}\n{ids[1]},{ids[2]}\n"
    data = read_graph(**files(edges=("e.csv", edges), features=("f.csv", table), labels=("l.csv", labels)))
    write_npz(data, "g.npz")
    again = read_graph("g.npz")
    assert again.node_ids.dtype == data.node_ids.dtype
    assert again.node_ids.tolist() == ids
    assert again.label_names == ["bio", "cs"]
    assert rows(again) == rows(data)


def test_ids_survive_clone_to_and_check(files):
    data = read_graph(**files(edges=("e.csv", EDGES), features=("f.csv", FEATURES)))
    assert data.clone().to("cpu").node_ids.tolist() == ["x", "y", "z"]


def embedding(data: Data) -> torch.Tensor:
    """A stand-in for a model that does not depend on the order of nodes: own and neighbours' features."""
    row, col = data.edge_index
    return data.x + torch.zeros_like(data.x).index_add_(0, row, data.x[col])


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npy"])
def test_permuted_files_give_the_same_rows_by_id(suffix, files):
    rng = np.random.default_rng(0)
    ids = np.array([f"node-{k}" for k in rng.permutation(60)])
    ends, x = rng.integers(0, 60, (200, 2)), rng.integers(0, 100, (60, 3))
    written = []
    for order in (np.arange(60), rng.permutation(60)):
        table = "id,a,b,c\n" + "".join(f"{ids[k]},{','.join(map(str, x[k]))}\n" for k in order)
        edges = "".join(f"{ids[i]},{ids[j]}\n" for i, j in rng.permutation(ends))
        data = read_graph(**files(edges=("e.csv", edges), features=("f.csv", table)))
        assert data.node_ids.tolist() == ids[order].tolist()
        written.append([str(path) for path in write_embeddings(embedding(data), data.node_ids, f"z{suffix}")])
        # What was written is read again as features, and carries the ids with it.
        features, *nodes = written[-1]
        again = read_graph(edges="e.csv", features=features, nodes=nodes[0] if nodes else None)
        written[-1] = rows(again)
    assert written[0] == written[1]
    assert len(written[0]) == 60


def test_ten_thousand_text_ids_are_read_in_no_time(files):
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 10_000, (50_000, 2))
    edges = "".join(f"user-{i},user-{j}\n" for i, j in ends.tolist())
    table = "id,a,b\n" + "".join(f"user-{k},{k},{-k}\n" for k in range(10_000))
    names = files(edges=("e.csv", edges), features=("f.csv", table))
    start = time.process_time()  # of this process: other load on the machine does not count
    data = read_graph(**names)
    assert time.process_time() - start < 2
    assert data.num_nodes == 10_000
    assert data.x[:3].tolist() == [[0, 0], [1, -1], [2, -2]]
    assert data.edge_index.shape[1] == 2 * len({frozenset(pair) for pair in ends.tolist() if pair[0] != pair[1]})
