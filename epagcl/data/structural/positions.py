"""Features that describe where a node is. Their axes belong to one graph, so they do not carry over to another."""

import torch
from torch import Tensor

from epagcl.core.norms import inverse_norms
from epagcl.core.pca import Operator, principal_components
from epagcl.core.randomness import Stream, uniform
from epagcl.core.sparse import multiply
from epagcl.data.structural.adjacency import Neighbours

POWERS = 4  # of the random projection
LAZY_STEPS = 8  # power of (I + S)/2 whose leading eigenvectors are computed; their order stays the same


def random_projection(graph: Neighbours, dim: int, seed: int = 0) -> Tensor:
    """Return random columns averaged over walks of 1 to 4 steps, ``[N, dim]``.

    The columns are √3 times −1, 0 or 1 with probabilities 1/6, 2/3 and 1/6. Each power of Â is scaled to unit rows
    before the sum, so that none drowns the others. As in `"Fast and Accurate Network Embeddings via Very Sparse Random
    Projection" <https://arxiv.org/abs/1908.11512>`_. The cheapest position: only products with Â.

    Examples:
        >>> random_projection(Neighbours(torch.tensor([[0], [1]]), num_nodes=2), dim=3).shape
        torch.Size([2, 3])
    """
    counter = torch.arange(graph.num_nodes * dim, device=graph.device).view(-1, dim)
    u = uniform(counter, seed, Stream.STRUCTURE, 2)
    column = ((u < 1 / 6).float() - (u >= 5 / 6).float()) * 3**0.5
    total = torch.zeros_like(column)
    for _ in range(POWERS):
        column = multiply(graph.adjacency, column)
        total += column * inverse_norms(column)
    return total / POWERS


def leading_eigenvectors(graph: Neighbours, dim: int) -> Tensor:
    """Return √N times the eigenvectors of S = D^-½ A D^-½ with the largest eigenvalues, ``[N, dim]``.

    They are the eigenvectors of the normalised Laplacian I − S with the smallest eigenvalues, of which the first is
    constant up to degrees. A power of (I + S)/2 has the same ones, without negative eigenvalues, and separates them.
    Vectors whose eigenvalues are nearly equal, such as those of several components, may differ between devices.

    Examples:
        >>> path = Neighbours(torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
        >>> leading_eigenvectors(path, dim=1).flatten()  # in proportion to √degree
        tensor([0.8660, 1.2247, 0.8660])
    """

    def smoothed(v: Tensor) -> Tensor:
        for _ in range(LAZY_STEPS):
            v = multiply(graph.walk, v).add_(v).mul_(0.5)
        return v

    n = graph.num_nodes
    operator = Operator((n, n), smoothed, smoothed, graph.device)
    zero = torch.zeros(n, device=graph.device)
    return principal_components(operator, dim, mean=zero).directions * n**0.5
