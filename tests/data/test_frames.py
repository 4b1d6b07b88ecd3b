"""Tables, arrays and lists in memory: the same graph as from the files that hold the same."""

import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch

from epagcl import EPAGCL
from epagcl.data import check, from_tables, read_graph
from epagcl.errors import InputError, MissingExtra

X = [[1, 2], [3, 4], [5, 6]]
ENDS = pd.DataFrame({"source": ["x", "y"], "target": ["y", "z"]})
TABLE = pd.DataFrame({"id": ["x", "y", "z"], "a": [1, 3, 5], "b": [2, 4, 6]})
#: Not symmetric, so that rows and columns cannot be mixed up: 0–1, 0–2, 0–3, 4–1.
NUMBERED = np.array([[0, 1], [0, 2], [0, 3], [4, 1]])
NUMBERED_PAIRS = {(0, 1), (0, 2), (0, 3), (1, 4)}


def pairs(data) -> set[tuple]:
    return {tuple(pair) for pair in data.node_ids[data.edge_index.numpy()].T.tolist() if list(pair) == sorted(pair)}


def rows(data) -> dict:
    return dict(zip(data.node_ids.tolist(), data.x.to_dense().tolist(), strict=True))


def said(caplog) -> list[str]:
    return [text for record in caplog.records if "in both directions" not in (text := record.getMessage())]


