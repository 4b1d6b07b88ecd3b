"""Features that describe the role of a node. They mean the same in every graph, so a model carries over."""

import torch
from torch import Tensor

from epagcl.core.randomness import Stream, uniform, uniform64
from epagcl.core.sparse import multiply
from epagcl.data.structural.adjacency import Neighbours

RETURNS = 8  # return probabilities after 2, ..., 9 steps
PROBES = 64  # random vectors for the return probabilities after 3 and more steps
SAMPLED_PAIRS = 128  # pairs of neighbours that are looked up for the clustering of a node
DAMPING = 0.85
PRODUCTS = 50  # of PageRank: the rest is 0.85^50 = 3e-4 of it
BLOCK = 1 << 22  # numbers in memory at once


def log_degree(graph: Neighbours) -> Tensor:
    """Return log(1 + degree), ``[N, 1]``.

    Examples:
        >>> log_degree(Neighbours(torch.tensor([[0, 1], [1, 2]]), num_nodes=3)).flatten()
        tensor([0.6931, 1.0986, 0.6931])
    """
    return graph.degree.float().log1p()[:, None]


def log_pagerank(graph: Neighbours) -> Tensor:
    """Return log(N · PageRank) with damping 0.85, ``[N, 1]``. Isolated nodes jump to a random node.

    Examples:
        >>> log_pagerank(Neighbours(torch.tensor([[0], [1]]), num_nodes=2)).flatten()
        tensor([0., 0.])
    """
    n = graph.num_nodes
    scale = graph.degree.clamp(min=1).float().sqrt()[:, None]
    rank = torch.ones(n, 1, device=graph.device)
    isolated = (graph.degree == 0)[:, None]
    for _ in range(PRODUCTS):
        moved = scale * multiply(graph.walk, rank / scale)  # Aᵀ D⁻¹ = D^½ S D^-½
        rank = 1 - DAMPING + DAMPING * (moved + (rank * isolated).sum() / n)
    return rank.log()


def log_core_number(graph: Neighbours) -> Tensor:
    """Return log(1 + core number), ``[N, 1]``.

    The core number of a node is the largest k so that it belongs to a subgraph with all degrees at least k. Nodes are
    removed in rounds: in a round, all nodes whose remaining degree is at most k. Each edge is visited once.

    Examples:
        >>> triangle_with_tail = Neighbours(torch.tensor([[0, 0, 1, 2], [1, 2, 2, 3]]), num_nodes=4)
        >>> log_core_number(triangle_with_tail).exp().sub(1).flatten()
        tensor([2., 2., 2., 1.])
    """
    remaining, core = graph.degree.clone(), torch.zeros_like(graph.degree)
    left = torch.ones_like(core, dtype=torch.bool)
    k = 0
    while left.any():
        k = max(k, int(remaining[left].min()))
        leaving = (left & (remaining <= k)).nonzero().flatten()
        while leaving.numel():
            core[leaving] = k
            left[leaving] = False
            ends = _neighbours_of(graph, leaving)
            remaining.index_add_(0, ends, torch.full_like(ends, -1))
            leaving = ends[left[ends] & (remaining[ends] <= k)].unique()
    return core.float().log1p()[:, None]


def _neighbours_of(graph: Neighbours, nodes: Tensor) -> Tensor:
    """Return the neighbours of some nodes, one list after the other."""
    count = graph.degree[nodes]
    first = torch.repeat_interleave(graph.rowptr[nodes] - (count.cumsum(0) - count), count)
    return graph.col[first + torch.arange(first.numel(), device=graph.device)]


def clustering(graph: Neighbours, seed: int = 0) -> Tensor:
    """Return the share of pairs of neighbours that are joined by an edge, ``[N, 1]``; 0 below two neighbours.

    Up to a degree of 16 all pairs are counted. Above, 128 random pairs give an estimate with a standard error of at
    most 0.044, so that hubs do not cost more than other nodes.

    Examples:
        >>> clustering(Neighbours(torch.tensor([[0, 0, 1, 2], [1, 2, 2, 3]]), num_nodes=4)).flatten()
        tensor([1.0000, 1.0000, 0.3333, 0.0000])
    """
    result = torch.zeros(graph.num_nodes, 1, device=graph.device)
    pairs = graph.degree * (graph.degree - 1) // 2
    for nodes in (pairs > 0).nonzero().flatten().split(BLOCK // SAMPLED_PAIRS):
        if nodes.numel() == 0:  # an empty tensor is split into one part
            break
        count = pairs[nodes].clamp(max=SAMPLED_PAIRS)
        node = torch.repeat_interleave(nodes, count)
        start = torch.repeat_interleave(count.cumsum(0) - count, count)
        index = torch.arange(node.numel(), device=graph.device) - start
        drawn = (uniform64(node * SAMPLED_PAIRS + index, seed, Stream.STRUCTURE, 0) * pairs[node]).long()
        index = torch.where(pairs[node] > SAMPLED_PAIRS, drawn, index)
        # Pair number p is (a, b) with a < b and p = b(b − 1)/2 + a.
        b = ((1 + (1 + 8 * index.double()).sqrt()) / 2).long()
        a = index - b * (b - 1) // 2
        first = graph.rowptr[node]
        joined = graph.contains(graph.col[first + a], graph.col[first + b])
        share = torch.segment_reduce(joined.float(), "sum", lengths=count) / count
        result[nodes, 0] = share
    return result


def return_probabilities(graph: Neighbours, seed: int = 0) -> Tensor:
    """Return the probabilities that a random walk is back at its node after 2, ..., 9 steps, ``[N, 8]``.

    The probability after two steps is exact. The others are estimated with S = D^-½ A D^-½ and random signs V: as
    V Vᵀ = I in expectation, the diagonal of S^(a+b) is the row sum of (S^a V) ∘ (S^b V). Estimates are unbiased, and
    may therefore be slightly negative.

    Examples:
        >>> edge = Neighbours(torch.tensor([[0], [1]]), num_nodes=2)
        >>> return_probabilities(edge)[0, ::2]  # after an even number of steps
        tensor([1., 1., 1., 1.])
    """
    n = graph.num_nodes
    estimate = torch.zeros(n, RETURNS + 2, device=graph.device)
    nodes = torch.arange(n, device=graph.device)[:, None]
    columns = torch.arange(PROBES, device=graph.device)
    for part in columns.split(max(1, BLOCK // n)):
        signs = (uniform(nodes * PROBES + part, seed, Stream.STRUCTURE, 1) < 0.5).float() * 2 - 1
        before = signs
        for power in range(0, RETURNS + 2, 2):
            after = multiply(graph.walk, before)
            estimate[:, power] += (before * after).sum(1)  # S^(power + 1)
            estimate[:, power + 1] += after.square().sum(1)
            before = after
    result = estimate[:, 1 : RETURNS + 1] / PROBES
    squares = graph.walk.value.square()
    result[:, 0] = torch.segment_reduce(squares, "sum", offsets=graph.rowptr)
    return result
