"""Graphs from NetworkX and from adjacency matrices: :func:`from_networkx`, :func:`from_scipy`."""

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.errors import InputError, MissingFeatures
from epagcl.core.formatting import counted
from epagcl.core.log import log
from epagcl.data.io.assemble import Edges, checked_data
from epagcl.data.io.edge_columns import NO_COLUMN, TYPE_NAMES
from epagcl.data.io.edge_types import EdgeTypes, edge_types
from epagcl.data.io.encoded import EncodedTable, encode_table
from epagcl.data.io.features import feature_tensor
from epagcl.data.io.ids import id_array
from epagcl.data.io.roles import Roles
from epagcl.data.io.tables.frame import as_frame
from epagcl.data.labels import encode_labels
from epagcl.data.relations import MOST_KINDS

if TYPE_CHECKING:
    import networkx
    import polars


def from_networkx(
    graph: "networkx.Graph",
    features: "str | list[str] | pd.DataFrame | np.ndarray | Tensor | scipy.sparse.sparray | None" = None,
    labels: "str | pd.Series | pd.DataFrame | polars.Series | Sequence[Any] | np.ndarray | Tensor | None" = None,
    *,
    type: str | None = None,
    directed: str | None = None,
) -> Data:
    """Return a NetworkX graph as checked ``Data``. Node k is the k-th of ``graph.nodes``; ``node_ids[k]`` is its name.

    A pandas table or series is matched to the nodes by its index. If the index is 0, 1, ... and these are not the
    nodes, the rows are in the order of ``graph.nodes``, like the rows of an array.

    Args:
        graph: any NetworkX graph; directed edges and parallel edges are merged into undirected pairs, unless they
            have kinds or ``directed`` is given. The edge attribute ``weight`` becomes ``edge_weight``; an edge without
            it has weight 1, as in NetworkX.
        features: the name(s) of node attributes (numbers or vectors, concatenated in this order), or a table or array
            with one row per node. The column names of a table become ``feature_names``. Default: the attribute ``x``.
        labels: the name of a node attribute, or one label per node.
        type: the edge attribute with the kinds of edges. Default: type, edge_type or relation, or in a multigraph
            whose keys are text, the keys; ``"none"`` merges all kinds.
        directed: how directed edges are used, as for :func:`epagcl.read_graph`.

    Examples:
        >>> import networkx
        >>> graph = networkx.path_graph(["ann", "bob", "eve"])
        >>> data = from_networkx(graph, features=np.eye(3), labels=["x", "y", "x"])
        >>> data.node_ids.tolist(), data.edge_index.tolist()
        (['ann', 'bob', 'eve'], [[0, 1, 1, 2], [1, 0, 2, 1]])
    """
    source = "networkx graph"
    if inspect.isclass(graph) or not (hasattr(graph, "nodes") and hasattr(graph, "adjacency")):
        fix = "give a networkx.Graph, or use epagcl.from_tables"
        raise InputError(f"{source}: {graph.__class__.__name__} is not a NetworkX graph; {fix}")
    nodes = list(graph.nodes)
    number = {node: k for k, node in enumerate(nodes)}
    ends = np.array([(number[u], number[v]) for u, v in graph.edges()], dtype=np.int64).reshape(-1, 2)
    features = "x" if features is None else features
    attributes = [features] if isinstance(features, str) else features
    if isinstance(attributes, list | tuple) and all(isinstance(name, str) for name in attributes):
        if not attributes:
            raise InputError(f"{source}: features are an empty list; name an attribute of the nodes, or give an array")
        x = torch.cat([_attribute_columns(graph, name, source) for name in attributes], dim=1)
        table = EncodedTable(x, None)
    else:
        table = _features(_in_node_order(features, nodes, source, "features"), source)
    edges = [attributes for _, _, attributes in graph.edges(data=True)]
    weights = None
    if any("weight" in attributes for attributes in edges):
        weights = np.array([attributes.get("weight", 1) for attributes in edges], dtype=np.float64)
    kinds, attribute = _edge_kinds(graph, edges, type, source)
    if any(attributes.keys() - {"weight", attribute} for attributes in edges):
        used = "weight" if attribute is None else f"weight and {attribute}"
        log.warning("%s: edge attributes other than %s are not used", source, used)
    if isinstance(labels, str):
        labels = _attribute_values(graph, labels, source)
    y = None if labels is None else encode_labels(_in_node_order(labels, nodes, source, "labels"), source)
    described = Edges(torch.from_numpy(ends.T.copy()), weights, kinds, Roles(directed=directed).directed)
    return checked_data(table, described, y, id_array(nodes), source)


def from_scipy(
    adjacency: "scipy.sparse.sparray | scipy.sparse.spmatrix | np.ndarray | Tensor",
    features: "pd.DataFrame | polars.DataFrame | np.ndarray | Tensor | scipy.sparse.sparray",
    labels: "pd.Series | pd.DataFrame | polars.Series | Sequence[Any] | np.ndarray | Tensor | None" = None,
    *,
    directed: str | None = None,
) -> Data:
    """Return an adjacency matrix with one feature row per node as checked ``Data``.

    Row k of features and labels belongs to node k of the matrix. This also holds for pandas tables; their index is not
    used.

    Args:
        adjacency: a square matrix; an entry that is not zero is an edge, and its value the weight of the edge.
        features: a table or array with one row per node. The column names of a table become ``feature_names``.
        labels: one label per node.
        directed: how a matrix that is not symmetric is used, as for :func:`epagcl.read_graph`; its entry (i, j) is an
            edge from i to j.

    Examples:
        >>> data = from_scipy(scipy.sparse.csr_array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]), np.eye(3))
        >>> data.edge_index.tolist()
        [[0, 1, 1, 2], [1, 0, 2, 1]]
    """
    source = "adjacency matrix"
    matrix = _coo_matrix(adjacency, source)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"{source}: shape {matrix.shape}; it must be square, nodes × nodes")
    if features is None:
        raise MissingFeatures(f"{source}: no features; give an array with one row per node")
    table = _features(_in_row_order(features, source, "features"), source)
    x = table.x
    if x.shape[0] != matrix.shape[0]:
        raise InputError(f"{source}: {x.shape[0]:,} feature rows for {matrix.shape[0]:,} nodes; give one row per node")
    edge = matrix.data != 0
    ends = np.stack([matrix.row[edge], matrix.col[edge]]).astype(np.int64)
    y = None if labels is None else encode_labels(_in_row_order(labels, source, "labels"), source)
    weights = matrix.data[edge].astype(np.float64)
    edges = Edges(torch.from_numpy(ends), weights, directed=Roles(directed=directed).directed)
    return checked_data(table, edges, y, np.arange(x.shape[0]), source)


