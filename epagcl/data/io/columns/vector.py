"""Columns of vectors, such as embeddings of texts or images: lists of numbers of one length."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from epagcl.core.errors import InputError
from epagcl.data.io.columns.number import with_gaps
from epagcl.data.io.columns.text import MOST_LENGTH

#: Types of a value that may be a vector.
LISTS = (list, tuple, np.ndarray)
_SAMPLE = 100  # values that decide whether a column holds vectors


class NotAVector(InputError):
    """A value of a column is not a vector of the length of the others. ``row`` is the first such row."""

    def __init__(self, row: int, length: int):
        self.row, self.length = row, length
        super().__init__(f"not a list of {length:,} numbers")


@dataclass(frozen=True)
class VectorColumn:
    """A column of vectors, scaled as a whole: the ratios of their entries say more than those of single columns.

    The vectors have the root mean square length √d, where d is their dimension, and at most the length of a text, so
    that hundreds of entries do not drown the other columns. Missing vectors are zeros.

    Attributes:
        name: name of the column.
        dim: the number of entries.
        factor: by which the vectors are multiplied.
        missing: whether the fitted column has missing values. A feature then marks them.
    """

    kind: ClassVar[str] = "vector"
    name: str
    dim: int
    factor: float
    missing: bool = False

    @property
    def feature_names(self) -> list[str]:
        """The names of its features."""
        return with_gaps([f"{self.name}[{k}]" for k in range(self.dim)], self.name, self.missing)

    @property
    def words(self) -> str:
        """What was done to the column."""
        return ", ".join([f"{self.dim:,} entries", *["gaps"] * self.missing])

    @classmethod
    def fit(cls, name: str, values: pd.Series, option: str | None = None) -> "VectorColumn":
        """Return the encoding of a column of vectors; ``option`` is not used."""
        present = values.dropna()
        if not len(present) or not all(isinstance(value, LISTS) for value in present):
            raise InputError("not a list of numbers in every row; leave it out, or give another kind")
        dim = len(present.iloc[0])
        rows = _matrix(values, dim)[values.notna().to_numpy()]
        length = float(np.sqrt(np.square(rows).sum(axis=1).mean()))
        factor = min(dim**0.5, MOST_LENGTH) / length if length else 1.0
        return cls(name, dim, factor, len(present) < len(values))

    def transform(self, values: pd.Series) -> np.ndarray:
        """Return one column per entry and, if :attr:`missing`, one that marks missing vectors."""
        features = self.factor * _matrix(values, self.dim)
        absent = values.isna().to_numpy()
        return np.column_stack([features, absent]) if self.missing else features


def is_vector(values: pd.Series) -> bool:
    """Return whether a column holds lists of numbers of one length, none of them empty.

    Examples:
        >>> is_vector(pd.Series([[0.5, 1.0], None, (2, 3)])), is_vector(pd.Series([["a"], ["b"]]))
        (True, False)
    """
    present = values.dropna()
    few = present.iloc[:_SAMPLE]
    if not len(few) or not all(isinstance(value, LISTS) and len(value) for value in few):
        return False
    arrays = [np.asarray(value, dtype=object).ravel() for value in few]
    numbers = all(_is_number(entry) for array in arrays for entry in array)
    return numbers and len({len(value) for value in present if isinstance(value, LISTS)}) == 1


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _matrix(values: pd.Series, dim: int) -> np.ndarray:
    """Return the vectors as rows, zeros where they are missing. Raise :class:`NotAVector` if one has another form."""
    result = np.zeros((len(values), dim))
    for row, (value, absent) in enumerate(zip(values, values.isna(), strict=True)):
        if absent:
            continue
        try:
            entries = np.asarray(value, dtype=np.float64)
        except (ValueError, TypeError):
            raise NotAVector(row, dim) from None
        if entries.shape != (dim,):
            raise NotAVector(row, dim)
        result[row] = entries
    return result
