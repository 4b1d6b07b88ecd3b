"""Layers of the encoders: graph convolution, graph attention, and activations fused with the bias."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from epagcl.core.hardware import has_triton
from epagcl.core.pattern import Pattern
from epagcl.core.sparse import SparseMatrix, StackedMatrix

#: Â of one view, or of several.
Adjacency = SparseMatrix | StackedMatrix


class GCNLayer(nn.Module):
    """Graph convolution Â X W + b (Eq. 1 without the nonlinearity).

    W is initialised Glorot-uniform, b with zeros. Several views are processed in one pass. Their rows are stacked in
    the order of the adjacency's views.

    Args:
        in_features: number of input features F.
        out_features: number of output features F'.

    Examples:
        >>> import torch
        >>> from epagcl.data.graph import Graph
        >>> graph = Graph(x=torch.ones(3, 5), pairs=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
        >>> GCNLayer(5, 2)(graph.x, graph.adjacency).shape
        torch.Size([3, 2])
    """

    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_features, out_features))
        self.bias = nn.Parameter(torch.zeros(out_features))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x: Tensor | SparseMatrix, adjacency: Adjacency, mask: Tensor | None = None) -> Tensor:
        """Return Â X W + b.

        Args:
            x: input features, ``[N, F]`` for all views or ``[V·N, F]``.
            adjacency: Â of each of the V views.
            mask: ``[V, F]``, 0 for the features that a view hides.
        """
        return self.product(x, adjacency, mask) + self.bias

    def product(
        self,
        x: Tensor | SparseMatrix,
        adjacency: Adjacency,
        mask: Tensor | None = None,
        weight: Tensor | None = None,
    ) -> Tensor:
        """Return Â X W without the bias, which :class:`PReLU` adds; ``weight`` replaces W if given."""
        weight = self.weight if weight is None else weight
        weight = weight if mask is None else mask[:, :, None] * weight  # (X ∘ mask) W = X (mask ∘ W)
        num_nodes = adjacency.shape[0]
        if isinstance(x, Tensor) and self._aggregates_first(x):
            return _transform(adjacency @ x, weight, num_nodes)
        return adjacency @ _transform(x, weight, num_nodes)

    def _aggregates_first(self, x: Tensor) -> bool:
        """Return whether (ÂX)W costs less than Â(XW).

        The first multiplies Â by F columns, the second by F'. In training, the backward pass multiplies by Â again.
        Only the product ÂX of features without gradient needs no second product.
        """
        in_features, out_features = self.weight.shape
        constant = torch.is_grad_enabled() and not x.requires_grad
        return in_features < (2 if constant else 1) * out_features


def _transform(x: Tensor | SparseMatrix, weight: Tensor, num_nodes: int) -> Tensor:
    """Return X W, or ``[X_1 W_1; X_2 W_2; ...]`` for weights ``[V, F, F']`` with X in one or V blocks of rows."""
    if isinstance(x, SparseMatrix):
        return x @ (weight if weight.dim() == 2 else weight.flatten(0, 1))
    if weight.dim() == 2:
        return x @ weight
    x = x.view(-1, num_nodes, x.shape[1]).expand(weight.shape[0], -1, -1)
    return torch.bmm(x, weight).flatten(0, 1)


class _BiasPReLU(torch.autograd.Function):
    """PReLU of x + b with one slope by vectorised CPU kernels. Overwrites x with x + b."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, slope: Tensor) -> Tensor:
        ctx.save_for_backward(x.add_(bias), slope)
        return F.leaky_relu(x, slope.item())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, slope = ctx.saved_tensors
        dx = torch.ops.aten.leaky_relu_backward(grad, x, slope.item(), False)
        return dx, dx.sum(0), torch.dot(grad.flatten(), x.clamp(max=0).flatten()).view_as(slope)


#: Slope of each activation for t < 0. None is a learned slope, which starts at 0.25. GCA calls RReLU without its
#: training flag, which fixes the slope at the mean of its range.
SLOPES: dict[str, float | None] = {"prelu": None, "relu": 0.0, "rrelu": (1 / 8 + 1 / 3) / 2}


class PReLU(nn.Module):
    """Activation max(t, 0) + a·min(t, 0) of t = x + b, with the bias added in the same pass.

    The forward and the backward pass are faster than in ``torch.nn.PReLU``.

    Args:
        activation: ``"prelu"`` learns the slope a, one number; ``"relu"`` and ``"rrelu"`` have a constant slope.

    Examples:
        >>> import torch
        >>> PReLU()(torch.tensor([[-5.0, 1.0]]), bias=torch.ones(2)).tolist()  # the slope starts at 0.25
        [[-1.0, 2.0]]
    """

    weight: Tensor

    def __init__(self, activation: str = "prelu"):
        super().__init__()
        slope = SLOPES[activation]
        if slope is None:
            self.weight = nn.Parameter(torch.tensor([0.25]))
        else:
            self.register_buffer("weight", torch.tensor([slope]), persistent=False)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """Return the activation of x + bias. May overwrite ``x``."""
        if x.device.type == "cpu":
            return _BiasPReLU.apply(x, bias, self.weight)
        if x.dtype == torch.float32 and has_triton(x.device):
            from epagcl.core.kernels.activation import bias_prelu

            return bias_prelu(x, bias, self.weight)
        return F.prelu(x + bias, self.weight)


class GATLayer(nn.Module):
    """Graph attention over N(i) ∪ {i}, several heads at once.

    Each head computes e_ij = LeakyReLU₀.₂(a₁·Wh_i + a₂·Wh_j), α = softmax_j e_ij and Σ_j α_ij Wh_j. The outputs of the
    heads are stacked by rows, ``[heads·N, dim]``. The caller combines them and adds the bias.

    Args:
        in_features: number of input features.
        dim: number of output features of each head.
        heads: number of heads.

    Examples:
        >>> import torch
        >>> from epagcl.data.graph import Graph
        >>> graph = Graph(x=torch.ones(3, 5), pairs=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
        >>> layer = GATLayer(5, dim=4, heads=2)
        >>> layer(graph.x @ layer.weight, graph.pattern).shape
        torch.Size([6, 4])
    """

    def __init__(self, in_features: int, dim: int, heads: int):
        super().__init__()
        self.heads, self.dim = heads, dim
        self.weight = nn.Parameter(torch.empty(in_features, heads * dim))
        self.a1, self.a2 = (nn.Parameter(torch.empty(heads, dim)) for _ in range(2))
        for parameter in self.parameters():
            nn.init.xavier_uniform_(parameter)

    def forward(self, h: Tensor, pattern: Pattern, drop: Callable[[Tensor], Tensor] = lambda alpha: alpha) -> Tensor:
        """Return the output of all heads, ``[heads·N, dim]``.

        Args:
            h: XW, ``[N, heads·dim]``.
            pattern: sparsity pattern of A + I.
            drop: function applied to the attention weights, such as dropout.
        """
        h = h.view(-1, self.heads, self.dim).transpose(0, 1).contiguous()
        left, right = ((h * a[:, None]).sum(2).flatten() for a in (self.a1, self.a2))
        h = h.flatten(0, 1)
        score = F.leaky_relu(pattern.edge_sums(left, right).view(self.heads, -1), 0.2)
        top = score.new_full((self.heads, pattern.shape[0]), -torch.inf)
        top = top.scatter_reduce(1, pattern.row.expand_as(score), score.detach(), "amax")
        weight = (score - top[:, pattern.row]).exp()
        total = pattern.multiply(weight, weight.new_ones(pattern.shape[1], 1))
        return pattern.multiply(drop(weight), h) / total
