"""Features as tensors, from arrays, sparse matrices and columns of numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from torch import Tensor

from epagcl.core.errors import InputError
from epagcl.core.sparse import SparseMatrix
from epagcl.data.checking import check_features
from epagcl.data.io.columns.number import NotNumeric, to_numbers


def feature_tensor(features: "np.ndarray | Tensor | scipy.sparse.sparray", source: str) -> Tensor:
    """Return features as a tensor ``[nodes, columns]``: CSR if they are a SciPy matrix, else dense.

    Arrays and matrices become float32. A tensor keeps its type and layout, which :func:`check_features` converts.
    """
    if isinstance(features, Tensor):
        if features.is_complex():
            raise InputError(f"{source}: features of type {features.dtype}; give real numbers")
        return features.detach()
    if scipy.sparse.issparse(features):
        csr = scipy.sparse.csr_array(features)
        _require_real(csr.dtype, source)
        csr.sum_duplicates()  # this also sorts the columns of each row
        rowptr, col = (torch.from_numpy(part.astype(np.int64)) for part in (csr.indptr, csr.indices))
        return SparseMatrix(rowptr, col, torch.from_numpy(csr.data.astype(np.float32)), csr.shape).csr
    try:
        array = np.asarray(features)
    except ValueError:
        raise InputError(f"{source}: features have rows of different lengths; make them equal") from None
    _require_real(array.dtype, source)
    if array.ndim != 2:
        raise InputError(f"{source}: features have shape {array.shape}; they must be nodes × columns")
    with np.errstate(over="ignore"):  # values too large for float32 become infinite, which is reported later
        return torch.from_numpy(np.array(array, dtype=np.float32, order="C"))


def table_features(
    frame: pd.DataFrame, source: str, title: Callable[[Any], str], place: Callable[[int], str]
) -> Tensor:
    """Return columns of numbers as checked features, unchanged. Raise if a value is not a finite number.

    Args:
        frame: the columns, with rows numbered from 0.
        source: name of the table in messages.
        title: function that describes a column in messages.
        place: function that describes the position of a row in messages.
    """
    numbers = frame.copy(deep=False)
    for column, values in frame.items():
        try:
            numbers[column] = to_numbers(values)
        except NotNumeric as error:
            where = f" ({error.value!r} in {place(error.row)})" if error.row is not None else ""
            raise InputError(
                f"{source}: {title(column)} is not numeric{where}; "
                "encode it as numbers (one column per value) or drop it"
            ) from None
    with np.errstate(over="ignore"):  # values too large for float32 become infinite, which is reported later
        x = feature_tensor(numbers.to_numpy(dtype=np.float32, na_value=np.nan), source)
    titles = [title(column) for column in frame]
    return check_features(x, source, lambda row, column: f"{place(row)}, {titles[column]}")


def _require_real(dtype: np.dtype[Any], source: str) -> None:
    if dtype.kind not in "biuf":
        raise InputError(f"{source}: features of type {dtype}; give {'real ' * (dtype.kind == 'c')}numbers")
