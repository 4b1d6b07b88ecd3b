"""The error passing rate per node and per edge, over one or several hops."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import isqrt

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from epagcl.core.checks import check_tensor, check_whole
from epagcl.core.errors import InputError
from epagcl.core.sparse import SparseMatrix, multiply
from epagcl.data.checking import pair_weights, undirected_pairs
from epagcl.epr.alpha import alpha_drop

# Maximum number of entries of an intermediate matrix for hops > 1; a few hundred MB.
_MAX_ENTRIES = 2**24
#: Longest walks of :func:`error_passing_rate`, whose time is proportional to their length.
MOST_HOPS = 10_000
#: Most nodes: the number of a pair, i·N + j, has 63 bits.
MOST_NODES = isqrt(2**63 - 1)


@dataclass(frozen=True)
class Rates:
    """EPR in its two forms, see :func:`error_passing_rate`.

    Attributes:
        per_node: mean over nodes of the share of wrong messages.
        per_edge: share of wrong messages over all edges (Proposition 3.2).

    Examples:
        >>> Rates(per_node=0.17, per_edge=0.16).per_node
        0.17
    """

    per_node: float
    per_edge: float


def error_passing_rate(
    edge_index: Tensor,
    y: Tensor,
    per: str = "node",
    self_loops: bool = False,
    hops: int = 1,
    edge_weight: Tensor | None = None,
) -> float:
    """Return the share of messages that come from another class (Definition 3.1).

    - ``per="edge"`` (Proposition 3.2): Σ_{ij wrong} Â_ij / Σ_ij Â_ij.
    - ``per="node"``: the mean of Σ_{j wrong} Â_ij / Σ_j Â_ij over the nodes i that receive a message. The paper's table
      of EPRs (Appendix F) reports this form.

    **Higher order.** The paper suggests an EPR over several hops (Appendix G) but does not define it. Here, ``hops=k``
    counts the messages that reach a *different* node over walks of exactly k edges, that is, the off-diagonal part of
    Â^k. With class indicators Y and the class c_i of node i, the wrong messages and all messages to i are

        W_i = Σ_{c ≠ c_i} (Â^k Y)_ic,    T_i = (Â^k 1)_i − (Â^k)_ii.

    EPR per edge is ΣW/ΣT. EPR per node is the mean of W_i/T_i over the nodes with T_i > 0. For k = 1 this equals the
    definition above. The time is O(k·E·C). Beyond 2 hops the exact diagonal also takes time proportional to the number
    of entries of Â^⌈k/2⌉. These are computed in blocks of rows, so that memory stays bounded.

    Args:
        edge_index: edges in one or both directions, ``[2, E]``. Self-loops and duplicates are ignored.
        y: class of each node, ``[N]``.
        per: ``"node"`` or ``"edge"``.
        self_loops: True uses d + 1 under the root, as a GCN does. The self-loop itself is not counted as a message.
        hops: length k of the walks.
        edge_weight: positive weight of each edge, ``[E]``: Â_ij = w_ij/√(d_i d_j), where the degrees d are sums of
            weights. The weights of repeated edges are added up, and those of the two directions averaged.

    Returns:
        A number between 0 and 1, or NaN if there are no messages.

    Examples:
        >>> import torch
        >>> path, y = torch.tensor([[0, 1], [1, 2]]), torch.tensor([0, 0, 1])
        >>> round(error_passing_rate(path, y, per="edge"), 4)
        0.5
        >>> error_passing_rate(path, y, hops=2)  # nodes 0 and 2 reach each other only
        1.0
    """
    if per not in ("node", "edge"):
        raise InputError(f"per={per!r}; pass 'node' or 'edge'")
    hops = check_whole(hops, "hops", 1, MOST_HOPS)
    pairs, y = canonical_pairs(edge_index, y)
    weight = check_pair_weights(edge_index, edge_weight, y.numel())
    rates = compute_rates(compute_messages(pairs, y, self_loops, weight), hops)
    return rates.per_node if per == "node" else rates.per_edge


@dataclass(frozen=True)
class Messages:
    """A graph's messages, per pair and summed per node.

    Attributes:
        pairs: undirected pairs, ``[2, E]``.
        y: class of each node.
        weight: positive weight of each pair; None: 1.
        degree: number of pairs of each node.
        q: the number under the root of Â: the degree d, or d + 1 with self-loops; with weights, d is their sum.
        a_hat: Â of each pair.
        differs: whether the two nodes of a pair are in different classes.
        received: sum m_i of all messages to each node.
        wrong: sum e_i of the wrong messages to each node.
    """

    pairs: Tensor
    y: Tensor
    weight: Tensor | None
    degree: Tensor
    q: Tensor
    a_hat: Tensor
    differs: Tensor
    received: Tensor
    wrong: Tensor


def compute_messages(pairs: Tensor, y: Tensor, self_loops: bool, weight: Tensor | None = None) -> Messages:
    """Return the messages of a graph."""
    degree = torch.bincount(pairs.flatten(), minlength=y.numel())
    q = (degree if weight is None else sum_per_node(pairs, weight.double(), y.numel())) + int(self_loops)
    a_hat = alpha_drop(q, pairs, weight) / 2  # α counts both directions of the edge, Â one
    differs = y[pairs[0]] != y[pairs[1]]
    received, wrong = (sum_per_node(pairs, value, y.numel()) for value in (a_hat, a_hat * differs))
    return Messages(pairs, y, weight, degree, q, a_hat, differs, received, wrong)


def compute_rates(graph: Messages, hops: int = 1) -> Rates:
    """Return EPR per node and per edge."""
    wrong, total = (graph.wrong, graph.received) if hops == 1 else _walks(graph, hops)
    receives = graph.degree > 0
    if hops % 2 == 0:
        # An even walk can end at another node iff a neighbour has a second neighbour; the remaining steps go back and
        # forth. The degrees decide this exactly, while T_i is a difference that may be nonzero by rounding.
        to_node, from_node = torch.cat([graph.pairs, graph.pairs.flip(0)], dim=1)
        receives = torch.zeros_like(receives).index_fill_(0, to_node[graph.degree[from_node] > 1], True)
    wrong, total = wrong[receives], total[receives]
    share = torch.where(wrong > 0, wrong / total, 0.0)  # T_i ≥ W_i, so T_i can be 0 only if W_i is
    return Rates(per_node=float(share.mean()), per_edge=float(wrong.sum() / total.sum()))


def _walks(graph: Messages, hops: int) -> tuple[Tensor, Tensor]:
    """Return W_i and T_i for ``hops`` ≥ 2.

    W_i is summed over the other classes. Subtracting the messages of the node's class from all messages would be
    inaccurate because of cancellation.
    """
    num_nodes = graph.y.numel()
    row, col = torch.cat([graph.pairs, graph.pairs.flip(0)], dim=1)
    a_hat = SparseMatrix.from_coo(row, col, graph.a_hat.repeat(2), (num_nodes, num_nodes))
    wrong, same = torch.zeros_like(graph.received), torch.zeros_like(graph.received)
    for classes in graph.y.unique().split(max(1, _MAX_ENTRIES // num_nodes)):
        own = graph.y[:, None] == classes
        h = own.double()
        for _ in range(hops):
            h = multiply(a_hat, h)
        same += (h * own).sum(dim=1)
        wrong += (h * ~own).sum(dim=1)
    back = sum_per_node(graph.pairs, graph.a_hat**2, num_nodes) if hops == 2 else _diagonal(a_hat, hops)
    # If no other node of the same class is reached, the difference is a rounding error of either sign.
    return wrong, wrong + (same - back).clamp(min=0)


def _diagonal(a_hat: SparseMatrix, hops: int) -> Tensor:
    """Return (Â^k)_ii = Σ_j (Â^⌈k/2⌉)_ij (Â^⌊k/2⌋)_ij, which holds since Â is symmetric, block by block of rows."""
    arrays = tuple(part.cpu().numpy() for part in (a_hat.value, a_hat.col, a_hat.rowptr))
    matrix = sp.csr_array(arrays, shape=a_hat.shape)
    diagonal = np.zeros(matrix.shape[0])
    for rows in _row_blocks(matrix, power=(hops + 1) // 2):
        low = matrix[rows]
        for _ in range(hops // 2 - 1):
            low = low @ matrix
        products = low.power(2) if hops % 2 == 0 else low.multiply(low @ matrix)
        diagonal[rows] = products.sum(axis=1)
    return torch.from_numpy(diagonal).to(a_hat.device)


def _row_blocks(matrix: sp.csr_array, power: int) -> Iterator[slice]:
    """Return slices of rows with about ``_MAX_ENTRIES`` entries of matrix^power each.

    The number of entries of a row is estimated by an upper bound.
    """
    num_rows = matrix.shape[0]
    pattern = sp.csr_array((np.ones_like(matrix.data), matrix.indices, matrix.indptr), shape=matrix.shape)
    fill = np.ones(num_rows)
    for _ in range(power):
        fill = np.minimum(pattern @ fill, num_rows)
    cuts = np.flatnonzero(np.diff(np.cumsum(fill) // _MAX_ENTRIES)) + 1
    return (slice(*ends) for ends in pairwise([0, *cuts.tolist(), num_rows]))


def sum_per_node(pairs: Tensor, value: Tensor, num_nodes: int) -> Tensor:
    """Return, for each node, the sum of ``value`` over its pairs."""
    return value.new_zeros(num_nodes).index_add_(0, pairs.flatten(), value.repeat(2))


def canonical_pairs(edge_index: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Check a labelled graph and return its undirected pairs and classes."""
    y = check_tensor(y, "y").to(check_tensor(edge_index, "edge_index").device)
    y = y.squeeze(1) if y.dim() == 2 else y
    if y.dim() != 1 or y.numel() == 0:
        raise InputError(f"y has shape {tuple(y.shape)}; pass one class number per node, [N]")
    if missing := int((~(y >= 0)).sum()):  # also true for NaN
        fix = "EPR needs a class for every node; keep the labelled part with data.subgraph(data.y >= 0)"
        raise InputError(f"y: {missing:,} of {y.numel():,} nodes have no class; {fix}")
    return undirected_pairs(check_edge_index(edge_index, y.numel()), y.numel()), y


