"""Positions from random walks: the nodes that walks from a node meet more often than chance, in few columns."""

import torch
from torch import Tensor

from epagcl.core.pca import Operator, principal_components
from epagcl.core.randomness import Stream, uniform64
from epagcl.core.sparse import SparseMatrix, multiply, rowptr_of
from epagcl.data.structural.adjacency import Neighbours

WALKS = 256  # from each node
STEPS = 10  # of each walk
DECAY = 0.85  # weight of a step relative to the step before
PRIOR = 1.0  # meetings that chance is given in advance, so that rare ones count little
ALPHA = 0.1  # share of a node's own position in each smoothing step
SMOOTHING = 10  # steps
BLOCK = 1 << 22  # visits in memory at once


def walk_positions(graph: Neighbours, dim: int, seed: int = 0) -> Tensor:
    r"""Return positions by factorising how much more often than by chance walks from i meet j, ``[N, dim]``.

    .. math::
        M_{ij} = \max\left(0, \log \frac{c_{ij} + \kappa}{e_{j} + \kappa}\right), \quad
        Z = \mathrm{PPR}_{\alpha}(\tfrac{1}{2}(M + M^\top) V)

    c_ij are the visits of 256 walks of 10 steps from i, with weights that decrease by step, less one standard error;
    e_j is their expectation if walks moved to random ends of edges. The visits of the first step are not sampled but
    exact. V are the leading singular vectors. The positions are then smoothed over neighbours as in personalised
    PageRank.

    DeepWalk and node2vec implicitly factorise such a matrix (`"Network Embedding as Matrix Factorization"
    <https://arxiv.org/abs/1710.02971>`_); here it is sampled, sparse and factorised by products alone. Time is linear
    in nodes and edges, memory O(N·dim + E): M has at most a few hundred entries per node.

    Examples:
        >>> two_triangles = Neighbours(torch.tensor([[0, 0, 1, 3, 3, 4], [1, 2, 2, 4, 5, 5]]), num_nodes=6)
        >>> z = walk_positions(two_triangles, dim=2)
        >>> cosine = torch.nn.functional.normalize(z) @ torch.nn.functional.normalize(z[0], dim=0)
        >>> cosine.round(decimals=4).abs()
        tensor([1., 1., 1., 0., 0., 0.])
    """
    matrix = meeting_matrix(graph, seed)
    n = graph.num_nodes
    operator = Operator((n, n), lambda v: multiply(matrix, v), lambda v: multiply(matrix, v), graph.device)
    directions = principal_components(operator, dim, mean=torch.zeros(n, device=graph.device)).directions
    position = multiply(matrix, directions.contiguous())
    smooth = position
    for _ in range(SMOOTHING):
        smooth = multiply(graph.adjacency, smooth).mul_(1 - ALPHA).add_(position, alpha=ALPHA)
    return smooth


def meeting_matrix(graph: Neighbours, seed: int = 0) -> SparseMatrix:
    """Return ½(M + Mᵀ) of :func:`walk_positions`.

    Examples:
        >>> matrix = meeting_matrix(Neighbours(torch.tensor([[0, 2], [1, 3]]), num_nodes=4))
        >>> (matrix.to_dense() > 0).int().tolist()
        [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]
    """
    n = graph.num_nodes
    nodes = torch.arange(n, device=graph.device).split(max(1, BLOCK // (WALKS * STEPS)))
    parts = [_meetings(graph, part, seed) for part in nodes]
    row, col, value = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
    key, order = torch.sort(torch.cat([row * n + col, col * n + row]), stable=True)
    key, count = torch.unique_consecutive(key, return_counts=True)
    value = torch.segment_reduce(torch.cat([value, value])[order] / 2, "sum", lengths=count)
    return SparseMatrix(rowptr_of(key // n, n), key % n, value, (n, n), symmetric=True)


def _meetings(graph: Neighbours, nodes: Tensor, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the entries of M in the rows of some consecutive nodes."""
    n, device = graph.num_nodes, graph.device
    weights = torch.tensor([DECAY**step for step in range(STEPS)], dtype=torch.float64, device=device)
    weights *= STEPS / weights.sum()
    first, last = graph.rowptr[nodes[0]], graph.rowptr[nodes[-1] + 1]
    row, col = graph.edges[:, first:last]
    sampled = _visits(graph, nodes, seed)  # of steps 2, 3, ...
    size = sampled[0].numel()
    exact = WALKS * weights[0] / graph.degree[row].double()
    key, order = torch.sort(torch.cat([row * n + col, *sampled]), stable=True)
    weight = torch.cat([torch.zeros_like(exact), weights[1:].repeat_interleave(size)])[order]
    certain = torch.cat([exact, exact.new_zeros(size * (STEPS - 1))])[order]
    key, count = torch.unique_consecutive(key, return_counts=True)
    visits, variance, certain = (
        torch.segment_reduce(x, "sum", lengths=count) for x in (weight, weight.square(), certain)
    )
    visits = certain + (visits - variance.sqrt()).clamp_(min=0)
    row, col = key // n, key % n
    chance = WALKS * STEPS * graph.degree[col].double() / graph.degree.sum()
    value = ((visits + PRIOR) / (chance + PRIOR)).log()
    kept = (value > 0) & (row != col)
    return row[kept], col[kept], value[kept].float()


def _visits(graph: Neighbours, nodes: Tensor, seed: int) -> list[Tensor]:
    """Return the nodes that walks visit in steps 2, 3, ..., each as start·N + node."""
    nodes = nodes[graph.degree[nodes] > 0]
    walk = (nodes[:, None] * WALKS + torch.arange(WALKS, device=nodes.device)).flatten()
    start = current = nodes.repeat_interleave(WALKS)
    keys = []
    for step in range(STEPS):
        u = uniform64(walk, seed, Stream.STRUCTURE, 3, step)
        current = graph.col[graph.rowptr[current] + (u * graph.degree[current]).long()]
        keys.append(start * graph.num_nodes + current)
    return keys[1:]
