"""Encoders: node features and a view's Â in, node representations out."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from epagcl.sparse import SparseMatrix


class GCNLayer(nn.Module):
    """Â X W + b (Eq. 1, before the nonlinearity); W Glorot-uniform, b = 0.

    The product is taken as Â(XW): X is sparse or wider than W in every graph here, and Â changes with each view.
    """

    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_features, out_features))
        self.bias = nn.Parameter(torch.zeros(out_features))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x: Tensor | SparseMatrix, adjacency: SparseMatrix, mask: Tensor | None = None) -> Tensor:
        """``mask`` hides feature columns: (X ∘ mask) W = X (mask ∘ W)."""
        weight = self.weight if mask is None else mask[:, None] * self.weight
        return adjacency @ (x @ weight) + self.bias


class GCN(nn.Module):
    """GCN layers of the given widths, PReLU after each; one slope for all layers, as in GRACE's and GCA's code."""

    def __init__(self, widths: Sequence[int]):
        super().__init__()
        self.layers = nn.ModuleList(GCNLayer(a, b) for a, b in pairwise(widths))
        self.activation = nn.PReLU()

    def forward(self, x: Tensor | SparseMatrix, adjacency: SparseMatrix, mask: Tensor | None = None) -> Tensor:
        """Representations ``[N, widths[-1]]``; ``mask`` applies to the input features."""
        for layer in self.layers:
            x = self.activation(layer(x, adjacency, mask))
            mask = None
        return x


class ProjectionHead(nn.Sequential):
    """g(·) of the loss: linear, ReLU, linear."""

    def __init__(self, dim: int, hidden: int):
        super().__init__(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))
