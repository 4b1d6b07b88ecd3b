"""Tables in files, and the ids that stand in them.

Rules of text tables (``.csv``, ``.tsv``, ``.txt``, each also ``.gz``):

- Lines that start with ``#`` or ``%`` are comments; blank lines are skipped.
- Fields are separated by tabs in ``.tsv``; else by the first of comma, semicolon and tab that the first row
  has, and in a ``.txt`` that has none of them by white space.
- The first row is a header when it has a known column name (an edge list: one for each end), or when one of
  its fields is not a number while that column holds numbers below it (judged on the first 1,000 rows).
- Ids are integers if every id of a file is written as one (``7``, ``7.0``), else text; ``007`` is text.
  Between two files, ids are compared as text if one of them has text ids.
"""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from epagcl.core.errors import InputError
from epagcl.data.io.ids import as_text
from epagcl.data.io.table import Table


class FrameTable(Table):
    """A pandas table: its header is the names of its columns, its index (other than 0, 1, ...) its first column.

    ``indexed`` says that an index 0, 1, ... is one too: not where polars or a file had none.
    """

    def __init__(self, frame: pd.DataFrame, name: str, memory: bool = False, indexed: bool = False):
        self.name = name
        self.header = True
        self.memory = memory
        if isinstance(frame.index, pd.MultiIndex):
            self.index = frame.index.nlevels
            frame = frame.reset_index(allow_duplicates=True)
        elif frame.index.equals(pd.RangeIndex(len(frame))) and frame.index.name is None:
            self.counts_rows = indexed
        else:
            self.index = 1
            frame = frame.reset_index(names=frame.index.name or "", allow_duplicates=True)
        if frame.empty:
            raise InputError(f"{self.name}: the table is empty; give one row per node or edge")
        self.first = [str(name) for name in frame.columns]
        self.frame = frame.set_axis(range(frame.shape[1]), axis=1)

    def has_header(self, known: Iterable[str]) -> bool:
        """Such a table always names its columns."""
        return True

    def ids(self, columns: list[int]) -> np.ndarray:
        """Columns of ids ``[rows, columns]``: int64, or text with NaN for what is missing."""
        chosen = self.frame[columns]
        if all(_fits_int64(chosen[column]) for column in columns):
            return chosen.to_numpy(dtype=np.int64)
        return chosen.apply(lambda column: column.astype(object).map(str, na_action="ignore")).to_numpy(dtype=object)

    def values(self, id_column: int | None) -> pd.DataFrame:
        """All columns; that of ids as text, with NaN for what is missing."""
        if id_column is None:
            return self.frame
        frame = self.frame.copy(deep=False)
        frame[id_column] = as_text(self.ids([id_column])[:, 0])
        return frame

    def place(self, row: int) -> str:
        """The number of a row."""
        return f"row {row} (counted from 0)"


def _fits_int64(column: pd.Series) -> bool:
    """Whether a column holds integers, none missing, that int64 can hold: of uint64 not all."""
    return pd.api.types.is_integer_dtype(column) and not column.isna().any() and int(column.max()) < 2**63
