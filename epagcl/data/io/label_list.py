"""The labels of a graph: which columns of a table hold ids and labels, and which label each node has."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from epagcl.core.errors import InputError
from epagcl.core.formatting import counted
from epagcl.core.log import log
from epagcl.data.io.columns.kinds import shortened
from epagcl.data.io.ids import ID_NAMES, distinct_ids, examples, is_id_name, positions, unique_ids
from epagcl.data.io.roles import Roles, find_column
from epagcl.data.io.tables.base import MISSING, ArrayRows, Table, is_number, normalised_name
from epagcl.data.io.tables.text import TextTable

LABEL_NAMES = ("label", "labels", "y", "class", "target", "category")


class LabelList:
    """Labels that are not yet encoded as class numbers.

    Args:
        labels: a table or an array.
        graph_ids: the ids of the graph, which help to find the column of ids.
        roles: the columns that the user names.

    Attributes:
        values: the label of each row.
        ids: the id of each row, or None if the rows are in the order of the nodes.
    """

    def __init__(self, labels: Table | ArrayRows, graph_ids: np.ndarray, roles: Roles = Roles()):  # noqa: B008 (frozen)
        self.name = labels.name
        self.table: Table | None = None
        self.ids: np.ndarray | None = None
        if isinstance(labels, ArrayRows):
            self.values = np.asarray(labels.values)
            return
        table = self.table = labels
        id_column, label_column = label_columns(table, graph_ids, roles)
        frame = table.values(id_column, label_column)
        if id_column is not None:
            self.ids = distinct_ids(frame[id_column].to_numpy(dtype=object), table)
        self.values = self._without_missing(frame[label_column])

    def _without_missing(self, labels: pd.Series) -> np.ndarray:
        """Return labels, of a text table with None for words such as NA. Warn of these words."""
        if not isinstance(self.table, TextTable):
            return labels.to_numpy(dtype=object)
        values = without_missing(labels)
        if words := sorted({str(word).strip() for word in labels[values.isna() & labels.notna()]} - {""}):
            count = int((values.isna() & labels.notna()).sum())
            rows = counted(count, "row")
            log.warning("%s: %s means no label (%s)", self.name, " or ".join(map(repr, words)), rows)
        return values.to_numpy(dtype=object)

    def of(self, node_ids: np.ndarray, features: Table | ArrayRows | None = None) -> np.ndarray:
        """Return the label of each node, None for nodes without one.

        Args:
            node_ids: the ids of the nodes.
            features: the features that the ids come from.
        """
        if self.ids is None and self._indexed_by_id(node_ids, features):
            return self.values[node_ids]
        if self.ids is None:
            if len(self.values) != len(node_ids):
                counts = f"{counted(len(self.values), 'label')} for {counted(len(node_ids), 'node')}"
                raise InputError(f"{self.name}: {counts}; give one per node")
            return self.values
        position = positions(self.ids, node_ids)
        if (position < 0).any():
            fix = "drop these rows, or add the nodes to the features"
            raise InputError(self.unknown_ids_message(position >= 0, fix))
        labels = np.full(len(node_ids), None, dtype=object)
        labels[position] = self.values
        return labels

    def may_begin_with_header(self, in_graph: np.ndarray) -> bool:
        """Return whether the first row, which was read as a node, may be a header.

        It may be if its id is the only one that is not in the graph, or if no other row has its label.

        Args:
            in_graph: whether the graph has the id of each row.
        """
        assert self.table is not None  # labels with ids come from a table
        if self.table.header or in_graph[0]:
            return False
        other_labels = {str(value) for value in self.values[1:] if value is not None}
        return bool(in_graph[1:].all()) or str(self.values[0]) not in other_labels

    def unknown_ids_message(self, in_graph: np.ndarray, fix: str) -> str:
        """Return the message about ids that are not in the graph.

        Args:
            in_graph: whether the graph has the id of each row.
            fix: what to do, unless the first row seems to be a header.
        """
        assert self.table is not None  # labels with ids come from a table
        assert self.ids is not None
        unknown = self.ids[~in_graph]
        place = self.table.place(int(in_graph.argmin()))
        if not self.table.header and not in_graph[0]:
            fix = f"if {place} is a header, call its columns id and label"
        return f"{self.name}: {place}: {counted(len(unknown), 'id')} not in the graph ({examples(unknown)}); {fix}"

    def _indexed_by_id(self, node_ids: np.ndarray, features: Table | ArrayRows | None) -> bool:
        """Return whether the pandas index 0, 1, ... of the labels means ids.

        It does if the features have these ids in another order.
        """
        if self.table is None or not self.table.default_index or not isinstance(features, Table):
            return False
        if features.id_column is None or np.array_equal(node_ids, np.arange(len(node_ids))):
            return False
        if node_ids.dtype == np.int64 and node_ids.min() >= 0 and node_ids.max() < len(self.values):
            if not features.index_levels or features.id_column > 0:  # the index could also mean row numbers
                message = "%s: matched by index to the ids of %s; if the labels are in row order, give them as an array"
                log.warning(message, self.name, features.name)
            return True
        if features.index_levels:
            raise InputError(
                f"{self.name}: the index is 0, 1, ..., but the index of {features.name} is not; "
                "use the ids as index, or give an array in the order of the rows"
            )
        return False


class LabelColumns(NamedTuple):
    """The column of the ids, None if the rows are in the order of the nodes, and the column of the labels."""

    id: int | None
    label: int


def label_columns(table: Table, graph_ids: np.ndarray, roles: Roles) -> LabelColumns:
    """Return which columns of a table of labels hold ids and labels. Its header is detected here.

    Args:
        table: the table.
        graph_ids: the ids of the graph, which help to find the column of ids.
        roles: the columns that the user names.
    """
    table.refuse_index_levels()
    table.header = table.has_header((*ID_NAMES, *LABEL_NAMES)) or _begins_with_header(table, graph_ids)
    if len(table.first_row) == 1:
        return LabelColumns(None, 0)
    label_column = None if roles.label is None else roles.column(table, roles.label, "label")
    id_column = find_column(table, roles.id)
    table.header = table.header or id_column is not None
    id_column = _id_column(table, graph_ids) if id_column is None else id_column
    return LabelColumns(id_column, _label_column(table, id_column, roles) if label_column is None else label_column)


def _label_column(table: Table, id_column: int, roles: Roles) -> int:
    """Return the column of labels: by its name, or the only one besides the ids. Log it if there are others."""
    others = [column for column in range(table.index_levels, len(table.first_row)) if column != id_column]
    named = table.column(LABEL_NAMES) if table.header else None
    if named is None and table.header and len(others) > 1:
        columns = shortened([table.first_row[column] for column in others], 8)
        example = roles.write(label=table.first_row[others[0]])
        raise InputError(f"{table.name}: the labels may be in {columns}; name their column, such as {example}")
    chosen = others[0] if named is None else named
    ids = table.first_row[id_column] or "the index" if table.header else table.title(id_column)
    ignored = [table.first_row[k] if table.header else table.title(k) for k in others if k != chosen]
    title = table.first_row[chosen] if table.header else table.title(chosen)
    rest = f"; not used: {shortened(ignored)}" if ignored else ""
    (log.warning if ignored else log.info)("%s: ids in %s, labels in %s%s", table.name, ids, title, rest)
    return chosen


def without_missing(labels: pd.Series) -> pd.Series:
    """Return labels of a text table with None for words such as NA."""
    if labels.dtype != object and not pd.api.types.is_string_dtype(labels.dtype):
        return labels
    labels = labels.astype(object)
    return labels.where(~labels.map(lambda value: isinstance(value, str) and value.strip() in MISSING), None)


def _begins_with_header(table: Table, graph_ids: np.ndarray) -> bool:
    """Return whether the first row of a table of text is a header: the only row whose id is not in the graph."""
    if len(table.first_row) < 2 or graph_ids.dtype != object or any(map(is_number, table.first_row)):
        return False
    table.header = False
    known = table.values(0)[0].map(lambda text: str(text).strip()).isin(graph_ids)
    return not known.iloc[0] and len(known) > 1 and bool(known.iloc[1:].all())


def _id_column(table: Table, graph_ids: np.ndarray) -> int:
    """Return the column of ids: by its name, else the first column."""
    id_column = table.column(ID_NAMES) if table.header else None
    if id_column is None and table.header:
        id_column = next((column for column, name in enumerate(table.first_row) if is_id_name(name)), 0)
    id_column = id_column or 0
    if table.index_levels and len(table.first_row) == 2:  # a series; the name of its values does not matter
        return 0
    if table.index_levels and id_column == 0 and _index_is_row_number(table, graph_ids):
        return 1
    return id_column


def _index_is_row_number(table: Table, graph_ids: np.ndarray) -> bool:
    """Return whether an unnamed integer index holds old row numbers, and the first column holds the ids."""
    index, first = table.values(None)[0], table.values(1)[1]
    if table.first_row[0] != "" or not pd.api.types.is_integer_dtype(index):
        return False
    if normalised_name(table.first_row[1]) in LABEL_NAMES or first.isna().any() or first.duplicated().any():
        return False
    by_index, by_column = ((positions(graph_ids, unique_ids(ids, table)) >= 0).sum() for ids in (index, first))
    return bool(by_column >= max(by_index, 1))
