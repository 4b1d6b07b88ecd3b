"""What a node shares with its nearest neighbours in the embedding: features and edges, without labels.

The embedding itself cannot be split by feature, since encoders are not linear. What every encoder here starts from can:
h = Âx, the features averaged over a node and its neighbours. Its similarity is an exact sum over features,
cos(h_i, h_j) = Σ_f h_if h_jf / (‖h_i‖ ‖h_j‖), and over the parts that come from own features and from neighbours'.
"""

from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

Array = npt.NDArray[Any]
Matrix = Any  # a dense array or a sparse matrix; SciPy has no types

MAX_NODES = 20_000  # larger graphs have no such panel, which would make the page large
MAX_ENTRIES = 30_000_000  # of averaged features over all pairs of neighbours; with more, only own features are compared
TOP_FEATURES = 5
TOP_NODES = 3
ROWS = 512  # nodes at a time
MAX_DENSE = 50_000_000  # entries of features that are kept as a dense array


class DriversContent(TypedDict):
    """What the nodes of the map share with their nearest neighbours.

    All lists but ``names`` are flat, with a fixed number of entries per node.

    Attributes:
        names: names of the features that occur in ``features``.
        features: positions in ``names`` of the five features with the largest part in the similarity; -1: no more.
        parts: their parts of the mean similarity of averaged features, over the nearest neighbours.
        similarity: three numbers per node that add up to this mean similarity: from own features of both nodes, from
            own features of one and neighbours' of the other, and from neighbours' features of both.
        joined: whether each nearest neighbour is joined to the node by an edge, 0 or 1.
        common: number of common neighbours in the graph, for each nearest neighbour.
        hubs: positions of the three graph neighbours that are joined to most of the nearest neighbours; -1: no more.
        hub_counts: to how many.
    """

    names: list[str]
    features: list[int]
    parts: list[float]
    similarity: list[float]
    joined: list[int]
    common: list[int]
    hubs: list[int]
    hub_counts: list[int]


def drivers(data: Data, neighbours: Sequence[int], k: int) -> DriversContent | None:
    """Return what each node shares with its nearest neighbours; None if the graph is too large.

    Args:
        data: the graph, with all its nodes on the map.
        neighbours: the nearest neighbours of all nodes in the embedding, ``k`` per node.
        k: number of nearest neighbours per node.

    Examples:
        >>> x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> path = Data(x=x, edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> shared = drivers(path, [1, 0, 1], k=1)
        >>> shared["joined"], shared["names"][shared["features"][0]]
        ([1, 1, 1], 'feature 0')
    """
    count = data.num_nodes
    if k == 0 or count > MAX_NODES or data.x is None:
        return None
    near = np.asarray(neighbours, dtype=np.int64).reshape(count, k)
    edges = _adjacency(data.edge_index, count)
    looped = (edges + sp.eye_array(count, format="csr", dtype=np.float32)).tocsr()
    scale = sp.diags_array((1 / np.sqrt(looped.sum(1))).astype(np.float32)).tocsr()
    x = _matrix(data.x)
    own, others = scale @ scale @ x, scale @ edges @ scale @ x
    if not isinstance(others, np.ndarray) and others.nnz * k > MAX_ENTRIES:
        own, others = x, sp.csr_array(x.shape, dtype=np.float32)  # own features alone
    chosen, parts, similarity = _feature_parts(own, others, near)
    used = np.unique(chosen[chosen >= 0])
    names = data.get("feature_names")
    joined, common = _edge_parts(edges, near)
    hubs, hub_counts = _hubs(edges, near)
    return {
        "names": [f"feature {f}" if names is None else str(names[f]) for f in used],
        "features": np.where(chosen < 0, -1, np.searchsorted(used, chosen)).flatten().tolist(),
        "parts": np.round(parts, 3).flatten().tolist(),
        "similarity": np.round(similarity, 3).flatten().tolist(),
        "joined": joined.flatten().tolist(),
        "common": common.flatten().tolist(),
        "hubs": hubs.flatten().tolist(),
        "hub_counts": hub_counts.flatten().tolist(),
    }


def _adjacency(edge_index: Tensor, count: int) -> sp.csr_array:
    """Return the undirected adjacency matrix of zeros and ones, without self-loops."""
    row, col = edge_index.cpu().numpy()
    kept = row != col
    matrix = sp.csr_array((np.ones(int(kept.sum())), (row[kept], col[kept])), shape=(count, count))
    return ((matrix + matrix.T) > 0).astype(np.float32).tocsr()


