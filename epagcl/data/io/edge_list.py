"""The edge list of a graph: its distinct ids, and their matching to the rows of an array without ids."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from epagcl.core.errors import InputError
from epagcl.core.formatting import counted
from epagcl.core.log import log
from epagcl.data.io.columns.number import has_decimal_comma, to_numbers
from epagcl.data.io.edge_columns import (
    NO_COLUMN,
    TYPE_NAMES,
    WEIGHT_NAMES,
    edge_columns,
    log_columns,
    optional_column,
)
from epagcl.data.io.edge_types import EdgeTypes, edge_types
from epagcl.data.io.ids import examples, factorise, positions, unpadded
from epagcl.data.io.roles import Roles, find_column
from epagcl.data.io.tables.base import Table, as_text, normalised_name

_TITLES = ["source id", "target id"]


class EdgeIds:
    """The distinct ids of an edge list.

    Attributes:
        ids: the distinct ids by first appearance, int64 or text.
        roles: the columns that the user names.
        kinds: the names of the two kinds of nodes of a bipartite graph, else None. An id then begins with its kind.
    """

    def __init__(self, ids: np.ndarray, roles: Roles, kinds: tuple[str, str] | None = None):
        self.ids, self.roles, self.kinds = ids, roles, kinds

    def with_kinds(self, ids: np.ndarray, name: str) -> np.ndarray:
        """Return ids of another table as ids of the graph: in a bipartite graph, each with its kind before it.

        Args:
            ids: distinct ids. One that begins with its kind is unchanged.
            name: name of the table in messages.
        """
        if self.kinds is None:
            return ids
        ids = as_text(ids).copy()
        plain = np.flatnonzero(positions(ids, self.ids) < 0)
        first, second = ((f"{kind}:" + ids[plain].astype(object)) for kind in self.kinds)
        is_first, is_second = (positions(candidates, self.ids) >= 0 for candidates in (first, second))
        if (both := is_first & is_second).any():
            node = ids[plain][both][0]
            kinds = f"{self.kinds[0]}:{node} or {self.kinds[1]}:{node}"
            raise InputError(f"{name}: id {node} is of both kinds, {self.kinds[0]} and {self.kinds[1]}; write {kinds}")
        ids[plain] = np.where(is_first, first, np.where(is_second, second, ids[plain]))
        if len(set(ids)) < len(ids):
            repeated = pd.Series(ids)[pd.Series(ids).duplicated()].iloc[0]
            raise InputError(f"{name}: {repeated} occurs twice, with and without its kind; keep one row per node")
        return ids


class EdgeList(EdgeIds):
    """An edge list.

    Args:
        table: a table with one edge per row.
        roles: the columns that the user names.
        header: whether the first row is a header; None to detect it.

    Attributes:
        ids: the distinct ids by first appearance, int64 or text.
        ends: ``[edges, 2]``, the two ends of each edge as positions in ``ids``.
        columns: the columns of the two ends.
        weight_column: the column of the weights; None without weights.
        type_column: the column of the kinds of edges; None if all are of one kind.
        kinds: the names of the two kinds of nodes of a bipartite graph, else None. An id then begins with its kind.
    """

    def __init__(self, table: Table, roles: Roles = Roles(), header: bool | None = None):  # noqa: B008 (frozen)
        self.table, self.name = table, table.name
        self.roles, self.nodes_argument = roles, roles.name_of("nodes")
        self.columns, two_kinds = edge_columns(table, roles)
        if header is not None:
            table.header = header
        self.weight_column = optional_column(table, roles, "weight", WEIGHT_NAMES, self.columns)
        self.type_column = optional_column(table, roles, "type", TYPE_NAMES, self.columns)
        self.kinds: tuple[str, str] | None = None
        if roles.bipartite:
            self.kinds = kind_names(table, self.columns)
            self.ends, self.ids = self._bipartite_ends()
        else:
            self.ends, self.ids = factorise(table.ids(self.columns), table, _TITLES)
            if two_kinds:
                self._refuse_shared_ids()

    def log_columns(self) -> None:
        """Log which columns are used and which are not, in one line."""
        time = find_column(self.table, self.roles.time)
        log_columns(self.table, self.columns, self.weight_column, self.type_column, time)

    def weights(self) -> np.ndarray | None:
        """Return the weight of each edge, or None without weights. Raise unless all are numbers that are at least 0."""
        if self.weight_column is None:
            return None
        values = self.table.values(None)[self.weight_column]
        numbers = to_numbers(values, True) if has_decimal_comma(values) else pd.to_numeric(values, errors="coerce")
        weights = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
        if (wrong := ~(np.isfinite(weights) & (weights >= 0))).any():
            row = int(wrong.argmax())
            title = self.table.title(self.weight_column)
            found = "has no value" if pd.isna(values.iloc[row]) else f"has the value '{values.iloc[row]}'"
            what = f"{self.table.place(row)}: the {title} {found}"
            fix = f"weights are numbers that are at least 0; mend it, or give {self.roles.write(weight=NO_COLUMN)}"
            raise InputError(f"{self.name}: {what}; {fix}")
        return weights

    def types(self) -> EdgeTypes | None:
        """Return the kind of each edge, or None if all are of one kind."""
        if self.type_column is None:
            return None
        return edge_types(
            self.table.values(None)[self.type_column], f"{self.name}: {self.table.title(self.type_column)}"
        )

    def ids_for_rows(self, rows: int, name: str) -> np.ndarray:
        """Return the id of each row of an array without ids, by the rule of :func:`epagcl.read_graph`.

        Args:
            rows: number of rows of the array.
            name: name of the array in messages.
        """
        ids = self.ids
        bounds = (int(ids.min()), int(ids.max())) if ids.dtype == np.int64 else None
        place = self._place(int(ids.argmin())) if bounds is not None and bounds[0] < 0 else ""
        found = FoundIds(self.name, len(ids), bounds, ids[:4].tolist(), place)
        start = row_numbering(found, rows, name, self.nodes_argument)
        return ids if start is None else np.arange(start, start + rows)

    def may_begin_with_header(self, known_ids: np.ndarray | None) -> bool:
        """Return whether the first edge may be a header: two names that occur nowhere else, nor in ``known_ids``."""
        first = self.ends[0]
        if self.table.header or self.ids.dtype != object or len(self.ends) == 1:
            return False
        if known_ids is not None and (positions(self.ids[first], known_ids) >= 0).any():
            return False
        return bool((np.bincount(self.ends.ravel())[first] == 1).all())

    def without_header(self, known_ids: np.ndarray) -> "EdgeList":
        """Return the edges without their first row, if it is a header: the only row with ids that are not known.

        Args:
            known_ids: the ids of the features or labels.
        """
        if not self.may_begin_with_header(known_ids):
            return self
        unknown = (positions(self.ids, known_ids) < 0)[self.ends].any(axis=1)
        if int(unknown.sum()) != 1:
            return self
        first = ", ".join(self.ids[self.ends[0]])
        log.info("%s: the first row is read as a header (%s)", self.name, first)
        return EdgeList(self.table, self.roles, header=True)

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
            if (other := _written_otherwise(unknown, node_ids)) is not None:
                message += f"; {nodes_name} writes {unknown[0]} as {other}: write the ids alike"
            elif not self.table.header and (position[self.ends[0]] < 0).all():
                message += f"; if {self.table.place(0)} is a header, call its columns source and target"
            else:
                message += "; give every node a row, or drop its edges"
            raise InputError(message)
        return np.ascontiguousarray(position[self.ends].T, dtype=np.int64)

    def _bipartite_ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends and the ids of a bipartite graph, whose ids begin with their kind."""
        assert self.kinds is not None
        sides = []
        for kind, column, title in zip(self.kinds, self.columns, _TITLES, strict=True):
            codes, ids = factorise(self.table.ids([column]), self.table, [title])
            sides.append((f"{kind}:" + as_text(ids).astype(object))[codes[:, 0]])
        codes, ids = pd.factorize(np.stack(sides, axis=1).ravel())
        return codes.reshape(-1, 2), ids

    def _refuse_shared_ids(self) -> None:
        """Raise if an id occurs at both ends, and the names of the columns suggest nodes of two kinds."""
        if len(shared := np.intersect1d(self.ends[:, 0], self.ends[:, 1])):
            raise shared_ids(self.table, self.columns, len(shared), self.ids[shared].tolist(), self.roles)

    def _place(self, number: int) -> str:
        """Return where an id first occurs; ``number`` is its position in ``ids``."""
        return self.table.place(int((self.ends == number).any(axis=1).argmax()))


