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

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse
from torch import Tensor

# Text that means "no value" among features and labels. Among ids only the blank does: "NA" may be a name.
MISSING = ("", "NA", "N/A", "NaN", "nan", "None", "null", "NULL", "<NA>")


class Table(ABC):
    """A table in memory, columns numbered from 0.

    Attributes:
        name: the file's name, for messages.
        first: the fields of the first row; of a Parquet table, the names of its columns.
        header: whether the first row names the columns; whoever opens the table decides, by ``has_header``.
        index: how many columns, the first ones, are the index of a pandas table; one without a name is called "".
        memory: whether a program holds it: what it means as ids it has named so, or made the index.
        counts_rows: whether a program holds it, with an index of pandas that is 0, 1, ...
        id_column: that of the features that holds ids; whoever finds it says so.
        separator: between the fields of a text table.
    """

    name: str
    first: list[str]
    header: bool
    index: int = 0
    memory: bool = False
    counts_rows: bool = False
    id_column: int | None = None
    separator: str = ","

    @abstractmethod
    def has_header(self, known: Iterable[str]) -> bool:
        """Whether the first row looks like names of columns, of which some are known."""

    @abstractmethod
    def ids(self, columns: list[int]) -> np.ndarray:
        """Columns of ids ``[rows, columns]``: int64 if they can be read so, else text with NaN for blanks."""

    @abstractmethod
    def values(self, id_column: int | None) -> pd.DataFrame:
        """All columns; that of ids as text, the others by what they hold."""

    @abstractmethod
    def place(self, row: int) -> str:
        """Where a row stands in the file."""

    def column(self, names: Iterable[str], start: int = 0) -> int | None:
        """The first column from ``start`` on with one of these names, the names in order of preference."""
        plain = [plain_name(field) for field in self.first[start:]]
        return next((start + plain.index(name) for name in names if name in plain), None)

    def title(self, column: int) -> str:
        """A column in words."""
        return f"column {self.first[column]!r}" if self.header else f"column {column + 1}"


def plain_name(name: str) -> str:
    """The name of a column as it is compared: ``"Node ID"`` is ``node_id``."""
    return re.sub(r"[\s-]+", "_", name.strip().strip('"').lower())


def one_line(error: object) -> str:
    return " ".join(str(error).split())


@dataclass(frozen=True)
class Rows:
    """An array without ids, and what messages call it."""

    name: str
    values: "np.ndarray | Tensor | scipy.sparse.sparray"


def table_suffix(path: Path) -> str:
    """The suffix that names the format; that of a text table may be followed by ``.gz``."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] == [".gz"] and suffixes[-2:-1] and suffixes[-2] != ".parquet":
        return suffixes[-2]
    return path.suffix.lower()
