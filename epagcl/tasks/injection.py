"""Anomalies put into a copy of a graph, to measure whether scores find them."""

from typing import NamedTuple

import numpy as np
import torch
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.data.checking import check
from epagcl.methods.base import Method
from epagcl.tasks.anomalies import anomaly_scores
from epagcl.tasks.edge_scores import dot_scores
from epagcl.tasks.inputs import Integers, feature_rows

KINDS = ("features", "edges")
CANDIDATES = 50  # nodes of which the most different one gives its features to an anomalous node


class Injected(NamedTuple):
    """A graph with anomalies.

    Attributes:
        data: a copy of the graph.
        anomalous: whether each node was made anomalous ``[N]``.
    """

    data: Data
    anomalous: "np.ndarray[tuple[int], np.dtype[np.bool_]]"


def inject_anomalies(data: Data, kind: str = "features", share: float = 0.05, seed: int = 0) -> Injected:
    """Return a copy of a graph in which some nodes are anomalous.

    * ``features``: a node gets the features of the most different of 50 random nodes, by cosine.
    * ``edges``: the other ends of a node's edges are replaced by random nodes. Its degree stays, so that the degree
      says nothing about the anomaly.

    Only nodes with edges are chosen.

    Args:
        data: the graph, with features.
        kind: features or edges.
        share: share of anomalous nodes.
        seed: random seed.

    Examples:
        >>> from epagcl.data import block_model
        >>> data = block_model(60, num_classes=3, num_features=40, topic_words=10)
        >>> injected = inject_anomalies(data, "features", share=0.1)
        >>> int(injected.anomalous.sum()), injected.data.edge_index.equal(check(data, quiet=True).edge_index)
        (6, True)
    """
    if kind not in KINDS:
        raise InputError(f"kind={kind!r}: choose one of {', '.join(KINDS)}")
    if not 0 < share < 0.5:
        raise InputError(f"share={share}: must lie between 0 and 0.5")
    copy = check(data, quiet=True).clone()
    generator = np.random.default_rng(seed)
    joined = np.flatnonzero(np.bincount(copy.edge_index[0].numpy(), minlength=copy.num_nodes))
    count = min(max(round(share * copy.num_nodes), 1), len(joined))
    nodes = np.sort(generator.permutation(joined)[:count])
    if kind == "features":
        copy.x = _with_foreign_features(copy, nodes, generator)
    else:
        copy = _rewired(copy, nodes, generator)
    anomalous = np.zeros(copy.num_nodes, dtype=bool)
    anomalous[nodes] = True
    return Injected(copy, anomalous)


def anomaly_evaluation(
    data: Data, method: Method, kind: str = "features", share: float = 0.05, density: str = "lof", seed: int = 0
) -> dict[str, float]:
    """Return how well anomaly scores find injected anomalies: the AUC of the score, of its parts and of the degree.

    The method is trained on the graph with the anomalies, as it would be on a graph of one's own. For the degree,
    the better of both directions counts.

    Args:
        data: the graph, with features.
        method: an untrained method; it is trained here.
        kind: kind of the anomalies, see :func:`inject_anomalies`.
        share: share of anomalous nodes.
        density: the measure of density, see :func:`~epagcl.tasks.anomaly_scores`.
        seed: random seed.

    Examples:
        >>> import epagcl
        >>> data = epagcl.data.block_model(300, num_classes=3, num_features=60, topic_words=20, average_degree=8)
        >>> aucs = anomaly_evaluation(data, epagcl.Propagated(dim=16))
        >>> aucs["score"] > aucs["degree"]
        True
    """
    from sklearn.metrics import roc_auc_score

    graph, anomalous = inject_anomalies(data, kind, share, seed)
    table = anomaly_scores(method.fit_embed(graph), graph.edge_index, x=graph.x, density=density, seed=seed)
    columns = [name for name in table.columns if name != "reason"]
    aucs = {name: float(roc_auc_score(anomalous, table[name].fillna(table[name].median()))) for name in columns}
    return aucs | {"degree": max(aucs["degree"], 1 - aucs["degree"])}


def _with_foreign_features(data: Data, nodes: Integers, generator: np.random.Generator) -> torch.Tensor:
    """Return the features, with those of some nodes replaced by the most different of random nodes."""
    drawn = generator.integers(data.num_nodes, size=(len(nodes), CANDIDATES))
    pairs = np.stack([np.repeat(nodes, CANDIDATES), drawn.ravel()])
    similarity = dot_scores(feature_rows(data.x), pairs).reshape(drawn.shape)
    source = np.arange(data.num_nodes)
    source[nodes] = drawn[np.arange(len(nodes)), similarity.argmin(1)]
    if data.x.layout == torch.strided:
        return data.x[torch.from_numpy(source)]
    return data.x.to_sparse_coo().index_select(0, torch.from_numpy(source)).coalesce().to_sparse_csr()


def _rewired(data: Data, nodes: Integers, generator: np.random.Generator) -> Data:
    """Return the graph, with the other ends of some nodes' edges replaced by random nodes."""
    once = data.edge_index[0] < data.edge_index[1]
    pairs = data.edge_index[:, once].numpy().copy()
    chosen = np.isin(pairs, nodes)
    # Of an edge between two chosen nodes, the second end is replaced.
    columns = np.flatnonzero(chosen.any(0))
    pairs[np.where(chosen[0, columns], 1, 0), columns] = generator.integers(data.num_nodes, size=len(columns))
    # The reverse of the k-th edge is the k-th in the order of (target, source).
    reverse = torch.argsort(data.edge_index[1] * data.num_nodes + data.edge_index[0])[once]
    ends = torch.from_numpy(pairs)
    data.edge_index = torch.cat([ends, ends.flip(0)], dim=1)
    for key in ("edge_weight", "edge_relation"):
        if data.get(key) is not None:
            data[key] = torch.cat([data[key][once], data[key][reverse]])
    return check(data, quiet=True)
