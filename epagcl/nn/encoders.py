"""Encoders, which map node features and a normalised adjacency matrix Â to node representations."""

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from epagcl.core.sparse import SparseMatrix
from epagcl.nn.layers import Adjacency, GCNLayer, PReLU


class GCN(nn.Module):
    """Graph convolutional network: GCN layers with an activation after each.

    All activations share one learned slope, as in the code of GRACE and GCA.

    Args:
        widths: number of input features, then the width of each layer; at least two numbers.
        activation: ``"prelu"``, ``"relu"`` or ``"rrelu"``.
        last: False omits the activation after the last layer.

    Examples:
        >>> import torch
        >>> from epagcl.data.graph import Graph
        >>> graph = Graph(x=torch.ones(3, 5), pairs=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
        >>> GCN([5, 16, 8])(graph.x, graph.adjacency).shape
        torch.Size([3, 8])
    """

    def __init__(self, widths: Sequence[int], activation: str = "prelu", *, last: bool = True):
        super().__init__()
        self.layers = nn.ModuleList(GCNLayer(a, b) for a, b in pairwise(widths))
        self.activation = PReLU(activation)
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
            product = layer.product(h, adjacency, mask)
            active = self.last or number < len(self.layers)
            h = self.activation(product, layer.bias) if active else product + layer.bias
            mask = None
        assert isinstance(h, Tensor)
        return h
