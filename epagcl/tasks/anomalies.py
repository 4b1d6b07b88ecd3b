"""Anomaly scores of nodes: unlike their neighbours, or far from all other nodes."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from torch import Tensor

from epagcl.core.checks import UINT32_LIMIT, check_seed, check_tensor, check_whole
from epagcl.core.errors import InputError
from epagcl.core.formatting import counted
from epagcl.core.log import log
from epagcl.data.checking import undirected_pairs
from epagcl.epr.rate import check_edge_index
from epagcl.evaluation.inputs import EmbeddingLike
from epagcl.tasks.inputs import Doubles, Floats, feature_rows, unit_rows

DENSITIES = ("lof", "knn", "forest")
#: Parts of the score, and what a high value means.
REASONS = {
    "neighbourhood": "unlike its neighbours",
    "features": "features unlike its neighbours' features",
    "density": "far from all other nodes",
}
UNUSUAL = 0.95  # a part above this quantile is named as a reason
EXTREME_DEGREE = 0.99  # a degree above this quantile is named too


def anomaly_scores(
    z: EmbeddingLike,
    edge_index: Tensor | None = None,
    *,
    x: Tensor | None = None,
    density: str = "lof",
    k: int = 20,
    seed: int = 0,
) -> pd.DataFrame:
    """Return an anomaly score of each node, its parts, and the reason in words.

    The parts, each from the nodes' unit rows:

    * ``neighbourhood``: 1 − the mean cosine of a node's embedding and its neighbours' embeddings;
    * ``features``: the same for the features, if ``x`` is given;
    * ``density``: how far a node is from its nearest nodes of all, by local outlier factor, mean distance to the k
      nearest nodes, or isolation forest.

    The score is the mean of −log(1 − q) over the parts, where q is the quantile of a part among all nodes (Fisher's
    combination). It ranks nodes of one graph and has no absolute meaning. Nodes without neighbours have no value in the
    first two parts, which then count as their median.

    Args:
        z: embedding ``[N, d]``.
        edge_index: edges ``[2, E]``; None: only ``density`` is computed.
        x: features ``[N, F]``, dense or sparse.
        density: lof, knn or forest.
        k: number of nearest nodes, for lof and knn.
        seed: seed of the isolation forest.

    Returns:
        A table with one row per node: ``score``, the parts, ``degree``, and ``reason``.

    Examples:
        >>> z = np.ones((30, 4)) + 0.1 * np.random.default_rng(0).normal(size=(30, 4))
        >>> z[7] = [1, -1, 1, -1]
        >>> import torch
        >>> ring = torch.stack([torch.arange(30), (torch.arange(30) + 1) % 30])
        >>> table = anomaly_scores(z, ring, k=5)
        >>> int(table["score"].idxmax()), table.loc[7, "reason"]
        (7, 'unlike its neighbours; far from all other nodes')
    """
    if density not in DENSITIES:
        raise InputError(f"density={density!r}: choose one of {', '.join(DENSITIES)}")
    k, seed = check_whole(k, "k", 1), check_seed(seed, UINT32_LIMIT - 1)
    rows = unit_rows(z, least=3)
    adjacency = None if edge_index is None else _adjacency(edge_index, len(rows))
    degree = None if adjacency is None else np.diff(adjacency.indptr)
    parts = {} if adjacency is None else _unlike_neighbours(rows, adjacency, x)
    parts["density"] = _density(rows, density, min(k, len(rows) - 1), seed)
    quantiles = {name: _quantiles(part) for name, part in parts.items()}
    score = np.mean([-np.log1p(-quantile) for quantile in quantiles.values()], axis=0)
    table = pd.DataFrame({"score": score, **parts})
    if degree is not None:
        table["degree"] = degree
    table["reason"] = _reasons(pd.DataFrame(quantiles), degree)
    return table


def distance_to_neighbours(rows: Any, adjacency: Any) -> Doubles:
    """Return 1 − the mean cosine of each node and its neighbours; NaN without neighbours.

    Args:
        rows: unit rows, dense or SciPy sparse.
        adjacency: symmetric SciPy matrix of ones.

    Examples:
        >>> path = scipy.sparse.csr_array([[0.0, 1, 0], [1, 0, 0], [0, 0, 0]])
        >>> distance_to_neighbours(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), path)
        array([ 1.,  1., nan])
    """
    total = adjacency @ rows
    inner = (rows.multiply(total) if scipy.sparse.issparse(rows) else rows * total).sum(1)
    degree = np.diff(adjacency.indptr)
    return np.where(degree > 0, 1 - np.asarray(inner, np.float64) / np.maximum(degree, 1), np.nan)


def _unlike_neighbours(rows: Floats, adjacency: Any, x: Tensor | None) -> dict[str, Doubles]:
    """Return the parts of the score that compare nodes with their neighbours."""
    parts = {"neighbourhood": distance_to_neighbours(rows, adjacency)}
    if x is not None:
        if x.shape[0] != len(rows):
            raise InputError(f"x: {x.shape[0]:,} rows for {len(rows):,} embeddings; give one per node")
        parts["features"] = distance_to_neighbours(feature_rows(x), adjacency)
    return parts


def _adjacency(edge_index: Tensor, nodes: int) -> Any:
    check_tensor(edge_index, "edge_index")
    if edge_index.numel() and not 0 <= int(edge_index.min()) <= int(edge_index.max()) < nodes:
        raise InputError(f"edge_index: a node is out of range; the embedding has {counted(nodes, 'row')}")
    row, col = undirected_pairs(check_edge_index(edge_index, nodes).cpu(), nodes).numpy()
    one_way = scipy.sparse.csr_array((np.ones(len(row), np.float32), (row, col)), shape=(nodes, nodes))
    return (one_way + one_way.T).tocsr()


def _density(rows: Floats, kind: str, k: int, seed: int) -> Doubles:
    """Return how far each node is from the others; a higher value is a sparser place."""
    from sklearn.ensemble import IsolationForest
    from sklearn.neighbors import LocalOutlierFactor

    from epagcl.tasks.neighbours import nearest_neighbours

    if kind == "forest":
        forest = IsolationForest(random_state=seed % 2**32).fit(rows)
        return -np.asarray(forest.score_samples(rows), np.float64)
    if kind == "knn":
        return (1 - nearest_neighbours(rows, k).scores.astype(np.float64)).mean(1)
    # The plain factor of rows that repeat more often than k times is infinite or undefined.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        factor = LocalOutlierFactor(n_neighbors=k).fit(rows).negative_outlier_factor_
    if any("Duplicate values" in str(warning.message) for warning in caught):
        log.warning("more than %d nodes have the same embedding, and their densities are unknown; give a larger k", k)
    return -np.asarray(np.clip(factor, -1e6, None), np.float64)


def _quantiles(part: Doubles) -> Doubles:
    """Return the quantile of each value among all, in (0, 1); ½ for missing values, ties share their mean."""
    from scipy.stats import rankdata

    known = ~np.isnan(part)
    result = np.full(len(part), 0.5)
    result[known] = (rankdata(part[known]) - 0.5) / max(int(known.sum()), 1)
    return result


def _reasons(quantiles: pd.DataFrame, degree: "np.ndarray[Any, Any] | None") -> list[str]:
    """Return the unusual parts of each node in words, the most unusual first; "" if there are none."""
    reasons: list[list[str]] = [[] for _ in range(len(quantiles))]
    values = quantiles.to_numpy()
    names = list(quantiles)
    order = np.argsort(-values, axis=1, kind="stable")
    for node, part in zip(*np.nonzero(np.take_along_axis(values, order, 1) > UNUSUAL), strict=True):
        reasons[node].append(REASONS[names[order[node, part]]])
    if degree is not None and len(degree):
        limit, middle = np.quantile(degree, EXTREME_DEGREE), np.median(degree)
        for node in np.flatnonzero(degree > max(limit, 2 * middle)):
            reasons[node].append(f"degree {degree[node]:,} (median {middle:g})")
        for node in np.flatnonzero(degree == 0):
            reasons[node].append("no edges")
    return ["; ".join(reason) for reason in reasons]
