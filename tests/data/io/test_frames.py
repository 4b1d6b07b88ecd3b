"""Tables, arrays and lists in memory: the same graph as from the files that hold the same."""

import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch

from epagcl import EPAGCL
from epagcl.core.errors import InputError, MissingExtra
from epagcl.data import check, from_tables, read_graph

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
        (torch.eye(3).to_sparse(), "edges: a sparse tensor; give it to epagcl.from_scipy, or give pairs"),
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


# ---- What the index of pandas means


NODES = pd.DataFrame({"a": [10, 20, 30, 40]})
CHAIN = [(0, 1), (1, 2), (2, 3)]
ORDER = [2, 0, 3, 1]


def labelled(data) -> dict:
    return dict(zip(data.node_ids.tolist(), data.y.tolist(), strict=True))


@pytest.mark.parametrize("labels", [pd.Series([0, 1, 2, 3]), pd.DataFrame({"label": [0, 1, 2, 3]})])
def test_labels_in_another_order_than_shuffled_features_go_by_their_index(labels, caplog):
    assert labelled(from_tables(CHAIN, NODES.iloc[ORDER], labels)) == {0: 0, 1: 1, 2: 2, 3: 3}
    assert said(caplog) == []
    some = from_tables([(2, 0)], NODES.iloc[[2, 0]], labels.replace({2: 1}))
    assert labelled(some) == {2: 1, 0: 0}
    by_column = from_tables(CHAIN, NODES.iloc[ORDER].reset_index(), labels)
    assert labelled(by_column) == {0: 0, 1: 1, 2: 2, 3: 3}
    assert said(caplog)[-1] == (
        "labels: given to the ids of features by their index; give them as an array if they are in its order"
    )


def test_labels_without_an_index_are_in_the_order_of_the_rows(caplog):
    polars = pytest.importorskip("polars")
    for labels in ([0, 1, 2, 3], np.arange(4), torch.arange(4), polars.Series([0, 1, 2, 3])):
        assert labelled(from_tables(CHAIN, NODES.iloc[ORDER], labels)) == {2: 0, 0: 1, 3: 2, 1: 3}
    named = from_tables(CHAIN, NODES, pd.Series([0, 1, 2, 3]), nodes=ORDER)  # which names the rows of both
    assert labelled(named) == {2: 0, 0: 1, 3: 2, 1: 3}
    assert said(caplog) == []


def test_labels_whose_index_is_of_another_kind_are_refused():
    words = "labels: their index is 0, 1, ..., that of features is not; make the ids their index, or give them as an "
    assert fails(ENDS, TABLE.set_index("id"), pd.Series([0, 1, 1])).startswith(words)
    assert from_tables(ENDS, TABLE, pd.Series([0, 1, 1])).y.tolist() == [0, 1, 1]  # both count the same rows
    assert fails(CHAIN, NODES.reset_index(), pd.Series(range(5))) == "labels: 5 labels for 4 nodes; give one per node"


def test_numbers_are_ids_by_name_only(tmp_path, caplog):
    table = pd.DataFrame({"year": [2, 0, 3, 1], "a": [1, 2, 3, 4]})
    data = from_tables(CHAIN, table)
    assert (data.node_ids.tolist(), data.feature_names) == ([0, 1, 2, 3], ["year", "a"])
    assert from_tables(CHAIN, table.astype(object)).feature_names == ["year", "a"]
    assert from_tables(CHAIN, table.rename(columns={"year": "node"})).node_ids.tolist() == [2, 0, 3, 1]
    assert said(caplog) == []
    assert from_tables(CHAIN, table.astype({"year": str})).node_ids.tolist() == [2, 0, 3, 1]
    (tmp_path / "e.csv").write_text("0,1\n1,2\n2,3\n")
    table.to_csv(tmp_path / "f.csv", index=False)
    assert read_graph(edges=tmp_path / "e.csv", features=tmp_path / "f.csv").node_ids.tolist() == [2, 0, 3, 1]
    warning = "the first column is read as ids; name it id, or another column, to say so"
    assert said(caplog) == [f"features: {warning}", f"f.csv: {warning}"]


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_an_index_that_was_written_and_read_is_no_feature(name):
    data = from_tables(CHAIN, pd.DataFrame({name: [2, 0, 3, 1], "a": [1, 2, 3, 4]}))
    assert (data.node_ids.tolist(), data.feature_names) == ([2, 0, 3, 1], ["a"])


def test_beside_nodes_no_column_is_guessed_to_hold_ids():
    table = pd.DataFrame({"year": [2, 0, 3, 1], "a": [1, 2, 3, 4]})
    data = from_tables(CHAIN, table, nodes=[3, 2, 1, 0])
    assert rows(data) == {3: [2, 1], 2: [0, 2], 1: [3, 3], 0: [1, 4]}
    assert "column 'year' is not numeric" in fails(CHAIN, table.assign(year=list("xyzw")), nodes=[3, 2, 1, 0])


def test_an_index_is_no_end_of_an_edge(caplog):
    edges = pd.DataFrame({"p": [0, 0, 0, 4], "q": [1, 2, 3, 1]}, index=pd.Index([9, 8, 7, 6], name="row"))
    for table in (edges, edges.set_index(pd.MultiIndex.from_product([[1, 2], [3, 4]]))):
        assert pairs(from_tables(table, np.eye(5))) == NUMBERED_PAIRS
    named = edges.set_axis(["source", "target"], axis=1).rename_axis("source")
    assert pairs(from_tables(named, np.eye(5))) == NUMBERED_PAIRS
    assert said(caplog) == []
    assert fails(edges[["p"]], np.eye(5)).startswith("edges: one column (the index is none: reset_index()); an edge")


