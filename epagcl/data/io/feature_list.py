"""The features of a graph: which column of a table holds ids, and which node each row belongs to.

:func:`epagcl.read_graph` documents the rules.
"""

from numbers import Number
from typing import NamedTuple

import numpy as np
import pandas as pd
from torch import Tensor

from epagcl.core.errors import InputError
from epagcl.core.formatting import counted
from epagcl.core.log import log
from epagcl.data.checking import check_features
from epagcl.data.io.edge_list import EdgeList
from epagcl.data.io.features import feature_tensor, table_features
from epagcl.data.io.ids import ID_NAMES, WEAK_ID_NAMES, NodeIds, distinct_ids, positions, unique_ids
from epagcl.data.io.tables.base import ArrayRows, Table, is_number, normalised_name


class FeatureList(NamedTuple):
    """Checked features, the id of each row, and the names of the columns if they have names."""

    x: Tensor
    node_ids: np.ndarray
    names: list[str] | None


def match_features(features: Table | ArrayRows, edges: EdgeList, nodes: NodeIds | None) -> FeatureList:
    """Return the features with the id of each row.

    Args:
        features: a table, with or without ids, or an array.
        edges: the edges, whose ids help to find the column of ids.
        nodes: the ids of the rows, for features without ids.
    """
    if isinstance(features, ArrayRows):
        x = check_features(feature_tensor(features.values, features.name), features.name)
        ids, names = None, None
    else:
        x, ids, names = _read_table(features, edges.ids, nodes is not None)
    if nodes is None:
        return FeatureList(x, edges.ids_for_rows(x.shape[0], features.name) if ids is None else ids, names)
    if ids is not None:
        raise InputError(
            f"{nodes.name}: {features.name} has ids itself; leave out {edges.nodes_argument}, "
            "or remove the ids from the features"
        )
    if len(nodes.values) != x.shape[0]:
        counts = f"{counted(len(nodes.values), 'id')} for {counted(x.shape[0], 'row')}"
        raise InputError(f"{nodes.name}: {counts} of {features.name}; give one per row")
    return FeatureList(x, nodes.values, names)


def _read_table(table: Table, edge_ids: np.ndarray, listed: bool) -> tuple[Tensor, np.ndarray | None, list[str] | None]:
    """Return features, the ids of the rows and the names of the columns; None for ids or names if there are none.

    ``listed`` is True if a separate list has the ids of the rows.
    """
    table.refuse_index_levels()
    # pandas writes its index as a first column without a name, and reads such a column as "Unnamed: 0".
    unnamed = table.first_row[0] in ("", "Unnamed: 0")
    table.header = unnamed or table.has_header(ID_NAMES)
    id_column = _named_id_column(table, edge_ids) if table.header else None
    if id_column is None:
        frame = table.values(0)
        first_may_be_ids = not _ids_must_be_named(table) or (
            not listed and (unnamed or not _holds_numbers(table.values(None)[0]))
        )
        if (table.index_levels and not unnamed) or (first_may_be_ids and _holds_ids(frame[0], table, edge_ids)):
            id_column = 0
            if not (table.index_levels or unnamed):  # an index is never a feature; another first column may be
                log.warning("%s: the first column is read as ids; name it id, or name another column id", table.name)
        elif table.index_levels:
            log.warning("%s: ignored the index, which does not hold the ids of the edges", table.name)
            frame = frame.drop(columns=0)
        else:
            frame = table.values(None)
    else:
        frame = table.values(id_column)
        if (table.index_levels or unnamed) and id_column != 0:
            ignored = "index" if table.index_levels else "first column, which has no name"
            log.warning("%s: ignored the %s", table.name, ignored)
            frame = frame.drop(columns=0)
    table.id_column = id_column
    ids = None
    if id_column is not None:
        ids = distinct_ids(frame[id_column].to_numpy(dtype=object), table)
        frame = frame.drop(columns=id_column)
    if frame.shape[1] == 0:
        raise InputError(f"{table.name}: no feature column besides the ids; add at least one")
    x = table_features(frame, table.name, table.title, table.place)
    return x, ids, [table.first_row[int(column)] for column in frame.columns] if table.header else None


def _named_id_column(table: Table, edge_ids: np.ndarray) -> int | None:
    """Return the column with a name in ``ID_NAMES``.

    If that name is in ``WEAK_ID_NAMES`` and the index holds the ids of the edges, return the index."""
    column = table.column(ID_NAMES)
    if column and table.index_levels and normalised_name(table.first_row[column]) in WEAK_ID_NAMES:
        index = table.values(0)[0]
        if index.notna().all() and (positions(edge_ids, unique_ids(index, table)) >= 0).all():
            return 0
    return column


def _ids_must_be_named(table: Table) -> bool:
    """Return whether a column of numbers holds ids only if its name is in ``ID_NAMES``.

    This is so for tables in memory without an index."""
    return table.in_memory and not table.index_levels


def _holds_numbers(column: pd.Series) -> bool:
    """Return whether a column holds numbers, as opposed to numbers written as text."""
    if pd.api.types.is_numeric_dtype(column):
        return True
    return all(isinstance(value, Number) for value in column.dropna())


def _holds_ids(column: pd.Series, table: Table, edge_ids: np.ndarray) -> bool:
    """Return whether a first column without a known name holds ids.

    A column of text does. A column of numbers does if it has no duplicates and contains at least half of the edges'
    ids. Half is enough, because the table may lack some nodes. The error then names these nodes, and the ids do not
    become features.
    """
    text = column.dropna().map(str)
    if not text.map(is_number).all():
        return True
    if column.isna().any():
        return False
    ids = unique_ids(text, table)
    return len(ids) == len(text) and bool((positions(edge_ids, ids) >= 0).mean() >= 0.5)
