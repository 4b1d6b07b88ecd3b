"""Layers of the encoders: graph convolution, graph attention, and activations fused with the bias."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from epagcl.core.hardware import aligned_width, lowered, takes_kernels
from epagcl.core.pattern import Pattern
from epagcl.core.sparse import SparseMatrix, StackedMatrix
from epagcl.core.tall import times_weight

#: Â of one view, or of several.
Adjacency = SparseMatrix | StackedMatrix


class GCNLayer(nn.Module):
    """Graph convolution Â X W + b, Eq. (1) without the nonlinearity, or Â X W + X R + b with a root weight R.

    A GCN gives a node's own features the weight 1/(d + 1). A root weight keeps them, whatever the degree. W and R are
    initialised Glorot-uniform, b with zeros. Several views are processed in one pass. Their rows are stacked in the
    order of the adjacency's views.

    Args:
        in_features: number of input features F.
        out_features: number of output features F'.
        root: whether there is a root weight R.
        members: number K of layers that are computed together, each with its own weights. If K > 1, the weights have
            a first dimension K, and the V views belong to the members in turn: V/K views each.

    Examples:
        >>> import torch
        >>> from epagcl.data.graph import Graph
        >>> graph = Graph(x=torch.ones(3, 5), pairs=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
        >>> GCNLayer(5, 2)(graph.x, graph.adjacency).shape
        torch.Size([3, 2])
    """

    hops = 1.0  # from which a node receives information

    def __init__(self, in_features: int, out_features: int, *, root: bool = False, members: int = 1):
        super().__init__()
        self.weight = nn.Parameter(glorot(in_features, out_features, members))
        self.root = nn.Parameter(glorot(in_features, out_features, members)) if root else None
        self.bias = nn.Parameter(torch.zeros(out_features) if members == 1 else torch.zeros(members, out_features))

    def forward(self, x: Tensor | SparseMatrix, adjacency: Adjacency, mask: Tensor | None = None) -> Tensor:
        """Return Â X W + X R + b.

        Args:
            x: input features, ``[N, F]`` for all views or ``[V·N, F]``.
            adjacency: Â of each of the V views, or one Â for all members.
            mask: ``[V, F]``, 0 for the features that a view hides.
        """
        return add_bias(self.product(x, adjacency, mask), self.bias)

    @property
    def weights(self) -> tuple[Tensor, ...]:
        """The weights that multiply X: (W,), or (W, R)."""
        return (self.weight,) if self.root is None else (self.weight, self.root)

    def product(
        self,
        x: Tensor | SparseMatrix,
        adjacency: Adjacency,
        mask: Tensor | None = None,
        weight: Tensor | None = None,
        root: Tensor | None = None,
        aggregated: Tensor | None = None,
    ) -> Tensor:
        """Return Â X W + X R without the bias, which :class:`PReLU` adds.

        Args:
            x: as in :meth:`forward`.
            adjacency: as in :meth:`forward`.
            mask: as in :meth:`forward`.
            weight: replaces W.
            root: replaces R.
            aggregated: Â X, if it is known.
        """
        weight, root = self.weight if weight is None else weight, self.root if root is None else root
        num_nodes, views = adjacency.shape[0], adjacency.views
        aggregated = self.aggregated(x, adjacency) if aggregated is None else aggregated
        if aggregated is None:
            weights = weight if root is None else torch.cat([weight, root], -1)
            return self.aggregate(transform(x, weights, mask, views, num_nodes), adjacency)
        product = transform(aggregated, weight, mask, views, num_nodes)
        if root is None:
            return product
        return _add_own(product, transform(x, root, mask, views, num_nodes))

    def project(self, x: Tensor | SparseMatrix, mask: Tensor | None = None) -> Tensor:
        """Return X W, or X [W | R]: one product with X for both weights.

        Permuting the rows of X permutes the rows of the result, so that a method with shuffled features multiplies by
        X only once. Members and masked views have a block of rows each.

        Args:
            x: input features, ``[N, F]``.
            mask: ``[V, F]``, 0 for the features that a view hides.
        """
        weights = self.weight if self.root is None else torch.cat(self.weights, -1)
        return transform(x, weights, mask)

    def aggregate(self, projected: Tensor, operator: Adjacency | Callable[[Tensor], Tensor]) -> Tensor:
        """Return Â X W + X R from the result of :meth:`project`.

        Args:
            projected: X W or X [W | R], one or several blocks of rows.
            operator: Â of each view, or a diffusion as a function, which takes its place.
        """
        multiply = operator if callable(operator) else operator.__matmul__
        if self.root is None:
            return multiply(projected)
        neighbours, own = projected.chunk(2, 1)
        return _add_own(multiply(neighbours), own)

    def aggregated(self, x: Tensor | SparseMatrix, adjacency: Adjacency) -> Tensor | None:
        """Return Â X if (ÂX)W costs less than Â(XW), else None.

        The first multiplies Â by F columns, the second by F'. In training, the backward pass multiplies by Â again.
        Only the product ÂX of features without gradient needs no second product.
        """
        if not isinstance(x, Tensor):
            return None
        in_features, out_features = self.weight.shape[-2:]
        constant = torch.is_grad_enabled() and not x.requires_grad
        return adjacency @ x if in_features < (2 if constant else 1) * out_features else None


def _add_own(product: Tensor, own: Tensor) -> Tensor:
    """Return Â X W + X R. Without masks, one block of rows X R serves all views."""
    if product.shape == own.shape:  # a broadcast sum would copy the gradient
        return product + own
    return (product.view(-1, *own.shape) + own).flatten(0, 1)


def add_bias(product: Tensor, bias: Tensor) -> Tensor:
    """Return the rows plus the bias; a bias ``[K, F']`` has one row for each of K blocks of rows.

    Examples:
        >>> add_bias(torch.zeros(4, 1), torch.tensor([[1.0], [2.0]])).flatten()
        tensor([1., 1., 2., 2.])
    """
    if bias.dim() == 1:
        return product + bias
    return (_blocks(product, bias.shape[0]) + bias[:, None]).flatten(0, 1)


def _blocks(rows: Tensor, count: int) -> Tensor:
    """Return rows as blocks of equal size, ``[count, rows / count, d]``; there may be no rows."""
    return rows.view(count, rows.shape[0] // count, rows.shape[1])


def glorot(in_features: int, out_features: int, members: int = 1) -> Tensor:
    """Return a Glorot-uniform weight ``[F, F']``; for K > 1 members ``[K, F, F']``, drawn one after the other.

    Examples:
        >>> glorot(3, 2).shape, glorot(3, 2, members=4).shape
        (torch.Size([3, 2]), torch.Size([4, 3, 2]))
    """
    weights = [nn.init.xavier_uniform_(torch.empty(in_features, out_features)) for _ in range(members)]
    return weights[0] if members == 1 else torch.stack(weights)


def per_view(weight: Tensor, mask: Tensor | None, views: int) -> Tensor:
    """Return the weight that each view applies to X: (X ∘ mask) W = X (mask ∘ W).

    Args:
        weight: ``[F, F']``, or ``[K, F, F']`` for K members.
        mask: ``[V, F]``, or None.
        views: V, the number of views. One adjacency matrix serves all members.

    Returns:
        ``[V, F, F']`` with a mask, or if the members have several views each; else ``weight`` itself.
    """
    if mask is None:
        members = 1 if weight.dim() == 2 else weight.shape[0]
        return weight if members == 1 or views <= members else weight.repeat_interleave(views // members, 0)
    if weight.dim() == 2:
        return mask[:, :, None] * weight
    members = weight.shape[0]
    return (mask.view(members, -1, mask.shape[1], 1) * weight[:, None]).flatten(0, 1)


def transform(
    x: Tensor | SparseMatrix,
    weight: Tensor,
    mask: Tensor | None = None,
    views: int = 1,
    num_nodes: int | None = None,
) -> Tensor:
    """Return X W with the weights that :func:`per_view` describes: ``[X_1 W_1; X_2 W_2; ...]`` if there are several.

    Args:
        x: X, in one block of rows, or in as many as there are weights. Dense rows may end with further columns of
            zeros, as in :attr:`Graph.aligned_x <epagcl.data.graph.Graph.aligned_x>`.
        weight: ``[F, F']``, or ``[K, F, F']`` for K members.
        mask: ``[V, F]``, or None.
        views: V, the number of views.
        num_nodes: the number of rows of a block; None: x is one block.

    Examples:
        >>> transform(torch.ones(2, 3), torch.ones(3, 1)).tolist()
        [[3.0], [3.0]]
    """
    if isinstance(x, SparseMatrix):
        members = 1 if weight.dim() == 2 else weight.shape[0]
        if mask is not None and mask.shape[0] == 2 * members and not mask.requires_grad and takes_kernels(weight):
            from epagcl.core.kernels.masked import masked_product

            return masked_product(x, weight, mask)
        return x @ per_view(weight, mask, views).flatten(0, -2)
    x, weight = lowered(x), per_view(weight, mask, views)  # x before it is expanded, which would round it K times
    if x.shape[1] == aligned_width(weight.shape[-2]) > weight.shape[-2]:
        weight = F.pad(weight, (0, 0, 0, x.shape[1] - weight.shape[-2]))
    if weight.dim() == 2:
        return times_weight(x, weight)
    blocks = weight.shape[0]
    x = x.expand(blocks, -1, -1) if num_nodes in (None, x.shape[0]) else _blocks(x, blocks)
    return times_weight(x, weight).flatten(0, 1)


class _BiasPReLU(torch.autograd.Function):
    """PReLU of x + b by vectorised CPU kernels, one slope and bias per block of rows. Overwrites x with x + b."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, slope: Tensor) -> Tensor:
        blocks = _blocks(x, slope.numel())
        blocks.add_(bias.view(slope.numel(), 1, -1))
        ctx.save_for_backward(x, slope)
        out = torch.empty_like(x)
        for block, a, y in zip(blocks, slope.tolist(), out.view_as(blocks), strict=True):
            torch.ops.aten.leaky_relu.out(block, a, out=y)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, slope = ctx.saved_tensors
        members = slope.numel()
        parts = zip(*(_blocks(t, members) for t in (grad.contiguous(), x)), slope.tolist(), strict=True)
        dx, dbias, dslope = [], [], []
        for g, t, a in parts:
            d = torch.ops.aten.leaky_relu_backward(g, t, a, False)
            dx.append(d)
            dbias.append(d.sum(0))
            dslope.append(torch.dot(g.flatten(), t.clamp(max=0).flatten()))
        if members == 1:
            return dx[0], dbias[0], dslope[0].view_as(slope)
        return torch.cat(dx), torch.stack(dbias), torch.stack(dslope)


#: Slope of each activation for t < 0. None is a learned slope, which starts at 0.25. GCA calls RReLU without its
#: training flag, which fixes the slope at the mean of its range.
SLOPES: dict[str, float | None] = {"prelu": None, "relu": 0.0, "rrelu": (1 / 8 + 1 / 3) / 2}


class PReLU(nn.Module):
    """Activation max(t, 0) + a·min(t, 0) of t = x + b, with the bias added in the same pass.

    The forward and the backward pass are faster than in ``torch.nn.PReLU``.

    Args:
        activation: ``"prelu"`` learns the slope a, one number; ``"relu"`` and ``"rrelu"`` have a constant slope.
        members: number of blocks of rows, each with its own slope and bias.

    Examples:
        >>> import torch
        >>> PReLU()(torch.tensor([[-5.0, 1.0]]), bias=torch.ones(2)).tolist()  # the slope starts at 0.25
        [[-1.0, 2.0]]
    """

    weight: Tensor

    def __init__(self, activation: str = "prelu", members: int = 1):
        super().__init__()
        slope = SLOPES[activation]
        if slope is None:
            self.weight = nn.Parameter(torch.full((members,), 0.25))
        else:
            self.register_buffer("weight", torch.full((members,), slope), persistent=False)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """Return the activation of x + bias. May overwrite ``x``.

        Args:
            x: ``[rows, d]``, the blocks of all members.
            bias: ``[d]``, or ``[members, d]``.
        """
        if takes_kernels(x):
            from epagcl.core.kernels.activation import bias_prelu

            return bias_prelu(x, bias, self.weight)
        if x.device.type == "cpu":
            return _BiasPReLU.apply(x, bias, self.weight)
        members = self.weight.numel()
        x = _blocks(x, members) + bias.view(members, 1, -1)
        return F.prelu(x[None], self.weight)[0].flatten(0, 1)  # one slope per index of the second dimension


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
