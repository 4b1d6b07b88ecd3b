"""Edges, features and labels of one graph as they were given, and which row belongs to which node.

The rules stand in :func:`epagcl.read_graph`; files (:mod:`epagcl.data.io.readers`) and what a program holds
(:mod:`epagcl.data.io.frames`) both come here.
"""

import numpy as np
import pandas as pd

from epagcl.core.errors import InputError
from epagcl.core.formatting import counted
from epagcl.core.log import log
from epagcl.data.io.column_names import ID_NAMES, distinct_column_ids, refuse_index_levels
from epagcl.data.io.ids import distinct_ids, examples, positions
from epagcl.data.io.table import Rows, Table, plain_name

LABEL_NAMES = ("label", "labels", "y", "class", "target", "category")


class LabelList:
    """Labels as they were given, None where there is none, and their ids if they have ids."""

    def __init__(self, given: Table | Rows, known: np.ndarray):
        self.name = given.name
        self.table = self.ids = None
        if isinstance(given, Rows):
            self.values = given.values
            return
        table = self.table = given
        refuse_index_levels(table)
        table.header = table.has_header((*ID_NAMES, *LABEL_NAMES))
        if len(table.first) == 1:
            self.values = table.values(None)[0].to_numpy()
            return
        id_column = (table.column(ID_NAMES) if table.header else None) or 0
        if table.index and len(table.first) == 2:  # a series, whatever it is called
            id_column = 0
        elif table.index and id_column == 0 and _counts_rows_only(table, known):
            id_column = 1
        others = [column for column in range(table.index, len(table.first)) if column != id_column]
        label_column = table.column(LABEL_NAMES) if table.header else None
        label_column = others[0] if label_column is None else label_column
        if ignored := [table.title(column) for column in others if column != label_column]:
            read = table.title(label_column)
            log.warning("%s: labels are read from %s; ignored: %s", self.name, read, ", ".join(ignored))
        frame = table.values(id_column)
        self.ids = distinct_ids(frame[id_column].to_numpy(dtype=object), table)
        self.values = frame[label_column].to_numpy(dtype=object)

    def of(self, node_ids: np.ndarray, features: Table | Rows | None = None) -> np.ndarray:
        """The label of each node."""
        if self.ids is None and self._by_index(node_ids, features):
            return self.values[node_ids]
        if self.ids is None:
            if len(self.values) != len(node_ids):
                counts = f"{counted(len(self.values), 'label')} for {counted(len(node_ids), 'node')}"
                raise InputError(f"{self.name}: {counts}; give one per node")
            return self.values
        position = positions(self.ids, node_ids)
        if (position < 0).any():
            raise InputError(self.unknown(position >= 0, "drop these rows, or add the nodes to the features"))
        labels = np.full(len(node_ids), None, dtype=object)
        labels[position] = self.values
        return labels

    def _by_index(self, node_ids: np.ndarray, features: Table | Rows | None) -> bool:
        """Whether labels with an index 0, 1, ... go by it, since the rows of features have ids in another order."""
        if self.table is None or not self.table.counts_rows or not isinstance(features, Table):
            return False
        if features.id_column is None or np.array_equal(node_ids, np.arange(len(node_ids))):
            return False
        if node_ids.dtype == np.int64 and node_ids.min() >= 0 and node_ids.max() < len(self.values):
            if not features.index or features.id_column > 0:  # the index of the labels may as well be that of the rows
                message = "%s: given to the ids of %s by their index; give them as an array if they are in its order"
                log.warning(message, self.name, features.name)
            return True
        if features.index:
            raise InputError(
                f"{self.name}: their index is 0, 1, ..., that of {features.name} is not; "
                "make the ids their index, or give them as an array in the order of the rows"
            )
        return False

    def may_begin_with_header(self, known: np.ndarray) -> bool:
        """Whether the first row, read as a node, is the only unknown one, or the only one with its label."""
        if self.table.header or known[0]:
            return False
        others = {str(value) for value in self.values[1:] if value is not None}
        return bool(known[1:].all()) or str(self.values[0]) not in others

    def unknown(self, known: np.ndarray, fix: str) -> str:
        """A message about the ids that are not in the graph."""
        unknown = self.ids[~known]
        place = self.table.place(int(known.argmin()))
        if not self.table.header and not known[0]:
            fix = f"if {place} is a header, call its columns id and label"
        return f"{self.name}: {place}: {counted(len(unknown), 'id')} not in the graph ({examples(unknown)}); {fix}"


def _counts_rows_only(table: Table, known: np.ndarray) -> bool:
    """Whether an index of integers without a name is left of rows 0, 1, ..., and the first column has the ids."""
    index, first = table.values(None)[0], table.values(1)[1]
    if table.first[0] != "" or not pd.api.types.is_integer_dtype(index) or plain_name(table.first[1]) in LABEL_NAMES:
        return False
    if first.isna().any() or first.duplicated().any():
        return False
    by_index, by_column = ((positions(known, distinct_column_ids(ids, table)) >= 0).sum() for ids in (index, first))
    return bool(by_column >= max(by_index, 1))
