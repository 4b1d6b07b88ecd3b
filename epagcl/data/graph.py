"""What methods work on: a checked graph on its device, features ready for products, and no labels."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.adjacency import gcn_adjacency, self_looped_entries
from epagcl.core.hashing import hash64
from epagcl.core.randomness import Stream, uniform
from epagcl.core.sparse import Pattern, SparseMatrix
from epagcl.data.checking import undirected_pairs

# Where sparse and dense products with 512 columns take equal time on a CPU is between 5% and 10%.
DENSE_ABOVE = 0.05


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph as a set of undirected pairs, with constant features.

    Attributes:
        x: node features ``[N, F]``, dense or sparse by their density; ``x @ weight`` works for both.
        pairs: ``[2, E]`` with i < j, sorted.
        num_nodes: N.
    """

    x: Tensor | SparseMatrix
    pairs: Tensor
    num_nodes: int

    @classmethod
    def from_data(cls, data: Data, device: torch.device | str = "cpu") -> "Graph":
        """From checked :class:`~torch_geometric.data.Data`."""
        edge_index = data.edge_index.to(device)
        return cls(
            x=_features(data.x, device),
            pairs=undirected_pairs(edge_index, data.num_nodes),
            num_nodes=data.num_nodes,
        )

    @property
    def num_features(self) -> int:
        """F."""
        return self.x.shape[1]

    @property
    def device(self) -> torch.device:
        """Where the graph lies."""
        return self.pairs.device

    @cached_property
    def fingerprint(self) -> str:
        """Tells graphs apart: sizes, a hash of the pairs, a random projection of the features by row and column."""
        pairs = int(hash64(self.pairs[0] * self.num_nodes + self.pairs[1]).sum()) % 2**64
        # Sums of absolute values in float64: the same digits on every device and in any order.
        x = self.x.to("cpu") if self.device.type == "mps" else self.x
        weight = uniform(torch.arange(self.num_nodes, device=x.device), 1).double()
        if isinstance(x, SparseMatrix):
            columns = torch.zeros(self.num_features, dtype=torch.float64, device=x.device)
            columns.index_add_(0, x.col.long(), x.value.abs().double() * weight[x.row])
        else:
            columns = weight @ x.abs().double()
        features = float(columns.cpu() @ uniform(torch.arange(self.num_features), 0).double())
        return f"{self.num_nodes}-{self.pairs.shape[1]}-{self.num_features}-{pairs:016x}-{features:.3e}"

    @cached_property
    def pattern(self) -> Pattern:
        """Where Ã = A + I has entries."""
        return self.adjacency.pattern

    @cached_property
    def adjacency(self) -> SparseMatrix:
        """Â of the graph as it is."""
        row, col, _ = self_looped_entries(self.pairs[0] * self.num_nodes + self.pairs[1], self.num_nodes)
        return gcn_adjacency(row, col, self.num_nodes)

    def subsample(self, share: float, which: int) -> "Graph":
        """The graph without this share of its pairs and feature columns: the same ones whatever the method and seed."""
        counter = self.pairs[0] * self.num_nodes + self.pairs[1]
        kept = uniform(counter, 0, Stream.HEALTH, 1, which) >= share
        columns = torch.arange(self.num_features, device=self.device)
        mask = (uniform(columns, 0, Stream.HEALTH, 2, which) >= share).float()
        x = self.x
        if isinstance(x, SparseMatrix):
            x = SparseMatrix(x.rowptr, x.col, x.value * mask[x.col.long()], x.shape)
        else:
            x = x * mask
        return Graph(x, self.pairs[:, kept], self.num_nodes)


def _features(x: Tensor, device: torch.device | str) -> Tensor | SparseMatrix:
    density = (x.values() if x.layout == torch.sparse_csr else x).count_nonzero().item() / x.numel()
    if density > DENSE_ABOVE:
        return (x if x.layout == torch.strided else x.to_dense()).to(device)
    return SparseMatrix.from_torch(x).to(device)


def row_normalise(x: Tensor, by: str = "sum") -> Tensor:
    """x_ij / Σ_j x_ij, or x_ij / max_j |x_ij|, in the layout of x; a row of zeros, or whose sum is 0, stays as it is.

    Not PyG's ``NormalizeFeatures``, which first subtracts the minimum of the whole matrix and never divides
    by less than 1.
    """
    matrix = None if x.layout == torch.strided else SparseMatrix.from_torch(x)
    if matrix is None:
        scale = x.double().sum(1) if by == "sum" else x.double().abs().amax(1)
        return (x / scale.where(scale != 0, 1.0)[:, None]).to(x.dtype)
    scale = torch.zeros(x.shape[0], dtype=torch.float64, device=x.device)
    if by == "sum":
        scale.index_add_(0, matrix.row, matrix.value.double())
    else:
        scale.scatter_reduce_(0, matrix.row, matrix.value.double().abs(), "amax")
    value = matrix.value / scale.where(scale != 0, 1.0)[matrix.row]
    return SparseMatrix(matrix.rowptr, matrix.col, value.to(x.dtype), matrix.shape).csr
