"""What an embedding keeps of the graph, without labels: recovery of hidden feature columns and hidden edges.

A fifth of the feature columns and edges is hidden, and the rest is embedded. An embedding that describes the nodes
well predicts the hidden columns and tells hidden edges from random pairs. Features and propagated features of the same
rest show what is possible. ``python -m benchmarks health`` compares the result with accuracies.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from epagcl.core.randomness import Stream, uniform64
from epagcl.data.graph import Graph
from epagcl.diffusion import ALPHA, power, ppr
from epagcl.evaluation.health import KEPT, Finding, sample
from epagcl.nn.propagation import PropagatedPCA

HIDDEN = 0.2  # share of columns and edges that are hidden
VIEW = 3  # number of the subsample; alignment uses 1 and 2
NODES = 8192  # number of nodes in the sample on which columns are predicted
TARGETS = 32  # principal components of the hidden columns that are predicted
COMPONENTS = 64  # principal components of the references, which take most of the time
PENALTIES = tuple(10.0**k for k in range(-4, 6))  # of the ridge regression, relative to the mean variance of a column
INFORMATIVE_FEATURES = 0.02  # with less recovered by both references, columns tell nothing about each other
INFORMATIVE_EDGES = 0.65  # with a lower AUC of both references, features tell nothing about edges
GOOD, POOR = 0.6, 0.45  # share of the best reference; chosen on 15 graphs (``python -m benchmarks retention``)
#: The names of the findings.
KEPT_FEATURES, KEPT_EDGES = KEPT + "features", KEPT + "edges"


@dataclass(frozen=True)
class Recovery:
    """How well hidden feature columns and edges are recovered.

    Attributes:
        features: share of the variance of the hidden columns that a linear model explains on other nodes; None if there
            is nothing to predict.
        edges: probability that a hidden edge is more similar than a random pair (AUC); None without hidden edges.

    Examples:
        >>> Recovery(features=0.3, edges=0.9).edges
        0.9
    """

    features: float | None
    edges: float | None


@dataclass(frozen=True)
class Retention:
    """The recovery from an embedding, and from features and propagated features of the same part of the graph.

    Attributes:
        embedding: from the embedding.
        raw: from the principal components of the features.
        propagated: from those of the features smoothed by PageRank.

    Examples:
        >>> Retention(Recovery(0.3, 0.9), Recovery(0.2, 0.7), Recovery(0.25, 0.8)).raw.features
        0.2
    """

    embedding: Recovery
    raw: Recovery
    propagated: Recovery


@torch.no_grad()
def measure_retention(embed: Callable[[Graph], Tensor], graph: Graph) -> Retention:
    """Hide a fifth of the columns and edges of a graph, and recover them from embeddings of the rest.

    Args:
        embed: returns the embedding of a graph, ``[N, d]``.
        graph: the graph.

    Examples:
        >>> from epagcl.data import block_model
        >>> graph = Graph.from_data(block_model(200, num_features=40, topic_words=10, words_per_node=8))
        >>> kept = measure_retention(lambda graph: torch.zeros(graph.num_nodes, 4), graph)
        >>> kept.embedding.features, kept.embedding.edges
        (0.0, 0.5)
    """
    pairs, columns = graph.hidden(HIDDEN, VIEW)
    rest = graph.subsample(HIDDEN, VIEW)
    masked = Graph(graph.masked(columns), graph.pairs, graph.num_nodes, part=graph.part)
    targets = _components(masked, TARGETS, partial(power, k=0))
    hidden = graph.pairs[:, pairs]
    recover = partial(_recover, targets=targets, hidden=hidden, kinds=graph.kinds)
    return Retention(
        embedding=recover(embed(rest)),
        raw=recover(_components(rest, COMPONENTS, partial(power, k=0))),
        propagated=recover(_components(rest, COMPONENTS, partial(ppr, alpha=ALPHA))),
    )


def judge_retention(retention: Retention) -> list[Finding]:
    """Judge what an embedding keeps, relative to the better of raw and propagated features.

    A measure is left out if neither reference recovers anything, since then there is nothing to keep.

    Examples:
        >>> best, lost = Recovery(0.4, 0.9), Recovery(0.01, 0.9)
        >>> [(finding.name, finding.verdict) for finding in judge_retention(Retention(lost, best, best))]
        [('kept features', 'poor'), ('kept edges', 'good')]
    """
    findings = []
    z, raw, propagated = retention.embedding, retention.raw, retention.propagated
    if z.features is not None and raw.features is not None and propagated.features is not None:
        best = max(raw.features, propagated.features)
        if best >= INFORMATIVE_FEATURES:
            shown = (
                f"{100 * z.features:.0f}% (raw {100 * raw.features:.0f}%, propagated {100 * propagated.features:.0f}%)"
            )
            findings.append(_finding(KEPT_FEATURES, z.features, shown, z.features / best))
    if z.edges is not None and raw.edges is not None and propagated.edges is not None:
        best = max(raw.edges, propagated.edges)
        if best >= INFORMATIVE_EDGES:
            shown = f"AUC {z.edges:.2f} (raw {raw.edges:.2f}, propagated {propagated.edges:.2f})"
            findings.append(_finding(KEPT_EDGES, z.edges, shown, (z.edges - 0.5) / (best - 0.5)))
    return findings


def explained_variance(z: Tensor, targets: Tensor) -> float | None:
    """Return the share of the variance of the targets that a ridge regression on z explains on other nodes, at least 0.

    Half of the nodes fit the regression, a quarter chooses its penalty, and the last quarter is scored. Above 8192
    nodes, a sample is used.

    Args:
        z: embeddings ``[N, d]``.
        targets: what to predict, ``[N, t]``.

    Returns:
        A number between 0 and 1, or None if the targets do not vary.

    Examples:
        >>> z = torch.randn(400, 3, generator=torch.Generator().manual_seed(0))
        >>> round(explained_variance(z, z @ torch.ones(3, 1)), 3), explained_variance(z, torch.ones(400, 1))
        (1.0, None)
    """
    nodes = sample(len(z), NODES)
    z, targets = (values[nodes.to(values.device)].cpu().double() for values in (z, targets))
    fit, choose, test = (
        uniform64(nodes, 0, Stream.HEALTH, 4).argsort().tensor_split((len(nodes) // 2, len(nodes) * 3 // 4))
    )
    z, targets = z - z[fit].mean(0), targets - targets[fit].mean(0)
    z = z / z[fit].square().mean().sqrt().clamp(min=1e-12)
    variance = targets[test].square().sum()
    if variance <= 1e-12 * max(float(targets.abs().max()), 1e-12):
        return None
    u, s, v = torch.linalg.svd(z[fit], full_matrices=False)
    projected = u.T @ targets[fit]

    def error(nodes: Tensor, penalty: float) -> Tensor:
        weights = v.T @ ((s / (s.square() + penalty * len(fit)))[:, None] * projected)
        return (targets[nodes] - z[nodes] @ weights).square().sum()

    penalty = min(PENALTIES, key=lambda penalty: float(error(choose, penalty)))
    return float((1 - error(test, penalty) / variance).clamp(min=0))


def edge_auc(z: Tensor, hidden: Tensor, kinds: Tensor | None = None) -> float | None:
    """Return the probability that a hidden edge has a higher cosine than a random pair, ties counted half.

    Random pairs join ends of different hidden edges, so that they have the same degrees. In a graph with several kinds
    of nodes they join the same kinds as edges do: a pair of users would be told from a user and an item by its kinds.

    Args:
        z: embeddings ``[N, d]``; their mean is subtracted.
        hidden: the hidden edges ``[2, P]``.
        kinds: the number of the kind of each node, ``[N]``; None if all are of one kind.

    Examples:
        >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.1], [-1.0, 0.0], [-1.0, 0.1]])
        >>> edge_auc(z, torch.tensor([[0, 2], [1, 3]]))
        1.0
    """
    random = _joined_at_random(hidden) if kinds is None else _joined_within_kinds(hidden, kinds)
    random = random[:, random[0] != random[1]]
    if not random.shape[1]:
        return None
    unit = F.normalize(z - z.mean(0), dim=1)
    positive, negative = (_cosines(unit, pairs) for pairs in (hidden, random))
    ordered = negative.sort().values
    below, not_above = (torch.searchsorted(ordered, positive, right=right) for right in (False, True))
    return float((below + not_above).double().mean() / (2 * negative.numel()))


def _joined_at_random(edges: Tensor) -> Tensor:
    """Return the first ends of the edges with the second ends of others."""
    count = torch.arange(edges.shape[1], device=edges.device)
    other = edges[1].roll(1)
    return torch.stack([edges[0], other[uniform64(count, 0, Stream.HEALTH, 5).argsort()] if len(count) > 2 else other])


def _joined_within_kinds(edges: Tensor, kinds: Tensor) -> Tensor:
    """Return ends of different edges that join the same two kinds of nodes."""
    edges = torch.where(kinds[edges[0]] <= kinds[edges[1]], edges, edges.flip(0))
    joins = kinds[edges[0]] * (int(kinds.max()) + 1) + kinds[edges[1]]
    parts = [_joined_at_random(edges[:, joins == each]) for each in joins.unique()]
    random = torch.cat(parts, dim=1) if parts else edges
    known = edges[0] * kinds.numel() + edges[1]
    return random[:, ~torch.isin(random[0] * kinds.numel() + random[1], known)]


def _cosines(unit: Tensor, pairs: Tensor) -> Tensor:
    return torch.cat([(unit[i] * unit[j]).sum(1) for i, j in pairs.split(2**20, dim=1)])


def _recover(z: Tensor, targets: Tensor, hidden: Tensor, kinds: Tensor | None) -> Recovery:
    return Recovery(explained_variance(z, targets), edge_auc(z, hidden, kinds))


def _components(graph: Graph, dim: int, diffuse: partial[Callable[[Tensor], Tensor]]) -> Tensor:
    block = PropagatedPCA(graph.num_features, dim, diffuse).to(graph.device)
    block.fit(graph)
    return graph.all_rows(block(graph))


def _finding(name: str, value: float, shown: str, share: float) -> Finding:
    verdict = "good" if share >= GOOD else "poor" if share < POOR else "fair"
    return Finding(name, value, shown, verdict, f"{_MEANING[name]} {_WORDS[name][verdict]}")


_MEANING = {
    "kept features": "How much of hidden feature columns the embedding of the rest predicts.",
    "kept edges": "How well the embedding of the rest tells hidden edges from random pairs.",
}
_WORDS = {
    "kept features": {
        "good": "About as much as features themselves do.",
        "fair": "Clearly less than features themselves do: compare with raw and propagated features.",
        "poor": "The embedding has lost most of what the features say. Try epagcl+ or propagated.",
    },
    "kept edges": {
        "good": "About as well as features do.",
        "fair": "Clearly worse than features do: compare with propagated features.",
        "poor": "The embedding has lost most of what the edges say. Try epagcl+ or propagated.",
    },
}
