import numpy as np
import pytest
import torch

from epagcl.core.errors import InputError
from epagcl.core.memory import resident_memory
from epagcl.data import block_model, check
from epagcl.data.graph import Graph
from epagcl.data.large import Arrays, LargeGraph, is_arrays


def example(weights=False, sparse=True, seed=0):
    data = block_model(120, num_classes=4, num_features=30, topic_words=8, average_degree=6, seed=seed)
    if not sparse:
        data.x = data.x.to_dense()
    if weights:
        i, j = data.edge_index.sort(dim=0).values
        data.edge_weight = 1.0 + (i * 7 + j) % 5
    return check(data, quiet=True)


@pytest.mark.parametrize("weights", [False, True])
def test_the_whole_subgraph_is_the_graph(weights):
    data = example(weights)
    graph, large = Graph.from_data(data), LargeGraph(Arrays.from_data(data))
    part = large.subgraph(np.arange(120))
    assert torch.equal(part.pairs, graph.pairs)
    assert torch.equal(part.x.to_dense(), graph.x.to_dense() if not isinstance(graph.x, torch.Tensor) else graph.x)
    assert (large.num_nodes, large.num_pairs, large.num_features) == (120, graph.pairs.shape[1], 30)
    torch.testing.assert_close(large.degree, graph.degree)
    torch.testing.assert_close(part.whole_degree, graph.degree)
    if weights:
        torch.testing.assert_close(part.weight, graph.weight)


@pytest.mark.parametrize("weights", [False, True])
def test_a_subgraph_has_exactly_the_edges_between_its_nodes(weights):
    data = example(weights)
    large = LargeGraph(Arrays.from_data(data))
    nodes = np.sort(np.random.default_rng(0).permutation(120)[:50])
    part = large.subgraph(nodes)
    dense = torch.zeros(120, 120)
    dense[tuple(data.edge_index)] = data.edge_weight if weights else 1.0
    expected = dense[nodes][:, nodes].triu()
    assert torch.equal(part.pairs, expected.nonzero().T)
    if weights:
        torch.testing.assert_close(part.weight, expected[tuple(part.pairs)])
    assert part.origin == (part.nodes, 120)
    assert torch.equal(part.x.to_dense(), data.x.to_dense()[nodes])


@pytest.mark.parametrize("weights", [False, True])
def test_products_are_those_of_the_graph_in_memory(weights):
    data = example(weights, sparse=False)
    graph, large = Graph.from_data(data), LargeGraph(Arrays.from_data(data))
    y = torch.randn(120, 3)
    torch.testing.assert_close(large.adjacency @ y, graph.adjacency @ y)
    torch.testing.assert_close(large.x @ torch.eye(30), data.x)
    pairs = [chunk for chunk, _ in large.pair_chunks()]
    assert torch.equal(torch.cat(pairs, 1), graph.pairs)


def test_only_the_rows_in_use_are_read(tmp_path):
    n, width = 60_000, 256  # 59 MiB
    features = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.float32, shape=(n, width))
    features[::1000] = 1
    features.flush()
    del features
    ring = np.stack([(np.arange(n) - 1) % n, (np.arange(n) + 1) % n], 1)
    arrays = Arrays(np.arange(n + 1) * 2, np.sort(ring, 1).ravel(), None, np.load(tmp_path / "x.npy", mmap_mode="r"))
    if (before := resident_memory()) is None:
        pytest.skip("resident memory is known on Linux only")
    part = LargeGraph(arrays).subgraph(np.arange(0, n, 1000))
    assert part.x.sum() == 60 * width
    assert resident_memory() - before < 20 * 2**20


def test_the_fingerprint_changes_with_edges_and_features():
    large = [LargeGraph(Arrays.from_data(example(seed=seed))) for seed in (0, 0, 1)]
    assert large[0].fingerprint == large[1].fingerprint != large[2].fingerprint
    data = example()
    data.x = data.x.to_dense() + 1
    assert LargeGraph(Arrays.from_data(data)).fingerprint != large[0].fingerprint


def test_the_fingerprint_changes_with_weights_and_columns():
    arrays = Arrays.from_data(example())
    entries = len(arrays.indices)
    moved = arrays.features.copy()
    moved.indices[0] = next(column for column in range(moved.shape[1]) if column not in moved[[0]].indices)
    graphs = [
        arrays,
        arrays._replace(weights=np.ones(entries, dtype=np.float32)),
        arrays._replace(weights=np.full(entries, 2, dtype=np.float32)),
        arrays._replace(features=moved),
    ]
    assert len({LargeGraph(graph).fingerprint for graph in graphs}) == 4


def test_a_graph_without_features_is_refused():
    arrays = Arrays.from_data(example())._replace(features=None)
    assert is_arrays(arrays)
    with pytest.raises(InputError, match="no node features"):
        LargeGraph(arrays)
