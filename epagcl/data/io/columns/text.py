"""Columns of free text: hashed words, weighted by their rarity (tf-idf)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
import scipy.sparse
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.preprocessing import normalize

#: Bounds of the number of features of a text.
FEWEST_SLOTS, MOST_SLOTS = 64, 1024
#: A text counts as much as nine other columns by itself.
MOST_LENGTH = 3.0
#: Beside many other columns, a text has this multiple of their variance, since it is spread over many more features.
SHARE = 3.0


@dataclass(frozen=True)
class TextColumn:
    """A column of texts: tf-idf of the words, which share slots by their hash.

    A text says as much as several categories, since each word is like one. Each row therefore has the length √w, where
    w is the mean number of different words of a text, as the row of a bag of words has. A row without words is zero.
    Beside many other columns, rows are longer: see :meth:`beside`.

    Attributes:
        name: name of the column.
        length: length of each row.
        idf: the weight of each slot, log((1 + rows) / (1 + rows with the slot)) + 1.
    """

    kind: ClassVar[str] = "text"
    name: str
    length: float
    idf: list[float]

    @property
    def feature_names(self) -> list[str]:
        """The names of its features."""
        return [f"{self.name}#{slot}" for slot in range(len(self.idf))]

    @property
    def words(self) -> str:
        """What was done to the column."""
        return f"words in {len(self.idf):,} slots"

    @classmethod
    def fit(cls, name: str, values: pd.Series, option: str | None = None) -> "TextColumn":
        """Return the encoding of a column of texts; ``option`` is not used."""
        distinct = int((_counts(values, 2**18).sum(axis=0) > 0).sum())
        slots = FEWEST_SLOTS
        while slots < min(2 * distinct, MOST_SLOTS):
            slots *= 2
        present = _counts(values, slots) > 0
        idf = np.log((1 + len(values)) / (1 + present.sum(axis=0))) + 1
        words = present.sum() / max(int((present.sum(axis=1) > 0).sum()), 1)
        return cls(name, min(float(words) ** 0.5, MOST_LENGTH), [round(float(weight), 6) for weight in idf])

    def beside(self, blocks: "Sequence[np.ndarray | scipy.sparse.csr_array]") -> "TextColumn":
        """Return the encoding beside the features of other columns, which must not drown the text.

        Its variance is at least :data:`SHARE` times that of all other columns together. Beside 20 columns of useless
        numbers, a text then keeps most of what it says; the price is that a useless text costs useful numbers a little
        (``python -m benchmarks encoding``).

        Args:
            blocks: the features of all columns that are no texts.
        """
        variance = sum(_variance(block) for block in blocks)
        return replace(self, length=round(max(self.length, (SHARE * variance) ** 0.5), 6))

    def transform(self, values: pd.Series) -> scipy.sparse.csr_array:
        """Return one sparse column per slot."""
        weighted = _counts(values, len(self.idf)) @ scipy.sparse.diags_array(np.array(self.idf))
        return scipy.sparse.csr_array(self.length * normalize(weighted))


def _variance(block: "np.ndarray | scipy.sparse.csr_array") -> float:
    """Return the sum of the variances of the columns of a matrix."""
    if isinstance(block, np.ndarray):
        return float(block.var(axis=0).sum())
    return float((block.power(2).mean(axis=0) - np.square(block.mean(axis=0))).sum())


def _counts(values: pd.Series, slots: int) -> scipy.sparse.csr_array:
    """Return the number of words in each slot."""
    hashing = HashingVectorizer(n_features=slots, alternate_sign=False, norm=None, token_pattern=r"(?u)\b\w+\b")
    text = values.astype(object).map(str, na_action="ignore")
    return scipy.sparse.csr_array(hashing.transform(text.where(values.notna(), "")))
