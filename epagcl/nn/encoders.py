"""Encoders, which map node features and a normalised adjacency matrix Â to node representations."""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from epagcl.core.errors import InputError
from epagcl.core.sparse import SparseMatrix
from epagcl.diffusion import truncated_ppr
from epagcl.nn.layers import Adjacency, GCNLayer, PReLU, glorot, per_view, transform

#: The encoders that contrastive methods offer, by name; see :func:`build_encoder`.
ENCODERS = ("gcn", "residual", "pagerank", "scales")

PAGERANK = math.inf  # the scale of personalised PageRank, which reaches every node
ALPHA = 0.15  # teleport probability of PageRank
PRODUCTS = 6  # products with Â: the error of the Chebyshev iteration is then 6% of the norm


class GCN(nn.Module):
    """Graph convolutional network: GCN layers with an activation after each.

    All activations share one learned slope, as in the code of GRACE and GCA.

    Args:
        widths: number of input features, then the width of each layer; at least two numbers.
        activation: ``"prelu"``, ``"relu"`` or ``"rrelu"``.
        last: False omits the activation after the last layer.
        root: whether layers have root weights, H ↦ σ(Â H W + H R + b): the residual encoder.
        members: number of networks that are computed together, see :class:`~epagcl.nn.layers.GCNLayer`.

    Examples:
        >>> import torch
        >>> from epagcl.data.graph import Graph
        >>> graph = Graph(x=torch.ones(3, 5), pairs=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
        >>> GCN([5, 16, 8])(graph.x, graph.adjacency).shape
        torch.Size([3, 8])
    """

    def __init__(
        self,
        widths: Sequence[int],
        activation: str = "prelu",
        *,
        last: bool = True,
        root: bool = False,
        members: int = 1,
    ):
        super().__init__()
        self.layers = nn.ModuleList(GCNLayer(a, b, root=root, members=members) for a, b in pairwise(widths))
        self.activation = PReLU(activation, members)
        self.last = last

    def forward(self, x: Tensor | SparseMatrix, adjacency: Adjacency, mask: Tensor | None = None) -> Tensor:
        """Return the representations of all V views, ``[V·N, widths[-1]]``.

        Args:
            x: input features, ``[N, F]`` for all views or ``[V·N, F]``.
            adjacency: Â of each view.
            mask: ``[V, F]``, 0 for the input features that a view hides.
        """
        h: Tensor | SparseMatrix = x
        for number, layer in enumerate(self.layers, 1):
            assert isinstance(layer, GCNLayer)
            if self.last or number < len(self.layers):
                h = self.activation(layer.product(h, adjacency, mask), layer.bias)
            else:
                h = layer(h, adjacency, mask)
            mask = None
        assert isinstance(h, Tensor)
        return h


class ScalesEncoder(nn.Module):
    r"""One layer that sees a node's surroundings at several scales side by side.

    .. math::
        H = \sigma([\hat{A}^{k_1} X W_1 \,|\, \hat{A}^{k_2} X W_2 \,|\, \dots] + b)

    The weights of all scales share one product with X.

    Args:
        num_features: number of input features F.
        dim: width of the output. The scales share it equally; the first scales get the rest.
        scales: the powers k of Â, in ascending order. ``math.inf`` is personalised PageRank with α = 0.15.
        activation: ``"prelu"``, ``"relu"`` or ``"rrelu"``.
        members: number of networks that are computed together, see :class:`~epagcl.nn.layers.GCNLayer`.

    Examples:
        >>> import torch
        >>> from epagcl.data.graph import Graph
        >>> graph = Graph(x=torch.ones(3, 5), pairs=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
        >>> ScalesEncoder(5, 8, scales=(0, 1, math.inf))(graph.x, graph.adjacency).shape
        torch.Size([3, 8])
    """

    def __init__(
        self,
        num_features: int,
        dim: int,
        scales: Sequence[float] = (0, 1, 2, PAGERANK),
        activation: str = "prelu",
        members: int = 1,
    ):
        super().__init__()
        self.scales = tuple(scales)
        self.widths = [dim // len(scales) + (k < dim % len(scales)) for k in range(len(scales))]
        self.weight = nn.Parameter(glorot(num_features, dim, members))
        self.bias = nn.Parameter(torch.zeros(dim) if members == 1 else torch.zeros(members, dim))
        self.activation = PReLU(activation, members)

    def forward(self, x: Tensor | SparseMatrix, adjacency: Adjacency, mask: Tensor | None = None) -> Tensor:
        """Return the representations of all V views, ``[V·N, dim]``.

        Args:
            x: input features, ``[N, F]``.
            adjacency: Â of each view.
            mask: ``[V, F]``, 0 for the input features that a view hides.
        """
        projected = transform(x, per_view(self.weight, mask, adjacency.views), adjacency.shape[0])
        rows = max(projected.shape[0], adjacency.views * adjacency.shape[0])
        # Without masks, one block of rows X W serves all views.
        projected = projected.expand(rows // projected.shape[0], -1, -1).reshape(rows, -1)
        blocks = []
        hops, rest = 0.0, projected
        for scale, width in zip(self.scales, self.widths, strict=True):
            if scale == PAGERANK:
                rest = truncated_ppr(adjacency, rest, ALPHA, PRODUCTS)
            while scale != PAGERANK and hops < scale:
                # The columns of larger scales need this product too. PageRank starts from XW itself.
                hops += 1
                hop_columns = sum(w for s, w in zip(self.scales, self.widths, strict=True) if hops <= s < PAGERANK)
                rest = torch.cat([adjacency @ rest[:, :hop_columns], rest[:, hop_columns:]], 1)
            block, rest = rest[:, :width], rest[:, width:]
            blocks.append(block)
        return self.activation(torch.cat(blocks, 1), self.bias)


def build_encoder(
    name: str, num_features: int, hidden: int, dim: int, activation: str = "prelu", members: int = 1
) -> GCN | ScalesEncoder:
    """Return an encoder by name.

    Args:
        name: ``"gcn"``, two GCN layers; ``"residual"``, two layers with root weights; ``"pagerank"``, one layer over
            personalised PageRank; ``"scales"``, one layer over X, ÂX, Â²X and PageRank side by side.
        num_features: number of input features F.
        hidden: width of the first of two layers.
        dim: width of the output.
        activation: ``"prelu"``, ``"relu"`` or ``"rrelu"``.
        members: number of networks that are computed together.

    Examples:
        >>> build_encoder("residual", num_features=5, hidden=16, dim=8).layers[1].root.shape
        torch.Size([16, 8])
    """
    if name not in ENCODERS:
        raise InputError(f"encoder={name!r}: choose one of {', '.join(ENCODERS)}")
    if name in ("gcn", "residual"):
        return GCN([num_features, hidden, dim], activation, root=name == "residual", members=members)
    scales = (PAGERANK,) if name == "pagerank" else (0, 1, 2, PAGERANK)
    return ScalesEncoder(num_features, dim, scales, activation, members)
