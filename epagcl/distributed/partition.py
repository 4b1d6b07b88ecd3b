"""The partition of the nodes over the ranks: contiguous ranges, so that nodes keep their numbers."""

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from epagcl.core.errors import InputError
from epagcl.distributed.group import Ranks


class Part:
    """The nodes ``start`` to ``stop - 1`` of a graph, which one rank owns.

    Args:
        ranks: the ranks.
        num_nodes: number of nodes of the whole graph, N.
        sizes: number of nodes of each rank; by default as equal as possible.

    Attributes:
        starts: the first node of each rank, and N.

    Examples:
        >>> part = Part(Ranks(rank=1, size=3), num_nodes=7)
        >>> part.sizes, part.start, part.stop
        ([3, 2, 2], 3, 5)
        >>> part.owner(torch.tensor([0, 2, 3, 6])).tolist()
        [0, 0, 1, 2]
    """

    def __init__(self, ranks: Ranks, num_nodes: int, sizes: Sequence[int] | None = None):
        if sizes is None:
            sizes = [num_nodes // ranks.size + (rank < num_nodes % ranks.size) for rank in range(ranks.size)]
        if len(sizes) != ranks.size or sum(sizes) != num_nodes or min(sizes) < 0:
            raise InputError(f"sizes={list(sizes)}: give {ranks.size} numbers of nodes whose sum is {num_nodes}")
        self.ranks, self.num_nodes, self.sizes = ranks, num_nodes, list(sizes)
        self.starts = [sum(self.sizes[:rank]) for rank in range(ranks.size + 1)]

    @property
    def start(self) -> int:
        """The first node of this rank."""
        return self.starts[self.ranks.rank]

    @property
    def stop(self) -> int:
        """The node after the last node of this rank."""
        return self.starts[self.ranks.rank + 1]

    @property
    def rows(self) -> slice:
        """The nodes of this rank."""
        return slice(self.start, self.stop)

    @property
    def size(self) -> int:
        """Number of nodes of this rank."""
        return self.stop - self.start

    @cached_property
    def _ends(self) -> Tensor:
        return torch.tensor(self.starts[1:])

    def owner(self, nodes: Tensor) -> Tensor:
        """Return the rank that owns each node."""
        # Ranks without nodes end where the rank before them ends; the search finds the first that ends later.
        return torch.searchsorted(self._ends.to(nodes.device), nodes, right=True)

    def owns(self, nodes: Tensor) -> Tensor:
        """Return a mask of the nodes that this rank owns."""
        return (nodes >= self.start) & (nodes < self.stop)

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the sum of a tensor over all ranks."""
        return self.ranks.sum_(tensor.contiguous().clone())

    def sum_gradients(self, parameters: Sequence[Tensor]) -> None:
        """Add up the gradients of replicated parameters over all ranks, by one all-reduce."""
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        if gradients:
            total = self.ranks.sum_(torch.cat([gradient.flatten() for gradient in gradients]), "gradients")
            for gradient, part in zip(gradients, total.split([g.numel() for g in gradients]), strict=True):
                gradient.copy_(part.view_as(gradient))

    @torch.no_grad()
    def all_rows(self, rows: Tensor) -> Tensor:
        """Return the rows of all nodes, on every rank."""
        return self._blocks(rows, self.sizes)

    @torch.no_grad()
    def some_rows(self, rows: Tensor, nodes: Tensor) -> Tensor:
        """Return the rows of some nodes, which are sorted and the same on every rank."""
        sizes = torch.bincount(self.owner(nodes), minlength=self.ranks.size).tolist()
        return self._blocks(rows[nodes[self.owns(nodes)] - self.start], sizes)

    @torch.no_grad()
    def all_values(self, values: Tensor) -> Tensor:
        """Return the values of all ranks one after the other; their number may differ."""
        return self._blocks(values, self.ranks.gathered(values.shape[0]))

    def _blocks(self, own: Tensor, sizes: list[int]) -> Tensor:
        """Return the blocks of rows of all ranks, of known sizes."""
        every = own.new_empty(sum(sizes), *own.shape[1:])
        for rank, block in enumerate(every.split(sizes)):
            if rank == self.ranks.rank:
                block.copy_(own)
            self.ranks.broadcast_(block, rank, "rows")
        return every
