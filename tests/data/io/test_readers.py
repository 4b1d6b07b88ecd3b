"""Files: formats, arguments, and one line for every mistake."""

import pickle

import numpy as np
import pytest
import scipy.sparse
import torch
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.data import OnDiskGraph, check, read_graph
from epagcl.data.io import readers
from epagcl.data.io.npz import write_npz
from epagcl.data.io.readers import read_files
from epagcl.data.io.roles import OPTION, Roles
from tests.data.io.helpers import EDGES, FEATURES, X, read_error


@pytest.mark.parametrize("dense", [True, False])
def test_npz_features(dense, files):
    files(e=("e.csv", "0,1\n1,2\n"), s=("s.npz", scipy.sparse.csr_array([[0, 1.5], [0, 0], [2, 0]])))
    if dense:
        np.savez("s.npz", anything=np.array([[0, 1.5], [0, 0], [2, 0]]))
    x = read_graph(edges="e.csv", features="s.npz").x
    assert x.layout == (torch.strided if dense else torch.sparse_csr)
    assert x.dtype == torch.float32
    assert x.to_dense().tolist() == [[0, 1.5], [0, 0], [2, 0]]


def path_graph() -> Data:
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    return Data(x=torch.tensor(X).float(), edge_index=edge_index, y=torch.tensor([0, 1, 0]))


def test_whole_files_without_features(tmp_path):
    data = path_graph()
    del data.x
    write_npz(data, tmp_path / "g.npz")
    torch.save(data.to_dict(), tmp_path / "g.pt")
    for name in ("g.npz", "g.pt"):
        with pytest.raises(InputError, match=rf"^{name}: no node features; add x"):
            read_graph(tmp_path / name)
        again = read_graph(tmp_path / name, need_features=False)
        assert "x" not in again
        assert again.num_nodes == 3
        assert again.y.tolist() == [0, 1, 0]
    torch.save({"edge_index": data.edge_index}, tmp_path / "g.pt")
    assert read_graph(tmp_path / "g.pt", need_features=False).num_nodes == 3


def test_npz_of_the_project(tmp_path):
    write_npz(path_graph(), tmp_path / "g.npz")
    data = read_graph(tmp_path / "g.npz")
    assert data.x.to_dense().tolist() == X
    assert data.edge_index.tolist() == path_graph().edge_index.tolist()
    assert data.y.tolist() == [0, 1, 0]


@pytest.mark.parametrize("as_dict", [True, False])
def test_pt(as_dict, tmp_path):
    data = path_graph()
    data.train_mask = torch.tensor([True, False, True])
    torch.save(data.to_dict() if as_dict else data, tmp_path / "g.pt")
    loaded = read_graph(tmp_path / "g.pt")
    assert loaded.x.tolist() == X
    assert loaded.edge_index.tolist() == data.edge_index.tolist()
    assert loaded.y.tolist() == [0, 1, 0]
    assert loaded.train_mask.tolist() == [True, False, True]


class _Trap:
    """An object that runs code when it is unpickled."""

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
def test_pt_that_is_not_a_checkpoint(content, tmp_path):
    (tmp_path / "g.pt").write_bytes(content)
    with pytest.raises(InputError, match=r"^g.pt: .*; save its tensors with torch.save\(data.to_dict\(\), path\)"):
        read_graph(tmp_path / "g.pt")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1, 2], "g.pt: contains a list, not a graph; "),
        ({"x": [1.0]}, "g.pt: x is a list, not a tensor; "),
        ({1: torch.ones(1)}, "g.pt: a dict with keys that are not text; "),
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
    torch.save({"edge_index": path_graph().edge_index}, tmp_path / "g.pt")
    with pytest.raises(InputError, match=r"^g.pt: no node features; "):
        read_graph(tmp_path / "g.pt")


