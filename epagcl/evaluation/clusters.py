"""How good an embedding is: linear evaluation that cannot see test labels, k-nearest neighbours, clustering."""

import warnings

import torch.nn.functional as F

from epagcl.core.errors import InputError
from epagcl.data.splits import run_seeds
from epagcl.evaluation.inputs import Labels, Rows, checked_inputs, scaled
from epagcl.evaluation.protocol import STRICT


def clustering(z: Rows, y: Labels, seed: int = 0) -> dict[str, float]:
    """k-means on unit rows with as many clusters as classes: NMI and ARI against the classes."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    (z,), y, _, _ = checked_inputs([z], y, None)
    labelled = (y >= 0).cpu()
    if not labelled.any():
        raise InputError("y: no node has a label; clusters are compared with the classes of at least one")
    truth = y.cpu()[labelled].numpy()
    rows = F.normalize(scaled(z, STRICT), dim=1).cpu()[labelled].numpy()
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):  # equal rows make fewer clusters
        clusters = KMeans(len(set(truth.tolist())), n_init=5, random_state=run_seeds(seed)[0] % 2**32).fit_predict(rows)
    return {
        "nmi": float(normalized_mutual_info_score(truth, clusters)),
        "ari": float(adjusted_rand_score(truth, clusters)),
    }
