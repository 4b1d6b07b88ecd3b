"""Graphs larger than a device: arrays that stay where they are, whole-graph products in chunks, and subgraphs."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.core.streamed import CSR, FeatureRows, StreamedMatrix
from epagcl.data.graph import Graph, row_normalise

Nodes = npt.NDArray[np.int64]


class GraphArrays(Protocol):
    """A graph as arrays, in memory or mapped from files, such as a graph on disk.

    Attributes:
        indptr: int64 ``[N + 1]``; the neighbours of node i are ``indices[indptr[i]:indptr[i + 1]]``, ascending.
        indices: int32 or int64: both directions of each pair, no self-loops.
        weights: float32, one per entry of ``indices``, of mean 1; None without weights.
        features: float32 ``[N, F]``, or a SciPy CSR matrix.
    """

    @property
    def indptr(self) -> Any: ...  # noqa: D102
    @property
    def indices(self) -> Any: ...  # noqa: D102
    @property
    def weights(self) -> Any: ...  # noqa: D102
    @property
    def features(self) -> Any: ...  # noqa: D102


def is_arrays(graph: object) -> bool:
    """Return whether a graph is given by arrays (:class:`GraphArrays`), not as ``Data``.

    Examples:
        >>> is_arrays(Data())
        False
    """
    return not isinstance(graph, Data) and all(hasattr(graph, name) for name in ("indptr", "indices", "features"))


class Arrays(NamedTuple):
    """The arrays of a graph in memory; see :class:`GraphArrays`."""

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[Any]
    weights: npt.NDArray[np.float32] | None
    features: Any

    @classmethod
    def from_data(cls, data: Data) -> "Arrays":
        """Return the arrays of a checked graph. Dense features are not copied."""
        row, col = data.edge_index.cpu()
        counts = torch.bincount(row, minlength=data.num_nodes)
        weight = data.get("edge_weight")
        x = data.x.cpu()
        if x.layout != torch.strided:
            parts = (x.values().numpy(), x.col_indices().numpy(), x.crow_indices().numpy())
            features = scipy.sparse.csr_array(parts, shape=tuple(x.shape))
        return cls(
            np.concatenate([[0], counts.cumsum(0).numpy()]),
            col.numpy(),
            None if weight is None else weight.float().cpu().numpy(),
            x.numpy() if x.layout == torch.strided else features,
        )


@dataclass(frozen=True, eq=False)
class Subgraph(Graph):
    """Some nodes of a large graph, and all edges between them.

    Attributes:
        nodes: their numbers in the whole graph, ascending.
        whole: the whole graph.
        survey: what a method needs to know of the whole graph, see ``Method.survey``.
    """

    nodes: Tensor = None  # type: ignore[assignment]
    whole: "LargeGraph" = None  # type: ignore[assignment]
    survey: Any = None

    @property
    def origin(self) -> tuple[Tensor, int]:
        """The number of each node in the whole graph, and N of the whole graph."""
        return self.nodes, self.whole.num_nodes

    @property
    def whole_degree(self) -> Tensor:
        """The degree of each node in the whole graph."""
        return self.whole.degree[self.nodes.cpu()].to(self.device)


class LargeGraph:
    """A graph whose features and edges stay in their arrays. Training takes subgraphs of it, embedding all of it.

    It has the attributes of :class:`~epagcl.data.graph.Graph` that diffusions and principal components use: ``x`` and
    ``adjacency`` are multiplied by chunks of rows.

    Args:
        arrays: the graph.
        device: where subgraphs and products are.
        scaling: scaling of the feature rows: given, row-sum, row-max or row-norm.

    Examples:
        >>> data = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
        >>> graph = LargeGraph(Arrays.from_data(data))
        >>> graph.num_nodes, graph.num_pairs, graph.subgraph(np.array([1, 2])).pairs.tolist()
        (3, 2, [[0], [1]])
    """

    def __init__(self, arrays: GraphArrays, device: torch.device | str = "cpu", scaling: str = "given"):
        if arrays.features is None:
            raise InputError("graph: no node features; a graph on disk needs them to be trained on or embedded")
        self.arrays, self.device = arrays, torch.device(device)
        self.csr = CSR(arrays.indptr, arrays.indices, arrays.weights)
        self.num_nodes, self.num_pairs = len(arrays.indptr) - 1, len(arrays.indices) // 2
        scale = None if scaling == "given" else partial(row_normalise, by=scaling.removeprefix("row-"))
        self.x = FeatureRows(arrays.features, scale, device)

    @property
    def num_features(self) -> int:
        """F, the number of feature columns."""
        return self.x.shape[1]

    @cached_property
    def degree(self) -> Tensor:
        """The sum of the weights of each node's pairs, float32; without weights, the number of pairs, int64."""
        counts = torch.from_numpy(np.diff(self.csr.indptr))
        if self.csr.weights is None:
            return counts
        sums = [np.add.reduceat(_padded(rows.weights), rows.indptr[:-1]) for rows in self._chunks()]
        return torch.from_numpy(np.concatenate(sums).astype(np.float32)).where(counts > 0, 0.0)

    @cached_property
    def adjacency(self) -> StreamedMatrix:
        """The normalised adjacency matrix Â of the whole graph."""
        return StreamedMatrix([self.csr], (self.degree.float() + 1).rsqrt().to(self.device), loop=1.0)

    @cached_property
    def neighbours(self) -> StreamedMatrix:
        """D^-½ A D^-½ of the whole graph, without self-loops."""
        degree = self.degree.float()
        return StreamedMatrix([self.csr], degree.where(degree > 0, 1.0).rsqrt().to(self.device))

    @cached_property
    def fingerprint(self) -> str:
        """The sizes of the graph, and a digest: of all its files if it has one, else of evenly spaced rows."""
        known = getattr(self.arrays, "fingerprint", None)
        if known is None:
            digest = hashlib.sha256(np.ascontiguousarray(self.csr.indptr).data)
            nodes = np.arange(0, self.num_nodes, max(1, self.num_nodes // 4096))
            _, entry = self.neighbour_lists(nodes)
            x = self.arrays.features[nodes]
            parts = (x.indptr, x.indices, x.data) if scipy.sparse.issparse(x) else (x,)
            weights = () if self.csr.weights is None else (self.csr.weights[entry],)
            for part in (self.csr.indices[entry], *weights, *parts):
                digest.update(np.ascontiguousarray(part).data)
            known = digest.hexdigest()[:32]
        return f"{self.num_nodes}-{self.num_pairs}-{self.num_features}-{known}"

    def neighbour_lists(self, nodes: Nodes) -> tuple[Nodes, Nodes]:
        """Return the neighbour lists of some nodes, one after the other: places in ``nodes``, and places of entries."""
        first = np.asarray(self.csr.indptr[nodes], dtype=np.int64)
        counts = np.asarray(self.csr.indptr[nodes + 1], dtype=np.int64) - first
        owner = np.repeat(np.arange(len(nodes)), counts)
        return owner, np.arange(len(owner)) + np.repeat(first - np.concatenate([[0], counts.cumsum()[:-1]]), counts)

    def subgraph(self, nodes: Nodes, survey: Any = None) -> Subgraph:
        """Return the subgraph of some nodes with all edges between them. Only their features and edges are read.

        Args:
            nodes: numbers of nodes, ascending, each once.
            survey: kept in the subgraph.
        """
        lists = self._lists_within(nodes)
        graph = Subgraph(
            x=self.x.take(nodes),
            pairs=lists.pairs.to(self.device),
            num_nodes=len(nodes),
            weight=None if lists.weight is None else lists.weight.to(self.device),
            nodes=torch.from_numpy(nodes).to(self.device),
            whole=self,
            survey=survey,
        )
        self.release()
        return graph

    def part(self, nodes: Nodes) -> Graph:
        """Return some nodes with all edges between them and their degrees in the whole graph, see ``Graph.outside``.

        Only their features and edges are read.

        Args:
            nodes: numbers of nodes, ascending, each once.
        """
        lists = self._lists_within(nodes)
        graph = Graph(
            x=self.x.take(nodes),
            pairs=lists.pairs.to(self.device),
            num_nodes=len(nodes),
            weight=None if lists.weight is None else lists.weight.to(self.device),
            outside=lists.outside.to(self.device),
        )
        self.release()
        return graph

    def within(self, nodes: Nodes, hops: int) -> Nodes:
        """Return the nodes within some hops of a few nodes, ascending. Only their edges are read."""
        found = border = np.unique(nodes)
        for _ in range(hops):
            if border.size == 0:  # whole components
                break
            _, entry = self.neighbour_lists(border)
            border = np.setdiff1d(np.asarray(self.csr.indices[entry], dtype=np.int64), found)
            found = np.union1d(found, border)
        return found

    def _lists_within(self, nodes: Nodes) -> "_Lists":
        owner, entry = self.neighbour_lists(nodes)
        target = np.asarray(self.csr.indices[entry], dtype=np.int64)
        place = np.searchsorted(nodes, target)
        inside = (place < len(nodes)) & (nodes[np.minimum(place, len(nodes) - 1)] == target)
        once, weights = inside & (owner < place), self.csr.weights
        leaving = None if weights is None else weights[entry[~inside]]
        outside = np.bincount(owner[~inside], weights=leaving, minlength=len(nodes)).astype(np.float32)
        return _Lists(
            torch.from_numpy(np.stack([owner[once], place[once]])),
            None if weights is None else torch.from_numpy(np.array(weights[entry[once]])),
            torch.from_numpy(outside),
        )

    def pair_chunks(self) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Yield all pairs, ``[2, P]`` with i < j, and their weights, chunk by chunk."""
        for start, stop in self.csr.spans():
            rows = self.csr.rows(start, stop)
            i = torch.repeat_interleave(torch.arange(start, stop), torch.from_numpy(np.diff(rows.indptr)))
            j = torch.from_numpy(rows.indices.astype(np.int64))
            once = i < j
            yield (
                torch.stack([i[once], j[once]]),
                None if rows.weights is None else torch.from_numpy(rows.weights)[once],
            )

    def release(self) -> None:
        """Let the operating system take back the memory of mapped pages. They are read again when needed."""
        release = getattr(self.arrays, "release", None)
        if release is not None:
            release()

    def _chunks(self) -> Iterator[CSR]:
        for start, stop in self.csr.spans():
            yield self.csr.rows(start, stop)


class _Lists(NamedTuple):
    """The pairs between some nodes, their weights, and for each node the total weight of its other pairs."""

    pairs: Tensor
    weight: Tensor | None
    outside: Tensor


def _padded(values: Any) -> Any:
    """Return the values and a last 0, since ``np.add.reduceat`` reads at the start of an empty last row."""
    return np.append(values, np.float32(0))
