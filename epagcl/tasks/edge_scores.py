"""Scores of pairs of nodes: classical ones of the graph, similarities of rows, and metrics of link prediction."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from epagcl.tasks.inputs import Doubles, Floats, Integers

#: The classical scores, in the order of tables.
BASELINES = ("common neighbours", "Adamic–Adar", "resource allocation", "preferential attachment")
_ENTRIES = 2_000_000  # entries of the adjacency matrix taken at a time
_PAIRS = 16_384  # pairs of rows multiplied at a time


class LinkScores(NamedTuple):
    """Metrics of one score of pairs.

    Attributes:
        auc: probability that an edge scores higher than a pair without an edge.
        average_precision: area under the curve of precision over recall, edges against equally many other pairs.
        mrr: mean of 1/rank of an edge's end among random ends without an edge.
        hits10: share of edges that rank among the first 10.
        hits50: share of edges that rank among the first 50.
    """

    auc: float
    average_precision: float
    mrr: float
    hits10: float
    hits50: float


def baseline_scores(train: Integers, num_nodes: int, pairs: Integers) -> dict[str, Doubles]:
    """Return the classical scores of pairs, computed on the training edges.

    With Γ(i) the neighbours of i and d_i their number: |Γ(i) ∩ Γ(j)|, Σ_{k ∈ Γ(i) ∩ Γ(j)} 1/log d_k,
    Σ_{k ∈ Γ(i) ∩ Γ(j)} 1/d_k, and d_i·d_j.

    Args:
        train: training edges ``[2, E]``, each in one direction.
        num_nodes: N.
        pairs: pairs to score ``[2, P]``.

    Examples:
        >>> scores = baseline_scores(np.array([[0, 0, 1, 2], [1, 2, 3, 3]]), 4, np.array([[0], [3]]))
        >>> {name: round(float(value[0]), 3) for name, value in scores.items()}
        {'common neighbours': 2.0, 'Adamic–Adar': 2.885, 'resource allocation': 1.0, 'preferential attachment': 4.0}
    """
    ones = np.ones(train.shape[1])
    one_way = scipy.sparse.csr_array((ones, (train[0], train[1])), shape=(num_nodes, num_nodes))
    adjacency = (one_way + one_way.T).tocsr()
    degree = np.diff(adjacency.indptr).astype(np.float64)
    # A common neighbour has two neighbours or more, so nodes of degree 1 never count.
    weights = np.stack([np.ones(num_nodes), 1 / np.log(np.maximum(degree, 2)), 1 / np.maximum(degree, 1)], axis=1)
    # The rows of a pair are intersected from its end of lower degree; hubs are then never copied more than needed.
    swap = degree[pairs[0]] > degree[pairs[1]]
    small, large = np.where(swap, pairs[1], pairs[0]), np.where(swap, pairs[0], pairs[1])
    sums = np.zeros((pairs.shape[1], 3))
    blocks = np.cumsum(degree[small] + degree[large]) // _ENTRIES
    for part in np.split(np.arange(pairs.shape[1]), np.flatnonzero(np.diff(blocks)) + 1):
        if len(part):
            sums[part] = adjacency[small[part]].multiply(adjacency[large[part]]).tocsr() @ weights
    return dict(zip(BASELINES, (*sums.T, degree[pairs[0]] * degree[pairs[1]]), strict=True))


def dot_scores(rows: Floats | Any, pairs: Integers, right: Floats | None = None) -> Doubles:
    """Return the inner product of the rows of each pair; of unit rows, their cosine.

    Args:
        rows: dense or SciPy sparse rows ``[N, d]``.
        pairs: pairs of nodes ``[2, P]``.
        right: dense rows of the second ends; None: the same rows.

    Examples:
        >>> dot_scores(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0], [1]]))
        array([11.])
    """
    scores = np.empty(pairs.shape[1])
    for start in range(0, len(scores), _PAIRS):
        first, second = pairs[:, start : start + _PAIRS]
        if scipy.sparse.issparse(rows):
            scores[start : start + _PAIRS] = rows[first].multiply(rows[second]).sum(1)
        else:
            other = rows if right is None else right
            scores[start : start + _PAIRS] = np.einsum("ij,ij->i", rows[first], other[second])
    return scores


def link_scores(edges: Doubles, others: Doubles, ranked: Doubles, among: Doubles) -> LinkScores:
    """Return the metrics of a score.

    Args:
        edges: scores of test edges.
        others: scores of as many pairs without an edge.
        ranked: scores of the edges that are ranked ``[n]``.
        among: scores of the pairs that each of them is ranked among ``[n, m]``. Ties share their mean rank.

    Examples:
        >>> ranked, among = np.array([0.9]), np.array([[0.1, 0.95, 0.2]])
        >>> link_scores(np.array([0.9, 0.8]), np.array([0.1, 0.85]), ranked, among)[:3]
        (0.75, 0.8333333333333333, 0.5)
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    truth = np.repeat([1, 0], [len(edges), len(others)])
    scores = np.concatenate([edges, others])
    higher, equal = (among > ranked[:, None]).sum(1), (among == ranked[:, None]).sum(1)
    rank = 1 + higher + equal / 2
    return LinkScores(
        float(roc_auc_score(truth, scores)),
        float(average_precision_score(truth, scores)),
        float((1 / rank).mean()),
        float((rank <= 10).mean()),
        float((rank <= 50).mean()),
    )
