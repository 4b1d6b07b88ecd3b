"""Node labels as class numbers.

Labels have three forms, each with one function: names or numbers that a user passes with a graph
(:func:`encode_labels`), the ``y`` of a ``Data`` (:func:`check_labels`), and the ``y`` argument of a split or an
evaluation (:func:`class_numbers`). The result is always int64 with −1 for nodes without a label.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from torch import Tensor

from epagcl.core.errors import InputError
from epagcl.core.log import log

#: One label per node, in the order of the nodes.
Labels = Tensor | np.ndarray | pd.Series | Sequence[Any]

_PLAIN = re.compile(r"(?:0|-?[1-9][0-9]*)(?:\.0*)?")
#: The results of pandas' ``infer_dtype`` for arrays of objects that are all numbers or missing.
_NUMERIC_KINDS = ("boolean", "integer", "integer-na", "floating", "mixed-integer-float", "empty")


def encode_labels(labels: Labels, source: str, counts: np.ndarray | None = None) -> tuple[Tensor, list[str] | None]:
    """Return class numbers (−1 = no label), and class names unless the labels are 0, 1, ..., C−1 already.

    Missing values (None, NaN, blank) and −1 mean "no label". Integers that are exactly 0..C−1 are kept. Other integers
    are numbered in ascending order, names in alphabetical order. Text is an integer only if all labels are written as
    one (``7``, ``7.0``): ``01`` and ``1`` are two names.

    Args:
        labels: one label per node.
        source: the name of the labels in messages.
        counts: number of nodes of each label, for the message about −1; by default one.
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
        numbers = None
    if numbers is None or _is_not_plain(present, numbers):
        if numbers is not None:
            log.warning("%s: labels such as %r are read as names, not as numbers", source, _first_not_plain(present))
        classes, codes = np.unique(present.to_numpy().astype(str), return_inverse=True)
        return _scatter(codes, present.index, len(series)), classes.tolist()
    if (numbers != np.round(numbers)).any() or np.isinf(numbers).any():
        raise InputError(f"{source}: labels are not whole numbers; give class numbers 0, 1, ... or names")
    if (numbers < -1).any():
        raise InputError(f"{source}: label {int(numbers.min())}; give class numbers 0, 1, ... (−1 for none) or names")
    labelled = numbers >= 0
    classes, codes = np.unique(numbers[labelled].astype(np.int64), return_inverse=True)
    y = _scatter(codes, present.index[labelled], len(series))
    if np.array_equal(classes, np.arange(len(classes))):
        return y, None
    if not labelled.all():  # −1 and 1 are probably meant as two classes, but −1 always means "no label" here
        unlabelled = (~labelled).sum() if counts is None else counts[present.index[~labelled]].sum()
        log.warning("%s: label −1 means no label (nodes with it: %d)", source, unlabelled)
    return y, [str(number) for number in classes]


def class_numbers(y: Labels | None) -> tuple[Tensor, list[str] | None]:
    """Return labels as int64 (−1 = no label), and the class names if the labels are text.

    Text is numbered in alphabetical order. Integers are unchanged, even if stored as floats. False and True become
    0 and 1. A pandas Series is read by position; its index is ignored.
    """
    if y is None:
        raise InputError("y: no labels; give one class per node (−1 for none)")
    labels = y if isinstance(y, Tensor) else _numeric_or_object_array(y)
    if labels.ndim != 1 and (labels.ndim != 2 or labels.shape[1] != 1):
        fix = "give one class per node; for one-hot rows, that is y.argmax(1)"
        raise InputError(f"y: labels have shape {tuple(labels.shape)}; {fix}")
    if isinstance(labels, Tensor) or labels.dtype.kind in "biuf":
        return check_labels(torch.as_tensor(labels), "y"), None
    numbers, names = encode_labels(labels, "y")
    return numbers, [str(c) for c in numbers[numbers >= 0].unique().tolist()] if names is None else names


def check_labels(y: Tensor, source: str) -> Tensor:
    """Return ``y`` as int64 ``[N]`` with −1 for NaN. Raise unless it holds one class number per node."""
    y = torch.as_tensor(y)
    if y.dim() == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.dim() != 1:
        raise InputError(f"{source}: labels have shape {tuple(y.shape)}; give one class number per node")
    if y.is_complex():
        raise InputError(f"{source}: labels are complex numbers; give class numbers 0, 1, ... (−1 for none)")
    if not y.is_floating_point():  # torch hardly computes with unsigned types, and 255 < −1 as uint8
        y = y.to(torch.float64 if y.dtype == torch.uint64 else torch.int64)
    if y.is_floating_point():
        y = torch.where(torch.isnan(y), -1.0, y)
        if (y != y.round()).any() or torch.isinf(y).any():
            raise InputError(f"{source}: labels are not whole numbers; give classes 0, 1, ... (−1 for none)")
    if (y < -1).any():
        raise InputError(f"{source}: label {int(y.min())}; give class numbers 0, 1, ... (−1 for none)")
    return y.long()


def label_array(labels: Any, source: str) -> np.ndarray:
    """Return labels of any type as an array of any shape. Raise if they have no order or are sparse."""
    if scipy.sparse.issparse(labels) or (isinstance(labels, Tensor) and labels.layout != torch.strided):
        raise InputError(f"{source}: labels are a sparse matrix; give one label per node, as an array or list")
    if isinstance(labels, str | bytes | dict | set | frozenset):
        raise InputError(f"{source}: labels are a {type(labels).__name__}; give an array, a list or a pandas Series")
    if isinstance(labels, Tensor):
        return labels.detach().cpu().numpy()
    if isinstance(labels, Iterable) and not hasattr(labels, "__array__"):
        labels = list(labels)
    try:
        return np.asarray(labels)
    except ValueError:
        raise InputError(f"{source}: labels have rows of different lengths; make them equal") from None


def _is_not_plain(labels: pd.Series, numbers: np.ndarray) -> bool:
    """Return whether labels of text are whole numbers, but not all written as plain integers, as 01, +5 and 1e1."""
    whole = bool((numbers == np.round(numbers)).all())
    return labels.dtype == object and whole and _first_not_plain(labels) is not None


def _first_not_plain(labels: pd.Series) -> str | None:
    """Return the first label of text that is not written as a plain integer."""
    return next((text for text in labels if isinstance(text, str) and not _PLAIN.fullmatch(text)), None)


def _scatter(codes: np.ndarray, positions: pd.Index, length: int) -> Tensor:
    """Return int64 ``[length]`` with the codes at their positions and −1 elsewhere."""
    y = torch.full((length,), -1)
    y[torch.from_numpy(positions.to_numpy().copy())] = torch.from_numpy(codes)
    return y


def _numeric_or_object_array(y: Any) -> np.ndarray:
    """Return labels as an array of int64, bool, float64 (NaN = no label), or else of objects."""
    if isinstance(y, list | tuple):
        y = [label.item() if isinstance(label, Tensor) and label.dim() == 0 else label for label in y]
    try:
        array = np.asarray(y)
    except ValueError:
        raise InputError("y: lists of different lengths; give one class per node") from None
    if array.dtype.kind == "O" and pd.api.types.infer_dtype(array.ravel(), skipna=True) in _NUMERIC_KINDS:
        array = np.where(pd.isna(array), np.nan, array)  # numbers with missing values
        return array.astype(np.float64)
    dtypes: dict[str, type] = {"b": np.bool_, "i": np.int64, "u": np.int64, "f": np.float64}
    return array.astype(dtypes.get(array.dtype.kind, object))
