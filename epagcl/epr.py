"""Error Passing Rate (EPR): the share of messages that come from another class, and how one edge changes it.

Throughout, Â_ij = 1/√(d_i d_j) on edges and 0 elsewhere: the message between two nodes of a GCN. It is wrong
when i and j are of different classes. Sums run over both directions of an edge; all arithmetic is float64.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from epagcl.data.check import undirected_pairs
from epagcl.errors import InputError
from epagcl.sparse import SparseMatrix, multiply

# Entries held at a time by the intermediate matrices of hops > 1: a few hundred MB.
_ENTRIES = 2**24


def alpha_drop(degree: Tensor, pairs: Tensor) -> Tensor:
    """Weight of dropping each pair (Eq. 6, Appendix C): α_ij = 2/√(d_i d_j), from integer degrees ``[N]``.

    The integer product comes first, so that pairs of equal product have bit-equal weights.
    """
    return 2 / (degree[pairs[0]] * degree[pairs[1]]).double().sqrt()


def alpha_add(degree: Tensor, pairs: Tensor) -> Tensor:
    """Weight of adding each pair (Eq. 5, Theorem 3.5): α_ij = 2/√((d_i + 1)(d_j + 1))."""
    return alpha_drop(degree + 1, pairs)


def error_passing_rate(
    edge_index: Tensor, y: Tensor, per: str = "node", self_loops: bool = False, hops: int = 1
) -> float:
    """The share of messages that come from another class (Definition 3.1); NaN where there is no message.

    - ``per="edge"`` (Proposition 3.2): Σ_{ij wrong} Â_ij / Σ_ij Â_ij.
    - ``per="node"``: the mean of Σ_{j wrong} Â_ij / Σ_j Â_ij over the nodes i that receive anything. The
      paper's table of EPRs (Appendix F) reports this one.

    **Higher order.** The paper suggests an EPR of more hops (Appendix G) and does not define it. ``hops=k``
    counts here the messages that reach a *distinct* node over walks of exactly k edges: the off-diagonal part
    of Â^k. With class indicators Y and the class c_i of node i, the wrong and all messages to i are

        W_i = Σ_{c ≠ c_i} (Â^k Y)_ic,    T_i = (Â^k 1)_i − (Â^k)_ii;

    EPR is ΣW/ΣT per edge, and per node the mean of W_i/T_i over the nodes with T_i > 0. At k = 1 this is the
    above. It costs O(k·E·C), and beyond 2 hops also the entries of Â^⌈k/2⌉ for the exact diagonal, in time
    but not in memory: they are made in blocks of rows.

    Args:
        edge_index: [2, E] in one or both directions; self-loops and duplicates do not count.
        y: class of each node, [N].
        self_loops: Â with d + 1 under the root, as a GCN has it. The self-loop itself is no message.
        hops: length k of the walks.
    """
    if per not in ("node", "edge"):
        raise InputError(f"per={per!r}; give 'node' or 'edge'")
    if hops < 1 or hops != int(hops):
        raise InputError(f"hops={hops}; give a whole number, 1 or more")
    rates = _rates(_messages(*_canonical(edge_index, y), self_loops), int(hops))
    return rates.per_node if per == "node" else rates.per_edge


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
    graph = _messages(*_canonical(edge_index, y), self_loops)
    return _changes(graph, _check_pairs(pairs, graph))[0]


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
    graph = _messages(*_canonical(edge_index, y), self_loops=False)
    return _changes(graph, _check_pairs(pairs, graph), k)[1]


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


@dataclass(frozen=True)
class Rates:
    """EPR in its two forms (:func:`error_passing_rate`)."""

    per_node: float
    per_edge: float


@dataclass(frozen=True)
class EdgeChange:
    """What dropping the edge i–j does to EPR per edge: exactly, and by Theorem 3.5."""

    i: int
    j: int
    change: float
    predicted: float


@dataclass(frozen=True)
class EPRSummary:
    """How noisy a graph is: EPR in its forms, what surrounds it, the edges whose removal lowers it most."""

    num_nodes: int
    num_edges: int
    num_classes: int
    epr: Rates
    epr_self_loops: Rates
    epr_2_hops: Rates
    edge_homophily: float
    node_homophily: float
    degree_min: int
    degree_mean: float
    degree_median: float
    degree_max: int
    isolated_nodes: int
    theorem_3_3: Theorem33
    most_harmful: tuple[EdgeChange, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, tuples and dictionaries, for JSON; None for NaN (v ≠ v), which JSON lacks."""
        return asdict(self, dict_factory=lambda items: {k: None if v != v else v for k, v in items})


