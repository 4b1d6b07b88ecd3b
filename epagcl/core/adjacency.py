"""The normalised adjacency matrix of a GCN, from undirected pairs of nodes."""

import torch
from torch import Tensor

from epagcl.core.sparse import SparseMatrix, multiply, rowptr_of


def self_looped_entries(counter: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the entries of Ã = A + I, sorted by row and column.

    Args:
        counter: the undirected edges (i, j), each once, encoded as i·N + j.
        num_nodes: N.

    Returns:
        The row and the column of each entry, and the index of its pair in ``counter``. Self-loops have the index
        ``len(counter)``.

    Examples:
        >>> row, col, pair = self_looped_entries(torch.tensor([1]), num_nodes=2)  # the pair (0, 1)
        >>> row.tolist(), col.tolist(), pair.tolist()
        ([0, 0, 1, 1], [0, 1, 0, 1], [1, 0, 0, 1])
    """
    i, j = counter // num_nodes, counter % num_nodes
    loops = torch.arange(num_nodes, device=counter.device)
    key, order = torch.sort(torch.cat([counter, j * num_nodes + i, loops * (num_nodes + 1)]))
    pair = torch.where(order < 2 * counter.numel(), order % max(counter.numel(), 1), counter.numel())
    return key // num_nodes, key % num_nodes, pair


def gcn_adjacency(row: Tensor, col: Tensor, num_nodes: int, weight: Tensor | None = None) -> SparseMatrix:
    """Return Â = D̃^-½ Ã D̃^-½, Eq. (1), where D̃ has the row sums of Ã.

    Args:
        row: the row of each entry of Ã = A + I. The entries are sorted by row and column. They include both directions
            of each edge and all self-loops.
        col: the column of each entry.
        num_nodes: N.
        weight: the value of each entry of Ã, 1 for self-loops; None gives all entries the value 1.

    Examples:
        >>> row, col, _ = self_looped_entries(torch.tensor([1]), num_nodes=2)
        >>> gcn_adjacency(row, col, num_nodes=2).to_dense()
        tensor([[0.5000, 0.5000],
                [0.5000, 0.5000]])
        >>> gcn_adjacency(row, col, num_nodes=2, weight=torch.tensor([1.0, 3.0, 3.0, 1.0])).to_dense()
        tensor([[0.2500, 0.7500],
                [0.7500, 0.2500]])
    """
    rowptr, shape = rowptr_of(row, num_nodes), (num_nodes, num_nodes)
    # A degree is at least 1, since every node has a self-loop.
    if weight is None:
        scale = rowptr.diff().to(torch.float32).rsqrt()
        return SparseMatrix(rowptr, col, scale[row] * scale[col], shape, symmetric=True)
    scale = multiply(SparseMatrix(rowptr, col, weight, shape), weight.new_ones(num_nodes, 1))[:, 0].rsqrt()
    return SparseMatrix(rowptr, col, weight * scale[row] * scale[col], shape, symmetric=True)