def _matrix(x: Tensor) -> Matrix:
    """Return features as a dense array, or as a sparse matrix if they are sparse or many."""
    x = x.detach().cpu()
    if x.layout == torch.strided:
        return x.float().numpy() if x.numel() <= MAX_DENSE else sp.csr_array(x.float().numpy())
    x = x.to_sparse_csr()
    arrays = (x.values().float().numpy(), x.col_indices().numpy(), x.crow_indices().numpy())
    return sp.csr_array(arrays, shape=tuple(x.shape))


def _feature_parts(own: Matrix, others: Matrix, near: Array) -> tuple[Array, Array, Array]:
    """Return the features with the largest parts, their parts, and the three parts of the similarity of each node.

    The mean of h_i · h_j / (‖h_i‖ ‖h_j‖) over the neighbours j is u_i · m_i, where u has unit rows and m_i is the mean
    of the u_j. So one product per node gives the parts of all features.
    """
    count, k = near.shape
    averaged = own + others
    scale = sp.diags_array(1 / np.maximum(np.sqrt(_product(averaged, averaged).sum(1)), 1e-12)).tocsr()
    own, unit = scale @ own, scale @ averaged
    chosen = np.full((count, TOP_FEATURES), -1, dtype=np.int64)
    parts, similarity = np.zeros((count, TOP_FEATURES)), np.zeros((count, 3))
    for start in range(0, count, ROWS):
        rows = slice(start, min(start + ROWS, count))
        size = rows.stop - start
        entries = (np.full(size * k, 1 / k, np.float32), (np.repeat(np.arange(size), k), near[rows].flatten()))
        mean = sp.csr_array(entries, shape=(size, count))
        mean_own, mean_unit = mean @ own, mean @ unit
        product = _product(unit[rows], mean_unit)
        both_own = _product(own[rows], mean_own).sum(1)
        one_own = _product(own[rows], mean_unit).sum(1) + _product(unit[rows], mean_own).sum(1) - 2 * both_own
        total = product.sum(1)
        similarity[rows] = np.stack([both_own, one_own, total - both_own - one_own], axis=1)
        chosen[rows], parts[rows] = _largest(product, TOP_FEATURES)
    return chosen, parts, similarity


def _product(a: Matrix, b: Matrix) -> Matrix:
    """Return the product entry by entry."""
    return a * b if isinstance(a, np.ndarray) else a.multiply(b).tocsr()


def _largest(matrix: Matrix, most: int) -> tuple[Array, Array]:
    """Return the columns of the largest positive entries of each row, -1 where there are no more, and the entries."""
    columns, values = np.full((matrix.shape[0], most), -1, dtype=np.int64), np.zeros((matrix.shape[0], most))
    if isinstance(matrix, np.ndarray):
        order = np.argsort(-matrix, axis=1, kind="stable")[:, :most]
        found = np.take_along_axis(matrix, order, axis=1)
        width = order.shape[1]
        columns[:, :width], values[:, :width] = np.where(found > 0, order, -1), np.maximum(found, 0)
        return columns, values
    for i in range(matrix.shape[0]):
        inside = slice(matrix.indptr[i], matrix.indptr[i + 1])
        entries, places = matrix.data[inside], matrix.indices[inside]
        order = np.lexsort((places, -entries))[:most]
        order = order[entries[order] > 0]
        columns[i, : len(order)], values[i, : len(order)] = places[order], entries[order]
    return columns, values


def _edge_parts(edges: sp.csr_array, near: Array) -> tuple[Array, Array]:
    """Return, for each nearest neighbour, whether an edge joins it to the node, and their common neighbours."""
    count, k = near.shape
    joined, common = np.zeros((count, k), dtype=np.int64), np.zeros((count, k), dtype=np.int64)
    for column in range(k):
        selection = sp.csr_array((np.ones(count), (np.arange(count), near[:, column])), shape=(count, count))
        joined[:, column] = edges.multiply(selection).sum(1)
        common[:, column] = edges.multiply(edges[near[:, column]]).sum(1)
    return joined, common


def _hubs(edges: sp.csr_array, near: Array) -> tuple[Array, Array]:
    """Return the neighbours of each node in the graph that are joined to most of its nearest neighbours."""
    count, k = near.shape
    hubs, counts = np.full((count, TOP_NODES), -1, dtype=np.int64), np.zeros((count, TOP_NODES))
    entries = (np.ones(count * k), (np.repeat(np.arange(count), k), near.flatten()))
    nearest = sp.csr_array(entries, shape=(count, count))
    for start in range(0, count, ROWS):
        rows = slice(start, min(start + ROWS, count))
        hubs[rows], counts[rows] = _largest(_product(edges[rows], nearest[rows] @ edges), TOP_NODES)
    return hubs, counts.astype(np.int64)