def kind_names(table: Table, columns: Sequence[int]) -> tuple[str, str]:
    """Return the names of the two kinds of nodes of a bipartite graph: those of the columns of the ends."""
    if not table.header:
        return "source", "target"
    names = [normalised_name(table.first_row[column]) for column in columns]
    first, second = (name.removesuffix("_id") or name for name in names)
    return (first, second) if first != second else ("source", "target")


def shared_ids(table: Table, columns: Sequence[int], count: int, shared: list[Any], roles: Roles) -> InputError:
    """Return the error of ids that occur at both ends, if the names of the columns suggest nodes of two kinds.

    Args:
        table: the edges.
        columns: the columns of the ends.
        count: number of such ids.
        shared: the first of them.
        roles: how messages write arguments.
    """
    source, target = (table.first_row[column] for column in columns)
    switch = roles.name_of("bipartite")
    switch = f"{switch}True" if switch.endswith("=") else switch
    return InputError(
        f"{table.name}: {counted(count, 'id')} ({examples(shared)}) in {source} and in {target}; "
        f"if these are two kinds of nodes, give {switch}, else {roles.write(source=source, target=target)}"
    )


class FoundIds(NamedTuple):
    """The distinct ids of the edges, in short.

    Attributes:
        name: name of the edges in messages.
        distinct: number of distinct ids.
        bounds: the lowest and the highest; None if they are text.
        first: the first four, by first appearance.
        lowest_place: where the lowest one is, if it is negative.
    """

    name: str
    distinct: int
    bounds: tuple[int, int] | None
    first: list[Any]
    lowest_place: str = ""


