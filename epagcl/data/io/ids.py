"""Node ids: finding them in tables, numbering them, comparing them.

Ids are integers if every id of a table is written as one (``7``, also ``7.0`` as pandas writes integers beside missing
values), else text; ``007``, ``+7`` and ``1e1`` are text. If one of two tables has text ids, the ids of both are
compared as text. A warning reports ids that are written differently and become one node.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from epagcl.core.errors import InputError
from epagcl.core.formatting import counted
from epagcl.core.log import log
from epagcl.data.io.tables.base import Table, as_text, normalised_name

#: Column names that mean ids, in order of preference.
ID_NAMES = ("id", "node_id", "node", "name", "nodeid", "index")
#: Names in ``ID_NAMES`` that often mean something else. They are not ids in a table whose index holds the ids.
WEAK_ID_NAMES = ("node", "name", "index")

_INTEGER = re.compile(r"(?:0|-?[1-9][0-9]*)(?:\.0+)?")
_CAMEL_ID = re.compile(r".*[a-z0-9](?:Id|ID)")


@dataclass(frozen=True)
class NodeIds:
    """A list of distinct node ids for rows without ids, and the name of the list in messages."""

    name: str
    values: np.ndarray


def listed_ids(table: Table, id_name: str | None = None) -> NodeIds:
    """Return the ids of a list of nodes, from the column with a name in ``ID_NAMES``, else from the first column.

    Args:
        table: the list.
        id_name: the name of the column of ids, if the table has it.
    """
    names = ID_NAMES if id_name is None else (normalised_name(id_name), *ID_NAMES)
    table.header = table.has_header(names)
    column = table.column(names) if table.header else None
    return NodeIds(table.name, distinct_ids(table.ids([column or 0]), table))


def factorise(values: np.ndarray, table: Table, titles: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of each id (by first appearance, row by row), and the distinct ids as int64 or text.

    Args:
        values: ids ``[rows, columns]``, int64 or text with NaN.
        table: their table, for messages.
        titles: names of the columns, for the message about a missing id.
    """
    codes, ids = pd.factorize(values.ravel())
    if ids.dtype == object:
        merged, ids = pd.factorize(np.array([text.strip() for text in ids], dtype=object))  # "a" and "a " are one id
        blank = np.flatnonzero(ids == "")
        codes = np.append(merged, -1)[codes]  # a missing id has the code −1, and stays missing
        missing = (codes < 0) | np.isin(codes, blank)
        if missing.any():
            row, column = divmod(int(missing.argmax()), values.shape[1])
            place = f"{table.name}: {table.place(row)}"
            raise InputError(f"{place}: the {titles[column]} is missing; fill it or drop the row")
        if all(_INTEGER.fullmatch(text) for text in ids):
            numbers = [int(text.partition(".")[0]) for text in ids]
            if all(-(2**63) <= number < 2**63 for number in numbers):
                written = ids
                merged, ids = pd.factorize(np.array(numbers, dtype=np.int64))  # "7" and "7.0" are one id
                _report_merged(written, merged, len(ids), table)
                codes = merged[codes]
        if ids.dtype == object:
            _report_padded(ids, table)
    return codes.reshape(values.shape), ids


def node_kinds(ids: np.ndarray) -> Tensor:
    """Return the number of the kind of each node of a bipartite graph, whose ids begin with their kind.

    Examples:
        >>> node_kinds(np.array(["user:5", "item:5", "user:7"], dtype=object))
        tensor([1, 0, 1])
    """
    kinds = pd.Series(ids).astype(str).str.partition(":")[0]
    return torch.from_numpy(pd.factorize(kinds, sort=True)[0].astype(np.int64))


def unpadded(ids: np.ndarray) -> np.ndarray:
    """Return ids of text without the leading zeros of numbers: 007 becomes 7.

    Examples:
        >>> unpadded(np.array(["007", "7", "0", "a07", "00"], dtype=object)).tolist()
        ['7', '7', '0', 'a07', '0']
    """
    plain = [(text.lstrip("0") or "0") if text[:1] == "0" and text.isdecimal() else text for text in ids]
    return np.array(plain, dtype=object)