def fails(*arguments, **options) -> str:
    with pytest.raises(InputError) as error:
        from_tables(*arguments, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


# ---- Edges


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
def test_edges_of_every_kind(edges):
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
    assert said(caplog) == []
    assert pairs(from_tables(np.array(nested), x)) == by_pairs
    assert pairs(from_tables(torch.tensor(nested), x)) == by_columns
    assert [text.split(":")[1].split(",")[1].strip() for text in said(caplog)] == [
        "read as an array [E",
        "read as a tensor [2",
    ]


def test_ids_of_any_kind():
    data = from_tables([("a", (0, 1)), ((0, 1), 7)], {}.get("none"), labels=["p", "q", "p"])
    assert data.node_ids.tolist() == ["a", "(0, 1)", "7"]
    assert from_tables([("1", "2"), ("2", "30")], None).node_ids.tolist() == [1, 2, 30]


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        ("e.csv", "edges: a str; give a table"),
        (None, "edges: a NoneType; give a table"),
        (["ab", "cd"], "edges: edge 0 (counted from 0) is 'ab'; give pairs of ids"),
        ([(0, 1), (0, 1, 2)], "edges: edge 1 (counted from 0) is (0, 1, 2); give pairs of ids"),
        ([(0, 1), (0, None)], "edges: edge 1 (counted from 0) is (0, None); give pairs of ids"),
        (scipy.sparse.eye_array(3), "edges: a SciPy matrix; give it to epagcl.from_scipy, or give pairs"),
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
def test_edges_mistaken(edges, words):
    assert fails(edges, TABLE).startswith(words)


# ---- Features, labels and nodes


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
def test_a_table_names_its_nodes(features):
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
def test_an_array_has_its_rows_named_by_nodes(features):
    for nodes in (
        ["z", "x", "y"],
        np.array(["z", "x", "y"]),
        pd.Series(["z", "x", "y"], index=[5, 6, 7]),
        TABLE.iloc[[2, 0, 1]],
    ):
        data = from_tables(ENDS, features, nodes=nodes)
        assert rows(data) == dict(zip("zxy", X, strict=True))
        assert "feature_names" not in data


def test_an_index_without_meaning_is_no_feature(caplog):
    shuffled = TABLE.drop(columns="id").set_index(pd.Index([14, 12, 19]))
    data = from_tables(ENDS, shuffled)
    assert rows(data) == dict(zip("xyz", X, strict=True))
    assert said(caplog)[0] == "features: ignored the index, which does not hold the ids of the edges"
    assert said(caplog)[1].endswith("(row 0 = x, row 1 = y, row 2 = z); say otherwise with nodes=")


def test_a_sorted_table_keeps_its_ids():
    table = pd.DataFrame({"a": [30, 10, 20]}).sort_values("a")
    assert rows(from_tables([(0, 1), (1, 2)], table)) == {1: [10], 2: [20], 0: [30]}


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
def test_labels_of_every_kind(labels):
    data = from_tables(ENDS, TABLE, labels)
    assert data.y.tolist() == [0, -1, 1]
    assert data.label_names == ["blue", "red"]


def test_labels_by_number():
    assert from_tables(ENDS, TABLE, torch.tensor([1, 0, 1])).y.tolist() == [1, 0, 1]
    assert fails(ENDS, TABLE, [1, 0]) == "labels: 2 labels for 3 nodes; give one per node"
    assert "labels: row 1 (counted from 0): 1 id not in the graph (w)" in fails(
        ENDS, TABLE, pd.Series([0, 1], index=["x", "w"])
    )


@pytest.mark.parametrize(
    ("features", "options", "words"),
    [
        (np.eye(2), {}, "features: 2 rows for 3 distinct nodes in edges; give the ids of the rows with nodes="),
        (np.eye(2), {"nodes": ["x", "y", "z"]}, "nodes: 3 ids for 2 rows of features; give one per row"),
        (TABLE, {"nodes": ["x", "y", "z"]}, "nodes: features names its nodes itself; leave out nodes=, "),
        (np.eye(3), {"nodes": ["x", "y", "y"]}, "nodes: id y stands in row 1 (counted from 0) and row 2"),
        (TABLE[:2], {}, "features: no row for 1 node of edges (z); give every node a row, or drop its edges"),
        (TABLE.assign(b=["1", "2", "tall"]), {}, "features: column 'b' is not numeric ('tall' in row 2 (counted"),
        (TABLE.assign(b=[1, None, 2]), {}, "features: 1 missing, NaN or infinite feature value, the first in row 1"),
        ([[1, 2], [3]], {}, "features: rows of different lengths; make them equal"),
        ({"a": [1, 2, 3]}, {}, "features: features of type object; give numbers"),
    ],
)
def test_mistakes(features, options, words):
    assert fails(ENDS, features, **options).startswith(words)


# ---- polars


def test_polars_tables():
    polars = pytest.importorskip("polars")
    edges, features = polars.from_pandas(ENDS), polars.from_pandas(TABLE)
    data = from_tables(edges, features, polars.Series(["p", "q", "p"]))
    assert rows(data) == dict(zip("xyz", X, strict=True))
    assert (data.feature_names, data.y.tolist()) == (["a", "b"], [0, 1, 0])
    lazy = from_tables(
        edges.lazy(), np.array(X), edges.select(id="source", label="target"), polars.Series(["z", "x", "y"])
    )
    assert rows(lazy) == dict(zip("zxy", X, strict=True))
    assert [None if y < 0 else lazy.label_names[y] for y in lazy.y] == [None, "y", "z"]


def test_polars_without_pyarrow_names_the_extra(monkeypatch):
    polars = pytest.importorskip("polars")

    def to_pandas(self):
        raise ModuleNotFoundError("pyarrow is required")

    monkeypatch.setattr(polars.DataFrame, "to_pandas", to_pandas)
    with pytest.raises(MissingExtra, match=r"reading polars tables needs pyarrow: pip install 'epagcl\[polars\]'"):
        from_tables(polars.from_pandas(ENDS), TABLE)


def test_polars_is_not_needed_for_other_tables(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)  # an import of it would fail
    assert rows(from_tables(ENDS, TABLE)) == dict(zip("xyz", X, strict=True))


# ---- The same as files, and names of features


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("index", [False, True])
def test_the_same_graph_as_from_files(kind, index, tmp_path):
    rng = np.random.default_rng(0)
    ids = [f"n{k}" for k in rng.permutation(40)]
    edges = pd.DataFrame(rng.choice(ids, (90, 2)), columns=["from", "to"]).query("`from` != to").reset_index(drop=True)
    features = pd.DataFrame(rng.integers(0, 9, (40, 3)), columns=["a", "b", "c"])
    features = features.set_index(pd.Index(ids)) if index else features.assign(id=ids)
    labels = pd.DataFrame({"id": ids[:30], "label": rng.choice(["u", "v"], 30)})
    paths = {name: tmp_path / f"{name}.{kind}" for name in ("edges", "features", "labels")}
    for (name, path), table in zip(paths.items(), (edges, features, labels), strict=True):
        keep = index and name == "features"
        table.to_csv(path, index=keep) if kind == "csv" else table.to_parquet(path, index=keep)
    expected, data = read_graph(**paths), from_tables(edges, features, labels)
    assert data.node_ids.tolist() == expected.node_ids.tolist()
    assert torch.equal(data.edge_index, expected.edge_index)
    assert torch.equal(data.x, expected.x)
    assert torch.equal(data.y, expected.y)
    assert data.label_names == expected.label_names
    assert data.feature_names == expected.feature_names == ["a", "b", "c"]


def test_a_header_names_the_features_of_a_file(tmp_path):
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


def test_names_of_features_go_where_the_graph_goes(tmp_path):
    # As many names as nodes, and as many as edges given: they are neither.
    for size in (4, 3, 6):
        names = [f"f{k}" for k in range(size)]
        table = pd.DataFrame(np.ones((4, size)), columns=names)
        data = from_tables([(0, 1), (1, 2), (2, 3)], table)
        torch.save(data, tmp_path / "g.pt")
        again = [check(data), data.clone(), data.to("cpu"), torch.load(tmp_path / "g.pt", weights_only=False)]
        assert all(graph.feature_names == names for graph in again)
        torch.save(data.to_dict() | {"node_ids": None}, tmp_path / "d.pt")
        assert read_graph(tmp_path / "d.pt").feature_names == names
    model = EPAGCL(epochs=1, hidden=4, dim=2, projection=2, features="row-sum", device="cpu")
    assert model.fit_embed(data).shape == (4, 2)