def epr_summary(edge_index: Tensor, y: Tensor, top: int = 10) -> EPRSummary:
    """EPR of a graph per node and per edge, plain, with self-loops and over 2 hops, and what explains it.

    Edge homophily is the share of edges within a class, node homophily the mean over nodes with neighbours of
    the share of neighbours of their own class: 1 − EPR per edge and per node if all messages were alike.

    Args:
        edge_index, y: as in :func:`error_passing_rate`.
        top: how many of the edges whose removal lowers EPR per edge to name, the worst first.
    """
    pairs, y = _canonical(edge_index, y)
    graph, looped = _messages(pairs, y, self_loops=False), _messages(pairs, y, self_loops=True)
    degree, connected = graph.degree, graph.degree > 0
    other_class = _per_node(pairs, graph.differs.double(), y.numel())
    exact, predicted = _changes(graph, pairs)
    order = torch.argsort(exact, stable=True)[: max(top, 0)]
    order = order[exact[order] < 0]
    columns = *pairs[:, order].tolist(), exact[order].tolist(), predicted[order].tolist()
    return EPRSummary(
        num_nodes=y.numel(),
        num_edges=pairs.shape[1],
        num_classes=y.unique().numel(),
        epr=_rates(graph),
        epr_self_loops=_rates(looped),
        epr_2_hops=_rates(graph, hops=2),
        edge_homophily=float(1 - graph.differs.double().mean()),
        node_homophily=float(1 - (other_class / degree)[connected].mean()),
        degree_min=int(degree.min()),
        degree_mean=float(degree.double().mean()),
        degree_median=float(np.median(degree.cpu().numpy())),
        degree_max=int(degree.max()),
        isolated_nodes=int((~connected).sum()),
        theorem_3_3=theorem_3_3_conditions(pairs, y.numel()),
        most_harmful=tuple(EdgeChange(*edge) for edge in zip(*columns, strict=True)),
    )


@dataclass(frozen=True)
class _Messages:
    """A graph's messages: of each pair, and per node the sums m_i and e_i over all its edges."""

    pairs: Tensor
    y: Tensor
    degree: Tensor
    q: Tensor  # what stands under the root of Â: d, or d + 1
    a_hat: Tensor
    differs: Tensor
    received: Tensor
    wrong: Tensor


def _messages(pairs: Tensor, y: Tensor, self_loops: bool) -> _Messages:
    degree = torch.bincount(pairs.flatten(), minlength=y.numel())
    q = degree + int(self_loops)
    a_hat = alpha_drop(q, pairs) / 2  # α counts both directions of the edge, Â one
    differs = y[pairs[0]] != y[pairs[1]]
    received, wrong = (_per_node(pairs, value, y.numel()) for value in (a_hat, a_hat * differs))
    return _Messages(pairs, y, degree, q, a_hat, differs, received, wrong)


def _rates(graph: _Messages, hops: int = 1) -> Rates:
    wrong, total = (graph.wrong, graph.received) if hops == 1 else _walks(graph, hops)
    receives = graph.degree > 0
    if hops % 2 == 0:
        # An even walk can end elsewhere iff a neighbour has another neighbour (the rest goes back and forth).
        # The degrees say so exactly; T_i is a difference, and where it should be 0 it may be rounding.
        to_node, from_node = torch.cat([graph.pairs, graph.pairs.flip(0)], dim=1)
        receives = torch.zeros_like(receives).index_fill_(0, to_node[graph.degree[from_node] > 1], True)
    wrong, total = wrong[receives], total[receives]
    share = torch.where(wrong > 0, wrong / total, 0.0)  # T_i ≥ W_i; rounding may take T_i to 0 where W_i is
    return Rates(per_node=float(share.mean()), per_edge=float(wrong.sum() / total.sum()))


