"""How much the edges of a graph say about its features, and how alike neighbours are, measured without labels."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from epagcl.core.checks import check_whole
from epagcl.core.errors import InputError
from epagcl.core.randomness import Stream, permutation, uniform
from epagcl.core.sparse import SparseMatrix, multiply
from epagcl.data.checking import undirected_pairs
from epagcl.epr.rate import check_edge_index, sum_per_node

#: Maximum number of nodes that the score compares with each other.
MAX_NODES = 4096
#: Maximum number of random halvings. The score of a small graph is the mean over several.
MAX_HALVINGS = 16
#: A total weight below this is a rounding error: the weight of a walk is at least 1/d_max².
_NO_WEIGHT = 1e-12


def structure_score(edge_index: Tensor, num_nodes: int, features: Tensor) -> float:
    """Return how well the neighbours of a node predict its 2-hop neighbours, as an AUC between 0 and 1.

    The nodes are split at random into two halves A and B. Let P = D⁻¹A be the random walk. For each node i,

        u_i = the mean feature of its neighbours in A,
        v_i = the mean feature of the ends of walks of two steps from i that end in B, but not at i.

    Both are centred over the nodes. The score is the probability that cos(u_i, v_i) > cos(u_i, v_j) for random nodes
    i ≠ j, where a tie counts one half. It is averaged over both roles of the halves and, on small graphs, over several
    random halves.

    No node contributes to both u and v. If the features are independent of the edges, the score is therefore 0.5 up to
    chance, even on a graph with many triangles. A score near 1 means that each region of the graph has features of its
    own. A score below 0.5 means that neighbours and 2-hop neighbours are unlike, as on bipartite graphs whose two sides
    differ. A node's own features are not used.

    The nodes are a random sample of at most 4096, the same on every device. The time is O(E·d) and 4096²·d, the memory
    O(N·d).

    Args:
        edge_index: edges in one or both directions, ``[2, E]``. Self-loops and duplicates are ignored.
        num_nodes: number of nodes N.
        features: dense features ``[N, d]``, such as the first principal components of unit rows.

    Returns:
        A number between 0 and 1; 0.5 if there is nothing to compare, as on a graph without edges.

    Examples:
        Two cliques of opposite features. Of two nodes, one half are in different cliques and compare as 1, the others
        as a tie:

        >>> import torch
        >>> clique = torch.combinations(torch.arange(8)).T
        >>> features = torch.tensor([[1.0]] * 8 + [[-1.0]] * 8)
        >>> score = structure_score(torch.cat([clique, clique + 8], dim=1), 16, features)
        >>> 0.7 < score < 0.8
        True
    """
    num_nodes = check_whole(num_nodes, "num_nodes")
    pairs = _check_features(edge_index, num_nodes, features)
    if pairs.numel() == 0:
        return 0.5
    x = features.float()
    x = torch.cat([x - x.mean(dim=0), torch.ones_like(x[:, :1])], dim=1)  # the last column sums the weights
    walk = _Walk.of(pairs, num_nodes)
    node = torch.arange(num_nodes, device=x.device)
    scores = []
    for halving in range(min(max(MAX_NODES // num_nodes, 1), MAX_HALVINGS)):
        half = uniform(node, 0, Stream.STRUCTURE, 0, halving) < 0.5
        scores += [_auc(walk.one_step(x, a), walk.two_steps(x, ~a)) for a in (half, ~half)]
    known = [score for score in scores if score is not None]
    return sum(known) / len(known) if known else 0.5


def neighbourhood_agreement(edge_index: Tensor, num_nodes: int, features: Tensor) -> float:
    """Return how reliably neighbourhoods tell nodes apart, as an AUC between 0 and 1.

    Let u_i be the sum of the features of the neighbours of node i, and v_i the sum over its 2-hop neighbours, both with
    the weights 1/√(d_j d_k) of a GCN without self-loops, and v without the walks that return to i. Both are centred
    over the nodes. The result is the probability that cos(u_i, v_i) > cos(u_i, v_j) for random nodes i ≠ j.

    Unlike :func:`structure_score`, neighbours that are 2-hop neighbours too (triangles) count. The result is therefore
    also high where communities are dense but the features are independent of them: propagated features then still tell
    the communities apart. It is near 0.5 where a neighbourhood is too small or too random to describe its node.

    Args:
        edge_index: edges in one or both directions, ``[2, E]``. Self-loops and duplicates are ignored.
        num_nodes: number of nodes N.
        features: dense features ``[N, d]``, such as the first principal components of unit rows.

    Returns:
        A number between 0 and 1; 0.5 if there is nothing to compare, as on a graph without edges.

    Examples:
        >>> import torch
        >>> clique = torch.combinations(torch.arange(8)).T
        >>> features = torch.tensor([[1.0, 0.0]] * 8 + [[0.0, 1.0]] * 8)
        >>> round(neighbourhood_agreement(torch.cat([clique, clique + 8], dim=1), 16, features), 2)
        0.77
    """
    num_nodes = check_whole(num_nodes, "num_nodes")
    pairs = _check_features(edge_index, num_nodes, features)
    u, v = neighbour_sums(pairs, num_nodes, features)
    connected = torch.bincount(pairs.flatten(), minlength=num_nodes).nonzero().flatten()
    nodes = sampled_nodes(connected, num_nodes)
    return _auc_of(u[nodes], v[nodes]) if nodes.numel() > 1 else 0.5


def neighbour_sums(edge_index: Tensor, num_nodes: int, features: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sums of features over the neighbours and over the 2-hop neighbours of each node, without itself.

    Messages have the weights 1/√(d_j d_k) of a GCN without self-loops. Walks of two steps that return to their start
    are left out.

    Args:
        edge_index: edges in one or both directions, ``[2, E]``. Self-loops and duplicates are ignored.
        num_nodes: number of nodes N.
        features: dense features ``[N, d]``.

    Examples:
        >>> import torch
        >>> path = torch.tensor([[0, 1], [1, 2]])
        >>> one, two = neighbour_sums(path, 3, torch.tensor([[1.0], [2.0], [4.0]]))
        >>> [round(value, 4) + 0.0 for value in two.flatten().tolist()]  # the ends of the path
        [2.0, 0.0, 0.5]
    """
    num_nodes = check_whole(num_nodes, "num_nodes")
    pairs = _check_features(edge_index, num_nodes, features)
    x = features.float()
    row, col = torch.cat([pairs, pairs.flip(0)], dim=1)
    degree = torch.bincount(row, minlength=num_nodes).float()
    matrix = SparseMatrix.from_coo(row, col, (degree[row] * degree[col]).rsqrt(), (num_nodes, num_nodes))
    back = sum_per_node(pairs, (1 / (degree[pairs[0]] * degree[pairs[1]])).float(), num_nodes)
    one = multiply(matrix, x)
    return one, multiply(matrix, one) - back[:, None] * x