def _edge_kinds(
    graph: "networkx.Graph", edges: Sequence[dict[str, Any]], name: str | None, source: str
) -> tuple[EdgeTypes | None, str | None]:
    """Return the kinds of the edges, and the attribute that holds them; None without kinds, or if keys hold them."""
    given = {key for attributes in edges for key in attributes}
    if name == NO_COLUMN and name not in given:
        return None, None
    if name is not None and name not in given:
        known = ", ".join(sorted(map(str, given))) or "none"
        raise InputError(f"{source}: no edge has the attribute {name!r} for type=; its edges have {known}")
    name = name or next((each for each in TYPE_NAMES if each in given), None)
    if name is not None:
        return edge_types([attributes.get(name) for attributes in edges], f"{source}: {name}"), name
    keys = [key for *_, key in graph.edges(keys=True)] if graph.is_multigraph() else []
    if not keys or len(set(keys)) > MOST_KINDS or not all(isinstance(key, str) for key in keys):
        return None, None
    return edge_types(keys, f"{source}: keys"), None


def _attribute_values(graph: "networkx.Graph", name: str, source: str) -> np.ndarray:
    """Return a node attribute as an array of objects, None for nodes without it."""
    values = [attributes.get(name) for _, attributes in graph.nodes(data=True)]
    if all(value is None for value in values):
        raise InputError(f"{source}: no node has the attribute {name!r}; give the name of one, or an array")
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _attribute_columns(graph: "networkx.Graph", name: str, source: str) -> Tensor:
    """Return a numeric node attribute as feature columns. Raise if a node lacks it."""
    values = _attribute_values(graph, name, source)
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


def _features(features: Any, source: str) -> EncodedTable:
    """Return features as a tensor, with the names and the encoding of the columns if they are a table."""
    frame = as_frame(features)
    if frame is None:
        return EncodedTable(feature_tensor(features, source), None)
    names, index = [str(name) for name in frame.columns], frame.index
    frame = frame.set_axis(range(len(names)), axis=1).reset_index(drop=True)
    return encode_table(frame, names, source, lambda row: f"row {index[row]}")


def _in_node_order(values: Any, nodes: list[Any], source: str, name: str) -> Any:
    """Return the rows of a pandas table or series in the order of the nodes; other types are returned unchanged."""
    if not isinstance(values, pd.DataFrame | pd.Series):
        return values
    index = list(values.index)
    row = {node: k for k, node in enumerate(index)}
    missing = [node for node in nodes if node not in row]
    if missing and _is_default_index(values.index):
        return values
    if missing:
        raise InputError(
            f"{source}: the index of {name} lacks {len(missing):,} of {counted(len(nodes), 'node')} "
            f"(first: {missing[0]!r}); give every node a row, or an array in the order of graph.nodes"
        )
    if len(row) != len(index):
        repeated = values.index[values.index.duplicated()][0]
        raise InputError(f"{source}: {repeated!r} is in the index of {name} twice; keep one row per node")
    return values.iloc[[row[node] for node in nodes]]


def _in_row_order(values: Any, source: str, name: str) -> Any:
    """Return features or labels unchanged. Warn or raise if the index of a pandas object suggests another order."""
    if not isinstance(values, pd.DataFrame | pd.Series) or _is_default_index(values.index):
        return values
    integers = pd.api.types.is_integer_dtype(values.index)
    if integers and _is_default_index(values.index.sort_values()):  # shuffled rows; the matrix is not shuffled
        raise InputError(
            f"{source}: the index of {name} is 0, 1, ... in another order; "
            "call sort_index() if it numbers the nodes, or to_numpy() if the rows are in order"
        )
    log.warning("%s: the index of %s is not used; row k belongs to node k of the matrix", source, name)
    return values


def _is_default_index(index: pd.Index) -> bool:
    """Return whether an index is 0, 1, ..., the default index of pandas."""
    return index.equals(pd.RangeIndex(len(index)))


def _coo_matrix(adjacency: Any, source: str) -> scipy.sparse.coo_array:
    """Return an adjacency matrix of any type as a SciPy matrix."""
    try:
        if not isinstance(adjacency, Tensor):
            matrix = scipy.sparse.coo_array(adjacency)
            if matrix.dtype.kind not in "biufc":  # SciPy before 1.13 takes objects and text
                raise TypeError
            return matrix
        coo = adjacency.detach().cpu().to_sparse_coo().coalesce()
        return scipy.sparse.coo_array((coo.values().double(), tuple(coo.indices().numpy())), shape=tuple(coo.shape))
    except (TypeError, ValueError):
        message = f"{type(adjacency).__name__} is not a matrix of numbers"
        raise InputError(f"{source}: {message}; give a SciPy matrix or a NumPy array") from None