def test_the_announced_size_of_an_array_is_checked_first(files):
    arguments = files(edges=("e.csv", EDGES), features=("f.npy", ""))
    with open("f.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (10**12, 6)})
    assert read_error(arguments).startswith("f.npy: cut short (24,000,000,000,000 bytes announced, 0 there); save a")


def test_pickled_arrays_are_refused(files):
    arguments = files(edges=("e.csv", EDGES), features=("f.npy", ""))
    np.save("f.npy", np.array([{}, 1], dtype=object), allow_pickle=True)
    assert read_error(arguments).startswith("f.npy: holds Python objects, which are not read; ")
    np.savez("f.npz", a=np.ones((3, 1)), b=np.ones(1))
    assert read_error(arguments | {"features": "f.npz"}) == (
        "f.npz: contains a, b; give one dense array, or one from scipy.sparse.save_npz"
    )


def test_sparse_file_with_indices_out_of_range_is_refused(files):
    arguments = files(edges=("e.csv", EDGES), features=("f.npz", scipy.sparse.csr_array(np.eye(3))))
    parts = dict(np.load("f.npz"))
    np.savez("f.npz", **(parts | {"indices": parts["indices"] + 1000}))
    assert read_error(arguments).startswith("f.npz: ")


def test_errors_of_arguments(files, tmp_path):
    names = files(edges=("e.csv", EDGES), features=("f.csv", FEATURES))
    assert read_error({}) == "no graph given; give a .npz or .pt file, or edges= and features="
    assert read_error({"need_features": False}) == "no graph given; give a .npz or .pt file, or edges="
    assert read_error({"edges": "e.csv"}) == (
        "e.csv: no node features; give a table with one row per node (features=), "
        "or features='structure' to compute some from the edges"
    )
    assert read_error({"path": "g.npz", **names}) == ("g.npz: a graph file is complete; leave out edges=, features=")
    assert read_error({"path": "g.npz"}) == "g.npz: no such file; check the name"
    assert read_error(names | {"edges": "nowhere/e.csv"}) == "nowhere/e.csv: no such file; check the name"
    assert read_error({"path": tmp_path}) == f"{tmp_path}: is a folder; give a file, or a folder of `epagcl ingest`"
    assert read_error({"path": "e.csv"}) == ("e.csv: a table is not a whole graph; give it as edges=, with features=")
    assert (
        read_error({"path": "e.csv", "need_features": False})
        == "e.csv: a table is not a whole graph; give it as edges="
    )
    (tmp_path / "g.xyz").write_text("{}")
    assert read_error({"path": "g.xyz"}) == (
        "g.xyz: cannot read .xyz; give .npz, .pt, .graphml, .gexf, .gml, .json, or edges="
    )
    (tmp_path / "g.npz").write_bytes(b"junk")
    assert read_error({"path": "g.npz", "label": "y"}) == "g.npz: has no tables; leave out label="


@pytest.mark.parametrize(
    ("path", "parts", "need_features", "message"),
    [
        (None, {}, True, "no graph given; give a .npz or .pt file, or --edges and --features"),
        (None, {}, False, "no graph given; give a .npz or .pt file, or --edges"),
        (
            None,
            {"edges": "e.csv"},
            True,
            "e.csv: no node features; give a table with one row per node (--features), "
            "or --features structure to compute some from the edges",
        ),
        ("g.npz", {"edges": "e.csv"}, True, "g.npz: a graph file is complete; leave out --edges"),
        ("e.csv", {}, True, "e.csv: a table is not a whole graph; give it as --edges, with --features"),
    ],
)
def test_the_command_line_gets_the_names_of_options(path, parts, need_features, message, files):
    files(edges=("e.csv", EDGES))
    with pytest.raises(InputError) as error:
        read_files(path, parts, need_features, Roles(argument="--{}"))
    assert str(error.value) == message


def test_features_computed_from_the_edges(files):
    files(edges=("e.csv", EDGES))
    data = read_graph(edges="e.csv", features="structure")
    assert data.feature_names[0] == "degree"
    assert data.x.shape == (data.num_nodes, len(data.feature_names))
    roles = read_graph(edges="e.csv", features="roles")
    assert not any(name.startswith("walks") for name in roles.feature_names)


def test_computed_features_beside_those_of_a_file(files):
    files(edges=("e.csv", EDGES), features=("f.csv", FEATURES))
    given = read_graph(edges="e.csv", features="f.csv")
    for features in ("structure,f.csv", "f.csv,structure"):
        data = read_graph(edges="e.csv", features=features)
        assert torch.equal(data.x[:, : given.x.shape[1]], given.x)
        assert data.feature_names[: given.x.shape[1]] == given.feature_names
        assert data.feature_names[given.x.shape[1]] == "degree"


def test_computed_features_of_a_whole_graph(files):
    files(edges=("e.csv", EDGES), features=("f.csv", FEATURES))
    given = read_graph(edges="e.csv", features="f.csv")
    write_npz(given, "g.npz")
    data = read_graph("g.npz", features="structure")
    assert data.x.shape[1] > given.x.shape[1]


def directed_path() -> Data:
    return Data(x=torch.tensor(X).float(), edge_index=torch.tensor([[0, 1], [1, 2]]))


@pytest.mark.parametrize("name", ["g.npz", "g.pt"])
def test_directions_of_whole_files(tmp_path, name):
    """They are used, or refused where the file has relations already; never ignored."""
    kinds = check(directed_path().update({"edge_type": torch.tensor([0, 1])}), quiet=True)
    for graph, file in ((directed_path(), tmp_path / name), (kinds, tmp_path / f"kinds-{name}")):
        if file.suffix == ".npz":
            write_npz(graph, file)
        else:
            torch.save(graph, file)
    assert read_graph(tmp_path / name, directed="both").relation_names == ["out", "in"]
    reason = rf"^kinds-{name}: its edges have relations, which hold their directions; leave out --directed$"
    with pytest.raises(InputError, match=reason):
        read_files(tmp_path / f"kinds-{name}", {}, roles=Roles(directed="both", argument=OPTION))
    assert read_graph(tmp_path / f"kinds-{name}").relation_names == ["0", "1"]


def test_a_large_graph_on_disk_says_how_much_is_read(tmp_path, monkeypatch, caplog):
    data = Data(x=torch.ones(3, 2), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    OnDiskGraph.write(data, tmp_path / "g")
    caplog.set_level("INFO", logger="epagcl")
    assert torch.equal(read_graph(tmp_path / "g").edge_index, data.edge_index)
    assert caplog.messages == []
    monkeypatch.setattr(readers, "LARGE", 2 * 40 + 3 * (80 + 8))
    read_graph(tmp_path / "g")
    assert caplog.messages == [f"{tmp_path / 'g'}: reads about 0.0 GiB into memory"]
    monkeypatch.setattr("epagcl.core.memory.available_memory", lambda device: 300)
    with pytest.raises(InputError, match=r"3 nodes and 2 edges need .*`epagcl train` and `epagcl embed` need less"):
        read_graph(tmp_path / "g")


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["a", "a", "b"], "a occurs twice"),
        ([1, 1, 2], "1 occurs twice"),
        (torch.tensor([1, 1, 2]), "1 occurs twice"),
        (["a", " ", "b"], r"row 1 .* is blank"),
    ],
)
def test_ids_of_a_pt_file_are_distinct(tmp_path, ids, message):
    edges = torch.tensor([[0, 1], [1, 2]])
    torch.save({"x": torch.eye(3), "edge_index": edges, "node_ids": ids}, tmp_path / "g.pt")
    with pytest.raises(InputError, match=rf"node_ids: {message}"):
        read_graph(tmp_path / "g.pt")
