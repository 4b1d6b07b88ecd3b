"""Link prediction: a model trained without the test edges, against the classical scores of the same graph."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

import numpy as np
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.core.html import block, table, text
from epagcl.core.log import log
from epagcl.data.checking import check
from epagcl.data.structural import KINDS
from epagcl.methods.base import Method
from epagcl.tasks.edge_scores import LinkScores, baseline_scores, dot_scores, link_scores
from epagcl.tasks.edge_split import (
    EdgeSplit,
    NodeDraw,
    random_non_edges,
    sample_non_edges,
    split_edges,
    training_graph,
)
from epagcl.tasks.inputs import Doubles, Floats, Integers, embedding_rows, feature_rows, one_thread, unit_rows
from epagcl.training.history import Callback

RANKED = 2000  # test edges that are ranked
AMONG = 500  # pairs without an edge that each of them is ranked among
RESAMPLES = 500  # of the test pairs, for the interval of a difference
FOLDS = 5  # to compare the fitted score with the others on validation edges
COSINE, DOT, FITTED = "embedding, cosine", "embedding, dot product", "embedding, logistic regression"
#: A function that scores pairs ``[2, P]``, by name.
Scorers = Mapping[str, Callable[[Integers], Doubles]]


class Row(TypedDict):
    """A row of the table of results."""

    score: str
    auc: float
    average_precision: float
    mrr: float
    hits10: float
    hits50: float


class LinksDict(TypedDict):
    """The result of link prediction, for JSON."""

    split: str
    edges: dict[str, int]
    ranked_among: int
    rows: list[Row]
    chosen: str
    best_baseline: str
    difference: float
    interval: list[float]
    verdict: str


@dataclass(frozen=True)
class LinkPrediction:
    """How well an embedding predicts edges that its model has not seen.

    Attributes:
        split: the edges of each part.
        scores: metrics on test edges, by the name of the score.
        chosen: the score of the embedding with the highest AUC on validation edges.
        best_baseline: the score without the model that has the highest AUC on test edges.
        difference: AUC of ``chosen`` minus AUC of ``best_baseline``.
        interval: 95% interval of the difference, by resampling the test pairs.
        ranked_among: pairs without an edge that an edge is ranked among, for MRR and hits.
    """

    split: EdgeSplit
    scores: dict[str, LinkScores]
    chosen: str
    best_baseline: str
    difference: float
    interval: tuple[float, float]
    ranked_among: int

    @property
    def verdict(self) -> str:
        """One sentence on whether the embedding predicts edges better than the best score without it."""
        ours, theirs = self.scores[self.chosen].auc, self.scores[self.best_baseline].auc
        low, high = self.interval
        words = (
            "predicts the test edges better than"
            if low > 0
            else "loses to"
            if high < 0
            else "does not differ clearly from"
        )
        return (
            f"The {self.chosen} (chosen on validation edges, AUC {ours:.3f}) {words} the best score without the model, "
            f"{self.best_baseline} (AUC {theirs:.3f}): difference {self.difference:+.3f}, 95% interval {low:+.3f} to "
            f"{high:+.3f}."
        )

    def _repr_html_(self) -> str:
        names = ("auc", "average_precision", "mrr", "hits10", "hits50")
        rows = [(name, *(f"{getattr(one, key):.3f}" for key in names)) for name, one in self.scores.items()]
        head = ["score", "AUC", "average precision", "MRR", "hits@10", "hits@50"]
        return block(f"<p>{text(self.verdict)}</p>", table(f"Test edges, split {self.split.kind}", head, rows))

    def to_dict(self) -> LinksDict:
        """Return all but the edges, for JSON."""
        return {
            "split": self.split.kind,
            "edges": {part: getattr(self.split, part).shape[1] for part in ("train", "val", "test")},
            "ranked_among": self.ranked_among,
            "rows": [_row(name, scores) for name, scores in self.scores.items()],
            "chosen": self.chosen,
            "best_baseline": self.best_baseline,
            "difference": self.difference,
            "interval": list(self.interval),
            "verdict": self.verdict,
        }


def _row(name: str, scores: LinkScores) -> Row:
    return {
        "score": name,
        "auc": scores.auc,
        "average_precision": scores.average_precision,
        "mrr": scores.mrr,
        "hits10": scores.hits10,
        "hits50": scores.hits50,
    }


class _Pairs(NamedTuple):
    """The pairs that scores are compared on: edges and pairs without an edge."""

    val: Integers
    val_others: Integers
    test: Integers
    test_others: Integers
    ranked: Integers
    among: Integers


def predict_links(
    data: Data,
    method: Method,
    *,
    times: Tensor | None = None,
    features: Callable[[Data], Data] | None = None,
    seed: int = 0,
    callback: Callback | None = None,
) -> LinkPrediction:
    """Hold out edges, train on the others, and score the held-out edges against pairs without an edge.

    The edges are split before training (:func:`~epagcl.tasks.split_edges`); the model and the classical scores see
    the training edges only. Three scores of the embedding are compared with them: cosine, inner product, and a logistic
    regression on the products of the two rows, fitted on validation edges. Weights of edges are used by the model only.
    In a graph with several kinds of nodes (``data.node_type``, as of ``bipartite=True``), pairs without an edge join
    nodes of the same kinds as edges do.

    Args:
        data: the graph. Features that were computed from all its edges, such as degrees, reveal test edges.
        method: an untrained method, such as ``epagcl.EPAGCLPlus()``; it is trained here.
        times: time of each column of ``data.edge_index``; the split is then by time, else random.
        features: function that adds features to the training graph, computed from its edges.
        seed: seed of the split and of the pairs without an edge.
        callback: called with the history row of each epoch.

    Examples:
        >>> import epagcl
        >>> data = epagcl.data.block_model(120, num_classes=3, num_features=30, topic_words=10, seed=0)
        >>> result = predict_links(data, epagcl.Propagated(dim=8))
        >>> sorted(result.scores)[:2], result.split.test.shape[1]
        (['Adamic–Adar', 'common neighbours'], 20)
    """
    if type(method).supervised:
        raise InputError(f"method: {type(method).name} learns from labels; give one that learns without")
    warn_of_edge_features(data)
    split = split_edges(data, times, seed)
    graph = training_graph(check(data, labels=False, quiet=True, features=features is None), split)
    graph = graph if features is None else features(graph)
    rows = embedding_rows(method.fit(graph, callback=callback).embed(graph))
    pairs = _sampled_pairs(split, data, seed)
    units, given = unit_rows(rows), feature_rows(graph.x)
    scorers: Scorers = {
        COSINE: lambda wanted: dot_scores(units, wanted),
        DOT: lambda wanted: dot_scores(rows, wanted),
        FITTED: fitted_score(rows, pairs.val, pairs.val_others),
        "features, cosine": lambda wanted: dot_scores(given, wanted),
    }
    val = _all_scores(scorers, split, data.num_nodes, pairs.val, pairs.val_others)
    test = _all_scores(scorers, split, data.num_nodes, pairs.test, pairs.test_others)
    ranks = _all_scores(scorers, split, data.num_nodes, pairs.ranked, pairs.among.reshape(2, -1))
    count, ranked, shape = pairs.test.shape[1], pairs.ranked.shape[1], pairs.among.shape[1:]
    scores = {
        name: link_scores(
            test[name][:count], test[name][count:], ranks[name][:ranked], ranks[name][ranked:].reshape(shape)
        )
        for name in test
    }
    chosen = _chosen(val, rows, pairs)
    best = max((name for name in scores if not name.startswith("embedding")), key=lambda name: scores[name].auc)
    difference = scores[chosen].auc - scores[best].auc
    interval = _interval(test[chosen], test[best], count, seed)
    return LinkPrediction(split, scores, chosen, best, difference, interval, pairs.among.shape[2])


def warn_of_edge_features(data: Data) -> None:
    """Log a warning if names of features suggest that they were computed from the edges."""
    names = [str(name) for name in data.get("feature_names") or ()]
    if found := [name for name in names if name.lower().partition("_")[0] in KINDS]:
        words = "%s: computed from all edges? such features reveal test edges; compute them from training edges"
        log.warning(words, ", ".join(found[:3]) + (", ..." if len(found) > 3 else ""))


def fitted_score(rows: Floats, edges: Integers, others: Integers) -> Callable[[Integers], Doubles]:
    """Return a score of pairs: a logistic regression on the products of their rows, fitted on edges and other pairs."""
    products, truth = _products(rows, edges, others)
    scale = _scale(products)
    with one_thread():
        model = _regression().fit(products / scale, truth)
    weighted = (rows * (model.coef_[0] / scale)).astype(np.float32)
    return lambda pairs: dot_scores(weighted, pairs, rows) + float(model.intercept_[0])


def _regression() -> Any:
    from sklearn.linear_model import LogisticRegression

    # One weight per dimension on few edges: the penalty is strong.
    return LogisticRegression(C=0.1, max_iter=1000)


def _products(rows: Floats, edges: Integers, others: Integers) -> tuple[Floats, Integers]:
    pairs = np.concatenate([edges, others], 1)
    return rows[pairs[0]] * rows[pairs[1]], np.repeat([1, 0], [edges.shape[1], others.shape[1]])


def _scale(products: Floats) -> float:
    return float(np.sqrt(np.square(products, dtype=np.float64).mean())) or 1.0


def _sampled_pairs(split: EdgeSplit, data: Data, seed: int) -> _Pairs:
    """Return the pairs to score. Pairs without an edge have none in any part of the split."""
    generator, num_nodes = np.random.default_rng(seed), data.num_nodes
    kinds = None if data.get("node_type") is None else np.asarray(data.node_type.cpu())
    draw = NodeDraw(num_nodes, kinds, generator)
    known = np.concatenate([split.train, split.val, split.test], 1)
    known = known[:, np.argsort(known[0] * num_nodes + known[1])]
    val, test = (random_non_edges(part.shape[1], known, draw) for part in (split.val, split.test))
    ranked = split.test[:, generator.permutation(split.test.shape[1])[:RANKED]]
    among = min(AMONG, num_nodes - 2)
    # An end of each edge, in random order, keeps its place; the other end is replaced.
    first = generator.random(ranked.shape[1]) < 0.5
    kept, replaced = np.where(first, ranked[0], ranked[1]), np.where(first, ranked[1], ranked[0])
    sources, like = (np.repeat(ends[:, None], among, axis=1) for ends in (kept, replaced))
    targets = sample_non_edges(sources, like, known, draw)
    return _Pairs(split.val, val, split.test, test, ranked, np.stack([sources, targets]))


def _all_scores(
    scorers: Scorers, split: EdgeSplit, num_nodes: int, edges: Integers, others: Integers
) -> dict[str, Doubles]:
    """Return the scores of edges, then of other pairs, by every score; those of the embedding are first."""
    pairs = np.concatenate([edges, others], 1)
    own = {name: score(pairs) for name, score in scorers.items()}
    return own | baseline_scores(split.train, num_nodes, pairs)


def _chosen(val: Mapping[str, Doubles], rows: Floats, pairs: _Pairs) -> str:
    """Return the embedding's score with the highest AUC on validation edges; the fitted one is cross-validated."""
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import cross_val_predict

    products, truth = _products(rows, pairs.val, pairs.val_others)
    aucs = {name: roc_auc_score(truth, val[name]) for name in (COSINE, DOT)}
    if pairs.val.shape[1] >= FOLDS:
        products = products / _scale(products)
        with one_thread():
            unseen = cross_val_predict(_regression(), products, truth, cv=FOLDS, method="decision_function")
        aucs[FITTED] = roc_auc_score(truth, unseen)
    return max(aucs, key=lambda name: aucs[name])


def _interval(ours: Doubles, theirs: Doubles, edges: int, seed: int) -> tuple[float, float]:
    """Return the 95% interval of the difference in AUC, by resampling edges and other pairs."""
    generator = np.random.default_rng(seed)
    others = len(ours) - edges
    differences = []
    for _ in range(RESAMPLES):
        sample = np.concatenate(
            [generator.integers(edges, size=edges), edges + generator.integers(others, size=others)]
        )
        differences.append(_auc(ours[sample], edges) - _auc(theirs[sample], edges))
    low, high = np.quantile(differences, [0.025, 0.975])
    return float(low), float(high)


def _auc(scores: Doubles, edges: int) -> float:
    """Return the AUC of scores whose first ``edges`` belong to edges: the Mann–Whitney statistic."""
    from scipy.stats import rankdata

    others = len(scores) - edges
    return float((rankdata(scores)[:edges].sum() - edges * (edges + 1) / 2) / (edges * others))