def check_pair_weights(edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> Tensor | None:
    """Return the weight of each undirected pair, or None if there are no weights that differ. Raise on wrong ones."""
    if edge_weight is None:
        return None
    if edge_weight.shape != (edge_index.shape[1],):
        raise InputError(
            f"edge_weight has shape {tuple(edge_weight.shape)}; pass one per edge, [{edge_index.shape[1]}]"
        )
    if not bool((edge_weight.isfinite() & (edge_weight > 0)).all()):
        raise InputError("edge_weight: weights must be finite and positive; leave out edges of weight 0")
    return pair_weights(edge_index.long(), edge_weight.to(edge_index.device), num_nodes)


def check_edge_index(edge_index: Tensor, num_nodes: int, name: str = "edge_index") -> Tensor:
    """Return ``edge_index`` as int64, or raise an :class:`~epagcl.core.errors.InputError`.

    Args:
        edge_index: node pairs, ``[2, P]``.
        num_nodes: number of nodes N; entries must lie between 0 and N − 1.
        name: name of the argument in error messages.

    Examples:
        >>> import torch
        >>> check_edge_index(torch.tensor([[0], [2]], dtype=torch.int32), num_nodes=3).dtype
        torch.int64
    """
    check_whole(num_nodes, "num_nodes", most=MOST_NODES)
    if check_tensor(edge_index, name).dim() != 2 or edge_index.shape[0] != 2:
        raise InputError(f"{name} has shape {tuple(edge_index.shape)}; pass [2, P], one column per pair")
    if edge_index.numel() and (edge_index.is_floating_point() or edge_index.dtype == torch.bool):
        raise InputError(f"{name} is {edge_index.dtype}; node numbers must be integers")
    outside = ((edge_index < 0) | (edge_index >= num_nodes)).any(dim=0)
    if outside.any():
        place = int(outside.nonzero()[0])
        fix = f"nodes go from 0 to {num_nodes - 1:,}; fix the pair, or pass a class for every node"
        raise InputError(f"{name}[:, {place}] is {tuple(edge_index[:, place].tolist())}, but {fix}")
    return edge_index.long()
