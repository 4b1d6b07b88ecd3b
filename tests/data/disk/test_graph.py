import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import epagcl
from epagcl.core.errors import InputError, MissingFeatures, OutputError
from epagcl.data import OnDiskGraph, block_model, check
from epagcl.data.disk import graph as disk_graph


def example(sparse=False, **more):
    x = torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0], [3.0, 0.0]])
    edge_index = torch.tensor([[0, 1, 3, 3, 2], [1, 2, 0, 0, 2]])
    return Data(x=x.to_sparse_csr() if sparse else x, edge_index=edge_index, num_nodes=4, **more)


def same(first, second):
    assert set(first.keys()) - {"name"} == set(second.keys()) - {"name"}
    for key in second.keys():  # noqa: SIM118 (Data iterates over pairs)
        a, b = first[key], second[key]
        if isinstance(a, torch.Tensor):
            assert (a.dtype, a.layout, a.shape) == (b.dtype, b.layout, b.shape), key
            assert torch.equal(a.to_dense(), b.to_dense()), key
        elif isinstance(a, np.ndarray):
            assert a.dtype == b.dtype
            assert a.tolist() == b.tolist()
        elif key != "name":
            assert a == b, key


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("ids", [None, [7, 5, 3, -1], ["a", "é", "", "b c"]], ids=["none", "integers", "text"])
@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 0.5, 0.5, 9.0]], ids=["equal", "weighted"])
def test_a_graph_is_read_as_it_was_written(tmp_path, sparse, ids, weights):
    more = {"y": torch.tensor([1, -1, 0, 1]), "label_names": ["no", "yes"], "feature_names": ["u", "v"]}
    if ids is not None:
        more["node_ids"] = np.array(ids, dtype=np.int64 if isinstance(ids[0], int) else object)
    if weights is not None:
        more["edge_weight"] = torch.tensor(weights)
    data = check(example(sparse, **more), quiet=True)
    graph = OnDiskGraph.write(data, tmp_path / "g")
    assert (graph.num_nodes, graph.num_edges, graph.num_features) == (4, 3, 2)
    assert [graph.neighbours(node).tolist() for node in range(4)] == [[1, 3], [0, 2], [1], [0]]
    assert (graph.weights is None) == (weights is None)
    opened = OnDiskGraph.open(tmp_path / "g")
    opened.verify()
    assert opened.fingerprint == graph.fingerprint
    same(opened.to_data(), data)
    opened.release()
    same(opened.to_data(), data)
    if ids is not None:
        assert opened.ids_of([3, 1]).tolist() == [ids[3], ids[1]]
        assert opened.ids_of(slice(1, 3)).tolist() == ids[1:3]


def test_edges_are_read_block_by_block(tmp_path, monkeypatch):
    data = check(block_model(50, num_classes=2, num_features=6, topic_words=2, words_per_node=2, seed=1), quiet=True)
    graph = OnDiskGraph.write(data, tmp_path / "g")
    monkeypatch.setattr(disk_graph, "BLOCK", 7)
    assert torch.equal(graph.to_data().edge_index, data.edge_index)


def test_arrays_are_mapped_and_cannot_be_changed(tmp_path):
    graph = OnDiskGraph.write(example(y=torch.tensor([0, 1, 1, 0])), tmp_path / "g")
    for array in (graph.indptr, graph.indices, graph.features, graph.labels):
        assert isinstance(array, np.memmap)
        assert not array.flags.writeable


def test_a_graph_without_features_is_told(tmp_path):
    graph = OnDiskGraph.write(Data(edge_index=torch.tensor([[0], [1]]), num_nodes=3), tmp_path / "g")
    assert graph.features is None
    with pytest.raises(MissingFeatures, match=r"g: no node features; ingest the graph with features="):
        graph.to_data()
    assert graph.to_data(features=False).num_nodes == 3


def test_a_folder_with_a_graph_or_other_files_is_kept(tmp_path):
    graph = OnDiskGraph.write(example(), tmp_path / "g")
    with pytest.raises(InputError, match="holds a graph already; give another folder, or overwrite=True"):
        OnDiskGraph.write(example(), tmp_path / "g")
    replaced = OnDiskGraph.write(Data(edge_index=torch.tensor([[0], [1]]), num_nodes=3), graph.path, overwrite=True)
    assert set(replaced.manifest["arrays"]) == {"indptr", "indices"}
    assert not (graph.path / "features.npy").exists()
    (tmp_path / "z.npy").touch()
    with pytest.raises(InputError, match=r"holds .*, which is no part of a graph; give another folder"):
        OnDiskGraph.write(example(), tmp_path, overwrite=True)
    with pytest.raises(InputError, match="is a file; give a folder"):
        OnDiskGraph.write(example(), tmp_path / "z.npy")
    with pytest.raises(OutputError, match="cannot be written"):
        OnDiskGraph.write(example(), "/proc/graph")


def test_changed_content_is_found_by_its_digest(tmp_path):
    graph = OnDiskGraph.write(example(), tmp_path / "g")
    np.save(tmp_path / "g" / "features.npy", np.ones((4, 2), np.float32))
    opened = OnDiskGraph.open(graph.path)
    with pytest.raises(InputError, match=r"features\.npy: its content changed after it was written"):
        opened.verify()


def test_no_folder_is_told(tmp_path):
    with pytest.raises(InputError, match="no such folder; give the folder that `epagcl ingest` wrote"):
        epagcl.data.OnDiskGraph.open(tmp_path / "g")
