"""Tables of pandas and polars: the index, large integers, missing packages."""

import sys

import numpy as np
import pandas as pd
import pytest

from epagcl.core.errors import MissingExtra
from epagcl.data import from_tables
from epagcl.data.io.tables.frame import FrameTable
from tests.data.io.helpers import ENDS, FEATURES, TABLE, X, from_tables_error, read_error, rows


def test_polars_tables():
    polars = pytest.importorskip("polars")
    edges, features = polars.from_pandas(ENDS), polars.from_pandas(TABLE)
    data = from_tables(edges, features, polars.Series(["p", "q", "p"]))
    assert rows(data) == dict(zip("xyz", X, strict=True))
    assert (data.feature_names, data.y.tolist()) == (["a", "b"], [0, 1, 0])
    lazy = from_tables(
        edges.lazy(), np.array(X), edges.select(id="source", label="target"), polars.Series(["z", "x", "y"])
    )
    assert rows(lazy) == dict(zip("zxy", X, strict=True))
    assert [None if y < 0 else lazy.label_names[y] for y in lazy.y] == [None, "y", "z"]


def test_polars_without_pyarrow_names_the_extra(monkeypatch):
    polars = pytest.importorskip("polars")

    def to_pandas(self):
        raise ModuleNotFoundError("pyarrow is required")

    monkeypatch.setattr(polars.DataFrame, "to_pandas", to_pandas)
    with pytest.raises(MissingExtra, match=r"reading polars tables needs pyarrow: pip install '\.\[polars\]'"):
        from_tables(polars.from_pandas(ENDS), TABLE)


def test_polars_is_not_needed_for_other_tables(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)  # an import of it would fail
    assert rows(from_tables(ENDS, TABLE)) == dict(zip("xyz", X, strict=True))


def test_ids_beyond_int64_are_text():
    big = 2**63 + 5
    edges = np.array([[1, big], [big, 2]], dtype=np.uint64)
    features = pd.DataFrame({"id": np.array([big, 1, 2], dtype=np.uint64), "a": [1, 2, 3]})
    for ends in (edges, tuple(edges.T), pd.DataFrame(edges), edges.tolist()):
        data = from_tables(ends, features)
        assert rows(data) == {str(big): [1], "1": [2], "2": [3]}
    named = from_tables(pd.DataFrame(edges), np.eye(3), nodes=np.array([big, 1, 2], dtype=np.uint64))
    assert named.node_ids.tolist() == [str(big), "1", "2"]
    assert from_tables(np.array([[1, 2], [2, 3], [3, 0]], dtype=np.uint64), np.eye(4)).node_ids.dtype == np.int64


def test_an_index_of_several_levels_is_refused():
    levels = pd.MultiIndex.from_arrays([["x", "y", "z"], [1, 2, 3]])
    words = ": an index of 2 levels; reset_index() first, and name one column id"
    assert from_tables_error(ENDS, TABLE.set_index(levels)) == "features" + words
    assert from_tables_error(ENDS, TABLE, pd.Series([0, 1, 0], index=levels)) == "labels" + words


def test_an_empty_table_is_refused(files):
    edges = ("e.parquet", pd.DataFrame({"u": [], "v": []}))
    assert read_error(files(edges=edges, features=("f.csv", FEATURES))) == (
        "e.parquet: the table is empty; give one row per node or edge"
    )


@pytest.mark.parametrize(
    ("index", "levels", "default", "first_row"),
    [
        (None, 0, True, ["a"]),
        ([5, 6], 1, False, ["", "a"]),
        (pd.Index(["p", "q"], name="who"), 1, False, ["who", "a"]),
        (pd.MultiIndex.from_tuples([(1, 2), (3, 4)]), 2, False, ["level_0", "level_1", "a"]),
    ],
)
def test_the_index_becomes_the_first_columns(index, levels, default, first_row):
    table = FrameTable(pd.DataFrame({"a": [1, 2]}, index=index), "t", in_memory=True, indexed=True)
    assert (table.index_levels, table.default_index, table.first_row) == (levels, default, first_row)
