"""How good an embedding is: linear evaluation that cannot see test labels, k-nearest neighbours, clustering."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from epagcl.data.splits import Split, random_split
from epagcl.evaluation.inputs import Labels, Rows, checked_inputs, number_classes, scaled, split_seeds_of, usable_splits
from epagcl.evaluation.protocol import STRICT


def knn_accuracy(
    z: Rows,
    y: Labels,
    runs: int = 5,
    seed: int | Sequence[int] = 0,
    splits: Split | Sequence[Split] | None = None,
) -> list[float]:
    """Accuracy of cosine k-nearest neighbours on the strict splits, k of 1, 3, 5, 10, 20 chosen on validation."""
    (z,), y, _, splits = checked_inputs([z], y, splits)
    z = F.normalize(scaled(z, STRICT), dim=1)
    classes, y = number_classes(y.to(z.device))
    splits = [random_split(y, seed=one) for one in split_seeds_of(seed, runs)] if splits is None else splits
    results = []
    for split in usable_splits(splits, y, ("train", "test")):
        train, val, test = split.train, split.val, split.test

        ks = [k for k in (1, 3, 5, 10, 20) if k <= train.numel()]
        nearest = [
            y[train][torch.cat([(part @ z[train].T).topk(ks[-1]).indices for part in z[nodes].split(4096)])]
            for nodes in (val, test)
        ]
        hits = [
            [F.one_hot(labels[:, :k], len(classes)).sum(1).argmax(1) == y[nodes] for k in ks]
            for labels, nodes in zip(nearest, (val, test), strict=True)
        ]
        best = max(range(len(ks)), key=lambda k: hits[0][k].sum().item())
        results.append(hits[1][best].float().mean().item())
    return results
