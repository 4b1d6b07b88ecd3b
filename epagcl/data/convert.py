"""Graphs that a program already holds, as ``Data``: NetworkX, SciPy, and what all readers share."""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Data

import epagcl.sparse  # noqa: F401 (silences torch's note on CSR tensors)
from epagcl.data.check import check, check_features, counted
from epagcl.errors import InputError, MissingExtra

if TYPE_CHECKING:
    import networkx
    import polars

log = logging.getLogger("epagcl")


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


def assemble(
    x: Tensor | None,
    edge_index: Tensor,
    labels: tuple[Tensor, list[str] | None] | None,
    node_ids: np.ndarray,
    source: str,
    feature_names: list[str] | None = None,
) -> Data:
    """The checked ``Data`` of these parts; ``x`` may be None, ``labels`` are as from :func:`encode_labels`."""
    data = Data(x=x, edge_index=edge_index, num_nodes=len(node_ids))
    # An array, not a list: Data.to and Data.clone pass arrays on whole, but walk through lists item by item.
    data.node_ids = node_ids
    if feature_names is not None:
        data.feature_names = feature_names
    if labels is not None:
        data.y, names = labels
        if names is not None:
            data.label_names = names
    return check(data, source=source, features=x is not None)


def feature_tensor(features: "np.ndarray | Tensor | scipy.sparse.sparray", source: str) -> Tensor:
    """Features as a float32 tensor ``[nodes, columns]``: sparse (CSR) if they were sparse, else dense."""
    if isinstance(features, Tensor):
        if features.is_complex():
            raise InputError(f"{source}: features of type {features.dtype}; give real numbers")
        return features.detach()
    if scipy.sparse.issparse(features):
        csr = scipy.sparse.csr_array(features)
        _require_numbers(csr.dtype, source)
        csr.sum_duplicates()
        parts = csr.indptr.astype(np.int64), csr.indices.astype(np.int64), csr.data.astype(np.float32)
        tensors = (torch.from_numpy(part) for part in parts)
        return torch.sparse_csr_tensor(*tensors, csr.shape, check_invariants=False)  # SciPy has sorted them
    array = _as_array(features, source, "features")
    _require_numbers(array.dtype, source)
    if array.ndim != 2:
        raise InputError(f"{source}: features have shape {array.shape}; they must be nodes × columns")
    with np.errstate(over="ignore"):  # too large for float32 becomes infinite, and is then reported as such
        return torch.from_numpy(np.array(array, dtype=np.float32, order="C"))


def table_features(
    frame: pd.DataFrame, source: str, title: Callable[[Any], str], place: Callable[[int], str]
) -> Tensor:
    """The columns of a table, rows numbered from 0, as features; what is no finite number raises with its place."""
    numbers = frame.copy(deep=False)
    for column, values in frame.items():
        if _is_real(values.dtype):
            continue
        if (converted := _as_numbers(values)) is None:
            text = values.dropna().map(str)
            text = text[[not is_number(value) for value in text]]
            where = f" ({text.iloc[0]!r} in {place(text.index[0])})" if len(text) else ""
            raise InputError(
                f"{source}: {title(column)} is not numeric{where}; "
                "encode it as numbers (one column per value) or drop it"
            )
        numbers[column] = converted
    with np.errstate(over="ignore"):  # too large for float32 becomes infinite, and is reported as such
        x = feature_tensor(numbers.to_numpy(dtype=np.float32, na_value=np.nan), source)
    titles = [title(column) for column in frame]
    return check_features(x, source, lambda row, column: f"{place(row)}, {titles[column]}")


def as_frame(given: Any) -> pd.DataFrame | None:
    """A table or series of pandas or polars as a pandas table; None if it is none."""
    if is_polars(given):
        given = given.collect() if hasattr(given, "collect") else given
        try:
            given = given.to_pandas()
        except ModuleNotFoundError:
            raise MissingExtra("pyarrow", "polars", "reading polars tables") from None
    if isinstance(given, pd.Series):
        return given.to_frame("label" if given.name is None else given.name)
    return given if isinstance(given, pd.DataFrame) else None


def is_polars(given: Any) -> bool:
    """Whether this is a table or series of polars, which need not be installed."""
    return type(given).__module__.partition(".")[0] == "polars"


