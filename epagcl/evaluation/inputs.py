"""How good an embedding is: linear evaluation that cannot see test labels, k-nearest neighbours, clustering."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from torch import Tensor

from epagcl.core.errors import InputError
from epagcl.data.splits import Split, as_splits, class_numbers, run_seeds
from epagcl.evaluation.protocol import Rule

#: An embedding, a row per node, and the labels, one per node.
Rows = Tensor | np.ndarray | pd.DataFrame | scipy.sparse.sparray | Sequence[Sequence[float]]


Labels = Tensor | np.ndarray | pd.Series | Sequence


def checked_inputs(
    embeddings: Sequence[Rows], y: Labels, splits: Split | Sequence[Split] | None
) -> tuple[list[Tensor], Tensor, list[str] | None, list[Split] | None]:
    """What all scores are computed from: embeddings, class numbers and their names if they have any, splits."""
    embeddings, (y, names) = [as_rows(one) for one in embeddings], class_numbers(y)
    if not embeddings:
        raise InputError("z is empty; give at least one embedding")
    for one in embeddings:
        if one.dim() != 2 or one.shape[1] == 0:
            raise InputError(f"embedding of shape {tuple(one.shape)}: it must be nodes × dimensions")
        if one.shape[0] != y.shape[0]:
            raise InputError(f"{one.shape[0]:,} rows for {y.shape[0]:,} labels; give one of each per node")
    return embeddings, y, names, None if splits is None else as_splits(splits, len(y))


def are_several(z: Any) -> bool:
    """Whether z is a list of embeddings; a list of lists of numbers is one, row by row."""
    if not isinstance(z, list | tuple):
        return False
    first = z[0] if z else None
    return not (isinstance(first, list | tuple) and not any(isinstance(value, list | tuple) for value in first))


def as_rows(z: Any) -> Tensor:
    """An embedding as a tensor of any type and layout."""
    if isinstance(z, Tensor):
        return z
    try:
        array = z.toarray() if scipy.sparse.issparse(z) else np.asarray(z)
        if array.dtype.kind == "O" and not any(isinstance(value, str) for value in array.flat):
            array = array.astype(np.float64)  # columns of several types
    except (TypeError, ValueError):
        raise InputError("z: not a table of numbers; give rows of equal length, numbers alone") from None
    if array.dtype.kind not in "biuf":
        raise InputError(f"z: values of type {array.dtype}; give numbers")
    as_is = array.flags.writeable and min(array.strides, default=0) >= 0  # pandas locks its arrays
    return torch.as_tensor(array if as_is else array.copy(order="K"))


def split_seeds_of(seed: int | Sequence[int], runs: int) -> list[int]:
    """The seeds of random splits."""
    seeds = run_seeds(seed, runs)
    if not seeds:
        raise InputError(f"runs={runs}: at least 1")
    return seeds


def usable_splits(splits: Sequence[Split], y: Tensor, needed: Sequence[str]) -> list[Split]:
    """Splits without the nodes that have no label, of which no part that is needed may then be empty."""
    labelled = [labelled_part(split, y) for split in splits]
    for k, split in enumerate(labelled):
        if empty := [part for part in needed if getattr(split, part).numel() == 0]:
            raise InputError(f"splits[{k}].{empty[0]}: no labelled nodes; give at least one")
    return labelled


def labelled_part(split: Split, y: Tensor) -> Split:
    """A split without the nodes that have no label."""
    parts = (part.to(y.device) for part in (split.train, split.val, split.test))
    return Split(*(part[y[part] >= 0] for part in parts))


def scaled(z: Tensor, rule: Rule) -> Tensor:
    z = (z if z.layout == torch.strided else z.to_dense()).detach().float()
    if not torch.isfinite(z).all():
        raise InputError("the embedding has NaN or infinite values; train again with a lower lr")
    rms = z.square().mean().sqrt()
    return z / rms if rule.rescale and rms > 0 else z


def number_classes(y: Tensor) -> tuple[Tensor, Tensor]:
    """The classes that occur, and the labels numbered 0..C−1 (−1 stays)."""
    classes = y[y >= 0].unique()
    if classes.numel() < 2:
        raise InputError(f"{classes.numel()} class among the labels; evaluation needs at least 2")
    return classes, torch.where(y >= 0, torch.searchsorted(classes, y), -1)
