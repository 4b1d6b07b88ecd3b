"""Encoders: node features and a view's Â in, node representations out."""

from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

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
        return (adjacency @ (x @ weight)).add_(self.bias)


class _LeakyReLU(torch.autograd.Function):
    """max(x, 0) + a·min(x, 0) with a gradient in the slope a, from CPU kernels that are vectorised."""

    @staticmethod
    def forward(ctx, x: Tensor, slope: Tensor) -> Tensor:
        ctx.save_for_backward(x, slope)
        return F.leaky_relu(x, slope.item())

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, slope = ctx.saved_tensors
        dx = torch.ops.aten.leaky_relu_backward(grad, x, slope.item(), False)
        return dx, torch.dot(grad.flatten(), x.clamp(max=0).flatten()).view_as(slope)


class PReLU(nn.PReLU):
    """``nn.PReLU`` with one slope, whose backward on a CPU is four times as fast as torch's."""

    def forward(self, x: Tensor) -> Tensor:
        """max(x, 0) + a·min(x, 0)."""
        return _LeakyReLU.apply(x, self.weight) if x.device.type == "cpu" else super().forward(x)


class GCN(nn.Module):
    """GCN layers of the given widths, PReLU after each; one slope for all layers, as in GRACE's and GCA's code."""

    def __init__(self, widths: Sequence[int]):
        super().__init__()
        self.layers = nn.ModuleList(GCNLayer(a, b) for a, b in pairwise(widths))
        self.activation = PReLU()

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
