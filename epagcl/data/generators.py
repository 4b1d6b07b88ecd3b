"""Generated graphs: a degree-corrected block model with bag-of-words features, identical on every machine."""

import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.checks import check_whole
from epagcl.core.errors import InputError
from epagcl.core.memory import check_memory
from epagcl.core.randomness import Stream, uniform64
from epagcl.core.sparse import SparseMatrix
from epagcl.data.checking import both_directions, undirected_pairs


def block_model(
    num_nodes: int = 2700,
    *,
    num_classes: int = 7,
    average_degree: float = 4.0,
    homophily: float = 0.8,
    degree_exponent: float = 2.5,
    num_features: int = 1400,
    words_per_node: int = 18,
    topic_share: float = 0.15,
    topic_words: int = 100,
    seed: int = 0,
) -> Data:
    """Return a graph from a degree-corrected stochastic block model (Karrer & Newman 2011) whose nodes are short texts.

    Edges: each of the N·average_degree/2 edges draws its first end with probability ∝ θ, where θ is heavy-tailed
    (P(θ > t) = t^(1−γ), cut at √N times the mean). With probability ``homophily``, the second end is drawn ∝ θ from
    the same class, else ∝ θ from all other classes.

    Features: each word of a node comes from the topic of its class with probability ``topic_share``, else from the
    whole vocabulary. Words have Zipf frequencies.

    Duplicate edges and words are merged, so the averages are slightly below the requested values. Every draw is a hash
    of the seed, the purpose and a counter. The time is O(E + words); a million nodes take seconds.

    Args:
        num_nodes: N.
        num_classes: C; the sizes of the classes differ by at most one node.
        average_degree: mean degree before duplicates are merged.
        homophily: probability that the second end of an edge is drawn from the class of the first.
        degree_exponent: γ > 2, exponent of the degree distribution's tail; a smaller value gives a heavier tail.
        num_features: F, size of the vocabulary.
        words_per_node: words drawn for each node.
        topic_share: share of words from the topic of the node's class.
        topic_words: number of words in a topic.
        seed: random seed.

    Returns:
        ``Data`` with binary ``x`` (``torch.sparse_csr``), ``edge_index``, ``y``, ``num_nodes``.

    Examples:
        >>> data = block_model(60, num_classes=3, num_features=40, topic_words=10, seed=0)
        >>> data.num_nodes, tuple(data.x.shape), data.y[:4].tolist()
        (60, (60, 40), [0, 1, 2, 0])
    """
    whole = {"num_nodes": num_nodes, "num_classes": num_classes, "num_features": num_features}
    whole |= {"words_per_node": words_per_node, "topic_words": topic_words, "seed": seed}
    for name, value in whole.items():
        check_whole(value, name)
    if num_nodes < 2 * num_classes or num_classes < 2:
        raise InputError(f"num_nodes={num_nodes}, num_classes={num_classes}: at least 2 classes of 2 nodes each")
    if degree_exponent <= 2 or not 0 <= homophily <= 1 or not 0 <= topic_share <= 1:
        raise InputError("degree_exponent must be above 2, homophily and topic_share between 0 and 1")
    if not 1 <= topic_words <= num_features or words_per_node < 1 or not average_degree > 0:
        raise InputError("topic_words must lie in 1..num_features, words_per_node and average_degree be positive")
    # About ten numbers of 8 bytes for each word and each edge at the same time.
    needed = 80 * (num_nodes * (1 + words_per_node + average_degree) + num_features + topic_words)
    check_memory(int(min(needed, 2.0**100)), f"{num_nodes:,} nodes of this block model", "give smaller numbers")
    y = torch.arange(num_nodes) % num_classes
    pairs = _edges(y, average_degree, homophily, degree_exponent, num_classes, seed)
    x = _words(y, num_features, words_per_node, topic_share, topic_words, seed)
    return Data(x=x, edge_index=both_directions(pairs, num_nodes), y=y, num_nodes=num_nodes)


def demo() -> Data:
    """Return the named graph ``demo``: a fixed block model of about Cora's size on which training visibly helps."""
    return block_model(2700, seed=1)


# Purposes of the random draws below.
_THETA, _FIRST, _SECOND, _STAY, _WORD, _TOPICAL = range(6)


def _edges(y: Tensor, average_degree: float, homophily: float, exponent: float, classes: int, seed: int) -> Tensor:
    n = y.numel()
    theta = (1 - uniform64(torch.arange(n), seed, Stream.GENERATOR, _THETA)) ** (-1 / (exponent - 1))
    theta.clamp_(max=float(theta.mean()) * n**0.5)
    # Nodes are grouped by class: a class is a range of the cumulative weights, and a draw is a search in that range.
    order = torch.argsort(y, stable=True)
    cumulative = theta[order].cumsum(0)
    last = torch.bincount(y, minlength=classes).cumsum(0) - 1
    upper = cumulative[last]
    lower = torch.cat([upper.new_zeros(1), upper[:-1]])

    count = torch.arange(round(n * average_degree / 2))
    first = _search(cumulative, uniform64(count, seed, Stream.GENERATOR, _FIRST) * cumulative[-1])
    own = y[order[first]]
    u = uniform64(count, seed, Stream.GENERATOR, _SECOND)
    inside = lower[own] + u * (upper - lower)[own]
    # A draw outside the class uses the whole range without the range of the class.
    outside = u * (cumulative[-1] - (upper - lower)[own])
    outside = outside + (outside >= lower[own]) * (upper - lower)[own]
    stays = uniform64(count, seed, Stream.GENERATOR, _STAY) < homophily
    second = _search(cumulative, torch.where(stays, inside, outside))
    return undirected_pairs(torch.stack([order[first], order[second]]), n)


def _words(y: Tensor, vocabulary: int, per_node: int, share: float, topic_words: int, seed: int) -> Tensor:
    n = y.numel()
    draw = torch.arange(n * per_node)
    node = draw // per_node
    topical = uniform64(draw, seed, Stream.GENERATOR, _TOPICAL) < share
    u = uniform64(draw, seed, Stream.GENERATOR, _WORD)
    general = _search(_zipf(vocabulary), u)
    # A topic takes every 7th word from its offset, so that it mixes frequent and rare words.
    own = (_search(_zipf(topic_words), u) * 7 + y[node] * (vocabulary // max(int(y.max()) + 1, 1))) % vocabulary
    words = torch.where(topical, own, general).view(n, per_node).sort(1).values
    new = torch.ones_like(words, dtype=torch.bool)
    new[:, 1:] = words[:, 1:] != words[:, :-1]
    rowptr = torch.cat([torch.zeros(1, dtype=torch.int64), new.sum(1).cumsum(0)])
    return SparseMatrix(rowptr, words[new], torch.ones(int(rowptr[-1])), (n, vocabulary)).csr


def _zipf(size: int) -> Tensor:
    """Return the cumulative probabilities of frequencies ∝ 1/rank."""
    weight = 1 / torch.arange(1, size + 1, dtype=torch.float64)
    return (weight / weight.sum()).cumsum(0)


def _search(cumulative: Tensor, value: Tensor) -> Tensor:
    """Return the interval of a cumulative distribution that each value falls in."""
    return torch.searchsorted(cumulative, value, right=True).clamp_(max=cumulative.numel() - 1)
