"""Edges, features and labels of one graph as they were given, and which row belongs to which node.

The rules stand in :func:`epagcl.read_graph`; files (:mod:`epagcl.data.io.readers`) and what a program holds
(:mod:`epagcl.data.io.frames`) both come here.
"""

import numpy as np

from epagcl.core.errors import InputError
from epagcl.core.formatting import counted
from epagcl.core.log import log
from epagcl.data.io.ids import examples, factorise, positions
from epagcl.data.io.table import Table

SOURCE_NAMES = ("source", "src", "from", "u", "node1", "source_id", "from_id", "citing", "head")


TARGET_NAMES = ("target", "dst", "dest", "to", "v", "node2", "target_id", "to_id", "cited", "tail")


class EdgeList:
    """An edge list: the distinct ids by first appearance, and the ends of each edge as numbers of these."""

    def __init__(self, table: Table, option: str):
        self.table, self.name = table, table.name
        self.nodes_option = option.format("nodes")
        columns = [_named_end(table, SOURCE_NAMES), _named_end(table, TARGET_NAMES)]
        if None in columns:
            table.header, columns = table.has_header(()), _first_two(table)
        else:
            table.header = True
        self.ends, self.ids = factorise(table.ids(columns), table, ["source id", "target id"])
        ignored = [column for column in range(table.index, len(table.first)) if column not in columns]
        if ignored:
            names = ", ".join(table.first[column] if table.header else f"column {column + 1}" for column in ignored)
            log.warning("%s: only the ends of edges are read; ignored: %s", self.name, names)

    def place(self, number: int) -> str:
        """Where the id with this number first stands."""
        return self.table.place(int((self.ends == number).any(axis=1).argmax()))

    def may_be_header(self, known: np.ndarray | None) -> bool:
        """Whether the first row, read as an edge, has two names that occur nowhere else (nor are ``known``)."""
        first = self.ends[0]
        if self.table.header or self.ids.dtype != object or len(self.ends) == 1:
            return False
        if known is not None and (positions(self.ids[first], known) >= 0).any():
            return False
        return bool((np.bincount(self.ends.ravel())[first] == 1).all())

    def numbered(self, node_ids: np.ndarray, where: str) -> np.ndarray:
        """``edge_index`` in the numbers of ``node_ids``."""
        position = positions(self.ids, node_ids)
        if (position < 0).any():
            unknown = self.ids[position < 0]
            message = f"{where}: no row for {counted(len(unknown), 'node')} of {self.name} ({examples(unknown)})"
            if not self.table.header and (position[self.ends[0]] < 0).all():
                message += f"; if {self.table.place(0)} is a header, call its columns source and target"
            else:
                message += "; give every node a row, or drop its edges"
            raise InputError(message)
        return np.ascontiguousarray(position[self.ends].T, dtype=np.int64)


def _named_end(table: Table, names: tuple[str, ...]) -> int | None:
    """The column with one of these names; an index is one only if no other column is."""
    column = table.column(names, table.index)
    return table.column(names) if column is None else column


def _first_two(table: Table) -> list[int]:
    """The first two columns; the numbers or names of rows (an index) are no ends of edges, but two levels may be."""
    if len(table.first) - table.index >= 2:
        return [table.index, table.index + 1]
    if table.index >= 2:
        return [0, 1]
    example = {"\t": "a<tab>b", r"\s+": "a b"}.get(table.separator, "a,b")
    hint = " (the index is none: reset_index())" if table.index else ""
    raise InputError(f"{table.name}: one column{hint}; an edge list needs two, source and target, as {example}")
