"""Agreement of k-means clusters with the classes."""

import warnings

import torch.nn.functional as F

from epagcl.core.errors import InputError
from epagcl.data.labels import Labels
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
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    inputs = check_inputs([z], y)
    labelled = (inputs.y >= 0).cpu()
    if not labelled.any():
        raise InputError("y: no node has a label; clustering scores need at least one labelled node")
    truth = inputs.y.cpu()[labelled].numpy()
    rows = F.normalize(scale_embedding(inputs.embeddings[0]), dim=1).cpu()[labelled].numpy()
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):  # equal rows give fewer clusters
        clusters = KMeans(len(set(truth.tolist())), n_init=5, random_state=seed_list(seed)[0] % 2**32).fit_predict(rows)
    return {
        "nmi": float(normalized_mutual_info_score(truth, clusters)),
        "ari": float(adjusted_rand_score(truth, clusters)),
    }
