"""Graphs that a program already holds, as ``Data``: NetworkX, SciPy, and what all readers share."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Data

import epagcl.sparse  # noqa: F401 (silences torch's note on CSR tensors)
from epagcl.data.check import check
from epagcl.errors import InputError

if TYPE_CHECKING:
    import networkx

log = logging.getLogger("epagcl")


def from_networkx(
    graph: "networkx.Graph",
    features: "str | list[str] | np.ndarray | Tensor | scipy.sparse.sparray | None" = None,
    labels: "str | Sequence | np.ndarray | Tensor | None" = None,
) -> Data:
    """A NetworkX graph as checked ``Data``; node k is the k-th of ``graph.nodes``, ``node_ids[k]`` its name.

    Args:
        graph: any NetworkX graph; directed edges and parallel edges are merged into undirected pairs.
        features: the name(s) of node attributes (numbers or vectors, joined in this order), or an array with
            one row per node in the order of ``graph.nodes``; without it, the attribute ``x``.
        labels: the name of a node attribute, or one label per node in the order of ``graph.nodes``.
    """
    source = "networkx graph"
    nodes = list(graph.nodes)
    number = {node: k for k, node in enumerate(nodes)}
    ends = np.array([(number[u], number[v]) for u, v in graph.edges()], dtype=np.int64).reshape(-1, 2)
    features = "x" if features is None else features
    names = [features] if isinstance(features, str) else features
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        x = torch.cat([_attribute_columns(graph, name, source) for name in names], dim=1)
    else:
        x = feature_tensor(features, source)
    if isinstance(labels, str):
        labels = _attribute(graph, labels, source)
    if any(attributes for _, _, attributes in graph.edges(data=True)):
        log.warning("%s: edge weights and attributes are not used", source)
    y = None if labels is None else encode_labels(labels, source)
    return assemble(x, torch.from_numpy(ends.T.copy()), y, id_array(nodes), source)


def from_scipy(
    adjacency: "scipy.sparse.sparray | scipy.sparse.spmatrix | np.ndarray",
    features: "np.ndarray | Tensor | scipy.sparse.sparray",
    labels: "Sequence | np.ndarray | Tensor | None" = None,
) -> Data:
    """An adjacency matrix (non-zero = edge) with one feature row per node as checked ``Data``."""
    source = "adjacency matrix"
    matrix = scipy.sparse.coo_array(adjacency)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"{source}: shape {matrix.shape}; it must be square, nodes × nodes")
    x = feature_tensor(features, source)
    if x.shape[0] != matrix.shape[0]:
        raise InputError(f"{source}: {x.shape[0]:,} feature rows for {matrix.shape[0]:,} nodes; give one row per node")
    edge = matrix.data != 0
    if (matrix.data[edge] != 1).any():
        log.warning("%s: edge weights and attributes are not used", source)
    ends = np.stack([matrix.row[edge], matrix.col[edge]]).astype(np.int64)
    y = None if labels is None else encode_labels(labels, source)
    return assemble(x, torch.from_numpy(ends), y, np.arange(x.shape[0]), source)


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
        return features
    if scipy.sparse.issparse(features):
        csr = scipy.sparse.csr_array(features)
        csr.sum_duplicates()
        parts = csr.indptr.astype(np.int64), csr.indices.astype(np.int64), csr.data.astype(np.float32)
        tensors = (torch.from_numpy(part) for part in parts)
        return torch.sparse_csr_tensor(*tensors, csr.shape, check_invariants=False)  # SciPy has sorted them
    array = np.asarray(features)
    if array.dtype.kind not in "biuf":
        raise InputError(f"{source}: features of type {array.dtype}; give numbers")
    if array.ndim != 2:
        raise InputError(f"{source}: features have shape {array.shape}; they must be nodes × columns")
    with np.errstate(over="ignore"):  # too large for float32 becomes infinite, and is then reported as such
        return torch.from_numpy(np.array(array, dtype=np.float32, order="C"))


def encode_labels(labels: "Sequence | np.ndarray | Tensor", source: str) -> tuple[Tensor, list[str] | None]:
    """Class numbers (−1 = no label), and the classes' names if the labels were not already 0, 1, ..., C−1.

    Missing values (None, NaN, blank) and −1 are "no label". Whole numbers that are exactly 0..C−1 stay as
    they are; other whole numbers are numbered in their order, names in alphabetical order.
    """
    array = labels.cpu().numpy() if isinstance(labels, Tensor) else labels
    array = np.asarray(array) if not isinstance(array, pd.Series) else array.to_numpy()
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
