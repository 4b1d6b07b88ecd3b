"""A symmetric sparse matrix whose rows are spread over the ranks. Products exchange boundary rows only."""

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from epagcl.core.sparse import SparseMatrix, StackedMatrix, multiply, rowptr_of
from epagcl.distributed.exchange import Exchange
from epagcl.distributed.partition import Part


class Entries:
    """The entries of Ã = A + I in the rows of one rank, and the exchange of the rows that their columns need.

    The graph is undirected: if a column of a rank's rows belongs to another rank, that rank's rows have the column of
    the first. So each rank knows what the others need, without messages.

    Args:
        part: the nodes of this rank.
        counter: the undirected edges (i, j), each once, encoded as i·N + j. Edges without own nodes are ignored.

    Attributes:
        row: the row of each entry, as a local number. Entries are sorted by row and column.
        node: the column of each entry, a node of the whole graph.
        pair: the index of each entry's pair in ``counter``. Self-loops have the index ``len(counter)``.
        halo: the nodes of other ranks among the columns, sorted.

    Examples:
        >>> from epagcl.distributed.group import Ranks
        >>> entries = Entries(Part(Ranks(0, 2), num_nodes=4), torch.tensor([0 * 4 + 1, 1 * 4 + 2]))  # path 0–1–2
        >>> entries.row.tolist(), entries.node.tolist(), entries.halo.tolist()
        ([0, 0, 1, 1, 1], [0, 1, 0, 1, 2], [2])
    """

    def __init__(self, part: Part, counter: Tensor):
        n = part.num_nodes
        i, j = counter // n, counter % n
        loops = torch.arange(part.start, part.stop, device=counter.device)
        forth, back = part.owns(i).nonzero().flatten(), part.owns(j).nonzero().flatten()
        key = torch.cat([counter[forth], j[back] * n + i[back], loops * (n + 1)])
        key, order = torch.sort(key)
        pair = torch.cat([forth, back, torch.full_like(loops, counter.numel())])
        self.part = part
        self.row, self.node, self.pair = key // n - part.start, key % n, pair[order]
        self.halo = torch.unique(self.node[~part.owns(self.node)])

    @cached_property
    def column(self) -> Tensor:
        """The column of each entry: own nodes by their local numbers, then the halo."""
        return self.within(self)

    @cached_property
    def exchange(self) -> Exchange:
        """The exchange by which each rank receives its halo."""
        part, size = self.part, self.part.ranks.size
        outer = ~part.owns(self.node)
        key = torch.unique(part.owner(self.node[outer]) * max(part.size, 1) + self.row[outer])
        sent = torch.bincount(key // max(part.size, 1), minlength=size).tolist()
        received = torch.bincount(part.owner(self.halo), minlength=size).tolist()
        return Exchange(part, key % max(part.size, 1), sent, received)

    def within(self, union: "Entries") -> Tensor:
        """Return :attr:`column` with the halo of other entries, which include these."""
        own = self.part.owns(self.node)
        return torch.where(own, self.node - self.part.start, self.part.size + torch.searchsorted(union.halo, self.node))

    def matrix(self, value: Tensor) -> "ShardedMatrix":
        """Return the matrix with the given values of the entries."""
        return ShardedMatrix(self.exchange, [split_columns(self, self.row, self.column, value)])


def split_columns(entries: Entries, row: Tensor, column: Tensor, value: Tensor) -> tuple[SparseMatrix, SparseMatrix]:
    """Return a matrix in two parts: the columns of own nodes, and those of the halo."""
    n, own = entries.part.size, column < entries.part.size
    blocks = []
    for mask, first, width in ((own, 0, n), (~own, n, entries.halo.numel())):
        blocks.append(SparseMatrix(rowptr_of(row[mask], n), column[mask] - first, value[mask], (n, width)))
    return blocks[0], blocks[1]


class ShardedMatrix(StackedMatrix):
    """The rows of one rank of one or several symmetric matrices, such as Â of each view.

    ``A @ h`` multiplies the rows of all ranks and returns the own rows. Since A is symmetric, so does the gradient. The
    product with own columns runs while the halo is on its way.

    Args:
        exchange: the exchange by which each rank receives its halo.
        parts: for each matrix, the columns of own nodes and of the halo.
    """

    def __init__(self, exchange: Exchange, parts: Sequence[tuple[SparseMatrix, SparseMatrix]]):
        super().__init__([own for own, _ in parts])
        self.exchange, self.outer = exchange, [outer for _, outer in parts]

    @property
    def T(self) -> "ShardedMatrix":
        """The matrices themselves, which are symmetric."""
        return self

    def scaled(self, factor: float) -> "ShardedMatrix":
        """Return ``factor`` times the matrices."""
        parts = zip(self.parts, self.outer, strict=True)
        return ShardedMatrix(self.exchange, [(own.scaled(factor), outer.scaled(factor)) for own, outer in parts])

    def multiply(self, dense: Tensor) -> Tensor:
        """Return the own rows of the products, without gradient."""
        n = self.shape[0]
        blocks = dense.shape[0] // n if n else 1
        received, transfer = self.exchange.start(dense, blocks, "halo")
        out = super().multiply(dense)
        transfer.wait()
        halo = received.transpose(0, 1).contiguous()
        for view, rows in enumerate(out.split(n) if n else ()):
            outer = self.outer[view % self.views]
            if outer.value.numel():
                rows.add_(multiply(outer, halo[view % blocks]))
        return out


def gcn_views(union: Entries, views: Sequence[tuple[Tensor, Tensor, Tensor | None]]) -> ShardedMatrix:
    """Return Â = D̃^-½ Ã D̃^-½ of several views. Ranks exchange the degrees of boundary nodes, one number each.

    Args:
        union: the entries that can occur in any view.
        views: for each view the row, the column and the weight of its entries; weight None: all are 1.

    Examples:
        >>> from epagcl.distributed.group import Ranks
        >>> entries = Entries(Part(Ranks(0, 1), num_nodes=2), torch.tensor([1]))  # the edge (0, 1)
        >>> gcn_views(entries, [(entries.row, entries.column, None)]) @ torch.eye(2)
        tensor([[0.5000, 0.5000],
                [0.5000, 0.5000]])
    """
    n, device = union.part.size, union.row.device
    degree = torch.zeros(n, len(views), device=device)
    for view, (row, _, weight) in enumerate(views):
        if weight is None:
            degree[:, view] = torch.bincount(row, minlength=n)
        else:
            ones = SparseMatrix(rowptr_of(row, n), torch.zeros_like(row), weight, (n, 1))
            degree[:, view] = multiply(ones, weight.new_ones(1, 1))[:, 0] if n else 0.0
    scale = degree.rsqrt()
    received, transfer = union.exchange.start(scale, 1, "degrees")
    transfer.wait()
    scale = torch.cat([scale, received[:, 0]])
    parts = []
    for view, (row, column, weight) in enumerate(views):
        value = scale[row, view] * scale[column, view]
        parts.append(split_columns(union, row, column, value if weight is None else weight * value))
    return ShardedMatrix(union.exchange, parts)
