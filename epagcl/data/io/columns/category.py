"""Columns of booleans and categories: one feature per frequent value, hashed slots for the rest."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import scipy.sparse
from sklearn.utils import murmurhash3_32

from epagcl.data.io.columns.number import with_gaps

#: The most frequent values of a column that have a feature of their own.
MOST_VALUES = 64
#: Features that all other values share by their hash, if a column has more values than :data:`MOST_VALUES`.
SLOTS = 64
#: Of columns with at least this many rows, values that occur once share the feature "other".
ROWS_FOR_RARE = 100

TRUE = ("true", "yes", "y", "t", "1", "1.0", "on", "ja", "oui", "si", "sí")
FALSE = ("false", "no", "n", "f", "0", "0.0", "off", "nein", "non")


@dataclass(frozen=True)
class BooleanColumn:
    """A column of two words, such as yes and no: 1 and 0. Missing values are 0.

    Attributes:
        name: name of the column.
        missing: whether the fitted column has missing values. A second feature then marks them.
    """

    kind: ClassVar[str] = "boolean"
    name: str
    missing: bool = False

    @property
    def feature_names(self) -> list[str]:
        """The names of its features."""
        return with_gaps([self.name], self.name, self.missing)

    @property
    def words(self) -> str:
        """What was done to the column."""
        return "gaps" if self.missing else ""

    @classmethod
    def fit(cls, name: str, values: pd.Series, option: str | None = None) -> "BooleanColumn":
        """Return the encoding of a column of booleans; ``option`` is not used."""
        return cls(name, bool(values.isna().any()))

    def transform(self, values: pd.Series) -> np.ndarray:
        """Return one column of 0 and 1 and, if :attr:`missing`, one that marks missing values."""
        words = values.astype(object).where(values.notna(), "").map(lambda value: str(value).strip().lower())
        column = words.isin(TRUE).to_numpy(dtype=np.float64)
        return np.stack([column, values.isna()], axis=1) if self.missing else column[:, None]


@dataclass(frozen=True)
class CategoryColumn:
    """A column of categories. A value without a feature, as of a later table, becomes zeros, or has a hashed slot.

    Attributes:
        name: name of the column.
        values: the values with a feature of their own, the most frequent first.
        other: whether rare values, and values of a later table, share one feature.
        slots: number of features that other values share by their hash; 0 if there are few values.
        missing: whether the fitted column has missing values. A feature then marks them.
        distinct: number of distinct values.
    """

    kind: ClassVar[str] = "category"
    name: str
    values: list[str]
    other: bool = False
    slots: int = 0
    missing: bool = False
    distinct: int = 0

    @property
    def feature_names(self) -> list[str]:
        """The names of its features."""
        names = [f"{self.name}={value}" for value in self.values]
        names += [f"{self.name}=other"] * self.other + [f"{self.name}#{slot}" for slot in range(self.slots)]
        return with_gaps(names, self.name, self.missing)

    @property
    def words(self) -> str:
        """What was done to the column."""
        parts = [f"{self.distinct:,} values", *[f"hashed beyond {len(self.values)}"] * bool(self.slots)]
        return ", ".join([*parts, *["gaps"] * self.missing])

    @classmethod
    def fit(cls, name: str, values: pd.Series, option: str | None = None) -> "CategoryColumn":
        """Return the encoding of a column of categories; ``option`` is not used."""
        counts = category_text(values).value_counts().sort_index().sort_values(ascending=False, kind="stable")
        many = len(counts) > MOST_VALUES
        common = counts if len(values) < ROWS_FOR_RARE or many else counts[counts > 1]
        common = counts if not len(common) else common
        kept = [str(value) for value in common.index[:MOST_VALUES]]
        missing = bool(values.isna().any())
        return cls(name, kept, len(common) < len(counts), SLOTS if many else 0, missing, len(counts))

    def transform(self, values: pd.Series) -> scipy.sparse.csr_array:
        """Return one sparse column per feature, with at most one entry per row."""
        text = category_text(values)
        place = {value: k for k, value in enumerate(self.values)}
        columns = text.map(place).to_numpy(dtype=np.float64, na_value=np.nan).copy()
        rest = np.isnan(columns) & text.notna().to_numpy()
        if self.other:
            columns[rest] = len(self.values)
        elif self.slots:
            slot = {value: murmurhash3_32(value, positive=True) % self.slots for value in text[rest].unique()}
            columns[rest] = len(self.values) + text[rest].map(slot).to_numpy(dtype=np.float64)
        width = len(self.feature_names)
        if self.missing:
            columns[text.isna().to_numpy()] = width - 1
        rows = np.flatnonzero(~np.isnan(columns))
        entries = np.ones(len(rows)), (rows, columns[rows].astype(np.int64))
        return scipy.sparse.csr_array(entries, shape=(len(values), width))


def is_boolean(values: pd.Series) -> bool:
    """Return whether a column holds booleans or the words for them, both or one of the two."""
    distinct = values.dropna().unique()
    if len(distinct) > 6:  # two words, each in several spellings
        return False
    words = {str(value).strip().lower() for value in distinct}
    return bool(words) and len(words) <= 2 and words <= {*TRUE, *FALSE} and not words <= {"0", "1", "0.0", "1.0"}


def category_text(values: pd.Series) -> pd.Series:
    """Return a column as text without surrounding blanks, NaN for missing values. 3.0 is written 3."""
    if pd.api.types.is_float_dtype(values.dtype):
        whole = values.dropna()
        if (whole == whole.round()).all() and (whole.abs() < 2**53).all():
            values = values.astype("Int64")
    return values.astype(object).map(lambda value: str(value).strip(), na_action="ignore").astype(object)
