"""Edges, features and labels of one graph as they were given, and which row belongs to which node.

The rules stand in :func:`epagcl.read_graph`; files (:mod:`epagcl.data.io.readers`) and what a program holds
(:mod:`epagcl.data.io.frames`) both come here.
"""

from numbers import Number

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.core.formatting import counted
from epagcl.core.log import log
from epagcl.data.checking import check_features
from epagcl.data.io.column_names import ID_NAMES, WEAK_ID_NAMES, distinct_column_ids, refuse_index_levels
from epagcl.data.io.columns import assemble, feature_tensor, is_number, table_features
from epagcl.data.io.edge_list import EdgeList
from epagcl.data.io.ids import distinct_ids, examples, positions, union
from epagcl.data.io.label_list import LabelList
from epagcl.data.io.table import Rows, Table, plain_name
from epagcl.data.labels import encode_labels


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
    edge_list = EdgeList(edges, option)
    x = names = label_list = None
    node_ids = edge_list.ids
    if features is not None:
        x, node_ids, names = _features_with_ids(features, edge_list, nodes)
    if labels is not None:
        label_list = LabelList(labels, node_ids)
    if features is None:
        node_ids = _ids_without_features(edge_list, label_list, nodes)
    edge_index = edge_list.numbered(node_ids, (nodes or features or edges).name)
    y = None if label_list is None else encode_labels(label_list.of(node_ids, features), label_list.name)
    return assemble(x, torch.from_numpy(edge_index), y, node_ids, edge_list.name, names)


def _ids_of_rows(edges: EdgeList, rows: int, name: str) -> np.ndarray:
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


def _features_with_ids(
    given: Table | Rows, edges: EdgeList, nodes: Rows | None
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
    refuse_index_levels(table)
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


def _named_ids(table: Table, edge_ids: np.ndarray) -> int | None:
    """The column with a name of ids, or the index if that name may mean something else and the index is the ids."""
    column = table.column(ID_NAMES)
    if column and table.index and plain_name(table.first[column]) in WEAK_ID_NAMES:
        index = table.values(0)[0]
        if index.notna().all() and (positions(edge_ids, distinct_column_ids(index, table)) >= 0).all():
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


def _are_ids(column: pd.Series, table: Table, edge_ids: np.ndarray) -> bool:
    """Whether a first column without a known name holds ids: text, or distinct with half the edges' ids.

    Half, and not all: a table that lacks some nodes must end in an error about them, not in ids as features.
    """
    text = column.dropna().map(str)
    if not text.map(is_number).all():
        return True
    if column.isna().any():
        return False
    ids = distinct_column_ids(text, table)
    return len(ids) == len(text) and bool((positions(edge_ids, ids) >= 0).mean() >= 0.5)


def _ids_without_features(edges: EdgeList, labels: LabelList | None, nodes: Rows | None) -> np.ndarray:
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
