"""Encoders, which map node features and a normalised adjacency matrix Â to node representations."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn

from epagcl.core.errors import InputError
from epagcl.core.sparse import SparseMatrix
from epagcl.diffusion import ALPHA, truncated_ppr
from epagcl.nn.layers import Adjacency, GCNLayer, PReLU, add_bias, glorot, transform

#: The encoders that self-supervised methods offer, by name; see :func:`build_encoder`.
ENCODERS = ("gcn", "residual", "pagerank", "scales")
#: The description of a setting ``encoder`` with these choices.
ENCODER_MEANING = (
    "gcn; residual: with root weights; pagerank: one layer over PageRank; scales: X, ÂX, Â²X and PageRank together"
)

PAGERANK = math.inf  # the scale of personalised PageRank, which reaches every node
PRODUCTS = 6  # products with Â: the error of the Chebyshev iteration is then 6% of the norm
#: The scales of the encoders that have one layer.
SCALES: dict[str, tuple[float, ...]] = {"pagerank": (PAGERANK,), "scales": (0, 1, 2, PAGERANK)}


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
        return self._output(self._first.product(x, adjacency, mask), adjacency)

    def project(self, x: Tensor | SparseMatrix, mask: Tensor | None = None) -> Tensor:
        """Return the projected features of the first layer, see :meth:`GCNLayer.project`."""
        return self._first.project(x, mask)

    def propagate(self, projected: Tensor, adjacency: Adjacency) -> Tensor:
        """Return the representations from the result of :meth:`project`, one or several blocks of rows."""
        return self._output(self._first.aggregate(projected, adjacency), adjacency)

    @property
    def hops(self) -> float:
        """The number of hops from which a node receives information."""
        return len(self.layers)

    @property
    def _first(self) -> GCNLayer:
        return cast("GCNLayer", self.layers[0])

    def _output(self, product: Tensor, adjacency: Adjacency) -> Tensor:
        """Return the representations from the product of the first layer, which has no bias yet."""
        layers = cast("Sequence[GCNLayer]", self.layers)
        for layer, following in pairwise(layers):
            product = following.product(self.activation(product, layer.bias), adjacency)
        return self.activation(product, layers[-1].bias) if self.last else add_bias(product, layers[-1].bias)


class ScalesLayer(nn.Module):
    r"""A layer that sees a node's surroundings at several scales side by side.

    .. math::
        H = [\hat{A}^{k_1} X W_1 \,|\, \hat{A}^{k_2} X W_2 \,|\, \dots] + b

    The weights of all scales share one product with X.

    Args:
        num_features: number of input features F.
        dim: width of the output. The scales share it equally; the first scales get the rest.
        scales: the powers k of Â, in ascending order. ``math.inf`` is personalised PageRank with α = 0.15.
        members: number of layers that are computed together, see :class:`~epagcl.nn.layers.GCNLayer`.

    Examples:
        >>> import torch
        >>> from epagcl.data.graph import Graph
        >>> graph = Graph(x=torch.ones(3, 5), pairs=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
        >>> ScalesLayer(5, 8, scales=(0, 1, math.inf))(graph.x, graph.adjacency).shape
        torch.Size([3, 8])
    """

    def __init__(self, num_features: int, dim: int, scales: Sequence[float] = SCALES["scales"], *, members: int = 1):
        super().__init__()
        self.scales = tuple(scales)
        self.widths = [dim // len(scales) + (k < dim % len(scales)) for k in range(len(scales))]
        self.weight = nn.Parameter(glorot(num_features, dim, members))
        self.bias = nn.Parameter(torch.zeros(dim) if members == 1 else torch.zeros(members, dim))

    @property
    def weights(self) -> tuple[Tensor, ...]:
        """The weights that multiply X: those of all scales side by side."""
        return (self.weight,)

    @property
    def hops(self) -> float:
        """The number of hops from which a node receives information; ``math.inf`` with PageRank."""
        return max(self.scales)

    def forward(self, x: Tensor | SparseMatrix, adjacency: Adjacency, mask: Tensor | None = None) -> Tensor:
        """Return the representations of all V views, ``[V·N, dim]``.

        Args:
            x: input features, ``[N, F]``.
            adjacency: Â of each view.
            mask: ``[V, F]``, 0 for the input features that a view hides.
        """
        return add_bias(self.product(x, adjacency, mask), self.bias)

    def product(self, x: Tensor | SparseMatrix, adjacency: Adjacency, mask: Tensor | None = None) -> Tensor:
        """Return the output without the bias, which :class:`~epagcl.nn.layers.PReLU` adds."""
        projected = transform(x, self.weight, mask, adjacency.views, adjacency.shape[0])
        return self.aggregate(projected, adjacency)

    def project(self, x: Tensor | SparseMatrix, mask: Tensor | None = None) -> Tensor:
        """Return X W of all scales, see :meth:`GCNLayer.project`."""
        return transform(x, self.weight, mask)

    def aggregate(self, projected: Tensor, adjacency: Adjacency) -> Tensor:
        """Return :meth:`product` from the result of :meth:`project`, one or several blocks of rows."""
        rows = max(projected.shape[0], adjacency.views * adjacency.shape[0])
        # Without masks, one block of rows X W serves all views.
        if projected.shape[0] < rows:
            projected = projected.expand(rows // projected.shape[0], -1, -1).reshape(rows, projected.shape[1])
        near = [(scale, width) for scale, width in zip(self.scales, self.widths, strict=True) if scale != PAGERANK]
        near_columns = sum(width for _, width in near)
        # PageRank starts from XW itself. Splits, unlike slices, have gradients that are put together only once.
        rest, far = projected.split([near_columns, projected.shape[1] - near_columns], 1)
        blocks = []
        hops = 0.0
        for scale, width in near:
            while hops < scale:  # the columns of larger scales need this product too
                hops += 1
                rest = adjacency @ rest
            block, rest = rest.split([width, rest.shape[1] - width], 1)
            blocks.append(block)
        if PAGERANK in self.scales:
            blocks.append(truncated_ppr(adjacency, far, ALPHA, PRODUCTS))
        return torch.cat(blocks, 1)


class ScalesEncoder(ScalesLayer):
    r"""One layer over several scales and its activation, :math:`\sigma([\hat{A}^{k_1} X W_1 \,|\, \dots] + b)`.

    Args:
        num_features: number of input features F.
        dim: width of the output.
        scales: as in :class:`ScalesLayer`.
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
        scales: Sequence[float] = SCALES["scales"],
        activation: str = "prelu",
        members: int = 1,
    ):
        super().__init__(num_features, dim, scales, members=members)
        self.activation = PReLU(activation, members)

    def forward(self, x: Tensor | SparseMatrix, adjacency: Adjacency, mask: Tensor | None = None) -> Tensor:
        """Return the representations of all V views, ``[V·N, dim]``; arguments as in :class:`ScalesLayer`."""
        return self.activation(self.product(x, adjacency, mask), self.bias)

    def propagate(self, projected: Tensor, adjacency: Adjacency) -> Tensor:
        """Return the representations from the result of :meth:`project`, one or several blocks of rows."""
        return self.activation(self.aggregate(projected, adjacency), self.bias)


