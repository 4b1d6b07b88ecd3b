"""Features as tensors, from matrices and columns of every type."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch

from epagcl.data import from_tables
from epagcl.data.io.features import feature_tensor
from tests.data.io.helpers import ENDS, TABLE, X, from_tables_error, rows


def test_sparse_features_keep_their_entries():
    matrix = scipy.sparse.coo_matrix(([1.0, 2.0, 4.0], ([0, 0, 1], [2, 2, 0])), shape=(2, 3))
    x = feature_tensor(matrix, "f")
    assert x.layout == torch.sparse_csr
    assert x.dtype == torch.float32
    assert x.to_dense().tolist() == [[0, 0, 3], [4, 0, 0]]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([Decimal("1"), Decimal("3"), Decimal("5")]),
        pd.Series([1, 3.0, np.float32(5)], dtype=object),
        pd.Series([1, 3, 5], dtype="category"),
        pd.Series(["1", "3.0", " 5 "]),
        pd.Series(["1", "3", "5"], dtype="category"),
    ],
)
def test_columns_of_every_numeric_type(column):
    assert rows(from_tables(ENDS, TABLE.assign(a=column))) == dict(zip("xyz", X, strict=True))
    table = TABLE.assign(a=[1, 2**70, 2])
    assert from_tables(ENDS, table, columns_as={"a": "given"}).x[1, 0].item() == 2**70


def test_decimals_and_missing_values_of_polars():
    polars = pytest.importorskip("polars")
    table = polars.DataFrame({"id": ["x", "y", "z"], "a": [Decimal("1.5"), Decimal("2.0"), Decimal("3.0")]})
    assert from_tables(ENDS, table).x[:, 0].tolist() == [1.5, 2, 3]
    for column in (polars.Series([True, None, False]), polars.Series([Decimal("1"), None, Decimal("2")])):
        data = from_tables(ENDS, table.with_columns(a=column))
        assert data.feature_names == ["a", "a=missing"]
        assert data.x[:, 1].tolist() == [0, 1, 0]
        given = from_tables_error(ENDS, table.with_columns(a=column), columns_as={"a": "given"})
        assert given.startswith("features: 1 missing, NaN or infinite feature value, the first in row 1")
    assert from_tables(ENDS, TABLE.assign(a=[True, None, False])[["id", "a"]]).x.tolist() == [[1, 0], [0, 1], [0, 0]]


def test_an_empty_sparse_matrix_has_no_entries():
    x = feature_tensor(scipy.sparse.csr_array((2, 3)), "f")
    assert (x.layout, tuple(x.shape), x.values().numel()) == (torch.sparse_csr, (2, 3), 0)
