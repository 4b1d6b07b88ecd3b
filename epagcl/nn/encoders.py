"""Encoders: node features and a view's Â in, node representations out."""

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from epagcl.core.sparse import SparseMatrix
from epagcl.nn.layers import Adjacency, GCNLayer, PReLU


class GCN(nn.Module):
    """GCN layers of the given widths with an activation after each; one slope for all, as in GRACE's and GCA's code.

    With ``last=False`` there is none after the last layer.
    """

    def __init__(self, widths: Sequence[int], activation: str = "prelu", *, last: bool = True):
        super().__init__()
        self.layers = nn.ModuleList(GCNLayer(a, b) for a, b in pairwise(widths))
        self.activation = PReLU(activation)
        self.last = last

    def forward(self, x: Tensor | SparseMatrix, adjacency: Adjacency, mask: Tensor | None = None) -> Tensor:
        """Representations ``[V·N, widths[-1]]`` of V views; ``mask`` ``[V, F]`` applies to the input features."""
        for number, layer in enumerate(self.layers, 1):
            product = layer.product(x, adjacency, mask)
            active = self.last or number < len(self.layers)
            x = self.activation(product, layer.bias) if active else product + layer.bias
            mask = None
        return x
