"""Views of a subgraph that are parts of the views of the whole graph: Algorithm 1 and Eq. (9) with whole-graph numbers.

Whether a pair is dropped or added depends on its own weight and on the smallest, mean and largest weight of all pairs.
:func:`survey_edges` computes these once, in chunks; :func:`restricted_weights` then gives the pairs of a subgraph the
probabilities that they have in the whole graph.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from epagcl.data.large import LargeGraph, Subgraph
from epagcl.epr.alpha import alpha_add, alpha_drop
from epagcl.views.probabilities import EdgeWeights, WeightRange, top_degree_nodes

FIRST_ENDS = 256  # nodes of lowest degree among which the largest weight of a candidate is searched first


class EdgeSurvey(NamedTuple):
    """What Algorithm 1 and Eq. (9) need of the whole graph.

    Attributes:
        drop: the range of w^d over all edges.
        add: the range of w^a over all candidates.
        top: V_a, ascending.
    """

    drop: WeightRange
    add: WeightRange
    top: Tensor


def survey_edges(graph: LargeGraph, *, candidates: bool = True) -> EdgeSurvey:
    """Return the ranges of all edge weights and of all candidates' weights, in one pass over the edges.

    The candidates are never listed: the sum of their weights is that of all pairs of V_a, a closed form, less that of
    the edges within V_a.

    Args:
        graph: the whole graph.
        candidates: False leaves out the candidates for adding.

    Examples:
        >>> from epagcl.data import block_model
        >>> from epagcl.data.large import Arrays
        >>> survey = survey_edges(LargeGraph(Arrays.from_data(block_model(60, seed=0))))
        >>> survey.drop.low < survey.drop.mean < survey.drop.high
        True
    """
    degree = graph.degree
    top = top_degree_nodes(degree, graph.num_pairs) if candidates else degree.new_empty(0, dtype=torch.int64)
    chosen = torch.zeros(graph.num_nodes, dtype=torch.bool)
    chosen[top] = True
    present, inside = 0.0, 0  # the sum of w^a over edges within V_a, and their number

    def weights() -> Iterable[Tensor]:
        nonlocal present, inside
        for pairs, weight in graph.pair_chunks():
            within = pairs[:, chosen[pairs].all(0)]
            present += float(alpha_add(degree, within).sum())
            inside += within.shape[1]
            yield alpha_drop(degree, pairs, weight)

    drop = weight_range(weights())
    root = (degree[top].double() + 1).rsqrt()
    total = float(root.sum().square() - root.square().sum())  # Σ_{i<j} 2/√((d_i + 1)(d_j + 1))
    count = top.numel() * (top.numel() - 1) // 2 - inside
    if count <= 0:
        return EdgeSurvey(drop, WeightRange(0.0, 0.0, 0.0), top)
    ascending = top[torch.argsort(degree[top], stable=True)]
    low, high = _extreme(graph, ascending.flip(0), min), _extreme(graph, ascending, max)
    return EdgeSurvey(drop, WeightRange(low, min(max((total - present) / count, low), high), high), top)


def weight_range(chunks: Iterable[Tensor]) -> WeightRange:
    """Return the smallest, mean and largest of numbers that come in chunks.

    Examples:
        >>> weight_range([torch.tensor([1.0, 2.0]), torch.tensor([6.0])])
        WeightRange(low=1.0, mean=3.0, high=6.0)
    """
    low, high, total, count = float("inf"), float("-inf"), 0.0, 0
    for w in chunks:
        if w.numel():
            low, high = min(low, float(w.min())), max(high, float(w.max()))
            total, count = total + float(w.double().sum()), count + w.numel()
    return WeightRange(low, total / count, high) if count else WeightRange(0.0, 0.0, 0.0)


def _extreme(graph: LargeGraph, order: Tensor, best: Callable[[float, float], float]) -> float:
    """Return the largest (smallest) weight w^a of an absent pair of V_a.

    Args:
        graph: the whole graph.
        order: V_a by ascending (descending) degree, so that the best pairs are among the first nodes.
        best: ``max`` or ``min``.
    """
    size = min(FIRST_ENDS, order.numel())
    while True:
        first = order[:size]
        ascending = first.sort().values
        part = graph.subgraph(ascending.numpy())
        i, j = torch.triu_indices(size, size, offset=1)
        absent = ~torch.isin(i * size + j, (part.pairs[0] * size + part.pairs[1]).cpu(), assume_unique=True)
        w = alpha_add(graph.degree, ascending[torch.stack([i, j])[:, absent]])
        if size == order.numel() or w.numel():
            found = float(w.max() if best is max else w.min()) if w.numel() else 0.0
            if size == order.numel():
                return found
            # Pairs with an end beyond the first nodes cannot be better than this.
            bound = float(alpha_add(graph.degree, torch.stack([order[:1], order[size : size + 1]])))
            if best(found, bound) == found:
                return found
        size = min(4 * size, order.numel())


def restricted_weights(graph: Subgraph, survey: EdgeSurvey) -> EdgeWeights:
    """Return the output of Algorithm 1 for the pairs of a subgraph, with the degrees and ranges of the whole graph.

    Candidates are the absent pairs of nodes of V_a that are in the subgraph.

    Args:
        graph: a subgraph with all edges between its nodes.
        survey: of the whole graph.

    Examples:
        >>> from epagcl.data import block_model
        >>> from epagcl.data.large import Arrays
        >>> whole = LargeGraph(Arrays.from_data(block_model(60, seed=0)))
        >>> part = whole.subgraph(torch.arange(0, 60, 2).numpy())
        >>> weights = restricted_weights(part, survey_edges(whole))
        >>> weights.pairs.shape[1] == weights.w_drop.numel()
        True
    """
    degree, pairs = graph.whole_degree.cpu(), graph.pairs.cpu()
    n, nodes = graph.num_nodes, graph.nodes.cpu()
    top = torch.isin(nodes, survey.top, assume_unique=True).nonzero()[:, 0]
    i, j = torch.triu_indices(top.numel(), top.numel(), offset=1)
    key = top[i] * n + top[j]
    key = key[~torch.isin(key, pairs[0] * n + pairs[1], assume_unique=True)]
    candidates = torch.stack([key // n, key % n])
    weight = None if graph.weight is None else graph.weight.cpu()
    drop, add = alpha_drop(degree, pairs, weight), alpha_add(degree, candidates)
    return EdgeWeights(pairs, drop, candidates, add, survey.drop, survey.add)
