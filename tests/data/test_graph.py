"""The graph that methods train on."""

import pytest
import torch
from torch_geometric.data import Data

from epagcl.core.sparse import SparseMatrix
from epagcl.data import block_model, check
from epagcl.data.graph import Graph, row_normalise, shard_over
from epagcl.distributed.group import Ranks
from epagcl.distributed.partition import Part


def dense(graph: Graph) -> torch.Tensor:
    return graph.x.csr.to_dense() if isinstance(graph.x, SparseMatrix) else graph.x


def test_density_decides_the_layout_of_features():
    edge_index = torch.tensor([[0, 1], [1, 0]])
    for x in (torch.eye(40), torch.eye(40).to_sparse_csr()):
        assert isinstance(Graph.from_data(Data(x=x, edge_index=edge_index)).x, SparseMatrix)
    for x in (torch.eye(2), torch.eye(2).to_sparse_csr()):
        graph = Graph.from_data(Data(x=x, edge_index=edge_index))
        assert isinstance(graph.x, torch.Tensor)
        assert graph.x.tolist() == [[1, 0], [0, 1]]


def test_dense_features_are_aligned_where_kernels_run(use_triton, monkeypatch):
    edge_index = torch.tensor([[0, 1], [1, 0]])
    x = torch.arange(1.0, 43).view(2, 21)
    graph = Graph.from_data(Data(x=x, edge_index=edge_index))
    assert graph.aligned_x is graph.x  # the CPU gains nothing
    use_triton(True)
    graph = Graph.from_data(Data(x=x, edge_index=edge_index))
    assert graph.aligned_x.shape == (2, 32)
    assert torch.equal(graph.aligned_x[:, :21], x)
    assert not graph.aligned_x[:, 21:].any()
    assert graph.aligned_x is graph.aligned_x  # padded once
    assert graph.num_features == 21
    multiple, sparse = torch.ones(2, 32), torch.eye(40)
    for kept in (multiple, sparse, x.double()):
        graph = Graph.from_data(Data(x=kept, edge_index=edge_index))
        assert graph.aligned_x is graph.x
    few = Graph.from_data(Data(x=x[:, :5], edge_index=edge_index))
    assert few.aligned_x is few.x  # 5 columns would become 16
    monkeypatch.setattr("epagcl.data.graph.MAX_ALIGNED", 63)
    graph = Graph.from_data(Data(x=x, edge_index=edge_index))
    assert graph.aligned_x is graph.x


def test_sizes(small_graph):
    graph = Graph.from_data(small_graph)
    assert (graph.num_nodes, graph.num_features, graph.device.type) == (60, 40, "cpu")
    assert graph.pairs.shape[1] * 2 == small_graph.num_edges
    assert bool((graph.pairs[0] < graph.pairs[1]).all())


def test_the_adjacency_is_normalised_with_self_loops():
    data = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    expected = torch.tensor([[1.0, 1, 0], [1, 1, 1], [0, 1, 1]])
    degree = expected.sum(1)
    expected /= (degree[:, None] * degree).sqrt()
    torch.testing.assert_close(Graph.from_data(data).adjacency.csr.to_dense(), expected)


def test_the_fingerprint_is_the_same_in_both_layouts_and_differs_between_graphs():
    data, other = block_model(200, seed=1), block_model(200, seed=2)
    sparse = Graph.from_data(data)
    dense_layout = Graph(data.x.to_dense(), sparse.pairs, sparse.num_nodes)
    assert sparse.fingerprint == dense_layout.fingerprint
    assert sparse.fingerprint.startswith(f"200-{sparse.pairs.shape[1]}-1400-")
    assert sparse.fingerprint != Graph.from_data(other).fingerprint
    changed = data.x.to_dense()
    changed[0, 0] += 1
    assert Graph(changed, sparse.pairs, 200).fingerprint != sparse.fingerprint


def test_a_subsample_drops_a_share_of_pairs_and_columns():
    graph = Graph.from_data(block_model(2000, average_degree=8, seed=0))
    part = graph.subsample(0.3, 1)
    assert part.pairs.shape[1] / graph.pairs.shape[1] == pytest.approx(0.7, abs=0.03)
    zeroed = (dense(part).sum(0) == 0) & (dense(graph).sum(0) > 0)
    assert zeroed.float().mean().item() == pytest.approx(0.3, abs=0.05)
    assert torch.equal(graph.subsample(0.3, 1).pairs, part.pairs)
    assert not torch.equal(graph.subsample(0.3, 2).pairs, part.pairs)
    assert torch.equal(graph.subsample(0.0, 1).pairs, graph.pairs)


