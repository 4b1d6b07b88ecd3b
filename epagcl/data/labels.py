"""Graphs that a program already holds, as ``Data``: NetworkX, SciPy, and what all readers share."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from torch import Tensor

from epagcl.core.errors import InputError

if TYPE_CHECKING:
    pass

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


from epagcl.core.log import log


def encode_labels(labels: "Sequence | np.ndarray | Tensor", source: str) -> tuple[Tensor, list[str] | None]:
    """Class numbers (−1 = no label), and the classes' names if the labels were not already 0, 1, ..., C−1.

    Missing values (None, NaN, blank) and −1 are "no label". Whole numbers that are exactly 0..C−1 stay as
    they are; other whole numbers are numbered in their order, names in alphabetical order.
    """
    array = labels.to_numpy() if isinstance(labels, pd.Series) else label_array(labels, source)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InputError(f"{source}: labels have shape {array.shape}; give one per node")
    series = pd.Series(array)
    if series.dtype.kind not in "biuf":
        series = series.astype(object)
        series[~series.isna()] = series[~series.isna()].map(lambda label: str(label).strip())
        series = series.where(series != "", np.nan)
    present = series[~series.isna()]
    try:
        numbers = pd.to_numeric(present).to_numpy()
    except (ValueError, TypeError):
        classes, codes = np.unique(present.to_numpy().astype(str), return_inverse=True)
        return _labels_at(present.index, codes, len(series)), classes.tolist()
    if (numbers != np.round(numbers)).any() or np.isinf(numbers).any():
        raise InputError(f"{source}: labels are not whole numbers; give class numbers 0, 1, ... or names")
    if (numbers < -1).any():
        raise InputError(f"{source}: label {int(numbers.min())}; give class numbers 0, 1, ... (−1 for none) or names")
    known = numbers >= 0
    classes, codes = np.unique(numbers[known].astype(np.int64), return_inverse=True)
    y = _labels_at(present.index[known], codes, len(series))
    if np.array_equal(classes, np.arange(len(classes))):
        return y, None
    if not known.all():  # classes −1 and 1 are likely meant as two, but −1 is "no label" everywhere here
        log.warning("%s: label −1 means no label (nodes with it: %d)", source, (~known).sum())
    return y, [str(number) for number in classes]


def label_array(labels: Any, source: str) -> np.ndarray:
    """Labels of any kind as an array, of whatever shape."""
    if scipy.sparse.issparse(labels) or (isinstance(labels, Tensor) and labels.layout != torch.strided):
        raise InputError(f"{source}: labels are a sparse matrix; give one label per node, as an array or list")
    if isinstance(labels, str | bytes | dict | set | frozenset):
        raise InputError(f"{source}: labels are a {type(labels).__name__}; give an array, a list or a pandas Series")
    if isinstance(labels, Tensor):
        return labels.detach().cpu().numpy()
    if isinstance(labels, Iterable) and not hasattr(labels, "__array__"):
        labels = list(labels)
    return as_array(labels, source, "labels")


def _labels_at(places: pd.Index, codes: np.ndarray, length: int) -> Tensor:
    y = torch.full((length,), -1)
    y[torch.from_numpy(places.to_numpy().copy())] = torch.from_numpy(codes)
    return y


def check_labels(y: Tensor | None, source: str) -> Tensor | None:
    if y is None:
        return None
    y = torch.as_tensor(y)
    if y.dim() == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.dim() != 1:
        raise InputError(f"{source}: labels have shape {tuple(y.shape)}; give one class number per node")
    if y.is_floating_point():
        y = torch.where(torch.isnan(y), -1.0, y)
        if (y != y.round()).any() or torch.isinf(y).any():
            raise InputError(f"{source}: labels are not whole numbers; give classes 0, 1, ... (−1 for none)")
    if (y < -1).any():
        raise InputError(f"{source}: label {int(y.min())}; give class numbers 0, 1, ... (−1 for none)")
    return y.long()


def as_array(values: Any, source: str, what: str) -> np.ndarray:
    try:
        return np.asarray(values)
    except ValueError:
        raise InputError(f"{source}: {what} have rows of different lengths; make them equal") from None
