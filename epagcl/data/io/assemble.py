"""A graph from its parts: edges, features, labels and node ids, as tables or arrays.

The readers of files (:mod:`epagcl.data.io.readers`) and of objects in memory (:mod:`epagcl.data.io.from_tables`) both
use this module. :func:`epagcl.read_graph` documents how rows are matched to nodes.
"""

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.core.formatting import counted
from epagcl.core.log import log
from epagcl.data.checking import check
from epagcl.data.io.edge_list import EdgeList
from epagcl.data.io.feature_list import match_features
from epagcl.data.io.ids import NodeIds, examples, positions, union
from epagcl.data.io.label_list import LabelList
from epagcl.data.io.tables.base import ArrayRows, Table
from epagcl.data.labels import encode_labels

#: Format of argument names in messages, for Python callers.
PYTHON_ARGUMENT = "{}="


def graph_from_parts(
    edges: Table,
    features: Table | ArrayRows | None,
    labels: Table | ArrayRows | None = None,
    nodes: NodeIds | None = None,
    argument: str = PYTHON_ARGUMENT,
) -> Data:
    """Return the checked graph of these parts, by the rules of :func:`epagcl.read_graph`.

    Args:
        edges: the edge list.
        features: a table, with or without ids, or an array; None for a graph without features.
        labels: a table, with or without ids, or an array; None for a graph without labels.
        nodes: the ids of the rows, for features (labels) without ids.
        argument: format of argument names in messages.
    """
    edge_list = EdgeList(edges, argument.format("nodes"))
    feature_list = None if features is None else match_features(features, edge_list, nodes)
    node_ids = edge_list.ids if feature_list is None else feature_list.node_ids
    label_list = None if labels is None else LabelList(labels, node_ids)
    if feature_list is None:
        node_ids = _ids_without_features(edge_list, label_list, nodes)
    edge_index = edge_list.edge_index(node_ids, (nodes or features or edges).name)
    y = None if label_list is None else encode_labels(label_list.of(node_ids, features), label_list.name)
    x, names = (None, None) if feature_list is None else (feature_list.x, feature_list.names)
    return checked_data(x, torch.from_numpy(edge_index), y, node_ids, edge_list.name, names)


def checked_data(
    x: Tensor | None,
    edge_index: Tensor,
    labels: tuple[Tensor, list[str] | None] | None,
    node_ids: np.ndarray,
    source: str,
    feature_names: list[str] | None = None,
) -> Data:
    """Return checked ``Data`` with ids and names.

    Args:
        x: features; None for a graph without features.
        edge_index: edges ``[2, E]``.
        labels: class numbers and class names, as :func:`~epagcl.data.labels.encode_labels` returns them.
        node_ids: the id of each node.
        source: the name of the graph in messages.
        feature_names: the names of the columns of ``x``.
    """
    data = Data(x=x, edge_index=edge_index, num_nodes=len(node_ids))
    # An array, not a list: Data.to and Data.clone pass an array on as one object, but recurse into lists.
    data.node_ids = node_ids
    if feature_names is not None:
        data.feature_names = feature_names
    if labels is not None:
        data.y, label_names = labels
        if label_names is not None:
            data.label_names = label_names
    return check(data, source=source, features=x is not None)


def _ids_without_features(edges: EdgeList, labels: LabelList | None, nodes: NodeIds | None) -> np.ndarray:
    """Return the nodes of a graph without features, by the rule of :func:`epagcl.read_graph`."""
    listed = None if nodes is None else nodes.values
    if labels is not None and labels.ids is None and listed is None:
        return edges.ids_for_rows(len(labels.values), labels.name)
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
        return np.arange(len(ids))
    return ids
