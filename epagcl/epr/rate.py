"""Error Passing Rate (EPR): the share of messages that come from another class, and how one edge changes it.

Throughout, Â_ij = 1/√(d_i d_j) on edges and 0 elsewhere: the message between two nodes of a GCN. It is wrong
when i and j are of different classes. Sums run over both directions of an edge; all arithmetic is float64.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from epagcl.core.errors import InputError
from epagcl.core.sparse import SparseMatrix, multiply
from epagcl.data.checking import undirected_pairs
from epagcl.epr.alpha import alpha_drop

# Entries held at a time by the intermediate matrices of hops > 1: a few hundred MB.
_ENTRIES = 2**24


@dataclass(frozen=True)
class Rates:
    """EPR in its two forms (:func:`error_passing_rate`)."""

    per_node: float
    per_edge: float


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
    rates = rates_of(messages(*canonical_pairs(edge_index, y), self_loops), int(hops))
    return rates.per_node if per == "node" else rates.per_edge


@dataclass(frozen=True)
class Messages:
    """A graph's messages: of each pair, and per node the sums m_i and e_i over all its edges."""

    pairs: Tensor
    y: Tensor
    degree: Tensor
    q: Tensor  # what stands under the root of Â: d, or d + 1
    a_hat: Tensor
    differs: Tensor
    received: Tensor
    wrong: Tensor


def messages(pairs: Tensor, y: Tensor, self_loops: bool) -> Messages:
    degree = torch.bincount(pairs.flatten(), minlength=y.numel())
    q = degree + int(self_loops)
    a_hat = alpha_drop(q, pairs) / 2  # α counts both directions of the edge, Â one
    differs = y[pairs[0]] != y[pairs[1]]
    received, wrong = (sum_per_node(pairs, value, y.numel()) for value in (a_hat, a_hat * differs))
    return Messages(pairs, y, degree, q, a_hat, differs, received, wrong)


def rates_of(graph: Messages, hops: int = 1) -> Rates:
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


def _walks(graph: Messages, hops: int) -> tuple[Tensor, Tensor]:
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
    back = sum_per_node(graph.pairs, graph.a_hat**2, num_nodes) if hops == 2 else _diagonal(a_hat, hops)
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


def sum_per_node(pairs: Tensor, value: Tensor, num_nodes: int) -> Tensor:
    """Of each node, the sum over its pairs."""
    return value.new_zeros(num_nodes).index_add_(0, pairs.flatten(), value.repeat(2))


def canonical_pairs(edge_index: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The undirected pairs and the classes, checked."""
    y = y.to(edge_index.device).squeeze(1) if y.dim() == 2 else y.to(edge_index.device)
    if y.dim() != 1 or y.numel() == 0:
        raise InputError(f"y has shape {tuple(y.shape)}; give one class number per node, [N]")
    if missing := int((~(y >= 0)).sum()):  # NaN as well
        fix = "EPR needs all; keep the labelled part: data.subgraph(data.y >= 0)"
        raise InputError(f"{missing:,} of {y.numel():,} nodes have no class, and {fix}")
    return undirected_pairs(check_edge_index(edge_index, y.numel()), y.numel()), y


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
