"""Nearest neighbours in an embedding: exact, or approximate by an HNSW graph for large graphs."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from epagcl.core.errors import InputError, MissingExtra
from epagcl.core.neighbours import nearest
from epagcl.evaluation.inputs import EmbeddingLike
from epagcl.tasks.inputs import Floats, Integers, embedding_rows, unit_rows

METRICS = ("cosine", "euclidean")
INDEXES = ("exact", "hnsw")
RECALL_SAMPLE = 1000  # nodes whose exact neighbours are compared with the approximate ones
_MARGIN = 8  # further candidates of the approximate search, which are ranked again in float32
_BLOCK = 4096  # nodes whose candidates are ranked at a time


class Neighbours(NamedTuple):
    """Nearest neighbours of some nodes, nearest first.

    Attributes:
        nodes: numbers of the neighbours ``[n, k]``.
        scores: their cosines, or their distances if the metric is euclidean.
        recall: share of the exact neighbours that an approximate search found on a sample; None if it was exact.
    """

    nodes: Integers
    scores: Floats
    recall: float | None


def nearest_neighbours(
    z: EmbeddingLike,
    k: int = 10,
    *,
    nodes: Sequence[int] | Integers | None = None,
    metric: str = "cosine",
    index: str = "exact",
) -> Neighbours:
    """Return the ``k`` nearest other nodes of each node.

    The exact search computes blocks of similarities, in memory linear in the number of nodes. The approximate search
    builds an HNSW graph (usearch) and ranks its candidates again by exact similarity. Its recall is measured on a
    sample of up to 1,000 nodes.

    Args:
        z: embedding ``[N, d]``.
        k: number of neighbours; at most N − 1 are returned.
        nodes: nodes whose neighbours are returned; None for all.
        metric: cosine or euclidean.
        index: exact, or hnsw (needs the extra ``ann``).

    Examples:
        >>> found = nearest_neighbours([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]], k=1)
        >>> found.nodes[:, 0], found.recall
        (array([1, 0, 1]), None)
    """
    if metric not in METRICS or index not in INDEXES:
        wrong = f"metric={metric!r}" if metric not in METRICS else f"index={index!r}"
        raise InputError(f"{wrong}: choose one of {', '.join(METRICS if metric not in METRICS else INDEXES)}")
    if k < 1:
        raise InputError(f"k={k}: must be at least 1")
    rows = unit_rows(z) if metric == "cosine" else embedding_rows(z)
    wanted = np.arange(len(rows)) if nodes is None else np.asarray(nodes, dtype=np.int64)
    if wanted.ndim != 1 or ((wanted < 0) | (wanted >= len(rows))).any():
        raise InputError(f"nodes: give node numbers from 0 to {len(rows) - 1:,}")
    k = min(k, len(rows) - 1)
    if index == "exact":
        return Neighbours(*_exact(rows, k, wanted, metric), None)
    found, scores = _approximate(rows, k, wanted, metric)
    sample = np.random.default_rng(0).permutation(len(wanted))[:RECALL_SAMPLE]
    truth, _ = _exact(rows, k, wanted[sample], metric)
    return Neighbours(found, scores, recall_of(found[sample], truth))


def recall_of(found: Integers, truth: Integers) -> float:
    """Return the share of the true neighbours that were found, over all nodes.

    Examples:
        >>> recall_of(np.array([[1, 2], [0, 2]]), np.array([[1, 3], [0, 2]]))
        0.75
    """
    if truth.size == 0:
        return 1.0
    return float((found[:, :, None] == truth[:, None, :]).any(1).mean())


def _exact(rows: Floats, k: int, wanted: Integers, metric: str) -> tuple[Integers, Floats]:
    if metric == "cosine":
        nodes, cosines = nearest(torch.from_numpy(rows), k, torch.from_numpy(wanted))
        return nodes.numpy(), cosines.numpy()
    from sklearn.neighbors import NearestNeighbors

    search = NearestNeighbors(n_neighbors=k + 1, algorithm="brute").fit(rows)
    found = search.kneighbors(rows[wanted], return_distance=False)
    return _ranked(rows, k, wanted, found, metric)


def _approximate(rows: Floats, k: int, wanted: Integers, metric: str) -> tuple[Integers, Floats]:
    try:
        from usearch.index import Index
    except ImportError:
        raise MissingExtra("usearch", "ann", "approximate search") from None
    count = min(k + 1 + _MARGIN, len(rows))
    # Unit rows keep their order in half precision, at half the time. Other rows may exceed its range.
    unit = metric == "cosine"
    index: Any = Index(
        ndim=rows.shape[1],
        metric="ip" if unit else "l2sq",
        dtype="f16" if unit else "f32",
        connectivity=16,
        expansion_add=64,
        expansion_search=max(64, 2 * count),
    )
    index.add(np.arange(len(rows)), rows)
    matches = index.search(rows[wanted], count)
    if len(wanted) == 1:  # then the matches are those of one row, and only those that were found
        keys = np.asarray(matches.keys)[None]
        counts, keys = np.array([keys.shape[1]]), np.pad(keys, ((0, 0), (0, count - keys.shape[1])))
    else:
        counts, keys = np.asarray(matches.counts), np.asarray(matches.keys)
    found = keys.astype(np.int64)
    missing = np.arange(count) >= counts[:, None]
    found[missing] = np.broadcast_to(wanted[:, None], found.shape)[missing]  # a node itself is never a neighbour
    nodes, scores = _ranked(rows, k, wanted, found, metric)
    if (short := (nodes == wanted[:, None]).any(1)).any():  # the graph of the index did not reach k nodes
        nodes[short], scores[short] = _exact(rows, k, wanted[short], metric)
    return nodes, scores


def _ranked(rows: Floats, k: int, wanted: Integers, found: Integers, metric: str) -> tuple[Integers, Floats]:
    """Return the best k of the candidates of each node without the node itself, by exact score."""
    nodes, scores = np.empty((len(wanted), k), np.int64), np.empty((len(wanted), k), np.float32)
    for start in range(0, len(wanted), _BLOCK):
        part = slice(start, start + _BLOCK)
        own, others = rows[wanted[part], None], rows[found[part]]
        cost = -(own * others).sum(2) if metric == "cosine" else np.linalg.norm(own - others, axis=2)
        cost[found[part] == wanted[part, None]] = np.inf
        order = np.argsort(cost, axis=1, kind="stable")[:, :k]
        nodes[part] = np.take_along_axis(found[part], order, 1)
        scores[part] = np.take_along_axis(cost, order, 1)
    return nodes, -scores if metric == "cosine" else scores


def neighbour_table(found: Neighbours, ids: Sequence[Any], nodes: Integers | None, title: str) -> pd.DataFrame:
    """Return a table with one row per node and neighbour: ``id``, ``rank`` from 1, ``neighbour``, and the score.

    Args:
        found: the neighbours.
        ids: the id of each node of the embedding.
        nodes: the nodes whose neighbours were searched; None for all.
        title: name of the column of scores.

    Examples:
        >>> found = nearest_neighbours([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]], k=1, nodes=[0])
        >>> neighbour_table(found, ["a", "b", "c"], np.array([0]), "cosine").values.tolist()
        [['a', 1, 'b', 0.800000011920929]]
    """
    names = np.empty(len(ids), dtype=object)
    names[:] = list(ids)
    count, k = found.nodes.shape
    own = names if nodes is None else names[nodes]
    return pd.DataFrame(
        {
            "id": np.repeat(own, k),
            "rank": np.tile(np.arange(1, k + 1), count),
            "neighbour": names[found.nodes.ravel()],
            title: found.scores.ravel(),
        }
    )
