"""The features of a graph: which column of a table holds ids, and which node each row belongs to.

:func:`epagcl.read_graph` documents the rules.
"""

from collections.abc import Callable
from numbers import Number
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from epagcl.core.errors import InputError
from epagcl.core.formatting import counted
from epagcl.core.log import log
from epagcl.data.checking import check_features
from epagcl.data.io.columns.kinds import shortened
from epagcl.data.io.edge_list import EdgeIds, EdgeList
from epagcl.data.io.encoded import EncodedTable, encode_table
from epagcl.data.io.features import feature_tensor
from epagcl.data.io.ids import ID_NAMES, WEAK_ID_NAMES, NodeIds, distinct_ids, is_id_name, positions, unique_ids
from epagcl.data.io.roles import find_column
from epagcl.data.io.tables.base import ArrayRows, Table, is_number, normalised_name
from epagcl.data.neighbourhood import within


class FeatureList(NamedTuple):
    """Checked features with their nodes.

    Attributes:
        table: the features.
        node_ids: the id of each row.
        labels: the labels in the same table, if the user names their column.
        rows: the rows that are needed; None: all.
    """

    table: EncodedTable
    node_ids: np.ndarray
    labels: np.ndarray | None = None
    rows: np.ndarray | None = None


class Near(NamedTuple):
    """The part of a graph whose features are needed, for a reader that leaves out the rest.

    Attributes:
        nodes: function that returns the numbers of a few nodes, given the ids of all nodes.
        hops: the distance up to which their neighbours are needed.
    """

    nodes: Callable[[np.ndarray], Tensor]
    hops: int

    def rows(self, edges: EdgeList, node_ids: np.ndarray, name: str) -> np.ndarray:
        """Return the numbers of the nodes that are needed, in ascending order."""
        ends = torch.from_numpy(edges.without_header(node_ids).edge_index(node_ids, name))
        return within(ends, self.nodes(node_ids), self.hops, len(node_ids)).nonzero().flatten().numpy()


def match_features(
    features: Table | ArrayRows, edges: EdgeList, nodes: NodeIds | None, label: bool, near: Near | None = None
) -> FeatureList:
    """Return the features with the id of each row.

    Args:
        features: a table, with or without ids, or an array.
        edges: the edges, whose ids help to find the column of ids.
        nodes: the ids of the rows, for features without ids.
        label: whether the table has the column of labels that the user names.
        near: which rows are needed; None: all.
    """
    if isinstance(features, ArrayRows):
        if edges.roles.columns_as:
            argument = edges.roles.name_of("columns_as")
            raise InputError(f"{features.name}: an array has no named columns; leave out {argument}, or give a table")
        x = check_features(feature_tensor(features.values, features.name), features.name)
        row_ids = _ids_of_rows(None, len(x), features.name, edges, nodes)
        rows = None if near is None else near.rows(edges, row_ids, (nodes or features).name)
        return FeatureList(EncodedTable(x, None), row_ids, rows=rows)
    frame, names, ids, labels = _read_table(features, edges, nodes is not None, label)
    if near is None:
        encoded = encode_table(frame, names, features.name, features.place, edges.roles)
        return FeatureList(encoded, _ids_of_rows(ids, len(frame), features.name, edges, nodes), labels)
    ids = _ids_of_rows(ids, len(frame), features.name, edges, nodes)
    rows = near.rows(edges, ids, (nodes or features).name)
    encoded = encode_table(frame, names, features.name, features.place, edges.roles, rows)
    return FeatureList(encoded, ids, labels, rows)


def _ids_of_rows(ids: np.ndarray | None, rows: int, name: str, edges: EdgeList, nodes: NodeIds | None) -> np.ndarray:
    """Return the id of each row of features: of the table itself, of a list, or by the rule for rows without ids."""
    if nodes is None:
        return edges.ids_for_rows(rows, name) if ids is None else edges.with_kinds(ids, name)
    if ids is not None:
        raise InputError(
            f"{nodes.name}: {name} has ids itself; leave out {edges.nodes_argument}, "
            "or remove the ids from the features"
        )
    if len(nodes.values) != rows:
        counts = f"{counted(len(nodes.values), 'id')} for {counted(rows, 'row')}"
        raise InputError(f"{nodes.name}: {counts} of {name}; give one per row")
    return edges.with_kinds(nodes.values, nodes.name)