def is_number(text: str) -> bool:
    """Whether a field is written as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def label_array(labels: Any, source: str) -> np.ndarray:
    """Labels of any kind as an array, of whatever shape."""
    if scipy.sparse.issparse(labels) or (isinstance(labels, Tensor) and labels.layout != torch.strided):
        raise InputError(f"{source}: labels are a sparse matrix; give one label per node, as an array or list")
    if isinstance(labels, str | bytes | dict | set | frozenset):
        raise InputError(f"{source}: labels are a {type(labels).__name__}; give an array, a list or a pandas Series")
    if isinstance(labels, Tensor):
        return labels.detach().cpu().numpy()
    if isinstance(labels, Iterable) and not hasattr(labels, "__array__"):
        labels = list(labels)
    return _as_array(labels, source, "labels")


def encode_labels(labels: "Sequence | np.ndarray | Tensor", source: str) -> tuple[Tensor, list[str] | None]:
    """Class numbers (−1 = no label), and the classes' names if the labels were not already 0, 1, ..., C−1.

    Missing values (None, NaN, blank) and −1 are "no label". Whole numbers that are exactly 0..C−1 stay as
    they are; other whole numbers are numbered in their order, names in alphabetical order.
    """
    array = labels.to_numpy() if isinstance(labels, pd.Series) else label_array(labels, source)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InputError(f"{source}: labels have shape {array.shape}; give one per node")
    series = pd.Series(array)
    if series.dtype.kind not in "biuf":
        series = series.astype(object)
        series[~series.isna()] = series[~series.isna()].map(lambda label: str(label).strip())
        series = series.where(series != "", np.nan)
    present = series[~series.isna()]
    try:
        numbers = pd.to_numeric(present).to_numpy()
    except (ValueError, TypeError):
        classes, codes = np.unique(present.to_numpy().astype(str), return_inverse=True)
        return _at(present.index, codes, len(series)), classes.tolist()
    if (numbers != np.round(numbers)).any() or np.isinf(numbers).any():
        raise InputError(f"{source}: labels are not whole numbers; give class numbers 0, 1, ... or names")
    if (numbers < -1).any():
        raise InputError(f"{source}: label {int(numbers.min())}; give class numbers 0, 1, ... (−1 for none) or names")
    known = numbers >= 0
    classes, codes = np.unique(numbers[known].astype(np.int64), return_inverse=True)
    y = _at(present.index[known], codes, len(series))
    if np.array_equal(classes, np.arange(len(classes))):
        return y, None
    if not known.all():  # classes −1 and 1 are likely meant as two, but −1 is "no label" everywhere here
        log.warning("%s: label −1 means no label (nodes with it: %d)", source, (~known).sum())
    return y, [str(number) for number in classes]


def id_array(ids: Sequence) -> np.ndarray:
    """Ids as a one-dimensional array: int64 if all are integers, else the objects themselves."""
    if all(isinstance(node, int | np.integer) and not isinstance(node, bool) for node in ids):
        try:
            return np.array(ids, dtype=np.int64)
        except OverflowError:
            pass
    array = np.empty(len(ids), dtype=object)
    array[:] = ids
    return array


def _at(places: pd.Index, codes: np.ndarray, length: int) -> Tensor:
    y = torch.full((length,), -1)
    y[torch.from_numpy(places.to_numpy().copy())] = torch.from_numpy(codes)
    return y


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


# ---- Rows of pandas tables, and numbers of any kind


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


def _as_array(values: Any, source: str, what: str) -> np.ndarray:
    try:
        return np.asarray(values)
    except ValueError:
        raise InputError(f"{source}: {what} have rows of different lengths; make them equal") from None


def _require_numbers(dtype: np.dtype, source: str) -> None:
    if dtype.kind not in "biuf":
        raise InputError(f"{source}: features of type {dtype}; give {'real ' * (dtype.kind == 'c')}numbers")


def _is_real(dtype: Any) -> bool:
    return pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_complex_dtype(dtype)


def _as_numbers(column: pd.Series) -> pd.Series | None:
    """A column of objects, categories or text as numbers, if each of its values is one: ``Decimal(1)``, ``"1"``."""
    try:
        numbers = pd.to_numeric(column.astype(object))  # which a date, as an object, is not
        numbers = numbers.astype(float) if numbers.dtype == object else numbers  # integers beyond 64 bits
    except (ValueError, TypeError, OverflowError):
        return None
    return numbers if _is_real(numbers.dtype) else None
