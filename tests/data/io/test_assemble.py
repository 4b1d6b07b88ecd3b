"""Whole graphs from parts: the same by every route, with and without features."""

import time

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

from epagcl import EPAGCL
from epagcl.data import check, from_tables, read_graph
from epagcl.data.io.npz import write_npz
from epagcl.data.io.readers import read_files
from epagcl.data.io.roles import Roles
from epagcl.runs.export import write_embeddings
from tests.data.io.helpers import EDGES, FEATURES, X, logged, pairs, read_error, rows


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


def test_optional_features_are_read(files):
    data = read_graph(**files(edges=("e.csv", EDGES), features=("f.csv", FEATURES)), need_features=False)
    assert data.x.tolist() == X


def test_labelled_nodes_without_edges_are_reported(files, caplog):
    names = files(edges=("e.csv", EDGES), labels=("l.csv", "id,label\nx,0\np,1\nq,1\n"))
    read_graph(**names, need_features=False)
    assert logged(caplog) == ["l.csv: 2 nodes without edges (p, q) added to the nodes of e.csv"]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            {"labels": ("l.csv", "id,label\np,0\nq,1\n")},
            "l.csv: line 2: 2 ids not in the graph (p, q); use the ids of e.csv",
        ),
        (
            {"labels": ("l.csv", "who,what\nx,a\ny,b\np,a\n")},
            "l.csv: line 1: 2 ids not in the graph (who, p); if line 1 is a header, call its columns id and label",
        ),
        (
            {"labels": ("l.txt", "0\n1\n")},
            "l.txt: 2 rows for 3 distinct nodes in e.csv; give the ids of the rows with nodes=",
        ),
        (
            {"labels": ("l.txt", "0\n1\n2\n"), "nodes": ("n.txt", "x\nw\n")},
            "l.txt: 3 labels for 4 nodes; give one per node",
        ),
    ],
)
def test_errors_without_features(parts, message, files):
    assert read_error(files(edges=("e.csv", EDGES), **parts) | {"need_features": False}) == message


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("index", [False, True])
def test_files_and_memory_give_the_same_graph(kind, index, tmp_path):
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


@pytest.mark.parametrize("ids", [["x", "é", "10"], [30, 10, 20]])
def test_ids_and_names_survive_an_npz_file(ids, files):
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


def test_ids_survive_clone_and_to(files):
    data = read_graph(**files(edges=("e.csv", EDGES), features=("f.csv", FEATURES)))
    assert data.clone().to("cpu").node_ids.tolist() == ["x", "y", "z"]


def test_feature_names_survive_copies_and_files(tmp_path):
    # The number of names equals that of nodes, then that of edges; they must not be taken for attributes of either.
    for size in (4, 3, 6):
        names = [f"f{k}" for k in range(size)]
        table = pd.DataFrame(np.ones((4, size)), columns=names)
        data = from_tables([(0, 1), (1, 2), (2, 3)], table)
        torch.save(data, tmp_path / "g.pt")
        again = [check(data), data.clone(), data.to("cpu"), torch.load(tmp_path / "g.pt", weights_only=False)]
        assert all(graph.feature_names == names for graph in again)
        torch.save(data.to_dict() | {"node_ids": None}, tmp_path / "d.pt")
        assert read_graph(tmp_path / "d.pt").feature_names == names
    model = EPAGCL(epochs=1, hidden=4, dim=2, projection=2, feature_scaling="row-sum", device="cpu")
    assert model.fit_embed(data).shape == (4, 2)


def embedding(data: Data) -> torch.Tensor:
    """Return a node's own plus its neighbours' features, as a model that does not depend on the order of nodes."""
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
        # The written file can be read as features; it contains the ids.
        features, *nodes = written[-1]
        again = read_graph(edges="e.csv", features=features, nodes=nodes[0] if nodes else None)
        written[-1] = rows(again)
    assert written[0] == written[1]
    assert len(written[0]) == 60


def test_ten_thousand_text_ids_take_less_than_two_seconds(files):
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 10_000, (50_000, 2))
    edges = "".join(f"user-{i},user-{j}\n" for i, j in ends.tolist())
    table = "id,a,b\n" + "".join(f"user-{k},{k},{-k}\n" for k in range(10_000))
    names = files(edges=("e.csv", edges), features=("f.csv", table))
    start = time.process_time()  # CPU time of this process, independent of other load
    data = read_graph(**names)
    assert time.process_time() - start < 2
    assert data.num_nodes == 10_000
    assert data.x[:3].tolist() == [[0, 0], [1, -1], [2, -2]]
    assert data.edge_index.shape[1] == 2 * len({frozenset(pair) for pair in ends.tolist() if pair[0] != pair[1]})


def test_a_graph_of_self_loops_is_refused(files):
    assert read_error(files(edges=("e.csv", "x,x\n"), features=("f.csv", FEATURES))) == (
        "e.csv: no edges between different nodes; a graph needs at least one"
    )


def test_the_caller_chooses_how_messages_write_arguments(files, caplog):
    names = files(edges=("e.csv", EDGES), features=("x.npy", np.array(X)))
    read_files(None, names, roles=Roles(argument="--{}"))
    assert logged(caplog)[0].endswith("; if this is wrong, give the ids with --nodes")
    read_graph(**names)
    assert logged(caplog)[1].endswith("; if this is wrong, give the ids with nodes=")
