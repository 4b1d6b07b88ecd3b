"""Tables of pandas and polars, and Parquet files."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from epagcl.core.errors import InputError, MissingExtra
from epagcl.data.io.tables.base import Table, as_text


class FrameTable(Table):
    """A pandas table. Its header is the column names; its index, unless it is 0, 1, ..., becomes the first column.

    Args:
        frame: the table.
        name: its name in messages.
        in_memory: whether the caller passed the table as an object.
        indexed: whether the table has a pandas index; False if it comes from polars or a file.
    """

    def __init__(self, frame: pd.DataFrame, name: str, in_memory: bool = False, indexed: bool = False):
        self.name = name
        self.header = True
        self.in_memory = in_memory
        if isinstance(frame.index, pd.MultiIndex):
            self.index_levels = frame.index.nlevels
            frame = frame.reset_index(allow_duplicates=True)
        elif frame.index.equals(pd.RangeIndex(len(frame))) and frame.index.name is None:
            self.default_index = indexed
        else:
            self.index_levels = 1
            frame = frame.reset_index(names=frame.index.name or "", allow_duplicates=True)
        if frame.empty:
            raise InputError(f"{self.name}: the table is empty; give one row per node or edge")
        self.first_row = [str(name) for name in frame.columns]
        self.frame = frame.set_axis(range(frame.shape[1]), axis=1)

    def has_header(self, known_names: Iterable[str]) -> bool:
        """Return True: a pandas table always has column names."""
        return True

    def ids(self, columns: list[int]) -> np.ndarray:
        """Return columns of ids ``[rows, columns]``: int64, or text with NaN for missing ids."""
        chosen = self.frame[columns]
        if all(_fits_int64(chosen[column]) for column in columns):
            return chosen.to_numpy(dtype=np.int64)
        return chosen.apply(lambda column: column.astype(object).map(str, na_action="ignore")).to_numpy(dtype=object)

    def values(self, id_column: int | None, label_column: int | None = None) -> pd.DataFrame:
        """Return all columns unchanged, except that ``id_column`` is text, with NaN for missing ids."""
        if id_column is None:
            return self.frame
        frame = self.frame.copy(deep=False)
        frame[id_column] = as_text(self.ids([id_column])[:, 0])
        return frame

    def place(self, row: int) -> str:
        """Return the number of a row."""
        return f"row {row} (counted from 0)"


def as_frame(table: Any) -> pd.DataFrame | None:
    """Return a pandas or polars table or series as a pandas table, and None for any other type."""
    if is_polars(table):
        table = table.collect() if hasattr(table, "collect") else table
        try:
            table = table.to_pandas()
        except ModuleNotFoundError:
            raise MissingExtra("pyarrow", "polars", "reading polars tables") from None
    if isinstance(table, pd.Series):
        return table.to_frame("label" if table.name is None else table.name)
    return table if isinstance(table, pd.DataFrame) else None


def is_polars(table: Any) -> bool:
    """Return whether this is a polars table or series, without importing polars."""
    return type(table).__module__.partition(".")[0] == "polars"


def _fits_int64(column: pd.Series) -> bool:
    """Return whether a column holds integers, none missing, within int64 (uint64 may exceed it)."""
    return pd.api.types.is_integer_dtype(column) and not column.isna().any() and int(column.max()) < 2**63
