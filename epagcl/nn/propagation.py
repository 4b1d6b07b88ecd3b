"""Principal components of diffused features, without weights to train."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from epagcl.core.norms import inverse_norms
from epagcl.core.pca import Operator, principal_components
from epagcl.core.streamed import DiskMatrix
from epagcl.data.graph import Graph
from epagcl.data.large import LargeGraph
from epagcl.diffusion import Diffusion


class PropagatedPCA(nn.Module):
    r"""Principal components of :math:`S \hat{X}`, with :math:`\hat{X}` the feature rows at unit length.

    S is a symmetric diffusion of the graph. Neither S nor :math:`S \hat{X}` is formed, and a dense X is not copied (a
    sparse one is transposed once): memory is O(N·dim + F·dim). :meth:`fit` computes the components of one graph;
    :meth:`forward` returns the scores of the nodes of any graph with the same feature columns. Scores keep their scale:
    the first columns vary most.

    Args:
        num_features: F.
        dim: number of components.
        diffuse: returns the diffusion of a graph, such as :func:`epagcl.diffusion.ppr`.

    Attributes:
        components: the directions ``[F, dim]``.
        mean: the mean row times the directions ``[dim]``.

    Examples:
        >>> from epagcl.diffusion import power
        >>> graph = Graph(x=torch.tensor([[3.0, 0.0], [0.0, 2.0]]), pairs=torch.empty(2, 0).long(), num_nodes=2)
        >>> propagated = PropagatedPCA(num_features=2, dim=1, diffuse=lambda graph: power(graph, 0))
        >>> propagated.fit(graph)
        >>> propagated(graph)  # half the distance between the unit rows (1, 0) and (0, 1)
        tensor([[ 0.7071],
                [-0.7071]])
    """

    components: Tensor
    mean: Tensor

    def __init__(self, num_features: int, dim: int, diffuse: Callable[[Any], Diffusion]):
        super().__init__()
        self.diffuse = diffuse
        self.register_buffer("components", torch.zeros(num_features, dim))
        self.register_buffer("mean", torch.zeros(dim))

    @torch.no_grad()
    def fit(self, graph: Graph | LargeGraph) -> None:
        """Compute the components of a graph. Those of a large graph keep their products in a temporary file."""
        x, scale, diffuse = graph.x, inverse_norms(graph.x), self.diffuse(graph)
        operator = Operator(
            shape=(graph.num_nodes, graph.num_features),
            multiply=lambda v: diffuse((x @ v).mul_(scale)),
            multiply_transposed=lambda v: x.T @ (diffuse(v) * scale),
            device=graph.device,
        )
        with DiskMatrix(graph.num_nodes, graph.device) as store:
            large = isinstance(graph, LargeGraph)
            mean, directions = principal_components(operator, self.mean.shape[0], store=store if large else None)
        self.components.copy_(directions)
        self.mean.copy_(mean @ directions)

    def forward(self, graph: Graph) -> Tensor:
        """Return the scores ``[N, dim]`` of the nodes of a graph."""
        projected = graph.x @ self.components
        return self.diffuse(graph)(projected * inverse_norms(graph.x)) - self.mean
