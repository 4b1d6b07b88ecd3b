import numpy as np
import pytest
import torch

import epagcl
from epagcl.core.streamed import DiskMatrix
from epagcl.data import block_model, check
from epagcl.data.graph import Graph
from epagcl.data.large import Arrays, LargeGraph
from epagcl.methods.mixture_large import _absent, embed_large, fit_large, with_nearest
from epagcl.views.candidates import neighbour_candidates


@pytest.fixture(scope="module")
def data():
    return check(block_model(300, num_features=30, topic_words=10, words_per_node=6, average_degree=8), quiet=True)


@pytest.mark.parametrize("k", [0, 4])
def test_the_mixture_of_a_large_graph_is_that_in_memory(data, k):
    model = epagcl.EPAGCLPlus(hidden=16, dim=6, projection=8, epochs=1, k=k, device="cpu").fit(data)
    expected = model.embed(data)
    network, large = model.network_, LargeGraph(Arrays.from_data(data), scaling="row-norm")
    before = {name: value.clone() for name, value in network.state_dict().items()}
    fit_large(network, large)
    for name, value in network.state_dict().items():
        if name in ("centre", "spread", "weights", "largeness"):
            torch.testing.assert_close(value, before[name], atol=1e-4, rtol=1e-3)
    z = torch.cat(list(embed_large(network, large)))
    torch.testing.assert_close(z.abs(), expected.abs(), atol=2e-3, rtol=2e-2)


def test_nearest_neighbours_join_the_pairs_that_candidates_are(data):
    graph, large = Graph.from_data(data), LargeGraph(Arrays.from_data(data))
    z = torch.randn(300, 5)
    with DiskMatrix(300) as stored:
        stored.append(z)
        joined = with_nearest(large, stored, 3, keep=True)
        alone = with_nearest(large, stored, 3, keep=False)
    added = neighbour_candidates(z, graph.pairs, 3)
    pairs = torch.cat([graph.pairs, added], 1)
    assert torch.equal(joined.degree, torch.bincount(pairs.flatten(), minlength=300))
    order = (pairs[0] * 300 + pairs[1]).argsort()
    y = torch.randn(300, 2)
    torch.testing.assert_close(joined.adjacency @ y, Graph(graph.x, pairs[:, order], 300).adjacency @ y)
    near = neighbour_candidates(z, graph.pairs[:, :0], 3)
    torch.testing.assert_close(alone.adjacency @ y, Graph(graph.x, near, 300).adjacency @ y)
    assert np.array_equal(joined.csr.indices, large.csr.indices)


def test_keys_in_chunks_are_left_out_and_each_entry_is_looked_up_once(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    key = torch.randint(0, 5000, (900,), generator=generator).unique()
    present = torch.randint(0, 5000, (700,), generator=generator).unique()
    looked_up, search = [], torch.searchsorted

    def counting(sorted_sequence, values):
        looked_up.append(len(values))
        return search(sorted_sequence, values)

    monkeypatch.setattr(torch, "searchsorted", counting)
    found = _absent(key, iter(present.split(50)))
    assert found.tolist() == sorted(set(key.tolist()) - set(present.tolist()))
    assert sum(looked_up) == len(present)
    assert len(_absent(key[:0], iter([present]))) == 0
