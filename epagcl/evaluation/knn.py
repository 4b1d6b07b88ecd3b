"""Accuracy of k-nearest neighbours on an embedding."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from epagcl.data.labels import Labels
from epagcl.data.splits import Split, random_split
from epagcl.evaluation.inputs import (
    EmbeddingLike,
    check_inputs,
    labelled_splits,
    renumber_classes,
    scale_embedding,
    split_seeds,
)

NEIGHBOURS = (1, 3, 5, 10, 20)  # the values of k to choose from


def knn_accuracy(
    z: EmbeddingLike,
    y: Labels,
    runs: int = 5,
    seed: int | Sequence[int] = 0,
    splits: Split | Sequence[Split] | None = None,
) -> list[float]:
    """Return the test accuracy of cosine k-nearest neighbours, one value per split.

    k is one of 1, 3, 5, 10 and 20, chosen on the validation nodes. By default, the splits are the random splits of the
    strict protocol.

    Args:
        z: embedding ``[N, d]``.
        y: class of each node, as a number or a name; −1 or missing for none.
        runs: number of random splits.
        seed: seed of the first split; run r has seed + r. A list gives the seed of each run.
        splits: one or several splits to use in place of random ones.

    Examples:
        >>> z = torch.eye(2).repeat(30, 1)
        >>> knn_accuracy(z, [0, 1] * 30, runs=2)
        [1.0, 1.0]
    """
    inputs = check_inputs([z], y, splits)
    unit = F.normalize(scale_embedding(inputs.embeddings[0]), dim=1)
    classes, labels = renumber_classes(inputs.y.to(unit.device))
    splits = inputs.splits
    if splits is None:
        splits = [random_split(labels, seed=split_seed) for split_seed in split_seeds(seed, runs)]
    accuracies = []
    for split in labelled_splits(splits, labels, ("train", "test")):
        ks = [k for k in NEIGHBOURS if k <= split.train.numel()]
        hits = []  # for validation and test nodes, a mask of the correctly classified nodes for each k
        for nodes in (split.val, split.test):
            nearest = [(rows @ unit[split.train].T).topk(ks[-1]).indices for rows in unit[nodes].split(4096)]
            votes = labels[split.train][torch.cat(nearest)]
            hits.append([F.one_hot(votes[:, :k], len(classes)).sum(1).argmax(1) == labels[nodes] for k in ks])
        validation, test = hits
        best = max(range(len(ks)), key=lambda k: validation[k].sum().item())
        accuracies.append(test[best].float().mean().item())
    return accuracies
