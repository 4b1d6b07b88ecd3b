"""How one edge changes EPR: the exact change, Theorem 3.5's prediction, and conditions for Theorem 3.3."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from epagcl.core.checks import INT64_LIMIT, check_whole
from epagcl.core.errors import InputError
from epagcl.core.memory import check_memory
from epagcl.data.checking import undirected_pairs
from epagcl.epr.alpha import alpha_add, alpha_drop
from epagcl.epr.rate import Messages, canonical_pairs, check_edge_index, check_pair_weights, compute_messages

#: A change of m below this share of α is a rounding error: on some graphs an edge leaves m exactly as it is.
_TIE = 1e-12


def epr_change(
    edge_index: Tensor,
    y: Tensor,
    pairs: Tensor | Sequence[tuple[int, int]],
    self_loops: bool = False,
    edge_weight: Tensor | None = None,
) -> Tensor:
    """Return the exact change of EPR per edge, r_{G'} − r_G (Proposition 3.2), for each pair separately.

    A pair that is not an edge is added. A pair that is an edge is dropped. Only messages along edges of i or j change.
    Let q = d (d + 1 with ``self_loops``), q' = q ± 1 and ξ = [c_i ≠ c_j]. Let m_i and e_i be the sums of all and of the
    wrong messages to i over its *other* edges (Section 3.3). (With weights, q' = q − w_ij for a dropped edge, and pairs
    are added with the mean weight 1.) Then

        m' − m = 2(√(q_i/q'_i) − 1) m_i + 2(√(q_j/q'_j) − 1) m_j ± α_ij,
        e' − e = 2(√(q_i/q'_i) − 1) e_i + 2(√(q_j/q'_j) − 1) e_j ± ξα_ij,
        r_{G'} − r_G = ((e' − e) − r_G (m' − m)) / m'.

    The time is O(E log E) once and O(log E) per pair.

    Theorem 3.3 states that additions within a class lower EPR and additions between classes raise it. It does not hold
    as stated: its proof bounds m₂ and m₃ by one direction of each edge, while α counts both. There are small
    exceptions, even on regular graphs. :func:`theorem_3_3_repaired` tells for which pairs it holds.

    Args:
        edge_index: edges in one or both directions, ``[2, E]``.
        y: class of each node, ``[N]``.
        pairs: ``[2, P]`` like an edge_index, or ``[P, 2]``, or a list of tuples (i, j), in either direction.
        self_loops: True uses d + 1 under the root of Â.
        edge_weight: positive weight of each edge, ``[E]``, as in :func:`~epagcl.epr.error_passing_rate`.

    Returns:
        A float64 tensor ``[P]``, NaN where the graph has no edge before or after the change.

    Examples:
        >>> import torch
        >>> star, y = torch.tensor([[0, 0, 0], [1, 2, 3]]), torch.tensor([0, 0, 0, 1])
        >>> epr_change(star, y, [(0, 3)])  # drops the only wrong edge: EPR falls from 1/3 to 0
        tensor([-0.3333], dtype=torch.float64)
    """
    edges, y = canonical_pairs(edge_index, y)
    graph = compute_messages(edges, y, self_loops, check_pair_weights(edge_index, edge_weight, y.numel()))
    return pair_changes(graph, _check_pairs(pairs, graph))[0]


def epr_change_predicted(
    edge_index: Tensor, y: Tensor, pairs: Tensor | Sequence[tuple[int, int]], k: float | None = None
) -> Tensor:
    """Return the change of EPR per edge that Theorem 3.5 predicts for each pair separately.

        added:    (ξ − k) α_ij / m',    α_ij = 2/√((d_i + 1)(d_j + 1)),    m' = ΣÂ after the addition (exact);
        dropped:  (k − ξ) α_ij / m',    α_ij = 2/√(d_i d_j),    m' = ΣÂ of the given graph, the G' of Eq. (6).

    Assumption 3.4 states that M_wp,i / M_i = k at every node i that receives a message. Under it, the prediction is
    exact in the following cases:

    - *Additions*, if the assumption holds for the given graph. Then k is the EPR of that graph, which is the default.
    - *Drops*, if the assumption holds for the graph *without* the edge and k is the EPR of that graph. The default k,
      the EPR of the given graph, then gives 1 − α_ij/m' times the exact value. If the assumption holds for the given
      graph instead, Eq. (6) is not exact. The exact value is (k − ξ) α_ij (√(d_i/(d_i − 1)) + √(d_j/(d_j − 1)) − 1) / m
      for d_i, d_j > 1, with m = ΣÂ after the drop.

    Args:
        edge_index: edges in one or both directions, ``[2, E]``.
        y: class of each node, ``[N]``.
        pairs: as in :func:`epr_change`.
        k: the constant of Assumption 3.4; by default the EPR per edge.

    Returns:
        A float64 tensor ``[P]``, NaN where the graph has no edge before or after the change.

    Examples:
        >>> import torch
        >>> star, y = torch.tensor([[0, 0, 0], [1, 2, 3]]), torch.tensor([0, 0, 0, 1])
        >>> epr_change_predicted(star, y, [(0, 3)])
        tensor([-0.2222], dtype=torch.float64)
    """
    graph = compute_messages(*canonical_pairs(edge_index, y), self_loops=False)
    return pair_changes(graph, _check_pairs(pairs, graph), k)[1]


@dataclass(frozen=True)
class Theorem33:
    """The conditions of Theorem 3.3 on a graph: d_max ≤ 4·d_min − 1 and d_min ≥ 1.

    Attributes:
        d_min: smallest degree.
        d_max: largest degree.
        holds: whether both conditions are met.

    Examples:
        >>> Theorem33(d_min=1, d_max=168, holds=False).holds
        False
    """

    d_min: int
    d_max: int
    holds: bool


def theorem_3_3_conditions(edge_index: Tensor, num_nodes: int) -> Theorem33:
    """Return the smallest and the largest degree, and whether a graph meets the conditions of Theorem 3.3.

    Args:
        edge_index: edges in one or both directions, ``[2, E]``.
        num_nodes: number of nodes, isolated nodes included.

    Examples:
        >>> import torch
        >>> theorem_3_3_conditions(torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=3)
        Theorem33(d_min=2, d_max=2, holds=True)
    """
    num_nodes = _check_num_nodes(num_nodes)
    pairs = undirected_pairs(check_edge_index(edge_index, num_nodes), num_nodes)
    d_min, d_max = (int(d) for d in torch.bincount(pairs.flatten(), minlength=num_nodes).aminmax())
    return Theorem33(d_min, d_max, holds=d_min >= 1 and d_max <= 4 * d_min - 1)


def theorem_3_3_repaired(
    edge_index: Tensor, num_nodes: int, pairs: Tensor | Sequence[tuple[int, int]], self_loops: bool = False
) -> Tensor:
    """Return for each pair whether the statement of Theorem 3.3 holds for it, whatever the classes of the nodes.

    The condition is that the edge raises the sum m of all messages. Let q = d (d + 1 with ``self_loops``) without the
    edge, and S_i = Σ_u 1/√q_u over the other neighbours u of i. Then m rises if and only if

        √(q_j + 1) (√(1 + 1/q_i) − 1) S_i + √(q_i + 1) (√(1 + 1/q_j) − 1) S_j < 1.

    (A term is 0 if its S is.) If the condition is met and the two nodes are in the same class, adding the edge lowers
    EPR per edge, or leaves it at 0. If they are in different classes, adding it raises EPR, or leaves it at 1. Dropping
    the edge does the opposite. *Proof:* Adding an edge lowers the weight of every other edge at i and j. Within a
    class, the sum e of the wrong messages therefore does not grow, while m does, and r = e/m falls. Between classes,
    the same holds for m − e and 1 − r.

    An absent pair meets the condition if max(d_i, d_j) ≤ d_u + 1 (with ``self_loops``; ≤ d_u − 1 without) for all
    neighbours u of i and j. With ``self_loops``, all absent pairs meet it if d_max ≤ d_min + 1. Without, no absent
    pair of a regular graph meets it.

    Args:
        edge_index: edges in one or both directions, ``[2, E]``.
        num_nodes: number of nodes, isolated nodes included.
        pairs: as in :func:`epr_change`; absent pairs are added, edges are dropped.
        self_loops: True uses d + 1 under the root of Â.

    Returns:
        A boolean tensor ``[P]``.

    Examples:
        >>> import torch
        >>> square = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
        >>> theorem_3_3_repaired(square, 4, [(0, 2)]), theorem_3_3_repaired(square, 4, [(0, 2)], self_loops=True)
        (tensor([False]), tensor([True]))
    """
    num_nodes = _check_num_nodes(num_nodes)
    graph = compute_messages(*canonical_pairs(edge_index, edge_index.new_zeros(num_nodes)), self_loops)
    toggle = _Toggle.of(graph, _check_pairs(pairs, graph))
    return toggle.sign * toggle.change_of(graph.received) > _TIE * toggle.alpha


def pair_changes(graph: Messages, pairs: Tensor, k: float | None = None) -> tuple[Tensor, Tensor]:
    """Return the change of EPR per edge if each pair alone is added or dropped: exact, and by Theorem 3.5."""
    toggle = _Toggle.of(graph, pairs)
    xi = (graph.y[pairs[0]] != graph.y[pairs[1]]).double()
    delta_m, delta_e = toggle.change_of(graph.received), toggle.change_of(graph.wrong, xi)
    m = graph.received.sum()
    rate = graph.wrong.sum() / m
    exact = (delta_e - rate * delta_m) / (m + delta_m)
    constant = rate if k is None else k
    present, alpha = toggle.present, toggle.alpha
    predicted = torch.where(present, (constant - xi) * alpha / m, (xi - constant) * alpha / (m + delta_m))
    num_edges = graph.pairs.shape[1]
    no_edge = (num_edges == 0) | ((num_edges == 1) & present)
    return exact.masked_fill(no_edge, math.nan), predicted.masked_fill(no_edge, math.nan)


class _Toggle(NamedTuple):
    """What adding an absent pair, or dropping an edge, does to the messages.

    Attributes:
        pairs: the changed pairs, ``[2, P]``.
        present: whether a pair is an edge.
        sign: 1 where a pair is added, −1 where it is dropped.
        alpha: α of each pair, the sum of both directions of its message.
        scale: 2(√(q/q') − 1) for both ends of each pair, ``[2, P]``.
    """

    pairs: Tensor
    present: Tensor
    sign: Tensor
    alpha: Tensor
    scale: Tensor

    @classmethod
    def of(cls, graph: Messages, pairs: Tensor) -> "_Toggle":
        edges, key = (i * graph.y.numel() + j for i, j in (graph.pairs, pairs.sort(dim=0).values))
        place = torch.searchsorted(edges, key)  # the pairs of a graph are sorted
        present = torch.cat([edges, edges.new_full((1,), -1)])[place] == key
        sign = torch.where(present, -1, 1)
        weight = None if graph.weight is None else torch.cat([graph.weight, graph.weight[:1]])[place]
        alpha = torch.where(present, alpha_drop(graph.q, pairs, weight), alpha_add(graph.q, pairs))
        q = graph.q[pairs]
        after = q + sign if weight is None else q + torch.where(present, -weight, 1.0)
        # A node that loses its only edge has no other messages to scale. Any finite factor can replace √(1/0).
        loses_all = present & (graph.degree[pairs] == 1)
        scale = 2 * ((q / torch.where(loses_all, q, after).double()).sqrt() - 1)
        return cls(pairs, present, sign, alpha, scale)

    def change_of(self, received: Tensor, counted: Tensor | float = 1.0) -> Tensor:
        """Return the change of a sum of messages, given its part for each node, and 1 where it counts the pair's."""
        own = self.present * self.alpha / 2  # the pair's own message, which m_i and e_i over the other edges lack
        return (self.scale * (received[self.pairs] - own * counted)).sum(dim=0) + self.sign * self.alpha * counted


def _check_num_nodes(num_nodes: int) -> int:
    num_nodes = check_whole(num_nodes, "num_nodes", -INT64_LIMIT)
    if num_nodes < 1:
        raise InputError(f"num_nodes={num_nodes}; a graph needs at least one node")
    check_memory(8 * num_nodes, f"num_nodes={num_nodes:,}: their degrees", "give the number of nodes of this graph")
    return num_nodes


def _check_pairs(pairs: Tensor | Sequence[tuple[int, int]], graph: Messages) -> Tensor:
    """Return the pairs as a checked ``[2, P]`` tensor on the graph's device."""
    is_list_of_tuples = not isinstance(pairs, Tensor) and len(pairs) > 0 and isinstance(pairs[0], tuple)
    columns = torch.as_tensor(pairs)
    if is_list_of_tuples or (columns.dim() == 2 and columns.shape[1] == 2 != columns.shape[0]):
        columns = columns.T
    columns = check_edge_index(columns.to(graph.y.device), graph.y.numel(), name="pairs")
    if (loops := columns[0] == columns[1]).any():
        place = int(loops.nonzero()[0])
        raise InputError(f"pairs[:, {place}] is node {int(columns[0, place])} twice; pass two different nodes")
    return columns
