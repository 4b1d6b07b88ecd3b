"""Sparse matrices and their products with dense ones: constant ones, and patterns whose values may learn."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    pass
from epagcl.core.sparse import SparseMatrix, rowptr_of


def self_looped_entries(counter: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sorted entries of Ã = A + I for pairs i·N + j: row, column, number of the pair (of loops: one past the last)."""
    i, j = counter // num_nodes, counter % num_nodes
    loops = torch.arange(num_nodes, device=counter.device)
    key, order = torch.sort(torch.cat([counter, j * num_nodes + i, loops * (num_nodes + 1)]))
    pair = torch.where(order < 2 * counter.numel(), order % max(counter.numel(), 1), counter.numel())
    return key // num_nodes, key % num_nodes, pair


def gcn_adjacency(row: Tensor, col: Tensor, num_nodes: int) -> SparseMatrix:
    """Â = D̃^-½ Ã D̃^-½ (Eq. 1) from the sorted entries of Ã = A + I: both directions of each pair and every loop."""
    rowptr = rowptr_of(row, num_nodes)
    scale = rowptr.diff().to(torch.float32).rsqrt()  # degree ≥ 1: the loop is always there
    return SparseMatrix(rowptr, col, scale[row] * scale[col], (num_nodes, num_nodes), symmetric=True)
