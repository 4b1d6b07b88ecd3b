"""Agreement of clusters with the classes."""

import warnings
from typing import Any

import numpy as np
import torch.nn.functional as F

from epagcl.core.errors import InputError
from epagcl.data.labels import Labels, class_numbers
from epagcl.data.splits import seed_list
from epagcl.evaluation.inputs import EmbeddingLike, check_inputs, scale_embedding


def clustering(z: EmbeddingLike, y: Labels, seed: int = 0) -> dict[str, float]:
    """Return NMI and ARI of k-means on the unit rows of z, with as many clusters as classes.

    Args:
        z: embedding ``[N, d]``.
        y: class of each node, as a number or a name; −1 or missing for none.
        seed: random state of k-means.

    Examples:
        >>> import torch
        >>> clustering(torch.eye(2).repeat(5, 1), [0, 1] * 5)
        {'nmi': 1.0, 'ari': 1.0}
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    inputs = check_inputs([z], y)
    labelled = (inputs.y >= 0).cpu()
    if not labelled.any():
        raise InputError("y: no node has a label; clustering scores need at least one labelled node")
    truth = inputs.y.cpu()[labelled].numpy()
    rows = F.normalize(scale_embedding(inputs.embeddings[0]), dim=1).cpu()[labelled].numpy()
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):  # equal rows give fewer clusters
        clusters = KMeans(len(set(truth.tolist())), n_init=5, random_state=seed_list(seed)[0] % 2**32).fit_predict(rows)
    return agreement(clusters, truth)


def agreement(clusters: "np.ndarray[Any, Any]", y: Labels) -> dict[str, float]:
    """Return NMI and ARI of clusters with the classes, over the labelled nodes.

    Args:
        clusters: cluster of each node.
        y: class of each node; −1 or missing for none.

    Examples:
        >>> agreement(np.array([1, 1, 0, 0]), ["a", "a", "b", None])
        {'nmi': 1.0, 'ari': 1.0}
    """
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    truth = class_numbers(y)[0].cpu().numpy()
    if len(truth) != len(clusters):
        raise InputError(f"y: {len(truth):,} labels for {len(clusters):,} nodes; give one per node")
    labelled = truth >= 0
    if not labelled.any():
        raise InputError("y: no node has a label; clustering scores need at least one labelled node")
    return {
        "nmi": float(normalized_mutual_info_score(truth[labelled], clusters[labelled])),
        "ari": float(adjusted_rand_score(truth[labelled], clusters[labelled])),
    }