def test_an_index_with_the_ids_of_the_edges_wins_over_a_column_that_may_be_another():
    for name in ("name", "node", "index"):
        table = TABLE.set_index("id").rename_axis("paper").assign(**{name: [7, 8, 9]})
        data = from_tables(ENDS, table)
        assert data.node_ids.tolist() == ["x", "y", "z"]
        assert data.feature_names == ["a", "b", name]
        other = TABLE.rename(columns={"id": name}).set_index(pd.Index(["p", "q", "r"], name="paper"))
        assert from_tables(ENDS, other).node_ids.tolist() == ["x", "y", "z"]


def test_what_is_left_of_a_count_of_rows_is_no_id_of_a_label():
    papers = pd.DataFrame({"paper": [1, 2, 3, 4], "topic": [0, 1, 0, 1]})
    ends = [(1, 2), (2, 3), (3, 4)]
    features = pd.DataFrame({"a": [1, 2, 3, 4]}, index=[1, 2, 3, 4])
    assert labelled(from_tables(ends, features, papers.iloc[1:])) == {1: -1, 2: 1, 3: 0, 4: 1}
    by_index = papers.set_index("paper").rename_axis(None).assign(year=2001)
    assert labelled(from_tables(ends, features, by_index.iloc[1:])) == {1: -1, 2: 1, 3: 0, 4: 1}
    text = pd.DataFrame({"paper": ["x", "y", "z"], "topic": [0, 1, 0]}).iloc[1:]
    assert labelled(from_tables(ENDS, TABLE, text)) == {"x": -1, "y": 1, "z": 0}


def test_an_index_of_levels_is_refused():
    levels = pd.MultiIndex.from_arrays([["x", "y", "z"], [1, 2, 3]])
    words = ": an index of 2 levels; reset_index() first, and name one column id"
    assert fails(ENDS, TABLE.set_index(levels)) == "features" + words
    assert fails(ENDS, TABLE, pd.Series([0, 1, 0], index=levels)) == "labels" + words


# ---- Kinds of ids, nodes, labels and numbers


def test_ids_beyond_int64_are_text():
    big = 2**63 + 5
    edges = np.array([[1, big], [big, 2]], dtype=np.uint64)
    features = pd.DataFrame({"id": np.array([big, 1, 2], dtype=np.uint64), "a": [1, 2, 3]})
    for ends in (edges, tuple(edges.T), pd.DataFrame(edges), edges.tolist()):
        data = from_tables(ends, features)
        assert rows(data) == {str(big): [1], "1": [2], "2": [3]}
    named = from_tables(pd.DataFrame(edges), np.eye(3), nodes=np.array([big, 1, 2], dtype=np.uint64))
    assert named.node_ids.tolist() == [str(big), "1", "2"]
    assert from_tables(np.array([[1, 2], [2, 3], [3, 0]], dtype=np.uint64), np.eye(4)).node_ids.dtype == np.int64


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
def test_nodes_of_every_kind(nodes):
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
            "encode it as numbers (one column per value) or drop it",
        ),
    ],
)
def test_wrong_kinds(options, message):
    assert fails(ENDS, **{"features": np.eye(3)} | options) == message


def test_tensors_with_a_gradient():
    x = torch.eye(3, requires_grad=True)
    data = from_tables(ENDS, x, torch.tensor([0.0, 1.0, 0.0], requires_grad=True))
    assert data.y.tolist() == [0, 1, 0]
    assert not data.x.requires_grad
    assert from_tables(ENDS, x, {"x": 0, "y": 1, "z": 0}.values()).y.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([Decimal("1"), Decimal("3"), Decimal("5")]),
        pd.Series([1, 3.0, np.float32(5)], dtype=object),
        pd.Series([1, 3, 5], dtype="category"),
        pd.Series(["1", "3.0", " 5 "]),
        pd.Series(["1", "3", "5"], dtype="category"),
    ],
)
def test_numbers_of_every_kind(column):
    assert rows(from_tables(ENDS, TABLE.assign(a=column))) == dict(zip("xyz", X, strict=True))
    assert from_tables(ENDS, TABLE.assign(a=[1, 2**70, 2])).x[1, 0].item() == 2**70


def test_decimals_and_missing_values_of_polars():
    polars = pytest.importorskip("polars")
    table = polars.DataFrame({"id": ["x", "y", "z"], "a": [Decimal("1.5"), Decimal("2"), Decimal("3")]})
    assert from_tables(ENDS, table).x[:, 0].tolist() == [1.5, 2, 3]
    missing = "features: 1 missing, NaN or infinite feature value, the first in row 1 (counted from 0), column 'a'"
    for column in (polars.Series([True, None, False]), polars.Series([Decimal("1"), None, Decimal("2")])):
        assert fails(ENDS, table.with_columns(a=column)).startswith(missing)
    assert fails(ENDS, TABLE.assign(a=[True, None, False])).startswith(missing)
    dates = TABLE.assign(a=pd.Series(pd.to_datetime(["2001-01-01"] * 3)).astype(object))
    assert fails(ENDS, dates).startswith("features: column 'a' is not numeric ('2001-01-01 00:00:00' in row 0")
