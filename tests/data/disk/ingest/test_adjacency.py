import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from epagcl.data import OnDiskGraph, check
from epagcl.data.disk.ingest import adjacency
from epagcl.data.disk.ingest.adjacency import ENDS, WEIGHTS, write_csr


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("share", [1 / 16, 500 / 2**30], ids=["one-file", "many-files"])
def test_pairs_and_weights_are_those_of_check(work, monkeypatch, weighted, share):
    monkeypatch.setattr(adjacency, "_SORT_SHARE", share)
    monkeypatch.setattr(adjacency, "_CHUNK", 97)
    rng = np.random.default_rng(3)
    n, m = 40, 600
    ends = (rng.random((m, 2)) ** 2 * n).astype(np.int32)
    ends = ends[ends[:, 0] != ends[:, 1]]
    weight = rng.integers(1, 9, len(ends)) / 8
    ends.tofile(work.path(ENDS))
    weight.tofile(work.path(WEIGHTS))
    counts = write_csr(n, weighted, work)
    data = Data(edge_index=torch.from_numpy(ends.T.astype(np.int64)), num_nodes=n)
    if weighted:
        data.edge_weight = torch.from_numpy(weight)
    data = check(data, features=False, quiet=True)
    indptr, indices = (np.load(work.target / f"{key}.npy") for key in ("indptr", "indices"))
    row = np.repeat(np.arange(n), np.diff(indptr))
    assert np.array_equal(np.stack([row, indices]), data.edge_index.numpy())
    directed = len(np.unique(ends[:, 0] * n + ends[:, 1]))
    assert counts == {"pairs": len(indices) // 2, "directed": directed, "weighted": weighted}
    assert (work.target / "weights.npy").exists() == weighted
    if weighted:
        assert np.array_equal(np.load(work.target / "weights.npy"), data.edge_weight.numpy())


def test_equal_weights_are_no_weights(work):
    np.array([[0, 1], [2, 1]], np.int32).tofile(work.path(ENDS))
    np.array([2.0, 2.0]).tofile(work.path(WEIGHTS))
    assert write_csr(3, True, work) == {"pairs": 2, "directed": 2, "weighted": False}
    assert not (work.target / "weights.npy").exists()


def test_a_graph_on_disk_has_the_pairs_of_its_data(tmp_path):
    data = Data(edge_index=torch.tensor([[0, 2], [1, 1]]), num_nodes=4)
    graph = OnDiskGraph.write(data, tmp_path / "g")
    assert graph.indptr.tolist() == [0, 1, 3, 4, 4]
