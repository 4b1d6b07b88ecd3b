"""Whether a node's own features or its neighbourhood say more about it, measured without labels."""

import torch
import torch.nn.functional as F
from torch import Tensor

from epagcl.core.sparse import SparseMatrix
from epagcl.epr.estimate import column_halves
from epagcl.epr.structure import neighbour_sums, sampled_nodes

MAX_NODES = 1500  # nodes whose pairs represent all pairs


@torch.no_grad()
def own_advantage(edge_index: Tensor, num_nodes: int, x: Tensor | SparseMatrix) -> float:
    """Return how much better a node's own features predict similar nodes than its neighbourhood does.

    The feature columns are split into two random halves. Let s be the cosines of all pairs of nodes by their own
    features in one half, s' the same in the other half, and t' the cosines by the features of their neighbours (one and
    two hops, without the node itself) in the other half. The result is

        corr(s, s') − corr(s, t'),

    averaged over both roles of the halves. Noise of single features is not shared by the halves. The result is
    therefore

    - positive if features are informative and neighbours are unrelated to them,
    - near 0 if features are weak, or if neighbours say as much as the node itself,
    - negative if the average over neighbours removes noise.

    The pairs are those of a random sample of at most 1,500 nodes, the same on every device.

    Args:
        edge_index: edges in one or both directions, ``[2, E]``. Self-loops and duplicates are ignored.
        num_nodes: number of nodes N.
        x: node features ``[N, F]``, dense or sparse. They are not copied.

    Returns:
        A number between −2 and 2; 0 if there is nothing to compare.

    Examples:
        Features that tell the classes, on graphs whose neighbours are of another class, or of the same:

        >>> from epagcl.data import block_model
        >>> for homophily in (0.1, 0.9):
        ...     data = block_model(200, homophily=homophily, topic_share=0.4, words_per_node=60)
        ...     print(own_advantage(data.edge_index, 200, data.x.to_dense()) > 0.2)
        True
        False
    """
    if num_nodes < 3 or x.shape[1] < 2:
        return 0.0
    return halves_advantage(edge_index, num_nodes, column_halves(x))


@torch.no_grad()
def halves_advantage(edge_index: Tensor, num_nodes: int, halves: tuple[Tensor, Tensor]) -> float:
    """Return :func:`own_advantage` of features of which the two halves are known.

    Args:
        edge_index: edges in one or both directions, ``[2, E]``.
        num_nodes: number of nodes N, at least 3.
        halves: the result of :func:`~epagcl.epr.estimate.column_halves` for all nodes.

    Examples:
        >>> from epagcl.data import block_model
        >>> data = block_model(200, homophily=0.1, topic_share=0.4, words_per_node=60)
        >>> halves_advantage(data.edge_index, 200, column_halves(data.x.to_dense())) > 0.2
        True
    """
    nodes = sampled_nodes(torch.arange(num_nodes, device=halves[0].device), num_nodes, MAX_NODES)
    own = [_cosines(half[nodes]) for half in halves]
    sums = [neighbour_sums(edge_index, num_nodes, half) for half in halves]
    received = [_cosines((one + two)[nodes]) for one, two in sums]
    crossed = (_correlation(own[0], received[1]) + _correlation(own[1], received[0])) / 2
    return _correlation(*own) - crossed


def _cosines(z: Tensor) -> Tensor:
    """Return the cosines of all pairs of centred rows."""
    z = F.normalize(z - z.mean(dim=0))
    i, j = torch.triu_indices(len(z), len(z), offset=1, device=z.device)
    return (z @ z.T)[i, j]


def _correlation(a: Tensor, b: Tensor) -> float:
    """Return the correlation of two vectors; 0 if one of them is constant."""
    a, b = a - a.mean(), b - b.mean()
    norm = a.norm() * b.norm()
    return float((a @ b) / norm) if norm > 0 else 0.0
