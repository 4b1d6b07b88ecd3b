"""Tables, arrays and lists that a program already holds, as ``Data``."""

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import scipy.sparse
from torch import Tensor
from torch_geometric.data import Data

from epagcl.data.parts import Rows, graph_from_parts, listed_ids
from epagcl.data.tables import FrameTable, Table
from epagcl.errors import InputError, MissingExtra

if TYPE_CHECKING:
    import polars

log = logging.getLogger("epagcl")

EDGE_KINDS = "a table, a pair (sources, targets), an array [E, 2], a tensor [2, E] or a list of pairs"


def from_tables(
    edges: "pd.DataFrame | polars.DataFrame | np.ndarray | Tensor | Iterable",
    features: "pd.DataFrame | polars.DataFrame | np.ndarray | Tensor | scipy.sparse.sparray | list | None",
    labels: "pd.Series | pd.DataFrame | polars.Series | polars.DataFrame | np.ndarray | Tensor | list | None" = None,
    nodes: "pd.Series | pd.DataFrame | polars.Series | polars.DataFrame | np.ndarray | Tensor | list | None" = None,
) -> Data:
    """A checked graph from tables (pandas, polars), arrays, tensors and lists.

    Which row belongs to which node is decided as :func:`epagcl.read_graph` decides it for files; an index of a pandas
    table, other than 0, 1, ..., is a column of ids. Ids are integers if all of them are, else text.

    Args:
        edges: a table whose columns named source and target, or else its first two, are the ends of the edges;
            two arrays, tensors or series ``(sources, targets)``, as DGL's ``graph.edges()`` gives them (also a tuple of
            two lists); a tensor, read as ``[2, E]`` if it can be (PyG's ``edge_index``); a NumPy array, read as
            ``[E, 2]`` if it can be; or pairs of ids in any other iterable.
        features: a table of numbers, with the ids of its rows as index or column; an array, tensor or SciPy matrix;
            None: a graph without features, for EPR.
        labels: a table (id, label), a series whose index is the ids, or one label per row of features.
        nodes: the ids of the rows, where features (labels) have none.

    Returns:
        ``Data`` as from :func:`epagcl.read_graph`.
    """
    return graph_from_parts(
        _edge_table(edges),
        None if features is None else _table_or_rows(features, "features"),
        None if labels is None else _table_or_rows(labels, "labels"),
        None if nodes is None else listed_ids(_as_table(nodes, "nodes")),
        option="{}=",
    )


def _edge_table(edges: Any) -> FrameTable:
    if (frame := _frame(edges)) is not None:
        return FrameTable(frame, "edges")
    if scipy.sparse.issparse(edges):
        raise InputError("edges: a SciPy matrix; give it to epagcl.from_scipy, or give pairs")
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
    if (frame := _frame(given)) is not None:
        return FrameTable(frame, name)
    if isinstance(given, Tensor) or scipy.sparse.issparse(given):
        return Rows(name, given)
    try:
        return Rows(name, np.atleast_1d(np.asarray(given)))
    except ValueError:
        raise InputError(f"{name}: rows of different lengths; make them equal") from None


def _as_table(given: Any, name: str) -> FrameTable:
    frame = _frame(given)
    if isinstance(given, pd.Series | pd.Index) or frame is None:  # its values are the ids, whatever its index is
        frame = pd.DataFrame({"id": _ids(list(given)) if isinstance(given, list | tuple) else _array(given)})
    return FrameTable(frame, name)


def _frame(given: Any) -> pd.DataFrame | None:
    """A table or series of pandas or polars as a pandas table; None if it is none."""
    if type(given).__module__.partition(".")[0] == "polars":
        given = given.collect() if hasattr(given, "collect") else given
        try:
            given = given.to_pandas()
        except ModuleNotFoundError:
            raise MissingExtra("pyarrow", "polars", "reading polars tables") from None
    if isinstance(given, pd.Series):
        return given.to_frame("label" if given.name is None else given.name)
    return given if isinstance(given, pd.DataFrame) else None


def _array(values: Any) -> np.ndarray:
    if isinstance(values, Tensor):
        return values.detach().cpu().numpy()
    return values if isinstance(values, np.ndarray) else np.asarray(values)