class TableParts(NamedTuple):
    """The columns of a table of features, their names, the ids of the rows and their labels; None if not there."""

    frame: pd.DataFrame
    names: list[str] | None
    ids: np.ndarray | None
    labels: np.ndarray | None


def _read_table(table: Table, edges: EdgeList, listed: bool, label: bool) -> TableParts:
    """Return the parts of a table of features.

    ``listed`` is True if a separate list has the ids of the rows.
    """
    id_column, label_column, dropped = feature_columns(table, edges, listed, label)
    frame = table.values(id_column, label_column)
    table.id_column = id_column
    ids = None if id_column is None else distinct_ids(frame[id_column].to_numpy(dtype=object), table)
    labels = None if label_column is None else frame[label_column].to_numpy(dtype=object)
    frame = frame.drop(columns=dropped)
    names = [table.first_row[int(column)] for column in frame.columns] if table.header else None
    return TableParts(frame, names, ids, labels)


class FeatureColumns(NamedTuple):
    """The columns of the ids and of the labels, None if there is none, and all columns that are no features."""

    id: int | None
    label: int | None
    dropped: list[int]


def feature_columns(table: Table, edges: EdgeIds, listed: bool, label: bool) -> FeatureColumns:
    """Return which columns of a table of features hold ids and labels. Its header is detected here.

    Args:
        table: the table.
        edges: the ids of the edges, which help to find the column of ids.
        listed: whether a separate list has the ids of the rows.
        label: whether the table has the column of labels that the user names.
    """
    roles = edges.roles
    table.refuse_index_levels()
    # pandas writes its index as a first column without a name, and reads such a column as "Unnamed: 0".
    unnamed = table.first_row[0] in ("", "Unnamed: 0")
    table.header = unnamed or table.has_header(ID_NAMES) or _begins_with_header(table, edges.ids)
    label_column = roles.column(table, roles.label, "label") if label and roles.label is not None else None
    id_column = find_column(table, roles.id)
    table.header = table.header or id_column is not None
    if id_column is None and table.header:
        id_column = _named_id_column(table, edges, label_column)
    dropped = []
    if id_column is None:
        first_may_be_ids = not _ids_must_be_named(table) or (
            not listed and (unnamed or not _holds_numbers(table.values(None)[0]))
        )
        holds_ids = first_may_be_ids and label_column != 0 and _holds_ids(table.values(0)[0], table, edges.ids, listed)
        if (table.index_levels and not unnamed) or holds_ids:
            id_column = 0
            if not (table.index_levels or unnamed):  # an index is never a feature; another first column may be
                log.warning("%s: the first column is read as ids; name it id, or name another column id", table.name)
        elif table.index_levels:
            log.warning("%s: ignored the index, which does not hold the ids of the edges", table.name)
            dropped = [0]
    elif (table.index_levels or unnamed) and id_column != 0:
        ignored = "index" if table.index_levels else "first column, which has no name"
        log.warning("%s: ignored the %s", table.name, ignored)
        dropped = [0]
    not_features = [*dropped, *(column for column in (id_column, label_column) if column is not None)]
    if len(not_features) == len(table.first_row):
        raise InputError(f"{table.name}: no feature column besides the ids; add at least one")
    if table.header and id_column is not None:
        of_labels = "" if label_column is None else f", labels in {table.first_row[label_column]}"
        log.info("%s: ids in %s%s", table.name, table.first_row[id_column] or "the index", of_labels)
    return FeatureColumns(id_column, label_column, not_features)


