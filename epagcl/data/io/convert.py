"""Graphs that a program already holds, as ``Data``: NetworkX, SciPy, and what all readers share."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Data

import epagcl.core.sparse  # noqa: F401
from epagcl.core.errors import InputError
from epagcl.core.formatting import counted

if TYPE_CHECKING:
    import networkx
    import polars
from epagcl.core.log import log
from epagcl.data.io.columns import as_frame, assemble, feature_tensor, id_array, table_features
from epagcl.data.labels import encode_labels


def from_networkx(
    graph: "networkx.Graph",
    features: "str | list[str] | pd.DataFrame | np.ndarray | Tensor | scipy.sparse.sparray | None" = None,
    labels: "str | pd.Series | pd.DataFrame | polars.Series | Sequence | np.ndarray | Tensor | None" = None,
) -> Data:
    """A NetworkX graph as checked ``Data``; node k is the k-th of ``graph.nodes``, ``node_ids[k]`` its name.

    A pandas table or series whose index holds the nodes is read by it. One with an index 0, 1, ... that are not the
    nodes is read, like an array, in the order of ``graph.nodes``.

    Args:
        graph: any NetworkX graph; directed edges and parallel edges are merged into undirected pairs.
        features: the name(s) of node attributes (numbers or vectors, joined in this order), or a table (the names of
            its columns become ``feature_names``) or an array with one row per node; without it, the attribute ``x``.
        labels: the name of a node attribute, or one label per node.
    """
    source = "networkx graph"
    if isinstance(graph, type) or not (hasattr(graph, "nodes") and hasattr(graph, "adjacency")):
        raise InputError(f"{source}: a {type(graph).__name__} is none; give a networkx.Graph, or use from_tables")
    nodes = list(graph.nodes)
    number = {node: k for k, node in enumerate(nodes)}
    ends = np.array([(number[u], number[v]) for u, v in graph.edges()], dtype=np.int64).reshape(-1, 2)
    features = "x" if features is None else features
    attributes = [features] if isinstance(features, str) else features
    names = None
    if isinstance(attributes, list | tuple) and all(isinstance(name, str) for name in attributes):
        if not attributes:
            raise InputError(f"{source}: features are an empty list; name an attribute of the nodes, or give an array")
        x = torch.cat([_attribute_columns(graph, name, source) for name in attributes], dim=1)
    else:
        x, names = _features(_by_node(features, nodes, source, "features"), source)
    if any(attributes for _, _, attributes in graph.edges(data=True)):
        log.warning("%s: edge weights and attributes are not used", source)
    if isinstance(labels, str):
        labels = _attribute(graph, labels, source)
    y = None if labels is None else encode_labels(_by_node(labels, nodes, source, "labels"), source)
    return assemble(x, torch.from_numpy(ends.T.copy()), y, id_array(nodes), source, names)


def from_scipy(
    adjacency: "scipy.sparse.sparray | scipy.sparse.spmatrix | np.ndarray | Tensor",
    features: "pd.DataFrame | polars.DataFrame | np.ndarray | Tensor | scipy.sparse.sparray",
    labels: "pd.Series | pd.DataFrame | polars.Series | Sequence | np.ndarray | Tensor | None" = None,
) -> Data:
    """An adjacency matrix (non-zero = edge) with one feature row per node as checked ``Data``.

    Rows belong to nodes by their order, also those of a pandas table: its index is not used. The names of its columns
    become ``feature_names``.
    """
    source = "adjacency matrix"
    matrix = _matrix(adjacency, source)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"{source}: shape {matrix.shape}; it must be square, nodes × nodes")
    if features is None:
        raise InputError(f"{source}: no features; give an array with one row per node")
    x, names = _features(_by_row(features, source, "features"), source)
    if x.shape[0] != matrix.shape[0]:
        raise InputError(f"{source}: {x.shape[0]:,} feature rows for {matrix.shape[0]:,} nodes; give one row per node")
    edge = matrix.data != 0
    if (matrix.data[edge] != 1).any():
        log.warning("%s: edge weights and attributes are not used", source)
    ends = np.stack([matrix.row[edge], matrix.col[edge]]).astype(np.int64)
    y = None if labels is None else encode_labels(_by_row(labels, source, "labels"), source)
    return assemble(x, torch.from_numpy(ends), y, np.arange(x.shape[0]), source, names)


def _attribute(graph: "networkx.Graph", name: str, source: str) -> np.ndarray:
    """A node attribute as an array of objects; a node without it has None."""
    values = [attributes.get(name) for _, attributes in graph.nodes(data=True)]
    if all(value is None for value in values):
        raise InputError(f"{source}: no node has the attribute {name!r}; give the name of one, or an array")
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _attribute_columns(graph: "networkx.Graph", name: str, source: str) -> Tensor:
    values = _attribute(graph, name, source)
    missing = [node for node, value in zip(graph.nodes, values, strict=True) if value is None]
    if missing:
        raise InputError(
            f"{source}: {len(missing):,} of {len(values):,} nodes have no attribute {name!r} "
            f"(first: {missing[0]!r}); give every node one"
        )
    try:
        array = np.array([np.asarray(value) for value in values])
    except ValueError:
        raise InputError(f"{source}: attribute {name!r} has vectors of different lengths; make them equal") from None
    if array.dtype.kind not in "biuf":
        raise InputError(f"{source}: attribute {name!r} is not numeric; encode it as numbers or leave it out")
    return feature_tensor(array.reshape(len(values), -1), source)


def _features(given: Any, source: str) -> tuple[Tensor, list[str] | None]:
    """Features, and the names of their columns if they are a table."""
    frame = as_frame(given)
    if frame is None:
        return feature_tensor(given, source), None
    names, index = [str(name) for name in frame.columns], frame.index
    frame = frame.set_axis(range(len(names)), axis=1).reset_index(drop=True)
    return table_features(frame, source, lambda k: f"column {names[k]!r}", lambda row: f"row {index[row]}"), names


def _by_node(given: Any, nodes: list, source: str, what: str) -> Any:
    """The rows of a pandas table or series in the order of the nodes; all else as it is."""
    if not isinstance(given, pd.DataFrame | pd.Series):
        return given
    index = list(given.index)
    row = {node: k for k, node in enumerate(index)}
    missing = [node for node in nodes if node not in row]
    if missing and _counts_rows(given.index):
        return given
    if missing:
        raise InputError(
            f"{source}: the index of {what} lacks {len(missing):,} of {counted(len(nodes), 'node')} "
            f"(first: {missing[0]!r}); give every node a row, or an array in the order of graph.nodes"
        )
    if len(row) != len(index):
        twice = given.index[given.index.duplicated()][0]
        raise InputError(f"{source}: {twice!r} stands twice in the index of {what}; keep one row per node")
    return given.iloc[[row[node] for node in nodes]]


def _by_row(given: Any, source: str, what: str) -> Any:
    """A pandas table or series whose rows are in order; a line says so where its index may mean another."""
    if not isinstance(given, pd.DataFrame | pd.Series) or _counts_rows(given.index):
        return given
    whole = pd.api.types.is_integer_dtype(given.index)
    if whole and _counts_rows(given.index.sort_values()):  # as after a shuffle, which the matrix has not seen
        raise InputError(
            f"{source}: the index of {what} is 0, 1, ... in another order; "
            "sort_index() for that of the matrix, to_numpy() for that of the rows"
        )
    log.warning("%s: the index of %s is not used; row k belongs to node k of the matrix", source, what)
    return given


def _counts_rows(index: pd.Index) -> bool:
    """Whether an index is 0, 1, ..., as pandas gives it to a table without ids."""
    return index.equals(pd.RangeIndex(len(index)))


def _matrix(adjacency: Any, source: str) -> scipy.sparse.coo_array:
    """An adjacency matrix of any kind as SciPy's."""
    try:
        if not isinstance(adjacency, Tensor):
            return scipy.sparse.coo_array(adjacency)
        coo = adjacency.detach().cpu().to_sparse_coo().coalesce()
        return scipy.sparse.coo_array((coo.values().double(), tuple(coo.indices().numpy())), shape=tuple(coo.shape))
    except (TypeError, ValueError):
        what = f"a {type(adjacency).__name__} that is no matrix of numbers"
        raise InputError(f"{source}: {what}; give a SciPy matrix or a NumPy array") from None
