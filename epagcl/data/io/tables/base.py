"""The interface of all tables."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy.sparse
from torch import Tensor

from epagcl.core.errors import InputError

# Text that means "no value" in features and labels. In ids only the empty text does, since "NA" may be an id.
MISSING = ("", "NA", "N/A", "NaN", "nan", "None", "null", "NULL", "<NA>")


class Table(ABC):
    """A table with columns numbered from 0.

    Attributes:
        name: name in messages, such as the file name.
        first_row: fields of the first row; for pandas and Parquet, the column names.
        header: whether the first row holds the column names; set by the reader with :meth:`has_header`.
        index_levels: how many of the first columns are the index of a pandas table; an unnamed index is called "".
        in_memory: whether the table is an object in memory. Its ids are then the index or a column with a name of ids.
        default_index: whether the table is a pandas object in memory with the index 0, 1, ...
        id_column: for features, the column that holds ids; set by the reader once detected.
        separator: separator of the fields of a text table.
    """

    name: str
    first_row: list[str]
    header: bool
    index_levels: int = 0
    in_memory: bool = False
    default_index: bool = False
    id_column: int | None = None
    separator: str = ","

    @abstractmethod
    def has_header(self, known_names: Iterable[str]) -> bool:
        """Return whether the first row holds column names. One of ``known_names`` is sufficient."""

    @abstractmethod
    def ids(self, columns: list[int]) -> np.ndarray:
        """Return columns of ids ``[rows, columns]``: int64 if all are integers, else text with NaN for blanks."""

    @abstractmethod
    def values(self, id_column: int | None, label_column: int | None = None) -> pd.DataFrame:
        """Return all columns by their content, except that ``id_column`` is text, with NaN for blanks.

        In a text table, ``label_column`` is text too, so that the labels 01 and 1 are not the same. So are codes such
        as 01001; see :func:`is_code`.
        """

    @abstractmethod
    def place(self, row: int) -> str:
        """Return the position of a row, for messages."""

    def column(self, names: Iterable[str], start: int = 0) -> int | None:
        """Return the first column from ``start`` that has one of these names, in order of preference."""
        normalised = [normalised_name(field) for field in self.first_row[start:]]
        return next((start + normalised.index(name) for name in names if name in normalised), None)

    def title(self, column: int) -> str:
        """Return a description of a column, for messages."""
        return f"column {self.first_row[column]!r}" if self.header else f"column {column + 1}"

    def refuse_index_levels(self) -> None:
        """Raise if the table has a pandas index of several levels."""
        if self.index_levels > 1:
            fix = "reset_index() first, and name one column id"
            raise InputError(f"{self.name}: an index of {self.index_levels} levels; {fix}")


@dataclass(frozen=True)
class ArrayRows:
    """An array without ids, and its name in messages."""

    name: str
    values: "np.ndarray | Tensor | scipy.sparse.sparray"


def normalised_name(name: str) -> str:
    """Return a column name normalised for comparison: ``"Node ID"`` becomes ``node_id``."""
    return re.sub(r"[\s-]+", "_", name.strip().strip('"').lower())


def as_text(ids: np.ndarray) -> np.ndarray:
    """Return ids as an array of Python strings. Ids that are strings already are returned unchanged."""
    return ids if ids.dtype == object else ids.astype(str).astype(object)


def is_number(text: str) -> bool:
    """Return whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_code(values: pd.Series) -> bool:
    """Return whether a column holds text of digits, some with a leading zero, such as postal codes.

    Examples:
        >>> is_code(pd.Series(["01001", "94105", None])), is_code(pd.Series(["0", "10"])), is_code(pd.Series([1, 10]))
        (True, False, False)
    """
    if pd.api.types.is_numeric_dtype(values.dtype) or not any(isinstance(value, str) for value in values.dropna()[:1]):
        return False
    distinct = pd.Series(values.dropna().unique()).map(str).str.strip()
    return bool(distinct.str.fullmatch(r"0\d+").any() and distinct.str.fullmatch(r"\d+").all())


def one_line(error: object) -> str:
    """Return the text of an error on one line."""
    return " ".join(str(error).split())
