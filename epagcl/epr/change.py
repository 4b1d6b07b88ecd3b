"""Error Passing Rate (EPR): the share of messages that come from another class, and how one edge changes it.

Throughout, Â_ij = 1/√(d_i d_j) on edges and 0 elsewhere: the message between two nodes of a GCN. It is wrong
when i and j are of different classes. Sums run over both directions of an edge; all arithmetic is float64.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from epagcl.core.errors import InputError
from epagcl.data.checking import undirected_pairs
from epagcl.epr.alpha import alpha_add, alpha_drop
from epagcl.epr.rate import Messages, canonical_pairs, check_edge_index, messages


def epr_change(
    edge_index: Tensor, y: Tensor, pairs: Tensor | Sequence[tuple[int, int]], self_loops: bool = False
) -> Tensor:
    """The exact r_{G'} − r_G (Proposition 3.2) when each pair alone is added if absent, dropped if present.

    Only the edges of i and j change. With q = d (d + 1 with ``self_loops``), q' = q ± 1, ξ = [c_i ≠ c_j], and
    the sums m_i and e_i of all and of wrong messages to i over its *other* edges (Section 3.3),

        m' − m = 2(√(q_i/q'_i) − 1) m_i + 2(√(q_j/q'_j) − 1) m_j ± α_ij,
        e' − e = 2(√(q_i/q'_i) − 1) e_i + 2(√(q_j/q'_j) − 1) e_j ± ξα_ij,
        r_{G'} − r_G = ((e' − e) − r_G (m' − m)) / m'.

    O(E log E) once, O(log E) a pair. Theorem 3.3 says that additions within a class lower and those between
    classes raise EPR. It does not hold as stated: its proof bounds m₂ and m₃ by one direction of each edge,
    while α counts both. Small exceptions exist, on regular graphs too.

    Args:
        edge_index, y, self_loops: as in :func:`error_passing_rate`.
        pairs: [2, P] like an edge_index, or [P, 2], or a list of tuples (i, j); each in any direction. The result is
            [P], NaN where G or G' has no edge.
    """
    graph = messages(*canonical_pairs(edge_index, y), self_loops)
    return pair_changes(graph, _check_pairs(pairs, graph))[0]


def epr_change_predicted(
    edge_index: Tensor, y: Tensor, pairs: Tensor | Sequence[tuple[int, int]], k: float | None = None
) -> Tensor:
    """Theorem 3.5's value of :func:`epr_change`: the theory beside the exact figure.

        added:    (ξ − k) α_ij / m',    α_ij = 2/√((d_i + 1)(d_j + 1)),    m' = ΣÂ after adding (exact);
        dropped:  (k − ξ) α_ij / m',    α_ij = 2/√(d_i d_j),    m' = ΣÂ of the graph at hand, the G' of Eq. 6.

    What is exact under Assumption 3.4 (M_wp,i / M_i = k at every node that receives anything):

    - *Additions*, if it holds for the graph at hand; k is then that graph's EPR, the default.
    - *Drops*, if it holds for the graph *without* the edge and k is the EPR of that graph. The default, the
      EPR of the graph at hand, then gives 1 − α_ij/m' times the exact value. If it holds for the graph at
      hand instead, Eq. 6 is off: exact is (k − ξ) α_ij (√(d_i/(d_i − 1)) + √(d_j/(d_j − 1)) − 1) / m for
      d_i, d_j > 1, with m = ΣÂ after dropping.

    Arguments and result are those of :func:`epr_change`; ``k`` is by default the EPR per edge.
    """
    graph = messages(*canonical_pairs(edge_index, y), self_loops=False)
    return pair_changes(graph, _check_pairs(pairs, graph), k)[1]


@dataclass(frozen=True)
class Theorem33:
    """The conditions of Theorem 3.3 on a graph: d_max ≤ 4·d_min − 1 and d_min ≥ 1."""

    d_min: int
    d_max: int
    holds: bool


def theorem_3_3_conditions(edge_index: Tensor, num_nodes: int) -> Theorem33:
    """Smallest and largest degree (isolated nodes count), and whether Theorem 3.3 speaks of such a graph."""
    if num_nodes < 1:
        raise InputError(f"num_nodes={num_nodes}; a graph needs at least one node")
    pairs = undirected_pairs(check_edge_index(edge_index, num_nodes), num_nodes)
    d_min, d_max = (int(d) for d in torch.bincount(pairs.flatten(), minlength=num_nodes).aminmax())
    return Theorem33(d_min, d_max, holds=d_min >= 1 and d_max <= 4 * d_min - 1)


def pair_changes(graph: Messages, pairs: Tensor, k: float | None = None) -> tuple[Tensor, Tensor]:
    """What toggling each pair alone does to EPR: exactly (:func:`epr_change`), and by Theorem 3.5."""
    edges, key = (i * graph.y.numel() + j for i, j in (graph.pairs, pairs.sort(dim=0).values))
    place = torch.searchsorted(edges, key)  # in order, as the pairs are
    present = torch.cat([edges, edges.new_full((1,), -1)])[place] == key
    alpha = torch.where(present, alpha_drop(graph.q, pairs), alpha_add(graph.q, pairs))
    xi = (graph.y[pairs[0]] != graph.y[pairs[1]]).double()
    sign = torch.where(present, -1, 1)
    q = graph.q[pairs]
    # An end that loses its only edge has no other to scale: any finite factor serves in place of √(1/0).
    scale = 2 * ((q / (q + sign).clamp(min=1).double()).sqrt() - 1)
    own = present * alpha / 2  # the pair's message, part of the sums of i and j and not of their other edges
    delta_m = (scale * (graph.received[pairs] - own)).sum(dim=0) + sign * alpha
    delta_e = (scale * (graph.wrong[pairs] - own * xi)).sum(dim=0) + sign * alpha * xi
    m = graph.received.sum()
    rate = graph.wrong.sum() / m
    exact = (delta_e - rate * delta_m) / (m + delta_m)
    k = rate if k is None else k
    predicted = torch.where(present, (k - xi) * alpha / m, (xi - k) * alpha / (m + delta_m))
    num_edges = graph.pairs.shape[1]
    no_edge = (num_edges == 0) | ((num_edges == 1) & present)
    return exact.masked_fill(no_edge, math.nan), predicted.masked_fill(no_edge, math.nan)


def _check_pairs(pairs: Tensor | Sequence[tuple[int, int]], graph: Messages) -> Tensor:
    rows = not isinstance(pairs, Tensor) and len(pairs) > 0 and isinstance(pairs[0], tuple)  # [(i, j), ...]
    pairs = torch.as_tensor(pairs)
    if rows or (pairs.dim() == 2 and pairs.shape[1] == 2 != pairs.shape[0]):
        pairs = pairs.T
    pairs = check_edge_index(pairs.to(graph.y.device), graph.y.numel(), name="pairs")
    if (loops := pairs[0] == pairs[1]).any():
        place = int(loops.nonzero()[0])
        raise InputError(f"pairs[:, {place}] is node {int(pairs[0, place])} twice; give two different nodes")
    return pairs