def build_encoder(
    name: str, num_features: int, hidden: int | None, dim: int, activation: str = "prelu", members: int = 1
) -> GCN | ScalesEncoder:
    """Return an encoder by name.

    Args:
        name: ``"gcn"``, two GCN layers; ``"residual"``, two layers with root weights; ``"pagerank"``, one layer over
            personalised PageRank; ``"scales"``, one layer over X, ÂX, Â²X and PageRank side by side.
        num_features: number of input features F.
        hidden: width of the first of two layers; None: the GCN and the residual encoder have one layer too.
        dim: width of the output.
        activation: ``"prelu"``, ``"relu"`` or ``"rrelu"``.
        members: number of networks that are computed together.

    Examples:
        >>> build_encoder("residual", num_features=5, hidden=16, dim=8).layers[1].root.shape
        torch.Size([16, 8])
    """
    _check_name(name)
    if name in SCALES:
        return ScalesEncoder(num_features, dim, SCALES[name], activation, members)
    widths = [num_features, dim] if hidden is None else [num_features, hidden, dim]
    return GCN(widths, activation, root=name == "residual", members=members)


def build_layer(name: str, in_features: int, out_features: int) -> GCNLayer | ScalesLayer:
    """Return one layer of an encoder by name, without its activation.

    Args:
        name: as in :func:`build_encoder`.
        in_features: number of input features.
        out_features: number of output features.

    Examples:
        >>> build_layer("scales", 5, 8).widths
        [2, 2, 2, 2]
    """
    _check_name(name)
    if name in SCALES:
        return ScalesLayer(in_features, out_features, SCALES[name])
    return GCNLayer(in_features, out_features, root=name == "residual")


def check_layers(name: str, layers: int) -> None:
    """Raise unless an encoder can have this many layers.

    Examples:
        >>> check_layers("residual", 2)
        >>> check_layers("scales", 2)
        Traceback (most recent call last):
        ...
        epagcl.core.errors.InputError: encoder='scales', layers=2: this encoder has one layer; set layers=1
    """
    if name in SCALES and layers != 1:
        raise InputError(f"encoder={name!r}, layers={layers}: this encoder has one layer; set layers=1")


def _check_name(name: str) -> None:
    if name not in ENCODERS:
        raise InputError(f"encoder={name!r}: choose one of {', '.join(ENCODERS)}")
