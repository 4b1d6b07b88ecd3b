"""Encoders: node features and a view's Â in, node representations out."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from epagcl.core.hardware import has_triton
from epagcl.core.sparse import Pattern, SparseMatrix, StackedMatrix

Adjacency = SparseMatrix | StackedMatrix


class GCNLayer(nn.Module):
    """Â X W + b (Eq. 1, before the nonlinearity); W Glorot-uniform, b = 0.

    Several views go through together: their rows stand under each other, in the order of the adjacency's views.
    """

    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_features, out_features))
        self.bias = nn.Parameter(torch.zeros(out_features))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x: Tensor | SparseMatrix, adjacency: Adjacency, mask: Tensor | None = None) -> Tensor:
        """``x`` is ``[N, F]`` for all views or ``[V·N, F]``; ``mask`` ``[V, F]`` hides feature columns of each view."""
        return self.product(x, adjacency, mask) + self.bias

    def product(
        self,
        x: Tensor | SparseMatrix,
        adjacency: Adjacency,
        mask: Tensor | None = None,
        weight: Tensor | None = None,
    ) -> Tensor:
        """Â X W without the bias, which the activation adds in the same pass; ``weight`` stands in for W."""
        weight = self.weight if weight is None else weight
        weight = weight if mask is None else mask[:, :, None] * weight  # (X ∘ mask) W = X (mask ∘ W)
        num_nodes = adjacency.shape[0]
        if self._aggregates_first(x):
            return _transform(adjacency @ x, weight, num_nodes)
        return adjacency @ _transform(x, weight, num_nodes)

    def _aggregates_first(self, x: Tensor | SparseMatrix) -> bool:
        """Whether (ÂX)W costs less than Â(XW): a product of Â with F columns against one with F'.

        Where gradients are wanted each costs a second one on the way back, but for features, which have no gradient.
        """
        in_features, out_features = self.weight.shape
        constant = isinstance(x, Tensor) and torch.is_grad_enabled() and not x.requires_grad
        return isinstance(x, Tensor) and in_features < (2 if constant else 1) * out_features


def _transform(x: Tensor | SparseMatrix, weight: Tensor, num_nodes: int) -> Tensor:
    """X W; with a weight ``[V, F, F']`` for each view, ``[X_1 W_1; X_2 W_2; ...]``, X in V blocks of rows or in one."""
    if isinstance(x, SparseMatrix):
        return x @ (weight if weight.dim() == 2 else weight.flatten(0, 1))
    if weight.dim() == 2:
        return x @ weight
    x = x.view(-1, num_nodes, x.shape[1]).expand(weight.shape[0], -1, -1)
    return torch.bmm(x, weight).flatten(0, 1)


class _BiasPReLU(torch.autograd.Function):
    """PReLU of x + b with one slope, from CPU kernels that are vectorised; x becomes x + b."""

    @staticmethod
    def forward(ctx, x: Tensor, bias: Tensor, slope: Tensor) -> Tensor:
        ctx.save_for_backward(x.add_(bias), slope)
        return F.leaky_relu(x, slope.item())

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, slope = ctx.saved_tensors
        dx = torch.ops.aten.leaky_relu_backward(grad, x, slope.item(), False)
        return dx, dx.sum(0), torch.dot(grad.flatten(), x.clamp(max=0).flatten()).view_as(slope)


#: Slope for t < 0 of each activation; a learned one starts at 0.25. RReLU as GCA calls it, without its training flag,
#: is fixed at the mean of its range.
SLOPES = {"prelu": None, "relu": 0.0, "rrelu": (1 / 8 + 1 / 3) / 2}


class PReLU(nn.Module):
    """max(t, 0) + a·min(t, 0) of t = x + b, bias and slope in one pass with gradients faster than torch's own.

    The slope a is one learned number, or with another ``activation`` a constant.
    """

    def __init__(self, activation: str = "prelu"):
        super().__init__()
        slope = SLOPES[activation]
        if slope is None:
            self.weight = nn.Parameter(torch.tensor([0.25]))
        else:
            self.register_buffer("weight", torch.tensor([slope]), persistent=False)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """``x`` is a product that nobody else needs: it may be overwritten."""
        if x.device.type == "cpu":
            return _BiasPReLU.apply(x, bias, self.weight)
        if x.dtype == torch.float32 and has_triton(x.device):
            from epagcl.core.kernels.activation import bias_prelu

            return bias_prelu(x, bias, self.weight)
        return F.prelu(x + bias, self.weight)


class GATLayer(nn.Module):
    """Attention over N(i) ∪ {i}: e_ij = LeakyReLU₀.₂(a₁·Wh_i + a₂·Wh_j), α = softmax_j e_ij, Σ_j α_ij Wh_j per head.

    Heads stand under each other as views do, ``[heads·N, dim]``; what joins them, and the bias, is the caller's.
    """

    def __init__(self, in_features: int, dim: int, heads: int):
        super().__init__()
        self.heads, self.dim = heads, dim
        self.weight = nn.Parameter(torch.empty(in_features, heads * dim))
        self.a1, self.a2 = (nn.Parameter(torch.empty(heads, dim)) for _ in range(2))
        for parameter in self.parameters():
            nn.init.xavier_uniform_(parameter)

    def forward(self, h: Tensor, pattern: Pattern, drop: Callable[[Tensor], Tensor] = lambda alpha: alpha) -> Tensor:
        """``h`` is XW, ``[N, heads·dim]``; ``pattern`` that of A + I; ``drop`` is applied to the attention."""
        h = h.view(-1, self.heads, self.dim).transpose(0, 1).contiguous()
        left, right = ((h * a[:, None]).sum(2).flatten() for a in (self.a1, self.a2))
        h = h.flatten(0, 1)
        score = F.leaky_relu(pattern.edge_sums(left, right).view(self.heads, -1), 0.2)
        top = score.new_full((self.heads, pattern.shape[0]), -torch.inf)
        top = top.scatter_reduce(1, pattern.row.expand_as(score), score.detach(), "amax")
        weight = (score - top[:, pattern.row]).exp()
        total = pattern.multiply(weight, weight.new_ones(pattern.shape[1], 1))
        return pattern.multiply(drop(weight), h) / total
