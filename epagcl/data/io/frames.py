"""Tables, arrays and lists that a program already holds, as ``Data``."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.core.log import log
from epagcl.data.io.assemble import graph_from_parts, listed_ids
from epagcl.data.io.columns import as_frame, is_polars
from epagcl.data.io.frame_table import FrameTable
from epagcl.data.io.table import Rows, Table
from epagcl.data.labels import label_array

if TYPE_CHECKING:
    import polars


EDGE_KINDS = "a table, a pair (sources, targets), an array [E, 2], a tensor [2, E] or a list of pairs"


def from_tables(
    edges: "pd.DataFrame | polars.DataFrame | np.ndarray | Tensor | Iterable",
    features: "pd.DataFrame | polars.DataFrame | np.ndarray | Tensor | scipy.sparse.sparray | list | None",
    labels: "pd.Series | pd.DataFrame | polars.Series | polars.DataFrame | np.ndarray | Tensor | list | None" = None,
    nodes: "pd.Series | pd.DataFrame | polars.Series | polars.DataFrame | np.ndarray | Tensor | Iterable | None" = None,
) -> Data:
    """A checked graph from tables (pandas, polars), arrays, tensors and lists.

    Which row belongs to which node is decided as :func:`epagcl.read_graph` decides it for files; an index of a pandas
    table, other than 0, 1, ..., is a column of ids, and another column of numbers is one only by its name. Ids are
    integers if all of them are (and fit into 64 bits), else text.

    Args:
        edges: a table whose columns named source and target, or else its first two (an index is none), are the ends;
            two arrays, tensors or series ``(sources, targets)``, as DGL's ``graph.edges()`` gives them (also a tuple of
            two lists); a tensor, read as ``[2, E]`` if it can be (PyG's ``edge_index``); a NumPy array, read as
            ``[E, 2]`` if it can be; or pairs of ids in any other iterable.
        features: a table of numbers, with the ids of its rows as index, as a column named id, node_id, node or name,
            or as a first column of text; an array, tensor or SciPy matrix; None: a graph without features, for EPR.
        labels: a table (id, label), a series whose index is the ids, or one label per row of features. A pandas series
            with an index 0, 1, ... beside features with such ids in another order goes by its index.
        nodes: the ids of the rows, where features (labels) have none: any iterable that has an order.

    Returns:
        ``Data`` as from :func:`epagcl.read_graph`.
    """
    return graph_from_parts(
        _edge_table(edges),
        None if features is None else _table_or_rows(features, "features"),
        None if labels is None else _table_or_rows(labels, "labels"),
        None if nodes is None else listed_ids(_node_table(nodes)),
        option="{}=",
    )


def _edge_table(edges: Any) -> FrameTable:
    if (frame := as_frame(edges)) is not None:
        return FrameTable(frame, "edges", memory=True)
    if scipy.sparse.issparse(edges):
        raise InputError("edges: a SciPy matrix; give it to epagcl.from_scipy, or give pairs")
    if isinstance(edges, Tensor) and edges.layout != torch.strided:
        raise InputError("edges: a sparse tensor; give it to epagcl.from_scipy, or give pairs")
    if isinstance(edges, tuple | list) and len(edges) == 2 and _are_columns(edges):
        source, target = (_array(ends) for ends in edges)
    elif isinstance(edges, np.ndarray | Tensor):
        source, target = _columns(edges)
    else:
        source, target = _unzip(edges)
    if len(source) != len(target):
        raise InputError(f"edges: {len(source):,} sources for {len(target):,} targets; give one of each per edge")
    if len(source) == 0:
        raise InputError("edges: no edges; a graph needs at least one")
    return FrameTable(pd.DataFrame({"source": source, "target": target}), "edges")


def _are_columns(pair: Sequence) -> bool:
    """Whether two things are sources and targets: both one-dimensional arrays, or in a tuple both lists."""
    if isinstance(pair, tuple) and all(isinstance(ends, list) for ends in pair):
        return True
    return all(hasattr(ends, "__array__") and getattr(ends, "ndim", 1) == 1 for ends in pair)


def _columns(edges: np.ndarray | Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The two columns of an array ``[E, 2]`` or ``[2, E]``."""
    array = _array(edges)
    if array.ndim != 2 or 2 not in array.shape:
        raise InputError(f"edges: an array of shape {array.shape}; give {EDGE_KINDS}")
    rows = array.shape[0] == 2 and (isinstance(edges, Tensor) or array.shape[1] != 2)
    if array.shape == (2, 2):
        how = "a tensor [2, E]: a row of sources, a row of targets" if rows else "an array [E, 2]: one edge per row"
        log.warning("edges: 2 × 2, read as %s; give a pair (sources, targets) to say so", how)
    source, target = array if rows else array.T
    return source, target


def _unzip(edges: Any) -> tuple[list, list]:
    """Pairs in any iterable as two columns."""
    if isinstance(edges, str | bytes | dict) or not isinstance(edges, Iterable):
        raise InputError(f"edges: a {type(edges).__name__}; give {EDGE_KINDS}")
    source, target = [], []
    for place, edge in enumerate(edges):
        try:
            u, v = (None, None) if isinstance(edge, str) else edge
        except (TypeError, ValueError):
            u = v = None
        if u is None or v is None:
            raise InputError(f"edges: edge {place} (counted from 0) is {edge!r}; give pairs of ids")
        source.append(u)
        target.append(v)
    return _ids(source), _ids(target)


def _ids(ids: list) -> list:
    """Ids of which each is one value for pandas, whatever it is: a tuple would become columns."""
    return [node.item() if isinstance(node, Tensor) else str(node) if isinstance(node, tuple) else node for node in ids]


def _table_or_rows(given: Any, name: str) -> Table | Rows:
    if (frame := as_frame(given)) is not None:
        return FrameTable(frame, name, memory=True, indexed=not is_polars(given))
    if name == "labels":
        return Rows(name, np.atleast_1d(label_array(given, name)))
    if isinstance(given, Tensor) or scipy.sparse.issparse(given):
        return Rows(name, given)
    try:
        return Rows(name, np.atleast_1d(np.asarray(given)))
    except ValueError:
        raise InputError(f"{name}: rows of different lengths; make them equal") from None


def _node_table(given: Any) -> FrameTable:
    frame = as_frame(given)
    if isinstance(given, pd.Series | pd.Index) or frame is None:  # its values are the ids, whatever its index is
        frame = pd.DataFrame({"id": _listed(given)})
    return FrameTable(frame, "nodes", memory=True)


def _listed(nodes: Any) -> np.ndarray | list:
    """Ids in their order, from an array or any other iterable."""
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
    return _ids(list(nodes))


def _array(values: Any) -> np.ndarray:
    if isinstance(values, Tensor):
        return values.detach().cpu().numpy()
    return values if isinstance(values, np.ndarray) else np.asarray(values)