def _begins_with_header(table: Table, edge_ids: np.ndarray) -> bool:
    """Return whether the first row of a table of text is a header: its first field is no id, and most below it are."""
    if any(is_number(field) for field in table.first_row) or edge_ids.dtype != object or len(table.first_row) < 2:
        return False
    table.header = False
    ids = table.values(0)[0].dropna().map(lambda text: str(text).strip())
    known = ids.isin(edge_ids)
    return not known.iloc[0] and bool(known.iloc[1:].mean() >= 0.5)


def _named_id_column(table: Table, edges: EdgeIds, label_column: int | None) -> int | None:
    """Return the column with a name in ``ID_NAMES``, or else the one whose name ends in id. Raise if there are several.

    If the name is in ``WEAK_ID_NAMES`` and the index holds the ids of the edges, return the index.
    """
    column = table.column(ID_NAMES)
    if column == label_column:
        column = None
    if column is not None and _is_weak(table, column) and (strong := _columns_of_ids(table, edges, label_column)):
        return strong[0] if len(strong) == 1 else column
    if column and table.index_levels and normalised_name(table.first_row[column]) in WEAK_ID_NAMES:
        index = table.values(0)[0]
        if index.notna().all() and (positions(edges.ids, unique_ids(index, table)) >= 0).all():
            return 0
    if column is not None or table.index_levels:
        return column
    named = _columns_of_ids(table, edges, label_column)
    if len(named) > 1:
        columns = shortened([table.first_row[each] for each in named])
        example = edges.roles.write(id=table.first_row[named[0]])
        raise InputError(f"{table.name}: the ids may be in {columns}; name their column, such as {example}")
    return named[0] if named else None


def _is_weak(table: Table, column: int) -> bool:
    return not table.index_levels and normalised_name(table.first_row[column]) in WEAK_ID_NAMES


def _columns_of_ids(table: Table, edges: EdgeIds, label_column: int | None) -> list[int]:
    """Return the columns whose name ends in id and, if there are several, those that hold the ids of the edges."""
    named = [
        column
        for column, name in enumerate(table.first_row)
        if is_id_name(name) and normalised_name(name) not in WEAK_ID_NAMES and column != label_column
    ]
    if len(named) < 2:
        return named
    holding = [column for column in named if _has_ids_of_edges(table.values(column)[column], table, edges)]
    return holding or named


def _has_ids_of_edges(column: pd.Series, table: Table, edges: EdgeIds) -> bool:
    """Return whether a column has no gaps and no duplicates, and contains at least half of the ids of the edges."""
    if column.isna().any() or column.duplicated().any():
        return False
    ids = unique_ids(column, table)
    ids = edges.with_kinds(ids, table.name)
    return bool((positions(edges.ids, ids) >= 0).mean() >= 0.5)


def _ids_must_be_named(table: Table) -> bool:
    """Return whether a column of numbers holds ids only if its name is in ``ID_NAMES``.

    This is so for tables in memory without an index."""
    return table.in_memory and not table.index_levels


def _holds_numbers(column: pd.Series) -> bool:
    """Return whether a column holds numbers, as opposed to numbers written as text."""
    if pd.api.types.is_numeric_dtype(column):
        return True
    return all(isinstance(value, Number) for value in column.dropna())


def _holds_ids(column: pd.Series, table: Table, edge_ids: np.ndarray, listed: bool) -> bool:
    """Return whether a first column without a known name holds ids.

    A column of text does, unless it has gaps or repeats, or a separate list has the ids. A column of numbers does if it
    has no duplicates and contains at least half of the edges' ids. Half is enough, because the table may lack some
    nodes. The error then names these nodes, and the ids do not become features.
    """
    text = column.dropna().map(str)
    if not text.map(is_number).all():
        # A repeated text is a category, unless it is an id of the edges: then its rows are in doubt.
        return not listed and (not text.duplicated().any() or bool(text.str.strip().isin(edge_ids).any()))
    if column.isna().any():
        return False
    ids = unique_ids(text, table)
    return len(ids) == len(text) and bool((positions(edge_ids, ids) >= 0).mean() >= 0.5)
