"""Principal components of diffused features, without weights to train."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from epagcl.core.norms import inverse_norms
from epagcl.core.pca import Operator, principal_components, side_by_side
from epagcl.core.streamed import DiskMatrix
from epagcl.data.graph import Graph
from epagcl.data.large import LargeGraph
from epagcl.diffusion import Diffusion, Walk


def propagated_features(graph: Graph | LargeGraph, diffuse: Diffusion) -> Operator:
    r"""Return the matrix :math:`S \hat{X}` by its products, with :math:`\hat{X}` the feature rows at unit length.

    Args:
        graph: the graph.
        diffuse: S as a function Y → SY; symmetric unless it is a :class:`~epagcl.diffusion.Walk`.

    Examples:
        >>> from epagcl.diffusion import power
        >>> graph = Graph(x=torch.tensor([[3.0, 0.0], [0.0, 2.0]]), pairs=torch.empty(2, 0).long(), num_nodes=2)
        >>> propagated_features(graph, power(graph, 0)).multiply(torch.eye(2))
        tensor([[1., 0.],
                [0., 1.]])
    """
    x, scale = graph.x, inverse_norms(graph.x)
    transposed = diffuse.T if isinstance(diffuse, Walk) else diffuse
    operator = Operator(
        shape=(graph.num_nodes, graph.num_features),
        multiply=lambda v: diffuse((x @ v).mul_(scale)),
        multiply_transposed=lambda v: x.T @ (transposed(v) * scale),
        device=graph.device,
    )
    if isinstance(graph, LargeGraph) or graph.part is None:
        return operator
    return operator.spread(graph.num_nodes, graph.part.rows, graph.part.sum)


class PropagatedPCA(nn.Module):
    r"""Principal components of :math:`S \hat{X}`, with :math:`\hat{X}` the feature rows at unit length.

    S is a diffusion of the graph. Neither S nor :math:`S \hat{X}` is formed, and a dense X is not copied (a
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
        operator = propagated_features(graph, self.diffuse(graph))
        with DiskMatrix(graph.num_nodes, graph.device) as store:
            large = isinstance(graph, LargeGraph)
            mean, directions = principal_components(operator, self.mean.shape[0], store=store if large else None)
        self.components.copy_(directions)
        self.mean.copy_(mean @ directions)

    def forward(self, graph: Graph) -> Tensor:
        """Return the scores ``[N, dim]`` of the nodes of a graph, or of the nodes of this rank."""
        projected = graph.x @ self.components
        return self.diffuse(graph)(projected * inverse_norms(graph.x)) - self.mean


class SideBySidePCA(nn.Module):
    r"""Principal components of :math:`[w_1 S_1 \hat{X}, w_2 S_2 \hat{X}, ...]`, as those of one diffusion.

    Args:
        num_features: F.
        dim: number of components.
        diffusions: each returns a diffusion of a graph.
        weights: the factor of each.

    Attributes:
        components: the directions, ``[F, dim]`` for each diffusion.
        mean: the mean row times the directions ``[dim]``.

    Examples:
        >>> from epagcl.diffusion import power
        >>> graph = Graph(x=torch.tensor([[3.0, 0.0], [0.0, 2.0]]), pairs=torch.empty(2, 0).long(), num_nodes=2)
        >>> same = lambda graph: power(graph, 0)
        >>> both = SideBySidePCA(num_features=2, dim=1, diffusions=[same, same], weights=[1.0, 0.0])
        >>> both.fit(graph)
        >>> both(graph)  # the second has no weight
        tensor([[ 0.7071],
                [-0.7071]])
    """

    components: Tensor
    mean: Tensor

    def __init__(
        self,
        num_features: int,
        dim: int,
        diffusions: Sequence[Callable[[Graph], Diffusion]],
        weights: Sequence[float],
    ):
        super().__init__()
        self.diffusions, self.weights = list(diffusions), list(weights)
        self.register_buffer("components", torch.zeros(len(self.diffusions) * num_features, dim))
        self.register_buffer("mean", torch.zeros(dim))

    def _operator(self, graph: Graph) -> Operator:
        parts = [propagated_features(graph, diffuse(graph)) for diffuse in self.diffusions]
        return side_by_side(parts, self.weights)

    @torch.no_grad()
    def fit(self, graph: Graph) -> None:
        """Compute the components of a graph."""
        mean, directions = principal_components(self._operator(graph), self.mean.shape[0])
        self.components.copy_(directions)
        self.mean.copy_(mean @ directions)

    def forward(self, graph: Graph) -> Tensor:
        """Return the scores ``[N, dim]`` of the nodes of a graph."""
        return self._operator(graph).multiply(self.components) - self.mean
