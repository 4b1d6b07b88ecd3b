"""The graph that methods train on: checked, on its device, with features ready for matrix products, without labels."""

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.adjacency import gcn_adjacency, self_looped_entries
from epagcl.core.pattern import Pattern
from epagcl.core.randomness import Stream, uniform
from epagcl.core.sparse import SparseMatrix, multiply
from epagcl.data.checking import pair_weights, undirected_pairs
from epagcl.data.identity import graph_fingerprint

# On a CPU, sparse and dense products with 512 columns take equal time at a density between 5% and 10%.
DENSE_ABOVE = 0.05
ROWS = 4096  # rows that are converted to float64 at once


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph as a set of undirected pairs, with constant features.

    Attributes:
        x: node features ``[N, F]``, dense or sparse depending on their density; ``x @ weight`` works for both.
        pairs: ``[2, E]`` with i < j, sorted.
        num_nodes: N.
        weight: positive weight of each pair, of mean 1, float32 ``[E]``; None if all are equal. A self-loop has the
            weight 1.

    Examples:
        >>> data = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> graph = Graph.from_data(data)
        >>> graph.pairs.tolist(), graph.num_features
        ([[0, 1], [1, 2]], 3)
    """

    x: Tensor | SparseMatrix
    pairs: Tensor
    num_nodes: int
    weight: Tensor | None = None

    @classmethod
    def from_data(cls, data: Data, device: torch.device | str = "cpu") -> "Graph":
        """Build the graph from checked :class:`~torch_geometric.data.Data`."""
        edge_index, n = data.edge_index, data.num_nodes
        weight = None if data.get("edge_weight") is None else pair_weights(edge_index, data.edge_weight, n)
        return cls(
            x=_features(data.x, device),
            pairs=undirected_pairs(edge_index.to(device), n),
            num_nodes=n,
            weight=None if weight is None else weight.float().to(device),
        )

    @property
    def num_features(self) -> int:
        """F, the number of feature columns."""
        return self.x.shape[1]

    @property
    def device(self) -> torch.device:
        """The device of the pairs and features."""
        return self.pairs.device

    @property
    def origin(self) -> "tuple[Tensor, int] | None":
        """If the graph is part of a larger one: the number of each node there, and N of the whole; else None."""
        return None

    @cached_property
    def fingerprint(self) -> str:
        """The sizes of the graph, and a digest of its pairs and features; see :mod:`epagcl.data.identity`."""
        return graph_fingerprint(self)

    @cached_property
    def pattern(self) -> Pattern:
        """The sparsity pattern of Ã = A + I."""
        return self.adjacency.pattern

    @cached_property
    def adjacency(self) -> SparseMatrix:
        """The normalised adjacency matrix Â of the unmodified graph."""
        row, col, pair = self._entries
        weight = None if self.weight is None else F.pad(self.weight, (0, 1), value=1.0)[pair]
        return gcn_adjacency(row, col, self.num_nodes, weight)

    @property
    def _entries(self) -> tuple[Tensor, Tensor, Tensor]:
        return self_looped_entries(self.pairs[0] * self.num_nodes + self.pairs[1], self.num_nodes)

    @cached_property
    def edges(self) -> SparseMatrix:
        """The adjacency matrix A in the pattern of Ã: the weights of the pairs or 1, and 0 on the diagonal."""
        adjacency = self.adjacency
        value = (~self.pattern.loop).to(adjacency.dtype)
        if self.weight is not None:
            value = F.pad(self.weight, (0, 1))[self._entries[2]]
        return SparseMatrix(adjacency.rowptr, adjacency.col, value, adjacency.shape, symmetric=True)

    @cached_property
    def degree(self) -> Tensor:
        """The sum of the weights of each node's pairs, float32; without weights, the number of pairs, int64."""
        if self.weight is None:
            return self.adjacency.rowptr.diff() - 1
        return multiply(self.edges, self.weight.new_ones(self.num_nodes, 1))[:, 0]  # adds up in a fixed order

    def hidden(self, p: float, view: int) -> tuple[Tensor, Tensor]:
        """Return masks of the pairs and of the feature columns that a subsample lacks.

        The choice depends only on ``view``, so that all methods and seeds are measured on the same subsample.

        Args:
            p: probability that a pair is dropped, and that a feature column is set to zero.
            view: number of the subsample.
        """
        counter = self.pairs[0] * self.num_nodes + self.pairs[1]
        columns = torch.arange(self.num_features, device=self.device)
        return uniform(counter, 0, Stream.HEALTH, 1, view) < p, uniform(columns, 0, Stream.HEALTH, 2, view) < p

    def masked(self, columns: Tensor) -> Tensor | SparseMatrix:
        """Return the features with all columns set to zero except those of a mask ``[F]``."""
        x, mask = self.x, columns.float()
        if isinstance(x, SparseMatrix):
            return SparseMatrix(x.rowptr, x.col, x.value * mask[x.col.long()], x.shape)
        return x * mask

    def subsample(self, p: float, view: int) -> "Graph":
        """Return a copy without the pairs and feature columns of :meth:`hidden`."""
        pairs, columns = self.hidden(p, view)
        weight = None if self.weight is None else self.weight[~pairs]
        return Graph(self.masked(~columns), self.pairs[:, ~pairs], self.num_nodes, weight)


def _features(x: Tensor, device: torch.device | str) -> Tensor | SparseMatrix:
    density = (x.values() if x.layout == torch.sparse_csr else x).count_nonzero().item() / x.numel()
    if density > DENSE_ABOVE:
        return (x if x.layout == torch.strided else x.to_dense()).to(device)
    return SparseMatrix.from_torch(x).to(device)


def row_normalise(x: Tensor, by: str = "sum") -> Tensor:
    """Return x with each row divided by its sum, its largest absolute value or its length, in the layout of ``x``.

    Rows of zeros, and rows whose sum is 0, are left unchanged. PyG's ``NormalizeFeatures`` differs: it first
    subtracts the minimum of the whole matrix, and it never divides by less than 1.

    Args:
        x: dense or sparse features ``[N, F]``.
        by: ``"sum"``, Σ_j x_ij; ``"max"``, max_j |x_ij|; ``"norm"``, (Σ_j x_ij²)^½.

    Examples:
        >>> row_normalise(torch.tensor([[1.0, 3.0], [0.0, 0.0]])).tolist()
        [[0.25, 0.75], [0.0, 0.0]]
    """
    matrix = None if x.layout == torch.strided else SparseMatrix.from_torch(x)
    if matrix is None:
        scale = torch.cat([_row_scale(part.double(), by) for part in x.split(ROWS)])
        return (x / scale.where(scale != 0, 1.0)[:, None]).to(x.dtype)
    scale = torch.zeros(x.shape[0], dtype=torch.float64, device=x.device)
    entries = matrix.value.double()
    if by == "max":
        scale.scatter_reduce_(0, matrix.row, entries.abs(), "amax")
    else:
        scale.index_add_(0, matrix.row, entries.square() if by == "norm" else entries)
        scale = scale.sqrt() if by == "norm" else scale
    value = matrix.value / scale.where(scale != 0, 1.0)[matrix.row]
    return SparseMatrix(matrix.rowptr, matrix.col, value.to(x.dtype), matrix.shape).csr


def _row_scale(rows: Tensor, by: str) -> Tensor:
    return rows.sum(1) if by == "sum" else rows.abs().amax(1) if by == "max" else rows.norm(dim=1)
