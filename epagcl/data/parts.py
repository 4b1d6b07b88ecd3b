"""Edges, features and labels of one graph as they were given, and which row belongs to which node.

The rules stand in :func:`epagcl.read_graph`; files (:mod:`epagcl.data.readers`) and what a program holds
(:mod:`epagcl.data.frames`) both come here.
"""

import logging
from dataclasses import dataclass
from numbers import Number

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.data.check import check_features, counted
from epagcl.data.convert import assemble, encode_labels, feature_tensor, is_number, table_features
from epagcl.data.tables import Table, distinct_ids, examples, factorise, plain_name, positions, union
from epagcl.errors import InputError

log = logging.getLogger("epagcl")

SOURCE_NAMES = ("source", "src", "from", "u", "node1", "source_id", "from_id", "citing", "head")
TARGET_NAMES = ("target", "dst", "dest", "to", "v", "node2", "target_id", "to_id", "cited", "tail")
ID_NAMES = ("id", "node_id", "node", "name", "nodeid", "index")
# Names of ids that are often names of something else: beside an index with the ids they are.
WEAK_ID_NAMES = ("node", "name", "index")
LABEL_NAMES = ("label", "labels", "y", "class", "target", "category")


@dataclass(frozen=True)
class Rows:
    """An array without ids, and what messages call it."""

    name: str
    values: "np.ndarray | Tensor | scipy.sparse.sparray"


def graph_from_parts(
    edges: Table,
    features: Table | Rows | None,
    labels: Table | Rows | None = None,
    nodes: Rows | None = None,
    option: str = "--{}",
) -> Data:
    """The checked graph of these parts, by the rules of :func:`epagcl.read_graph`.

    Args:
        edges: the edge list.
        features: a table, with or without ids, or an array; None: a graph without features.
        labels: likewise.
        nodes: the distinct ids of the rows of features (labels) without ids.
        option: how messages write the name of an argument.
    """
    edge_list = _EdgeList(edges, option)
    x = names = label_list = None
    node_ids = edge_list.ids
    if features is not None:
        x, node_ids, names = _features_with_ids(features, edge_list, nodes)
    if labels is not None:
        label_list = _LabelList(labels, node_ids)
    if features is None:
        node_ids = _ids_without_features(edge_list, label_list, nodes)
    edge_index = edge_list.numbered(node_ids, (nodes or features or edges).name)
    y = None if label_list is None else encode_labels(label_list.of(node_ids, features), label_list.name)
    return assemble(x, torch.from_numpy(edge_index), y, node_ids, edge_list.name, names)


# ---- Edges


class _EdgeList:
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


def _ids_of_rows(edges: _EdgeList, rows: int, name: str) -> np.ndarray:
    """The node of each row of an array without ids, by the rule of ``read_graph``."""
    ids = edges.ids
    whole = ids.dtype == np.int64
    if whole and ids.min() < 0:
        lowest = int(ids.argmin())
        raise InputError(
            f"{edges.name}: {edges.place(lowest)}: node {ids[lowest]} is negative, and the rows of "
            f"{name} are numbered from 0; give the ids of the rows with {edges.nodes_option}"
        )
    if whole and ids.max() < rows:
        if ids.min() == 1 and ids.max() == rows - 1:  # as well one row too many for ids from 1
            log.warning(
                "%s: has no ids; its rows are numbered from 0, and node 0 has no edge in %s; say otherwise with %s",
                *(name, edges.name, edges.nodes_option),
            )
        return np.arange(rows)
    if len(ids) != rows:
        raise InputError(
            f"{name}: {counted(rows, 'row')} for {counted(len(ids), 'distinct node')} in {edges.name}; "
            f"give the ids of the rows with {edges.nodes_option}"
        )
    if whole and ids.min() == 1 and ids.max() == rows:
        ids = np.arange(1, rows + 1)  # counted from 1: MATLAB, R
        how = f"by number, since {edges.name} counts from 1"
    else:
        how = f"in order of first appearance in {edges.name}"
    log.warning(
        "%s: has no ids; its rows were given to the nodes %s (%s); say otherwise with %s",
        name,
        how,
        examples([f"row {row} = {node}" for row, node in enumerate(ids[:4])]),
        edges.nodes_option,
    )
    return ids


def listed_ids(table: Table) -> Rows:
    """The ids of a list of nodes: its column named id, node_id, ..., else its first."""
    table.header = table.has_header(ID_NAMES)
    column = table.column(ID_NAMES) if table.header else None
    return Rows(table.name, distinct_ids(table.ids([column or 0]), table))


# ---- Features


def _features_with_ids(
    given: Table | Rows, edges: _EdgeList, nodes: Rows | None
) -> tuple[Tensor, np.ndarray, list[str] | None]:
    """Features, the node of each of their rows, and the names of their columns if they have names."""
    if isinstance(given, Rows):
        x, ids, names = check_features(feature_tensor(given.values, given.name), given.name), None, None
    else:
        x, ids, names = _features_of_table(given, edges.ids, nodes is not None)
    if nodes is None:
        return x, _ids_of_rows(edges, x.shape[0], given.name) if ids is None else ids, names
    if ids is not None:
        raise InputError(
            f"{nodes.name}: {given.name} names its nodes itself; leave out {edges.nodes_option}, "
            "or take the ids out of the features"
        )
    if len(nodes.values) != x.shape[0]:
        counts = f"{counted(len(nodes.values), 'id')} for {counted(x.shape[0], 'row')}"
        raise InputError(f"{nodes.name}: {counts} of {given.name}; give one per row")
    return x, nodes.values, names


