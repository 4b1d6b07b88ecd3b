"""A graph from its parts: edges, features, labels and node ids, as tables or arrays.

The readers of files (:mod:`epagcl.data.io.readers`) and of objects in memory (:mod:`epagcl.data.io.from_tables`) both
use this module. :func:`epagcl.read_graph` documents how rows are matched to nodes.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.core.formatting import counted
from epagcl.core.log import log
from epagcl.data.checking import check
from epagcl.data.io.columns.kinds import shortened
from epagcl.data.io.edge_list import EdgeList
from epagcl.data.io.edge_types import EdgeTypes
from epagcl.data.io.encoded import EncodedTable
from epagcl.data.io.feature_list import Near, match_features
from epagcl.data.io.ids import NodeIds, examples, node_kinds, positions, union
from epagcl.data.io.label_list import LabelList, without_missing
from epagcl.data.io.roles import Roles, find_column
from epagcl.data.io.tables.base import ArrayRows, Table
from epagcl.data.labels import encode_labels


def graph_from_parts(
    edges: Table,
    features: Table | ArrayRows | None,
    labels: Table | ArrayRows | None = None,
    nodes: NodeIds | None = None,
    roles: Roles = Roles(),  # noqa: B008 (frozen)
    near: Near | None = None,
) -> Data:
    """Return the checked graph of these parts, by the rules of :func:`epagcl.read_graph`.

    Args:
        edges: the edge list.
        features: a table, with or without ids, or an array; None for a graph without features.
        labels: a table, with or without ids, or an array; None for a graph without labels.
        nodes: the ids of the rows, for features (labels) without ids.
        roles: the columns that the user names, and how messages write arguments.
        near: the part of the graph whose features are needed; None: all of it.
    """
    edge_list = EdgeList(edges, roles)
    label_in_features = labels is None and roles.label is not None
    if label_in_features and not isinstance(features, Table):
        fix = f"give the labels as {roles.name_of('labels')}, or features with this column"
        raise InputError(f"{roles.name_of('label')} {roles.label}: no table has labels; {fix}")
    _refuse_unknown_id(roles, features, labels)
    feature_list = None if features is None else match_features(features, edge_list, nodes, label_in_features, near)
    node_ids = edge_list.ids if feature_list is None else feature_list.node_ids
    label_list = None if labels is None else LabelList(labels, node_ids, roles)
    if label_list is not None and label_list.ids is not None:
        label_list.ids = edge_list.with_kinds(label_list.ids, label_list.name)
    if feature_list is None:
        node_ids, edge_list = _ids_without_features(edge_list, label_list, nodes)
    else:
        edge_list = edge_list.without_header(node_ids)
    edge_list.log_columns()
    edge_index = edge_list.edge_index(node_ids, (nodes or features or edges).name)
    if label_list is not None:
        y = encode_labels(label_list.of(node_ids, features), label_list.name)
    elif feature_list is not None and feature_list.labels is not None and features is not None:
        y = encode_labels(without_missing(pd.Series(feature_list.labels)), features.name)
    else:
        y = None
    table = None if feature_list is None else feature_list.table
    described = Edges(torch.from_numpy(edge_index), edge_list.weights(), edge_list.types(), roles.directed)
    if feature_list is not None and feature_list.rows is not None:
        described = described.near(feature_list.rows, len(node_ids))
    data = checked_data(table, described, y, node_ids, edge_list.name, quiet=near is not None)
    if edge_list.kinds is not None:
        data.node_type = node_kinds(node_ids)
    return data


class Edges(NamedTuple):
    """The edges of a graph with what describes them.

    Attributes:
        ends: the two nodes of each edge, ``[2, E]``.
        weights: the weight of each edge; None without weights.
        types: the kind of each edge; None if all are of one kind.
        directed: how directed edges are used, one of :data:`~epagcl.data.relations.DIRECTIONS`; None: symmetric.
    """

    ends: Tensor
    weights: np.ndarray | None = None
    types: EdgeTypes | None = None
    directed: str | None = None

    def near(self, nodes: np.ndarray, num_nodes: int) -> "Edges":
        """Return the edges of some nodes and one more, so that there is one; all if their weights or kinds matter.

        Weights and kinds are scaled by their mean over all edges.

        Args:
            nodes: node numbers.
            num_nodes: N.
        """
        if self.weights is not None or self.types is not None or self.directed is not None:
            return self
        inside = torch.zeros(num_nodes, dtype=torch.bool)
        inside[torch.from_numpy(nodes)] = True
        source, target = self.ends
        kept = inside[source] | inside[target]
        kept[(source != target).int().argmax()] = True
        return Edges(self.ends[:, kept])


def checked_data(
    features: EncodedTable | None,
    edges: Edges,
    labels: tuple[Tensor, list[str] | None] | None,
    node_ids: np.ndarray,
    source: str,
    *,
    quiet: bool = False,
) -> Data:
    """Return checked ``Data`` with ids and names.

    Args:
        features: features and the names of their columns; None for a graph without features.
        edges: the edges.
        labels: class numbers and class names, as :func:`~epagcl.data.labels.encode_labels` returns them.
        node_ids: the id of each node.
        source: the name of the graph in messages.
        quiet: do not log repairs.
    """
    x = None if features is None else features.x
    data = Data(x=x, edge_index=edges.ends, num_nodes=len(node_ids))
    if edges.weights is not None:
        data.edge_weight = torch.tensor(edges.weights)
    if edges.types is not None:
        data.edge_type, data.relation_names = torch.from_numpy(edges.types.numbers), edges.types.names
    if edges.directed is not None:
        data.directed = edges.directed
    # An array, not a list: Data.to and Data.clone pass an array on as one object, but recurse into lists.
    data.node_ids = node_ids
    if features is not None and features.names is not None:
        data.feature_names = features.names
    if features is not None and features.encoding is not None:
        data.encoding, data.raw_features = features.encoding, features.raw
    if labels is not None:
        data.y, label_names = labels
        if label_names is not None:
            data.label_names = label_names
    return check(data, source=source, quiet=quiet, features=x is not None)


def _refuse_unknown_id(roles: Roles, *parts: Table | ArrayRows | None) -> None:
    """Raise if the user names a column of ids that no table has."""
    tables = [part for part in parts if isinstance(part, Table)]
    if roles.id is None or any(find_column(table, roles.id) is not None for table in tables):
        return
    where = f"; the columns of {tables[0].name} are {shortened(tables[0].first_row, 8)}" if tables else ""
    raise InputError(f"{roles.name_of('id')} {roles.id}: no table has this column{where}")


def _ids_without_features(
    edges: EdgeList, labels: LabelList | None, nodes: NodeIds | None
) -> tuple[np.ndarray, EdgeList]:
    """Return the nodes of a graph without features, by the rule of :func:`epagcl.read_graph`, and its edges."""
    listed = None if nodes is None else edges.with_kinds(nodes.values, nodes.name)
    if labels is not None and labels.ids is None and listed is None:
        return edges.ids_for_rows(len(labels.values), labels.name), edges
    if labels is not None and labels.ids is not None:
        edges = edges.without_header(labels.ids if listed is None else union(listed, labels.ids))
    ids = edges.ids if listed is None else union(listed, edges.ids)
    known_ids = listed
    if labels is not None and labels.ids is not None:
        known_ids = labels.ids
        in_graph = positions(labels.ids, ids) >= 0
        # If no id is in the graph, the labels use other ids. Otherwise a header may have been read as a node.
        if not in_graph.any() or labels.may_begin_with_header(in_graph):
            raise InputError(labels.unknown_ids_message(in_graph, f"use the ids of {edges.name}"))
        if not in_graph.all():
            isolated = labels.ids[~in_graph]
            added = f"{counted(len(isolated), 'node')} without edges ({examples(isolated)})"
            log.warning("%s: %s added to the nodes of %s", labels.name, added, edges.name)
        ids = union(ids, labels.ids)
    if edges.may_begin_with_header(known_ids):
        first = ", ".join(edges.ids[edges.ends[0]])
        fix = "if it is a header, call its columns source and target"
        log.warning("%s: %s (%s) is read as an edge; %s", edges.name, edges.table.place(0), first, fix)
    if listed is None and ids.dtype == np.int64 and ids.min() == 0 and ids.max() == len(ids) - 1:
        return np.arange(len(ids)), edges
    return ids, edges