def _report_padded(ids: np.ndarray, table: Table) -> None:
    """Warn of ids that are two nodes, and may be one that is written with and without leading zeros."""
    if not any(text[:1] == "0" and len(text) > 1 and text.isdecimal() for text in ids):
        return
    same, _ = pd.factorize(unpadded(ids))
    repeated = pd.Series(same).duplicated().to_numpy()
    if repeated.any():
        second = int(repeated.argmax())
        pair = f"{ids[int((same == same[second]).argmax())]!r} and {ids[second]!r}"
        count = counted(int(repeated.sum()), "such pair")
        log.warning("%s: %s are two nodes (%s); if they are one, write them alike", table.name, pair, count)


def _report_merged(written: np.ndarray, merged: np.ndarray, distinct: int, table: Table) -> None:
    """Warn if ids that are written differently become one id."""
    if distinct < len(written):
        second = int(pd.Series(merged).duplicated().argmax())
        first = int((merged == merged[second]).argmax())
        pair = f"{written[first]!r} and {written[second]!r}"
        count = counted(len(written) - distinct, "such pair")
        log.warning("%s: ids written differently are one node: %s (%s)", table.name, pair, count)


def is_id_name(name: str) -> bool:
    """Return whether a column name means ids: one of ``ID_NAMES``, or one that ends in id, as paper_id or paperId.

    Examples:
        >>> [is_id_name(name) for name in ("id", "paper_id", "paperId", "Customer ID", "paid")]
        [True, True, True, True, False]
    """
    normalised = normalised_name(name)
    return normalised in ID_NAMES or normalised.endswith("_id") or bool(_CAMEL_ID.fullmatch(name.strip()))


def distinct_ids(values: np.ndarray, table: Table) -> np.ndarray:
    """Return a column of ids as int64 or text. Raise if an id occurs twice."""
    codes, ids = factorise(values.reshape(-1, 1), table, ["id"])
    if len(ids) != len(codes):
        repeated = pd.Series(codes[:, 0]).duplicated()
        second = int(repeated.argmax())
        first = int((codes[:, 0] == codes[second, 0]).argmax())
        places = f"{table.place(first)} and {table.place(second)}"
        repeats = counted(int(repeated.sum()), "repeated row")
        raise InputError(f"{table.name}: id {ids[codes[second, 0]]} is in {places} ({repeats}); keep one row per node")
    return ids


def unique_ids(column: pd.Series, table: Table) -> np.ndarray:
    """Return the ids of a column without missing values, each once."""
    return factorise(column.map(str).to_numpy(dtype=object).reshape(-1, 1), table, ["id"])[1]


def positions(ids: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Return the position of each id in ``among`` (distinct ids), and −1 for ids that are not in it."""
    if ids.dtype != among.dtype:
        ids, among = as_text(ids), as_text(among)
    # As objects: pandas would convert text to UTF-8, which has no halves of characters.
    return pd.Index(among, dtype=among.dtype).get_indexer(pd.Index(ids, dtype=ids.dtype))


def union(ids: np.ndarray, more: np.ndarray) -> np.ndarray:
    """Return ``ids`` followed by the ids of ``more`` that are not in ``ids``."""
    new = more[positions(more, ids) < 0]
    if len(new) and ids.dtype != new.dtype:
        ids, new = as_text(ids), as_text(new)
    return np.concatenate([ids, new]) if len(new) else ids


def id_array(ids: Sequence[Any]) -> np.ndarray:
    """Return ids as a one-dimensional array: int64 if all are integers, else the objects themselves."""
    if all(isinstance(node, int | np.integer) and not isinstance(node, bool) for node in ids):
        try:
            return np.array(ids, dtype=np.int64)
        except OverflowError:
            pass
    array = np.empty(len(ids), dtype=object)
    array[:] = ids
    return array


def examples(ids: np.ndarray | list[str]) -> str:
    """Return the first three ids, for a message."""
    return ", ".join(str(node) for node in ids[:3]) + (", ..." if len(ids) > 3 else "")