def row_numbering(ids: FoundIds, rows: int, name: str, nodes_argument: str) -> int | None:
    """Return the id of the first row of an array without ids, or None if its rows are in order of first appearance.

    :func:`epagcl.read_graph` documents the rule.

    Args:
        ids: the ids of the edges.
        rows: number of rows of the array.
        name: name of the array in messages.
        nodes_argument: the argument that gives the ids of rows, in messages.
    """
    low, high = ids.bounds or (0, 0)
    if ids.bounds is not None and low < 0:
        raise InputError(
            f"{ids.name}: {ids.lowest_place}: node {low} is negative, and the rows of "
            f"{name} are numbered from 0; give the ids of the rows with {nodes_argument}"
        )
    if ids.bounds is not None and high < rows:
        if low == 1 and high == rows - 1:  # the ids could also start at 1, with one row too many
            log.warning(
                "%s: no ids; its rows are numbered from 0, and node 0 has no edge in %s; "
                "if this is wrong, give the ids with %s",
                *(name, ids.name, nodes_argument),
            )
        return 0
    if ids.distinct != rows:
        raise InputError(
            f"{name}: {counted(rows, 'row')} for {counted(ids.distinct, 'distinct node')} in {ids.name}; "
            f"give the ids of the rows with {nodes_argument}"
        )
    from_one = ids.bounds is not None and low == 1 and high == rows  # as in MATLAB and R
    rule = f"by number, since {ids.name} counts from 1" if from_one else f"in order of first appearance in {ids.name}"
    matched = range(1, 5) if from_one else ids.first
    log.warning(
        "%s: no ids; its rows were matched to the nodes %s (%s); if this is wrong, give the ids with %s",
        name,
        rule,
        examples([f"row {row} = {node}" for row, node in zip(range(rows), matched, strict=False)]),
        nodes_argument,
    )
    return 1 if from_one else None


def _written_otherwise(unknown: np.ndarray, node_ids: np.ndarray) -> str | None:
    """Return how a table writes the first of some unknown ids, if it has all of them but for leading zeros or case."""
    if unknown.dtype == node_ids.dtype == np.int64:
        return None
    text = as_text(node_ids)
    for form in (unpadded, _casefolded):
        plain, wanted = form(text), form(as_text(unknown))
        if (positions(wanted, pd.unique(plain)) >= 0).all():
            return str(text[int((plain == wanted[0]).argmax())])
    return None


def _casefolded(ids: np.ndarray) -> np.ndarray:
    return np.array([node.casefold() for node in ids], dtype=object)
