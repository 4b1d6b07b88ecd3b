import pytest
import torch

from epagcl.core.sparse import SparseMatrix, StackedMatrix
from epagcl.data import block_model
from epagcl.data.graph import Graph
from epagcl.diffusion import neighbours, ppr, truncated_ppr
from epagcl.distributed.group import Ranks
from epagcl.distributed.matrix import Entries, ShardedMatrix
from epagcl.distributed.partition import Part
from epagcl.views.probabilities import edge_probabilities
from epagcl.views.sampling import Views, ViewSampler
from tests.ranks import on_ranks

NODES = 30
SIZES = [[30], [15, 15], [29, 1], [10, 0, 20], [8, 8, 7, 7]]


def graph(weighted):
    """A graph whose last two nodes are isolated."""
    data = block_model(NODES, num_classes=3, num_features=6, topic_words=2, words_per_node=2, seed=5)
    whole = Graph.from_data(data)
    pairs = whole.pairs[:, (whole.pairs < NODES - 2).all(0)]
    weight = torch.rand(pairs.shape[1], generator=torch.Generator().manual_seed(0)) + 0.5 if weighted else None
    return Graph(whole.x, pairs, NODES, weight)


def views_of(graph):
    p = edge_probabilities(graph.pairs, NODES, p_drop=0.4, p_add=0.3).to("cpu")
    samplers = [ViewSampler(p, NODES, seed=3, view=view, weight=graph.weight, part=graph.part) for view in range(2)]
    return Views(samplers)


def dense():
    return torch.randn(2 * NODES, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(4))


def double(matrix):
    """Return the matrices in float64, so that rounding does not hide an error."""

    def converted(part):
        return SparseMatrix(part.rowptr, part.col, part.value.double(), part.shape, part.symmetric)

    if isinstance(matrix, ShardedMatrix):
        parts = zip(map(converted, matrix.parts), map(converted, matrix.outer), strict=True)
        return ShardedMatrix(matrix.exchange, list(parts))
    return StackedMatrix([converted(part) for part in getattr(matrix, "parts", [matrix])])


def products(graph, rows):
    """Return products with Â, of one and of two views, and their gradients with respect to the factor."""
    x = dense()[rows].requires_grad_()
    both = dense().view(2, NODES, 5)[:, rows].flatten(0, 1).requires_grad_()
    views = views_of(graph).adjacency(epoch=2)
    results = [double(graph.adjacency) @ x, double(views) @ both, double(views) @ x]
    sum((result.square().sum() for result in results[1:]), start=results[0].square().sum()).backward()
    counts = zip((*results, x.grad, both.grad), (1, 2, 2, 1, 2), strict=True)
    split = [result.detach().view(count, x.shape[0], 5) for result, count in counts]
    flat = dense().float()[rows]
    more = [ppr(graph)(flat), neighbours(graph, 2)(flat), truncated_ppr(graph.adjacency, flat, 0.15, 4)]
    return split, more


def sharded(ranks):
    """The products on this rank, for each partition, without weights and with them."""
    parts = [Part(ranks, NODES, sizes) for sizes in SIZES if len(sizes) == ranks.size]
    return [[products(graph(weighted).shard(part, "cpu"), part.rows) for part in parts] for weighted in (False, True)]


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_products_and_gradients_equal_those_of_one_process(size):
    for weighted, results in enumerate(zip(*on_ranks(size, sharded), strict=True)):
        exact, close = products(graph(bool(weighted)), slice(0, NODES))
        for case in zip(*results, strict=True):
            for index, expected in enumerate(exact):
                found = torch.cat([split[index] for split, _ in case], 1)
                torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
            for index, expected in enumerate(close):
                found = torch.cat([more[index] for _, more in case])
                torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_each_rank_knows_what_the_others_need():
    whole = graph(weighted=False)
    counter = whole.pairs[0] * NODES + whole.pairs[1]
    shards = [Entries(Part(Ranks(rank, 3), NODES, [10, 0, 20]), counter) for rank in range(3)]
    for receiver, entries in enumerate(shards):
        received = entries.halo.split(entries.exchange.received)
        for sender, nodes in enumerate(received):
            sent = shards[sender].exchange.send.split(shards[sender].exchange.sent)[receiver]
            assert (sent + shards[sender].part.start).equal(nodes)


def test_only_neighbours_of_own_nodes_are_received():
    path = torch.arange(NODES - 1) * NODES + torch.arange(1, NODES)
    middle = Entries(Part(Ranks(1, 3), NODES), path)
    assert middle.halo.tolist() == [9, 20]
    assert (middle.exchange.sent, middle.exchange.received) == ([1, 0, 1], [1, 0, 1])
    assert middle.exchange.send.tolist() == [0, 9]