def _features_of_table(
    table: Table, edge_ids: np.ndarray, named: bool
) -> tuple[Tensor, np.ndarray | None, list[str] | None]:
    """Features as a tensor, the ids of their rows and the names of their columns, each if there are any.

    ``named`` says that the rows have their ids elsewhere.
    """
    _refuse_levels(table)
    # pandas writes its index as a first column without a name, and calls it so when it reads it.
    unnamed = table.first[0] in ("", "Unnamed: 0")
    table.header = unnamed or table.has_header(ID_NAMES)
    id_column = _named_ids(table, edge_ids) if table.header else None
    guessed = id_column is None
    frame = table.values(0 if guessed else id_column)
    ids = None
    if guessed:
        may_be = not _names_ids(table) or (not named and (unnamed or not _are_numbers(table.values(None)[0])))
        if (table.index and not unnamed) or (may_be and _are_ids(frame[0], table, edge_ids)):
            id_column = 0
            if not (table.index or unnamed):  # an index is never a feature; another first column may be
                log.warning("%s: the first column is read as ids; name it id, or another column, to say so", table.name)
        elif table.index:
            log.warning("%s: ignored the index, which does not hold the ids of the edges", table.name)
            frame = frame.drop(columns=0)
        else:
            frame = table.values(None)
    elif (table.index or unnamed) and id_column != 0:
        what = "index" if table.index else "first column, which has no name"
        log.warning("%s: ignored the %s", table.name, what)
        frame = frame.drop(columns=0)
    table.id_column = id_column
    if id_column is not None:
        ids = distinct_ids(frame[id_column].to_numpy(dtype=object), table)
        frame = frame.drop(columns=id_column)
    if frame.shape[1] == 0:
        raise InputError(f"{table.name}: no column of features beside the ids; add at least one")
    x = table_features(frame, table.name, table.title, table.place)
    return x, ids, [table.first[column] for column in frame] if table.header else None


def _refuse_levels(table: Table) -> None:
    if table.index > 1:
        raise InputError(f"{table.name}: an index of {table.index} levels; reset_index() first, and name one column id")


def _named_ids(table: Table, edge_ids: np.ndarray) -> int | None:
    """The column with a name of ids, or the index if that name may mean something else and the index is the ids."""
    column = table.column(ID_NAMES)
    if column and table.index and plain_name(table.first[column]) in WEAK_ID_NAMES:
        index = table.values(0)[0]
        if index.notna().all() and (positions(edge_ids, _distinct(index, table)) >= 0).all():
            return 0
    return column


def _names_ids(table: Table) -> bool:
    """Whether a program holds the table and has made no index: numbers that it means as ids it would have named so."""
    return table.memory and not table.index


def _are_numbers(column: pd.Series) -> bool:
    """Whether a column holds numbers, and not text that is written as such."""
    if pd.api.types.is_numeric_dtype(column):
        return True
    return all(isinstance(value, Number) for value in column.dropna())


def _distinct(column: pd.Series, table: Table) -> np.ndarray:
    """The distinct ids of a column in which none is missing."""
    return factorise(column.map(str).to_numpy(dtype=object).reshape(-1, 1), table, ["id"])[1]


def _are_ids(column: pd.Series, table: Table, edge_ids: np.ndarray) -> bool:
    """Whether a first column without a known name holds ids: text, or distinct with half the edges' ids.

    Half, and not all: a table that lacks some nodes must end in an error about them, not in ids as features.
    """
    text = column.dropna().map(str)
    if not text.map(is_number).all():
        return True
    if column.isna().any():
        return False
    ids = _distinct(text, table)
    return len(ids) == len(text) and bool((positions(edge_ids, ids) >= 0).mean() >= 0.5)


# ---- Labels


class _LabelList:
    """Labels as they were given, None where there is none, and their ids if they have ids."""

    def __init__(self, given: Table | Rows, known: np.ndarray):
        self.name = given.name
        self.table = self.ids = None
        if isinstance(given, Rows):
            self.values = given.values
            return
        table = self.table = given
        _refuse_levels(table)
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
    by_index, by_column = ((positions(known, _distinct(ids, table)) >= 0).sum() for ids in (index, first))
    return bool(by_column >= max(by_index, 1))


def _ids_without_features(edges: _EdgeList, labels: _LabelList | None, nodes: Rows | None) -> np.ndarray:
    """The nodes of a graph without features, by the rule of ``read_graph``."""
    listed = None if nodes is None else nodes.values
    if labels is not None and labels.ids is None and listed is None:
        return _ids_of_rows(edges, len(labels.values), labels.name)
    ids = edges.ids if listed is None else union(listed, edges.ids)
    if labels is not None and labels.ids is not None:
        known = positions(labels.ids, ids) >= 0
        # Ids of another kind, or a header that was not seen.
        if not known.any() or labels.may_begin_with_header(known):
            raise InputError(labels.unknown(known, f"use the ids of {edges.name}"))
        if not known.all():
            unknown = labels.ids[~known]
            nodes = f"{counted(len(unknown), 'node')} without edges ({examples(unknown)})"
            log.warning("%s: %s added to those of %s", labels.name, nodes, edges.name)
        ids = union(ids, labels.ids)
    if edges.may_be_header(labels.ids if labels is not None and labels.ids is not None else listed):
        first = ", ".join(edges.ids[edges.ends[0]])
        fix = "if it is a header, call its columns source and target"
        log.warning("%s: %s (%s) is read as an edge; %s", edges.name, edges.table.place(0), first, fix)
    if listed is None and ids.dtype == np.int64 and ids.min() == 0 and ids.max() == len(ids) - 1:
        return np.arange(len(ids))
    return ids