def edge_similarity(edge_index: Tensor, num_nodes: int, features: Tensor) -> float:
    """Return the mean cosine of the centred features of two neighbours, between −1 and 1; 0 without edges.

    Examples:
        >>> import torch
        >>> edge_similarity(torch.tensor([[0, 2], [1, 3]]), 4, torch.tensor([[1.0], [1.0], [-1.0], [-1.0]]))
        1.0
    """
    num_nodes = check_whole(num_nodes, "num_nodes")
    pairs = _check_features(edge_index, num_nodes, features)
    if pairs.numel() == 0:
        return 0.0
    x = F.normalize(features.float() - features.float().mean(dim=0))
    row, col = torch.cat([pairs, pairs.flip(0)], dim=1)
    ones = torch.ones(row.numel(), device=x.device)
    sums = multiply(SparseMatrix.from_coo(row, col, ones, (num_nodes, num_nodes)), x)
    return float((x * sums).sum(dtype=torch.float64 if x.device.type != "mps" else None) / row.numel())


class _Walk(NamedTuple):
    """The random walk P = D⁻¹A of a graph, and the diagonal of P²."""

    matrix: SparseMatrix
    back: Tensor

    @classmethod
    def of(cls, pairs: Tensor, num_nodes: int) -> "_Walk":
        row, col = torch.cat([pairs, pairs.flip(0)], dim=1)
        degree = torch.bincount(row, minlength=num_nodes).float()
        back = (1 / (degree[pairs[0]] * degree[pairs[1]])).float()
        matrix = SparseMatrix.from_coo(row, col, 1 / degree[row], (num_nodes, num_nodes))
        return cls(matrix, sum_per_node(pairs, back, num_nodes))

    def one_step(self, x: Tensor, senders: Tensor) -> Tensor:
        """Return the sum of x over the walks of one step that end at a sender."""
        return multiply(self.matrix, x * senders[:, None])

    def two_steps(self, x: Tensor, senders: Tensor) -> Tensor:
        """Return the sum of x over the walks of two steps that end at a sender, but not at their start."""
        x = x * senders[:, None]
        return multiply(self.matrix, multiply(self.matrix, x)) - self.back[:, None] * x


def _check_features(edge_index: Tensor, num_nodes: int, features: Tensor) -> Tensor:
    """Return the undirected pairs on the device of the features; raise unless there is one row per node."""
    if features.dim() != 2 or features.shape[0] != num_nodes:
        raise InputError(f"features= has shape {tuple(features.shape)}; pass one row per node, [{num_nodes}, d]")
    return undirected_pairs(check_edge_index(edge_index, num_nodes), num_nodes).to(features.device)


def sampled_nodes(nodes: Tensor, num_nodes: int, most: int | None = None) -> Tensor:
    """Return at most ``most`` (by default :data:`MAX_NODES`) of some nodes in random order, the same on every device.

    Examples:
        >>> import torch
        >>> len(sampled_nodes(torch.arange(10), 10, most=3))
        3
    """
    order = permutation(num_nodes, 0, Stream.STRUCTURE, 1, device=nodes.device)
    return nodes[order[nodes].argsort()[: MAX_NODES if most is None else most]]


def _auc(u: Tensor, v: Tensor) -> float | None:
    """Return P(cos(u_i, v_i) > cos(u_i, v_j)), or None for fewer than two nodes; the last columns are the weights."""
    valid = ((u[:, -1] > _NO_WEIGHT) & (v[:, -1] > _NO_WEIGHT)).nonzero().flatten()
    if valid.numel() < 2:
        return None
    nodes = sampled_nodes(valid, u.shape[0])
    return _auc_of(*(part[nodes, :-1] / part[nodes, -1:] for part in (u, v)))


def _auc_of(u: Tensor, v: Tensor) -> float:
    """Return P(cos(u_i, v_i) > cos(u_i, v_j)) over the rows i ≠ j after centring; a tie counts one half."""
    u, v = (F.normalize(mean - mean.mean(dim=0)) for mean in (u, v))
    cosine = u @ v.T
    own = cosine.diagonal()[:, None]
    wins = (own > cosine).sum() + ((own == cosine).sum() - len(u)) / 2
    return float(wins / (len(u) * (len(u) - 1)))
