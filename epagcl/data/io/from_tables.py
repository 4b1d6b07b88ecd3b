"""Graphs from tables, arrays and lists in memory: :func:`from_tables`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.core.log import log
from epagcl.data.io.assemble import graph_from_parts
from epagcl.data.io.ids import listed_ids
from epagcl.data.io.roles import Roles
from epagcl.data.io.tables.base import ArrayRows, Table
from epagcl.data.io.tables.frame import FrameTable, as_frame, is_polars
from epagcl.data.labels import label_array

if TYPE_CHECKING:
    import polars


_EDGE_TYPES = "a table, a pair (sources, targets), an array [E, 2], a tensor [2, E] or a list of pairs"


def from_tables(
    edges: "pd.DataFrame | polars.DataFrame | np.ndarray | Tensor | Iterable[Any]",
    features: "pd.DataFrame | polars.DataFrame | np.ndarray | Tensor | scipy.sparse.sparray | list[Any] | None",
    labels: (
        "pd.Series | pd.DataFrame | polars.Series | polars.DataFrame | np.ndarray | Tensor | list[Any] | None"
    ) = None,
    nodes: (
        "pd.Series | pd.DataFrame | polars.Series | polars.DataFrame | np.ndarray | Tensor | Iterable[Any] | None"
    ) = None,
    *,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    type: str | None = None,
    directed: str | None = None,
    id: str | None = None,
    label: str | None = None,
    bipartite: bool = False,
    columns_as: Mapping[str, str] | None = None,
) -> Data:
    """Return a checked graph from tables (pandas, polars), arrays, tensors and lists.

    Rows are matched to nodes by the rules of :func:`epagcl.read_graph`, with two additions. The index of a pandas
    table, unless it is 0, 1, ..., is a column of ids. Any other column of numbers holds ids only if it is named id,
    node_id, node or name. Ids are integers if all of them are (and fit into 64 bits), else text.

    Args:
        edges: one of

            - a table: the ends are its columns named source and target, or with another pair of common names, or its
              only two columns (without the index);
            - two arrays, tensors or series ``(sources, targets)``, as DGL's ``graph.edges()`` returns them, or a tuple
              of two lists;
            - a tensor: read as ``[2, E]`` if its shape allows it (PyG's ``edge_index``);
            - a NumPy array: read as ``[E, 2]`` if its shape allows it;
            - any other iterable of pairs of ids.
        features: a table whose ids are the index, a column named id, node_id, node or name or with a name that ends
            in _id, or a first column of text; or an array, tensor or SciPy matrix; or None. EPR needs no features.
        labels: a table (id, label), a series whose index holds the ids, or one label per row of features. A pandas
            series with the index 0, 1, ... is matched by its index if the features have such ids in another order.
        nodes: the ids of the rows, for features (labels) without ids: any ordered iterable.
        source: column of the edges with the first end.
        target: column of the edges with the second end.
        weight: column of the edges with their weights. Default: a column named weight, edge_weight or weights;
            ``"none"`` uses no weights.
        type: column of the edges with their kinds, each of which becomes an operator of its own. Default: a column
            named type, edge_type or relation; ``"none"`` merges all kinds.
        directed: how edges with a direction are used: ``"symmetric"`` (the default) without it, ``"both"`` as two
            relations, out and in, or ``"out"`` (a node receives from those it points to) or ``"in"`` only.
        id: column with the ids.
        label: column with the labels, of ``labels`` or else of ``features``.
        bipartite: the ends of an edge are nodes of two kinds, whose ids do not merge.
        columns_as: kinds of feature columns, as for :func:`epagcl.read_graph`.

    Returns:
        ``Data`` as from :func:`epagcl.read_graph`.

    Examples:
        >>> people = pd.DataFrame({"age": [30, 40, 50]}, index=["ann", "bob", "eve"])
        >>> data = from_tables([("ann", "bob"), ("bob", "eve")], people, labels=["x", "y", "x"])
        >>> data.node_ids.tolist(), data.x[:, 0].tolist(), data.y.tolist()
        (['ann', 'bob', 'eve'], [30.0, 40.0, 50.0], [0, 1, 0])
        >>> people["city"] = ["Rome", "Oslo", "Rome"]
        >>> from_tables([("ann", "bob"), ("bob", "eve")], people).feature_names
        ['age', 'city=Rome', 'city=Oslo']
    """
    return graph_from_parts(
        _edge_table(edges),
        None if features is None else _table_or_rows(features, "features"),
        None if labels is None else _table_or_rows(labels, "labels"),
        None if nodes is None else listed_ids(_node_table(nodes), id),
        Roles(source, target, id, label, bipartite, columns_as or {}, weight=weight, type=type, directed=directed),
    )


def _edge_table(edges: Any) -> FrameTable:
    """Return the edges as a table with the columns source and target, unless they are a table already."""
    if (frame := as_frame(edges)) is not None:
        return FrameTable(frame, "edges", in_memory=True)
    if scipy.sparse.issparse(edges):
        raise InputError("edges: a SciPy matrix; use epagcl.from_scipy, or give pairs")
    if isinstance(edges, Tensor) and edges.layout != torch.strided:
        raise InputError("edges: a sparse tensor; use epagcl.from_scipy, or give pairs")
    source: np.ndarray | list[Any]
    target: np.ndarray | list[Any]
    if isinstance(edges, tuple | list) and len(edges) == 2 and _are_columns(edges):
        source, target = _array(edges[0]), _array(edges[1])
    elif isinstance(edges, np.ndarray | Tensor):
        source, target = _split_array(edges)
    else:
        source, target = _split_pairs(edges)
    if len(source) != len(target):
        raise InputError(f"edges: {len(source):,} sources for {len(target):,} targets; give one of each per edge")
    if len(source) == 0:
        raise InputError("edges: no edges; a graph needs at least one")
    return FrameTable(pd.DataFrame({"source": source, "target": target}), "edges")


def _are_columns(pair: Sequence[Any]) -> bool:
    """Return whether a pair is (sources, targets): two one-dimensional arrays, or a tuple of two lists."""
    if isinstance(pair, tuple) and all(isinstance(ends, list) for ends in pair):
        return True
    return all(hasattr(ends, "__array__") and getattr(ends, "ndim", 1) == 1 for ends in pair)


def _split_array(edges: np.ndarray | Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return the sources and targets of an array ``[E, 2]`` or ``[2, E]``."""
    array = _array(edges)
    if array.ndim != 2 or 2 not in array.shape:
        raise InputError(f"edges: an array of shape {array.shape}; give {_EDGE_TYPES}")
    rows = array.shape[0] == 2 and (isinstance(edges, Tensor) or array.shape[1] != 2)
    if array.shape == (2, 2):
        reading = "a tensor [2, E]: a row of sources, a row of targets" if rows else "an array [E, 2]: one edge per row"
        log.warning("edges: 2 × 2, read as %s; give a pair (sources, targets) to be explicit", reading)
    source, target = array if rows else array.T
    return source, target


def _split_pairs(edges: Any) -> tuple[list[Any], list[Any]]:
    """Return the sources and targets of pairs in any iterable."""
    if isinstance(edges, str | bytes | dict) or not isinstance(edges, Iterable):
        raise InputError(f"edges: a {type(edges).__name__}; give {_EDGE_TYPES}")
    source: list[Any] = []
    target: list[Any] = []
    for place, edge in enumerate(edges):
        try:
            u, v = (None, None) if isinstance(edge, str) else edge
        except (TypeError, ValueError):
            u = v = None
        if u is None or v is None:
            raise InputError(f"edges: edge {place} (counted from 0) is {edge!r}; give pairs of ids")
        source.append(u)
        target.append(v)
    return _scalar_ids(source), _scalar_ids(target)


def _scalar_ids(ids: list[Any]) -> list[Any]:
    """Return ids as single values. pandas would expand a tuple into columns."""
    return [node.item() if isinstance(node, Tensor) else str(node) if isinstance(node, tuple) else node for node in ids]


def _table_or_rows(values: Any, name: str) -> Table | ArrayRows:
    """Return features or labels as a table if they are one, else as an array without ids."""
    if (frame := as_frame(values)) is not None:
        return FrameTable(frame, name, in_memory=True, indexed=not is_polars(values))
    if name == "labels":
        return ArrayRows(name, np.atleast_1d(label_array(values, name)))
    if isinstance(values, Tensor) or scipy.sparse.issparse(values):
        return ArrayRows(name, values)
    try:
        return ArrayRows(name, np.atleast_1d(np.asarray(values)))
    except ValueError:
        raise InputError(f"{name}: rows of different lengths; make them equal") from None


def _node_table(nodes: Any) -> FrameTable:
    """Return a list of nodes as a table."""
    frame = as_frame(nodes)
    if isinstance(nodes, pd.Series | pd.Index) or frame is None:  # the ids are the values; the index is ignored
        frame = pd.DataFrame({"id": _id_list(nodes)})
    return FrameTable(frame, "nodes", in_memory=True)


def _id_list(nodes: Any) -> np.ndarray | list[Any]:
    """Return ids in their order, from an array or any other iterable."""
    if isinstance(nodes, set | frozenset):
        raise InputError("nodes: a set has no order; give a list, in the order of the rows")
    if scipy.sparse.issparse(nodes) or (isinstance(nodes, Tensor) and nodes.layout != torch.strided):
        raise InputError("nodes: a sparse matrix; give a list of ids, one per row")
    if hasattr(nodes, "__array__"):
        array = _array(nodes)
        if array.ndim == 0 or array.size != len(array):
            raise InputError(f"nodes: an array of shape {array.shape}; give one id per row")
        return array.ravel()
    if isinstance(nodes, str | bytes) or not isinstance(nodes, Iterable):
        raise InputError(f"nodes: a {type(nodes).__name__}; give a list of ids, one per row")
    return _scalar_ids(list(nodes))


def _array(values: Any) -> np.ndarray:
    if isinstance(values, Tensor):
        return values.detach().cpu().numpy()
    return values if isinstance(values, np.ndarray) else np.asarray(values)