@pytest.mark.parametrize("layout", [torch.strided, torch.sparse_csr])
def test_rows_are_divided_by_their_sum(layout):
    x = torch.tensor([[1.0, 3.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.25, 0.25], [2.0, -2.0, 0.0]])
    out = row_normalise(x.to_sparse_csr() if layout == torch.sparse_csr else x)
    assert out.layout == layout
    assert out.dtype == torch.float32
    assert out.to_dense().tolist() == [[0.25, 0.75, 0], [0, 0, 0], [0, 0.5, 0.5], [2, -2, 0]]


@pytest.mark.parametrize("layout", [torch.strided, torch.sparse_csr])
def test_rows_are_divided_by_their_largest_absolute_value(layout):
    x = torch.tensor([[1.0, -4.0], [0.0, 0.0], [0.5, 0.25]])
    out = row_normalise(x.to_sparse_csr() if layout == torch.sparse_csr else x, by="max")
    assert out.layout == layout
    assert out.to_dense().tolist() == [[0.25, -1], [0, 0], [1, 0.5]]


@pytest.mark.parametrize("layout", [torch.strided, torch.sparse_csr])
def test_rows_are_divided_by_their_length(layout):
    x = torch.tensor([[3.0, -4.0], [0.0, 0.0], [0.0, 0.5], [1e-30, 0.0]])
    out = row_normalise(x.to_sparse_csr() if layout == torch.sparse_csr else x, by="norm")
    assert out.layout == layout
    assert out.dtype == torch.float32
    torch.testing.assert_close(out.to_dense(), torch.tensor([[0.6, -0.8], [0, 0], [0, 1], [1, 0]]))
    random = torch.randn(20, 7, generator=torch.Generator().manual_seed(0))
    random = random.to_sparse_csr() if layout == torch.sparse_csr else random
    torch.testing.assert_close(row_normalise(random, by="norm").to_dense().norm(dim=1), torch.ones(20))


def test_weights_enter_the_adjacency_the_degrees_and_subsamples():
    edge_index, weight = torch.tensor([[0, 1, 0], [1, 2, 3]]), torch.tensor([1.0, 2.0, 3.0])
    graph = Graph.from_data(check(Data(x=torch.eye(5), edge_index=edge_index, edge_weight=weight), quiet=True))
    assert graph.weight.tolist() == [0.5, 1.5, 1.0]  # of the pairs 0–1, 0–3 and 1–2
    assert graph.degree.tolist() == [2.0, 1.5, 1.0, 1.5, 0.0]
    a = torch.zeros(5, 5)
    a[graph.pairs[0], graph.pairs[1]] = a[graph.pairs[1], graph.pairs[0]] = graph.weight
    torch.testing.assert_close(graph.edges.to_dense(), a)
    looped = a + torch.eye(5)
    scale = looped.sum(1).rsqrt()
    torch.testing.assert_close(graph.adjacency.to_dense(), scale[:, None] * looped * scale)
    kept = graph.subsample(0.4, view=1)
    weights = dict(zip(map(tuple, graph.pairs.T.tolist()), graph.weight.tolist(), strict=True))
    assert kept.weight.tolist() == [weights[pair] for pair in map(tuple, kept.pairs.T.tolist())]


def test_without_weights_degrees_are_integers():
    graph = Graph(x=torch.eye(4), pairs=torch.tensor([[0, 0], [1, 2]]), num_nodes=4)
    assert graph.degree.tolist() == [2, 1, 1, 0]
    assert graph.degree.dtype == torch.int64
    assert graph.edges.to_dense().sum().item() == 4


@pytest.mark.parametrize("sparse", [False, True])
def test_a_shard_has_the_features_of_its_nodes_and_all_pairs(sparse):
    x = torch.arange(14.0).view(7, 2)
    features = SparseMatrix.from_torch(x.to_sparse_csr()) if sparse else x
    graph = Graph(features, torch.tensor([[0, 2, 5], [1, 4, 6]]), 7, torch.tensor([1.0, 0.5, 1.5]))
    shard = graph.shard(Part(Ranks(1, 3), 7), "cpu", fingerprint="7-3-2-x")
    assert (shard.x.to_dense() if sparse else shard.x).equal(x[3:5])
    assert shard.pairs.equal(graph.pairs)
    assert (shard.num_rows, shard.num_nodes, shard.fingerprint) == (2, 7, "7-3-2-x")
    torch.testing.assert_close(shard.degree, graph.degree)
    assert shard.own_entries.halo.tolist() == [2]


def test_the_only_rank_has_the_whole_graph():
    graph = Graph(torch.eye(3), torch.tensor([[0, 1], [1, 2]]), 3)
    shard = shard_over(graph, Ranks(0, 1), "cpu", identified=True)
    assert shard.x.equal(graph.x)
    assert shard.fingerprint == graph.fingerprint
    assert shard.mean(shard.x).equal(graph.mean(graph.x))
