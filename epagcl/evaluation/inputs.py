"""Inputs of all scores: embeddings, labels and splits, checked and converted to tensors."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from torch import Tensor

from epagcl.core.errors import InputError
from epagcl.data.labels import Labels, class_numbers
from epagcl.data.splits import Split, as_splits, seed_list

#: An embedding with one row per node: a tensor, an array, a table, a SciPy matrix or a list of rows.
EmbeddingLike: TypeAlias = (
    Tensor | np.ndarray[Any, Any] | pd.DataFrame | scipy.sparse.sparray | Sequence[Sequence[float]]
)


class Inputs(NamedTuple):
    """Checked inputs of a score.

    Attributes:
        embeddings: tensors ``[N, d]`` of any type and layout.
        y: class number of each node; −1 for none.
        class_names: name of each class if the labels were names, else None.
        splits: the given splits, or None.
    """

    embeddings: list[Tensor]
    y: Tensor
    class_names: list[str] | None
    splits: list[Split] | None


def check_inputs(
    embeddings: Sequence[EmbeddingLike], labels: Labels, splits: Split | Sequence[Split] | None = None
) -> Inputs:
    """Convert embeddings, labels and splits, and raise unless they belong to the same nodes."""
    tensors = [embedding_tensor(embedding) for embedding in embeddings]
    y, class_names = class_numbers(labels)
    if not tensors:
        raise InputError("z is empty; give at least one embedding")
    for z in tensors:
        if z.dim() != 2 or z.shape[1] == 0:
            raise InputError(f"embedding of shape {tuple(z.shape)}: it must be nodes × dimensions")
        if z.shape[0] != y.shape[0]:
            raise InputError(f"{z.shape[0]:,} rows for {y.shape[0]:,} labels; give one of each per node")
    return Inputs(tensors, y, class_names, None if splits is None else as_splits(splits, len(y)))


def is_list_of_embeddings(z: Any) -> bool:
    """Return whether z is a list of embeddings. A list of lists of numbers is one embedding, row by row."""
    if not isinstance(z, list | tuple):
        return False
    first = z[0] if z else None
    return not (isinstance(first, list | tuple) and not any(isinstance(value, list | tuple) for value in first))


def embedding_tensor(z: Any) -> Tensor:
    """Convert an embedding of any type and layout to a tensor."""
    if isinstance(z, Tensor):
        return z
    try:
        array = z.toarray() if scipy.sparse.issparse(z) else np.asarray(z)
        if array.dtype.kind == "O" and not any(isinstance(value, str) for value in array.flat):
            array = array.astype(np.float64)  # a table with columns of several types
    except (TypeError, ValueError):
        raise InputError("z: not a table of numbers; give rows of equal length with numbers only") from None
    if array.dtype.kind not in "biuf":
        raise InputError(f"z: values of type {array.dtype}; give numbers")
    # torch shares the memory only of writeable arrays with positive strides; pandas returns read-only ones.
    shareable = array.flags.writeable and min(array.strides, default=0) >= 0
    return torch.as_tensor(array if shareable else array.copy(order="K"))


def scale_embedding(z: Tensor, rescale: bool = True) -> Tensor:
    """Return z as a dense float32 tensor, divided by its root mean square if ``rescale``; raise if it is not finite."""
    z = (z if z.layout == torch.strided else z.to_dense()).detach().float()
    if not torch.isfinite(z).all():
        raise InputError("the embedding has NaN or infinite values; train again with a lower lr")
    rms = z.square().mean().sqrt()
    return z / rms if rescale and rms > 0 else z


def renumber_classes(y: Tensor) -> tuple[Tensor, Tensor]:
    """Return the classes that occur, and the labels renumbered 0..C−1 (−1 remains)."""
    classes = y[y >= 0].unique()
    if classes.numel() < 2:
        raise InputError(f"{classes.numel()} class among the labels; evaluation needs at least 2")
    return classes, torch.where(y >= 0, torch.searchsorted(classes, y.contiguous()), -1)


def split_seeds(seed: int | Sequence[int], runs: int) -> list[int]:
    """Return the seeds of the random splits; raise if there are none."""
    seeds = seed_list(seed, runs)
    if not seeds:
        raise InputError(f"runs={runs}: must be at least 1")
    return seeds


def labelled_splits(splits: Sequence[Split], y: Tensor, required: Sequence[str]) -> list[Split]:
    """Remove unlabelled nodes from splits; raise if that leaves a required part ("train", "val", "test") empty."""
    labelled = [labelled_split(split, y) for split in splits]
    for k, split in enumerate(labelled):
        if empty := [part for part in required if getattr(split, part).numel() == 0]:
            raise InputError(f"splits[{k}].{empty[0]}: no labelled nodes; give at least one")
    return labelled


def labelled_split(split: Split, y: Tensor) -> Split:
    """Remove unlabelled nodes from a split."""
    parts = (part.to(y.device) for part in (split.train, split.val, split.test))
    return Split(*(part[y[part] >= 0] for part in parts))