def _walks(graph: _Messages, hops: int) -> tuple[Tensor, Tensor]:
    """W_i and T_i for ``hops`` ≥ 2; W_i from other classes, without the cancellation of a difference."""
    num_nodes = graph.y.numel()
    row, col = torch.cat([graph.pairs, graph.pairs.flip(0)], dim=1)
    a_hat = SparseMatrix.from_coo(row, col, graph.a_hat.repeat(2), (num_nodes, num_nodes))
    wrong, same = torch.zeros_like(graph.received), torch.zeros_like(graph.received)
    for classes in graph.y.unique().split(max(1, _ENTRIES // num_nodes)):
        own = graph.y[:, None] == classes
        h = own.double()
        for _ in range(hops):
            h = multiply(a_hat, h)
        same += (h * own).sum(dim=1)
        wrong += (h * ~own).sum(dim=1)
    back = _per_node(graph.pairs, graph.a_hat**2, num_nodes) if hops == 2 else _diagonal(a_hat, hops)
    # Where nothing of the own class comes from elsewhere, the difference is rounding of either sign.
    return wrong, wrong + (same - back).clamp(min=0)


def _diagonal(a_hat: SparseMatrix, hops: int) -> Tensor:
    """(Â^k)_ii = Σ_j (Â^⌈k/2⌉)_ij (Â^⌊k/2⌋)_ij, as Â is symmetric; by blocks of rows."""
    parts = tuple(part.cpu().numpy() for part in (a_hat.value, a_hat.col, a_hat.rowptr))
    matrix = sp.csr_array(parts, shape=a_hat.shape)
    diagonal = np.zeros(matrix.shape[0])
    for rows in _row_blocks(matrix, power=(hops + 1) // 2):
        low = matrix[rows]
        for _ in range(hops // 2 - 1):
            low = low @ matrix
        products = low.power(2) if hops % 2 == 0 else low.multiply(low @ matrix)
        diagonal[rows] = products.sum(axis=1)
    return torch.from_numpy(diagonal).to(a_hat.device)


def _row_blocks(matrix: sp.csr_array, power: int) -> Iterator[slice]:
    """Runs of rows with about ``_ENTRIES`` entries in matrix^power, by an upper bound of each row's."""
    num_rows = matrix.shape[0]
    pattern = sp.csr_array((np.ones_like(matrix.data), matrix.indices, matrix.indptr), shape=matrix.shape)
    fill = np.ones(num_rows)
    for _ in range(power):
        fill = np.minimum(pattern @ fill, num_rows)
    cuts = np.flatnonzero(np.diff(np.cumsum(fill) // _ENTRIES)) + 1
    return (slice(*ends) for ends in pairwise([0, *cuts.tolist(), num_rows]))


def _changes(graph: _Messages, pairs: Tensor, k: float | None = None) -> tuple[Tensor, Tensor]:
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


def _per_node(pairs: Tensor, value: Tensor, num_nodes: int) -> Tensor:
    """Of each node, the sum over its pairs."""
    return value.new_zeros(num_nodes).index_add_(0, pairs.flatten(), value.repeat(2))


def _canonical(edge_index: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The undirected pairs and the classes, checked."""
    y = y.to(edge_index.device).squeeze(1) if y.dim() == 2 else y.to(edge_index.device)
    if y.dim() != 1 or y.numel() == 0:
        raise InputError(f"y has shape {tuple(y.shape)}; give one class number per node, [N]")
    if missing := int((~(y >= 0)).sum()):  # NaN as well
        fix = "EPR needs all; keep the labelled part: data.subgraph(data.y >= 0)"
        raise InputError(f"{missing:,} of {y.numel():,} nodes have no class, and {fix}")
    return undirected_pairs(check_edge_index(edge_index, y.numel()), y.numel()), y


def _check_pairs(pairs: Tensor | Sequence[tuple[int, int]], graph: _Messages) -> Tensor:
    rows = not isinstance(pairs, Tensor) and len(pairs) > 0 and isinstance(pairs[0], tuple)  # [(i, j), ...]
    pairs = torch.as_tensor(pairs)
    if rows or (pairs.dim() == 2 and pairs.shape[1] == 2 != pairs.shape[0]):
        pairs = pairs.T
    pairs = check_edge_index(pairs.to(graph.y.device), graph.y.numel(), name="pairs")
    if (loops := pairs[0] == pairs[1]).any():
        place = int(loops.nonzero()[0])
        raise InputError(f"pairs[:, {place}] is node {int(pairs[0, place])} twice; give two different nodes")
    return pairs


def check_edge_index(edge_index: Tensor, num_nodes: int, name: str = "edge_index") -> Tensor:
    """An edge_index as int64, or an error that names the first wrong column."""
    if edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise InputError(f"{name} has shape {tuple(edge_index.shape)}; give [2, P], one column a pair")
    if edge_index.numel() and (edge_index.is_floating_point() or edge_index.dtype == torch.bool):
        raise InputError(f"{name} is {edge_index.dtype}; node numbers must be integers")
    outside = ((edge_index < 0) | (edge_index >= num_nodes)).any(dim=0)
    if outside.any():
        place = int(outside.nonzero()[0])
        fix = f"nodes go from 0 to {num_nodes - 1:,}; correct it, or give a class for every node"
        raise InputError(f"{name}[:, {place}] is {tuple(edge_index[:, place].tolist())}, but {fix}")
    return edge_index.long()
