"""The .npz format: reading, writing, and one line for every mistake."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.data import check
from epagcl.data.io.npz import compact, read_npz, write_npz

EDGES = np.array([[0, 1, 1, 2], [1, 0, 2, 1]], dtype=np.int32)
Y = np.array([2, 0, 1])


def csr_parts(**changed):
    """Return the rows (0, 3, 0, 0, 0, 0), zeros, (0, 0, 0, 0, 0.5, 7); the columns of the last are out of order."""
    parts = {
        "x_data": np.array([3, 7, 0.5], dtype=np.float32),
        "x_indices": np.array([1, 5, 4], dtype=np.int32),
        "x_indptr": np.array([0, 1, 1, 3]),
        "x_shape": np.array([3, 6]),
    }
    return parts | changed


@pytest.fixture
def save(tmp_path):
    def save(**arrays):
        np.savez(tmp_path / "g.npz", **arrays)
        return tmp_path / "g.npz"

    return save


def test_reads_sparse_features(save):
    data = read_npz(save(edge_index=EDGES, y=Y, **csr_parts()))
    assert data.x.layout == torch.sparse_csr
    assert data.x.dtype == torch.float32
    assert data.x.to_dense().tolist() == [[0, 3, 0, 0, 0, 0], [0] * 6, [0, 0, 0, 0, 0.5, 7]]
    assert data.x.col_indices().tolist() == [1, 4, 5]
    assert data.edge_index.tolist() == EDGES.tolist()
    assert data.edge_index.dtype == torch.int64
    assert data.y.tolist() == [2, 0, 1]
    assert data.num_nodes == 3


def test_density_decides_the_layout_not_the_file(save):
    thin, thick = np.zeros((5, 5), dtype=np.float32), np.ones((3, 2), dtype=np.float32)
    thin[range(5), range(5)] = 2  # exactly SPARSE_BELOW
    assert read_npz(save(edge_index=EDGES, x=thin)).x.layout == torch.sparse_csr
    thin[0, 1] = 1
    assert read_npz(save(edge_index=EDGES, x=thin)).x.layout == torch.strided
    parts = {"x_data": thick.ravel(), "x_indices": np.tile([0, 1], 3), "x_indptr": np.arange(0, 7, 2)}
    data = read_npz(save(edge_index=EDGES, x_shape=np.array([3, 2]), **parts))
    assert data.x.layout == torch.strided
    assert data.x.tolist() == [[1, 1]] * 3


def test_edges_that_are_not_integers_are_read_unchanged(save):
    assert read_npz(save(edge_index=EDGES + 0.5, y=Y)).edge_index[0].tolist() == [0.5, 1.5, 1.5, 2.5]


def test_stored_zeros_are_not_entries(save):
    data = read_npz(save(edge_index=EDGES, **csr_parts(x_data=np.array([3, 0, 0.5], dtype=np.float32))))
    assert data.x.values().tolist() == [3, 0.5]


def test_compact_keeps_values():
    x = torch.eye(10)
    assert compact(x).layout == torch.sparse_csr
    assert torch.equal(compact(x).to_dense(), x)
    assert compact(torch.ones(2, 2).to_sparse_csr()).layout == torch.strided


@pytest.mark.parametrize("prefix", ["", "geomgcn_"])
def test_reads_both_names_of_the_geom_splits(save, prefix):
    masks = {f"{prefix}{part}_masks": np.eye(3, 10, k, dtype=bool) for k, part in enumerate(("train", "val", "test"))}
    data = read_npz(save(edge_index=EDGES, y=Y, train_mask=np.array([1, 0, 0]), **masks))
    assert data.train_mask.tolist() == [True, False, False]
    assert data.geom_train_mask.nonzero().tolist() == [[0, 0], [1, 1], [2, 2]]
    assert data.geom_val_mask.nonzero().tolist() == [[0, 1], [1, 2], [2, 3]]
    assert data.geom_test_mask.nonzero().tolist() == [[0, 2], [1, 3], [2, 4]]


def test_a_graph_without_features_has_no_x(save):
    data = read_npz(save(edge_index=EDGES, y=Y, node_year=np.array([2000, 2001, 2002])))
    assert sorted(data.to_dict()) == ["edge_index", "num_nodes", "y"]
    assert data.num_nodes == 3


def graph(**attributes):
    return Data(edge_index=torch.from_numpy(EDGES).long(), num_nodes=3, **attributes)


@pytest.mark.parametrize(
    "data",
    [
        graph(x=torch.tensor([[1.5, -2.0], [0.0, 3.0], [4.0, 5.0]]), y=torch.tensor([0, -1, 1])),
        graph(x=torch.eye(3, 9).to_sparse_csr()),
        graph(
            y=torch.tensor([0, 1, 1]),
            train_mask=torch.tensor([[True, False], [False, True], [False, False]]),
            val_mask=torch.tensor([[False, True], [True, False], [False, False]]),
            test_mask=torch.tensor([False, False, True]),
            geom_train_mask=torch.eye(3, 10, dtype=torch.bool),
        ),
    ],
    ids=["dense", "sparse", "masks"],
)
def test_a_written_graph_is_read_unchanged(data, tmp_path):
    write_npz(data, tmp_path / "new" / "g.npz")
    again = read_npz(tmp_path / "new" / "g.npz")
    assert sorted(again.to_dict()) == sorted(data.to_dict())
    for key, value in data.to_dict().items():
        if key == "num_nodes":
            assert again.num_nodes == value
        else:
            assert again[key].dtype == value.dtype
            assert again[key].layout == value.layout
            assert torch.equal(again[key].to_dense(), value.to_dense())
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["g.npz"]


@pytest.mark.parametrize(
    ("ids", "read", "dtype"),
    [
        (np.array([30, 10, 20]), [30, 10, 20], np.int64),
        (torch.tensor([30, 10, 20]), [30, 10, 20], np.int64),
        (np.array(["b", "Zoë", "long name, with comma"], dtype=object), ["b", "Zoë", "long name, with comma"], object),
        (["007", "7", "07"], ["007", "7", "07"], object),
        (np.array([(0, 1), 2, None], dtype=object), ["(0, 1)", "2", "None"], object),
    ],
)
def test_ids_and_names_are_kept_without_a_pickle(ids, read, dtype, tmp_path):
    columns = [f"mot n° {k}" for k in range(graph().num_features)]
    names = {"label_names": ["bio", "informatique théorique"], "feature_names": columns}
    write_npz(graph(node_ids=ids, **names), tmp_path / "g.npz")
    data = read_npz(tmp_path / "g.npz")
    assert data.node_ids.dtype == dtype
    assert data.node_ids.tolist() == read
    assert data.label_names == ["bio", "informatique théorique"]
    assert data.feature_names == columns
    assert data.num_nodes == 3
    with np.load(tmp_path / "g.npz", allow_pickle=False) as arrays:
        assert {arrays[key].dtype.kind for key in arrays} <= {"i", "U"}


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    write_npz(graph(y=torch.tensor([0, 1, 2])), tmp_path / "g.npz")

    def fail(file, **arrays):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez_compressed", fail)
    with pytest.raises(OSError, match="disk full"):
        write_npz(graph(y=torch.tensor([0, 0, 0])), tmp_path / "g.npz")
    assert [file.name for file in tmp_path.iterdir()] == ["g.npz"]
    assert read_npz(tmp_path / "g.npz").y.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (Data(x=torch.ones(2, 1)), "no edge_index; set data.edge_index"),
        (graph(), "neither features nor labels; set data.x or data.y"),
    ],
)
def test_a_graph_that_could_not_be_read_is_not_written(data, message, tmp_path):
    with pytest.raises(InputError, match=message):
        write_npz(data, tmp_path / "g.npz")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"y": Y}, "no array edge_index; add the edges"),
        ({"edge_index": EDGES}, "neither features .* nor labels"),
        (
            {"edge_index": EDGES, "x_data": Y, "x_shape": Y},
            "features without x_indices, x_indptr; a CSR matrix needs",
        ),
        ({"edge_index": EDGES, **csr_parts(x_indices=np.array([1, 6, 4]))}, "cannot be read .*(indices|index)"),
        ({"edge_index": EDGES, **csr_parts(x_indptr=np.array([0, 1, 3]))}, "cannot be read"),
        ({"edge_index": EDGES, "y": np.array(["a", "b", "c"])}, "cannot be read"),
        ({"edge_index": EDGES, "y": np.array(1)}, "cannot be read"),
        ({"edge_index": EDGES, "y": np.array([None, 1, 2], dtype=object)}, "cannot be read .*allow_pickle"),
        ({"edge_index": EDGES, "y": Y, "node_ids": np.arange(4)}, "4 node_ids for 3 nodes; give one per node"),
        (
            {"edge_index": EDGES, "y": Y, "node_ids": np.ones(3)},
            r"node_ids has shape \(3,\) and type float64; give a list of text or integers",
        ),
        (
            {"edge_index": EDGES, "y": Y, "label_names": np.array([["a"]])},
            r"label_names has shape \(1, 1\) and type <U1; give a list of text",
        ),
        (
            {"edge_index": EDGES, "y": Y, "val_mask": np.ones(4, bool)},
            r"val_mask has shape \(4,\); give one row for each of the 3 nodes",
        ),
    ],
)
def test_errors_of_files(save, arrays, message):
    path = save(**arrays)
    with pytest.raises(InputError, match=message) as error:
        read_npz(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


def test_errors_of_files_that_are_not_npz(tmp_path, save):
    whole = save(edge_index=EDGES, y=Y).read_bytes()
    for content in (b"", b"i,j\n0,1\n", whole[: len(whole) // 2]):
        (tmp_path / "g.npz").write_bytes(content)
        with pytest.raises(InputError, match=r"not an .npz file .or cut short.; write it with"):
            read_npz(tmp_path / "g.npz")
    with pytest.raises(InputError, match="no such file; give the path"):
        read_npz(tmp_path / "missing.npz")
    with pytest.raises(InputError, match="no such file"):
        read_npz(tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"node_ids": ["a", "a", "b"]}, "node_ids: a occurs twice; give every node its own id"),
        ({"node_ids": ["a", " ", "b"]}, "node_ids: row 1 (counted from 0) is blank; give every node an id"),
        ({"x": np.eye(3) * 1j}, "x is complex128; give real numbers"),
        ({"encoding": "{"}, "cannot be read ("),
    ],
)
def test_values_that_would_be_changed_are_refused(change, words, tmp_path):
    np.savez(tmp_path / "g.npz", **{"edge_index": [[0, 1], [1, 2]], "x": np.eye(3)} | change)
    with pytest.raises(InputError) as error:
        read_npz(tmp_path / "g.npz")
    assert str(error.value).startswith(f"{tmp_path / 'g.npz'}: {words}")


def test_indices_of_a_sparse_matrix_are_integers(tmp_path):
    parts = {"x_data": [1.0], "x_indices": [0.5], "x_indptr": [0, 1, 1], "x_shape": [2, 1]}
    np.savez(tmp_path / "g.npz", edge_index=[[0], [1]], **parts)
    with pytest.raises(InputError, match=r"x_indices is float64; give integers"):
        read_npz(tmp_path / "g.npz")


def test_large_unsigned_ids_are_text(tmp_path):
    ids = np.array([2**63 + 1, 5], dtype=np.uint64)
    np.savez(tmp_path / "g.npz", edge_index=[[0], [1]], x=np.eye(2), node_ids=ids)
    assert read_npz(tmp_path / "g.npz").node_ids.tolist() == [str(2**63 + 1), "5"]


def test_weights_survive_a_round_trip(tmp_path):
    data = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), x=torch.eye(3), num_nodes=3)
    data.edge_weight = torch.tensor([0.5, 0.5, 1.5, 1.5])
    write_npz(check(data), tmp_path / "g.npz")
    assert check(read_npz(tmp_path / "g.npz")).edge_weight.tolist() == [0.5, 0.5, 1.5, 1.5]


def test_kinds_survive_a_round_trip(tmp_path):
    data = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]), x=torch.eye(3), num_nodes=3, directed="both")
    data.edge_type, data.relation_names = torch.tensor([0, 1, 1]), ["mail", "call"]
    checked = check(data)
    write_npz(checked, tmp_path / "g.npz")
    again = check(read_npz(tmp_path / "g.npz"))
    assert again.relation_names == checked.relation_names == ["mail:out", "call:out", "mail:in", "call:in"]
    assert again.edge_relation.equal(checked.edge_relation)
    del data.directed
    write_npz(data, tmp_path / "raw.npz")  # before it is checked
    assert check(read_npz(tmp_path / "raw.npz")).edge_relation.equal(check(data).edge_relation)


def test_kinds_of_nodes_are_kept(tmp_path):
    path = tmp_path / "g.npz"
    graph = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1], [1, 2]]), node_type=torch.tensor([0, 1, 0]))
    write_npz(graph, path)
    assert read_npz(path).node_type.tolist() == [0, 1, 0]
    for wrong in ([0, 1], [0, 1, -1], [0.5, 1, 1]):
        graph.node_type = torch.tensor(wrong)
        write_npz(graph, path)
        with pytest.raises(InputError, match=r"g\.npz: node_type is not one number, at least 0, for each of 3 nodes"):
            read_npz(path)
