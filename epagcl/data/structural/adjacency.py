"""The structure of a graph as sorted neighbour lists, and its normalised matrices."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from epagcl.core.adjacency import gcn_adjacency, self_looped_entries
from epagcl.core.sparse import SparseMatrix, rowptr_of
from epagcl.data.checking import both_directions


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The neighbours of each node, sorted.

    Attributes:
        pairs: the undirected pairs, ``[2, E]`` with i < j, sorted.
        num_nodes: N.

    Examples:
        >>> graph = Neighbours(torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
        >>> graph.degree.tolist(), graph.col.tolist()
        ([1, 2, 1], [1, 0, 2, 1])
    """

    pairs: Tensor
    num_nodes: int

    @property
    def device(self) -> torch.device:
        """The device of the pairs."""
        return self.pairs.device

    @cached_property
    def edges(self) -> Tensor:
        """Both directions of each pair, ``[2, 2E]``, sorted by source and target."""
        return both_directions(self.pairs, self.num_nodes)

    @property
    def row(self) -> Tensor:
        """The source of each edge."""
        return self.edges[0]

    @property
    def col(self) -> Tensor:
        """The target of each edge."""
        return self.edges[1]

    @cached_property
    def rowptr(self) -> Tensor:
        """The position of the first neighbour of each node in ``col``, and the number of edges."""
        return rowptr_of(self.row, self.num_nodes)

    @cached_property
    def degree(self) -> Tensor:
        """The number of neighbours of each node."""
        return self.rowptr.diff()

    @cached_property
    def adjacency(self) -> SparseMatrix:
        """Â = D̃^-½ (A + I) D̃^-½."""
        row, col, _ = self_looped_entries(self.pairs[0] * self.num_nodes + self.pairs[1], self.num_nodes)
        return gcn_adjacency(row, col, self.num_nodes)

    @cached_property
    def walk(self) -> SparseMatrix:
        """S = D^-½ A D^-½, which has the powers' diagonals of the random walk D⁻¹A; zero rows for isolated nodes."""
        scale = self.degree.clamp(min=1).float().rsqrt()
        value = scale[self.row] * scale[self.col]
        return SparseMatrix(self.rowptr, self.col, value, (self.num_nodes, self.num_nodes), symmetric=True)

    def contains(self, i: Tensor, j: Tensor) -> Tensor:
        """Return whether each pair (i, j) is joined by an edge."""
        keys = self.row * self.num_nodes + self.col
        wanted = i * self.num_nodes + j
        place = torch.searchsorted(keys, wanted).clamp(max=max(keys.numel() - 1, 0))
        return keys[place] == wanted
