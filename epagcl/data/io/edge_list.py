"""The edge list of a graph: its distinct ids, and their matching to the rows of an array without ids."""

import numpy as np

from epagcl.core.errors import InputError
from epagcl.core.formatting import counted
from epagcl.core.log import log
from epagcl.data.io.ids import examples, factorise, positions
from epagcl.data.io.tables.base import Table

SOURCE_NAMES = ("source", "src", "from", "u", "node1", "source_id", "from_id", "citing", "head")
TARGET_NAMES = ("target", "dst", "dest", "to", "v", "node2", "target_id", "to_id", "cited", "tail")


class EdgeList:
    """An edge list.

    Args:
        table: a table with one edge per row.
        nodes_argument: the name of the argument that lists node ids, for messages.

    Attributes:
        ids: the distinct ids by first appearance, int64 or text.
        ends: ``[edges, 2]``, the two ends of each edge as positions in ``ids``.
    """

    def __init__(self, table: Table, nodes_argument: str):
        self.table, self.name = table, table.name
        self.nodes_argument = nodes_argument
        source, target = _named_end(table, SOURCE_NAMES), _named_end(table, TARGET_NAMES)
        if source is None or target is None:
            table.header, columns = table.has_header(()), _first_two(table)
        else:
            table.header, columns = True, [source, target]
        self.ends, self.ids = factorise(table.ids(columns), table, ["source id", "target id"])
        ignored = [column for column in range(table.index_levels, len(table.first_row)) if column not in columns]
        if ignored:
            names = ", ".join(table.first_row[column] if table.header else f"column {column + 1}" for column in ignored)
            log.warning("%s: only the ends of edges are read; ignored: %s", self.name, names)

    def ids_for_rows(self, rows: int, name: str) -> np.ndarray:
        """Return the id of each row of an array without ids, by the rule of :func:`epagcl.read_graph`.

        Args:
            rows: number of rows of the array.
            name: name of the array in messages.
        """
        ids = self.ids
        integers = ids.dtype == np.int64
        if integers and ids.min() < 0:
            lowest = int(ids.argmin())
            raise InputError(
                f"{self.name}: {self._place(lowest)}: node {ids[lowest]} is negative, and the rows of "
                f"{name} are numbered from 0; give the ids of the rows with {self.nodes_argument}"
            )
        if integers and ids.max() < rows:
            if ids.min() == 1 and ids.max() == rows - 1:  # the ids could also start at 1, with one row too many
                log.warning(
                    "%s: no ids; its rows are numbered from 0, and node 0 has no edge in %s; "
                    "if this is wrong, give the ids with %s",
                    *(name, self.name, self.nodes_argument),
                )
            return np.arange(rows)
        if len(ids) != rows:
            raise InputError(
                f"{name}: {counted(rows, 'row')} for {counted(len(ids), 'distinct node')} in {self.name}; "
                f"give the ids of the rows with {self.nodes_argument}"
            )
        if integers and ids.min() == 1 and ids.max() == rows:
            ids = np.arange(1, rows + 1)  # counted from 1, as in MATLAB and R
            rule = f"by number, since {self.name} counts from 1"
        else:
            rule = f"in order of first appearance in {self.name}"
        log.warning(
            "%s: no ids; its rows were matched to the nodes %s (%s); if this is wrong, give the ids with %s",
            name,
            rule,
            examples([f"row {row} = {node}" for row, node in enumerate(ids[:4])]),
            self.nodes_argument,
        )
        return ids

    def may_begin_with_header(self, known_ids: np.ndarray | None) -> bool:
        """Return whether the first edge may be a header: two names that occur nowhere else, nor in ``known_ids``."""
        first = self.ends[0]
        if self.table.header or self.ids.dtype != object or len(self.ends) == 1:
            return False
        if known_ids is not None and (positions(self.ids[first], known_ids) >= 0).any():
            return False
        return bool((np.bincount(self.ends.ravel())[first] == 1).all())

    def edge_index(self, node_ids: np.ndarray, nodes_name: str) -> np.ndarray:
        """Return ``edge_index`` with nodes numbered as in ``node_ids``. Raise if an id is not in ``node_ids``.

        Args:
            node_ids: the ids of the nodes.
            nodes_name: where they come from, for messages.
        """
        position = positions(self.ids, node_ids)
        if (position < 0).any():
            unknown = self.ids[position < 0]
            message = f"{nodes_name}: no row for {counted(len(unknown), 'node')} of {self.name} ({examples(unknown)})"
            if not self.table.header and (position[self.ends[0]] < 0).all():
                message += f"; if {self.table.place(0)} is a header, call its columns source and target"
            else:
                message += "; give every node a row, or drop its edges"
            raise InputError(message)
        return np.ascontiguousarray(position[self.ends].T, dtype=np.int64)

    def _place(self, number: int) -> str:
        """Return where an id first occurs; ``number`` is its position in ``ids``."""
        return self.table.place(int((self.ends == number).any(axis=1).argmax()))


def _named_end(table: Table, names: tuple[str, ...]) -> int | None:
    """Return the column with one of these names. The index is used only if no other column has one of them."""
    column = table.column(names, table.index_levels)
    return table.column(names) if column is None else column


def _first_two(table: Table) -> list[int]:
    """Return the first two columns that are not the index, or the first two levels of the index."""
    if len(table.first_row) - table.index_levels >= 2:
        return [table.index_levels, table.index_levels + 1]
    if table.index_levels >= 2:
        return [0, 1]
    example = {"\t": "a<tab>b", r"\s+": "a b"}.get(table.separator, "a,b")
    hint = " (the index does not count: reset_index())" if table.index_levels else ""
    raise InputError(f"{table.name}: one column{hint}; an edge list needs two, source and target, as {example}")
