"""Graphs that a program already holds, as ``Data``: NetworkX, SciPy, and what all readers share."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Data

import epagcl.core.sparse  # noqa: F401
from epagcl.core.errors import InputError, MissingExtra
from epagcl.data.checking import check, check_features
from epagcl.data.labels import as_array

if TYPE_CHECKING:
    pass


def assemble(
    x: Tensor | None,
    edge_index: Tensor,
    labels: tuple[Tensor, list[str] | None] | None,
    node_ids: np.ndarray,
    source: str,
    feature_names: list[str] | None = None,
) -> Data:
    """The checked ``Data`` of these parts; ``x`` may be None, ``labels`` are as from :func:`encode_labels`."""
    data = Data(x=x, edge_index=edge_index, num_nodes=len(node_ids))
    # An array, not a list: Data.to and Data.clone pass arrays on whole, but walk through lists item by item.
    data.node_ids = node_ids
    if feature_names is not None:
        data.feature_names = feature_names
    if labels is not None:
        data.y, names = labels
        if names is not None:
            data.label_names = names
    return check(data, source=source, features=x is not None)


def feature_tensor(features: "np.ndarray | Tensor | scipy.sparse.sparray", source: str) -> Tensor:
    """Features as a float32 tensor ``[nodes, columns]``: sparse (CSR) if they were sparse, else dense."""
    if isinstance(features, Tensor):
        if features.is_complex():
            raise InputError(f"{source}: features of type {features.dtype}; give real numbers")
        return features.detach()
    if scipy.sparse.issparse(features):
        csr = scipy.sparse.csr_array(features)
        _require_numbers(csr.dtype, source)
        csr.sum_duplicates()
        parts = csr.indptr.astype(np.int64), csr.indices.astype(np.int64), csr.data.astype(np.float32)
        tensors = (torch.from_numpy(part) for part in parts)
        return torch.sparse_csr_tensor(*tensors, csr.shape, check_invariants=False)  # SciPy has sorted them
    array = as_array(features, source, "features")
    _require_numbers(array.dtype, source)
    if array.ndim != 2:
        raise InputError(f"{source}: features have shape {array.shape}; they must be nodes × columns")
    with np.errstate(over="ignore"):  # too large for float32 becomes infinite, and is then reported as such
        return torch.from_numpy(np.array(array, dtype=np.float32, order="C"))


def table_features(
    frame: pd.DataFrame, source: str, title: Callable[[Any], str], place: Callable[[int], str]
) -> Tensor:
    """The columns of a table, rows numbered from 0, as features; what is no finite number raises with its place."""
    numbers = frame.copy(deep=False)
    for column, values in frame.items():
        if _is_real(values.dtype):
            continue
        if (converted := _as_numbers(values)) is None:
            text = values.dropna().map(str)
            text = text[[not is_number(value) for value in text]]
            where = f" ({text.iloc[0]!r} in {place(text.index[0])})" if len(text) else ""
            raise InputError(
                f"{source}: {title(column)} is not numeric{where}; "
                "encode it as numbers (one column per value) or drop it"
            )
        numbers[column] = converted
    with np.errstate(over="ignore"):  # too large for float32 becomes infinite, and is reported as such
        x = feature_tensor(numbers.to_numpy(dtype=np.float32, na_value=np.nan), source)
    titles = [title(column) for column in frame]
    return check_features(x, source, lambda row, column: f"{place(row)}, {titles[column]}")


def as_frame(given: Any) -> pd.DataFrame | None:
    """A table or series of pandas or polars as a pandas table; None if it is none."""
    if is_polars(given):
        given = given.collect() if hasattr(given, "collect") else given
        try:
            given = given.to_pandas()
        except ModuleNotFoundError:
            raise MissingExtra("pyarrow", "polars", "reading polars tables") from None
    if isinstance(given, pd.Series):
        return given.to_frame("label" if given.name is None else given.name)
    return given if isinstance(given, pd.DataFrame) else None


def is_polars(given: Any) -> bool:
    """Whether this is a table or series of polars, which need not be installed."""
    return type(given).__module__.partition(".")[0] == "polars"


def is_number(text: str) -> bool:
    """Whether a field is written as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def id_array(ids: Sequence) -> np.ndarray:
    """Ids as a one-dimensional array: int64 if all are integers, else the objects themselves."""
    if all(isinstance(node, int | np.integer) and not isinstance(node, bool) for node in ids):
        try:
            return np.array(ids, dtype=np.int64)
        except OverflowError:
            pass
    array = np.empty(len(ids), dtype=object)
    array[:] = ids
    return array


def _require_numbers(dtype: np.dtype, source: str) -> None:
    if dtype.kind not in "biuf":
        raise InputError(f"{source}: features of type {dtype}; give {'real ' * (dtype.kind == 'c')}numbers")


def _is_real(dtype: Any) -> bool:
    return pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_complex_dtype(dtype)


def _as_numbers(column: pd.Series) -> pd.Series | None:
    """A column of objects, categories or text as numbers, if each of its values is one: ``Decimal(1)``, ``"1"``."""
    try:
        numbers = pd.to_numeric(column.astype(object))  # which a date, as an object, is not
        numbers = numbers.astype(float) if numbers.dtype == object else numbers  # integers beyond 64 bits
    except (ValueError, TypeError, OverflowError):
        return None
    return numbers if _is_real(numbers.dtype) else None
