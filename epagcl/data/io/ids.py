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

import numpy as np
import pandas as pd

from epagcl.core.errors import InputError
from epagcl.core.formatting import counted
from epagcl.data.io.table import Table

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.0+)?")


def factorise(values: np.ndarray, table: Table, what: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Number of each id in ``values`` (by first appearance, row by row); the distinct ids, int64 or text.

    ``what`` names the columns, for the message about an id that is missing.
    """
    codes, ids = pd.factorize(values.ravel())
    if ids.dtype == object:
        ids = np.array([text.strip() for text in ids], dtype=object)
        merged, ids = pd.factorize(ids)  # "a" and "a " are one id
        blank = np.flatnonzero(ids == "")
        codes = np.where(codes < 0, -1, merged[codes])
        missing = (codes < 0) | np.isin(codes, blank)
        if missing.any():
            row, column = divmod(int(missing.argmax()), values.shape[1])
            place = f"{table.name}: {table.place(row)}"
            raise InputError(f"{place}: the {what[column]} is missing; fill it or drop the row")
        if all(_INTEGER.fullmatch(text) for text in ids):
            numbers = [int(text.partition(".")[0]) for text in ids]
            if all(-(2**63) <= number < 2**63 for number in numbers):
                merged, ids = pd.factorize(np.array(numbers, dtype=np.int64))  # "7" and "7.0" are one id
                codes = merged[codes]
    return codes.reshape(values.shape), ids


def distinct_ids(values: np.ndarray, table: Table) -> np.ndarray:
    """A column of ids, each of which must occur once."""
    codes, ids = factorise(values.reshape(-1, 1), table, ["id"])
    if len(ids) != len(codes):
        repeated = pd.Series(codes[:, 0]).duplicated()
        again = int(repeated.argmax())
        first = int((codes[:, 0] == codes[again, 0]).argmax())
        places = f"{table.place(first)} and {table.place(again)}"
        repeats = counted(int(repeated.sum()), "repeated row")
        raise InputError(
            f"{table.name}: id {ids[codes[again, 0]]} stands in {places} ({repeats}); keep one row per node"
        )
    return ids


def positions(ids: np.ndarray, among: np.ndarray) -> np.ndarray:
    """The place of each id in ``among`` (distinct), −1 where it is not there."""
    if ids.dtype != among.dtype:
        ids, among = as_text(ids), as_text(among)
    return pd.Index(among).get_indexer(pd.Index(ids))


def union(ids: np.ndarray, more: np.ndarray) -> np.ndarray:
    """The ids, and after them those of ``more`` that are not among them."""
    new = more[positions(more, ids) < 0]
    if len(new) and ids.dtype != new.dtype:
        ids, new = as_text(ids), as_text(new)
    return np.concatenate([ids, new]) if len(new) else ids


def examples(ids: np.ndarray | list[str]) -> str:
    """The first three ids, for a message."""
    return ", ".join(str(node) for node in ids[:3]) + (", ..." if len(ids) > 3 else "")


def as_text(ids: np.ndarray) -> np.ndarray:
    return ids if ids.dtype == object else ids.astype(str).astype(object)
