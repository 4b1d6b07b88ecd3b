"""Exact InfoNCE over the rows of several ranks: blocks of rows travel around a ring while the last ones are multiplied.

With k ranks, rank r multiplies its rows with those of ranks r, r − 1, ..., r − ⌊k/2⌋. Similarities are symmetric, so
each tile serves its rows and its columns, and no product is computed twice: what a tile adds to the visiting rows is
sent to their owner. If k is even, two ranks meet in the last step, and each computes one half of their products.

A rank holds its own rows, one visiting block, one that is on its way, and what goes home: never all rows.
"""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from epagcl.distributed.group import Transfer
from epagcl.distributed.partition import Part
from epagcl.losses.infonce.ring_products import Products, products_for
from epagcl.losses.infonce.tiled import TILE

#: Names of the traffic: blocks on the ring, and what goes back to their owners.
RING, HOME = "ring", "home"

Slices = tuple[slice, slice]


def ring_loss(
    x: Tensor,
    temperature: float,
    part: Part,
    precision: str = "fp32",
    tile: int | None = None,
    *,
    triton: bool = False,
) -> Tensor:
    """Return this rank's share of :func:`~epagcl.losses.infonce.tiled.tiled_loss` over the rows of all ranks.

    The sum of the shares is the loss.

    Args:
        x: the rows of both views of this rank's nodes, ``[2n, d]``, first one view, then the other.
        temperature: τ.
        part: the nodes of this rank.
        precision: ``"fp32"``, or ``"bf16"`` on CPUs with bf16 instructions; with ``triton``, one of
            :data:`epagcl.losses.PRECISIONS`.
        tile: the number of rows and columns of a tile; by default it depends on the device.
        triton: whether Triton's kernels compute the products, on all ranks.

    Examples:
        >>> from epagcl.distributed.group import Ranks
        >>> ring_loss(torch.ones(4, 2), temperature=0.5, part=Part(Ranks(0, 1), 2))  # all rows equal: log 3
        tensor(1.0986)
    """
    tile = tile or TILE.get(x.device.type, 2048)
    return _Ring.apply(F.normalize(x, dim=1), products_for(precision, temperature, tile, triton=triton), part)


def ring_bytes(sizes: list[int], width: int, rank: int, itemsize: int = 4) -> dict[str, int]:
    """Return the bytes that one rank sends in a forward and a backward pass, by purpose.

    Forward, a block of m rows of d numbers makes ⌊k/2⌋ steps, and each step sends one sum per visited row home.
    Backward, the block has 1/S of each row too, and d numbers per visited row go home, in float32.

    Args:
        sizes: the number of nodes of each rank.
        width: d, the width of the rows.
        rank: the rank that sends.
        itemsize: bytes of a number of the rows: 4 in float32, 2 in fp16 and bf16 by Triton's kernels.

    Examples:
        Two ranks with 100 nodes each, and 200 rows of both views; rank 0 visits one half of the rows of rank 1:

        >>> ring_bytes([100, 100], width=8, rank=0)
        {'ring': 13600, 'home': 3600}
    """
    size = len(sizes)
    ring = home = 0
    for step in range(1, size // 2 + 1):
        ring += 2 * sizes[(rank - step + 1) % size]  # the block that came in the step before
        _, columns = meeting(rank, step, sizes)
        home += columns.stop - columns.start
    return {RING: ring * (2 * itemsize * width + 4), HOME: 4 * home * (width + 1)}


def meeting(rank: int, step: int, sizes: list[int]) -> Slices:
    """Return the own rows and the visiting rows that a rank multiplies in a step.

    Examples:
        >>> meeting(rank=0, step=1, sizes=[2, 3])
        (slice(0, 4, None), slice(0, 3, None))
        >>> meeting(rank=1, step=1, sizes=[2, 3])  # the other half of its own rows
        (slice(3, 6, None), slice(0, 4, None))
    """
    size = len(sizes)
    own, visiting = 2 * sizes[rank], 2 * sizes[(rank - step) % size]
    if 2 * step < size:
        return slice(0, own), slice(0, visiting)
    if rank < step:
        return slice(0, own), slice(0, visiting // 2)
    return slice(own // 2, own), slice(0, visiting)


class _Trip:
    """The journeys of all blocks around the ring, seen from one rank.

    Args:
        part: the nodes of this rank.
        block: the own rows, in the form in which they travel.
        total: what comes home is added to the rows of this tensor.
        padding: rows of zeros in memory after each received block.
    """

    def __init__(self, part: Part, block: Tensor, total: Tensor, padding: int = 0):
        self.part, self.total, self.padding = part, total, padding
        self.rank, self.size = part.ranks.rank, part.ranks.size
        self._homecoming: tuple[Transfer, Tensor, slice] | None = None
        # The own block leaves before the products of own rows.
        self._coming = self._send_on(block.contiguous(), 1) if self.size > 1 else None

    def _send_on(self, block: Tensor, step: int) -> tuple[Transfer, Tensor]:
        """Send a block to the next rank, and receive the block that visits in a step."""
        count = 2 * self.part.sizes[(self.rank - step) % self.size]
        into = block.new_empty(count + self.padding, block.shape[1])
        into[count:].zero_()
        into = into[:count]
        return self.part.ranks.shift(block, into, 1, RING), into

    def visits(self) -> Iterator[tuple[int, Tensor]]:
        """Yield each step and its visiting block, while the next one is on its way."""
        steps = self.size // 2
        for step in range(1, steps + 1):
            assert self._coming is not None
            transfer, block = self._coming
            transfer.wait()
            self._coming = self._send_on(block, step + 1) if step < steps else None
            yield step, block

    def send_home(self, values: Tensor, step: int) -> None:
        """Send what a step adds to visiting rows to their owner, and receive what it adds to own rows."""
        self.finish()
        _, columns = meeting((self.rank + step) % self.size, step, self.part.sizes)
        into = values.new_empty(columns.stop - columns.start, *values.shape[1:])
        self._homecoming = self.part.ranks.shift(values, into, -step, HOME), into, columns

    def finish(self) -> None:
        """Wait for what comes home, and add it up."""
        if self._homecoming is not None:
            transfer, values, rows = self._homecoming
            transfer.wait()
            self.total[rows].add_(values)
            self._homecoming = None


def _entries(part: Part) -> int:
    """Return the number of products that this rank computes in a pass."""
    rank, sizes = part.ranks.rank, part.sizes
    count = 2 * sizes[rank] ** 2
    for step in range(1, len(sizes) // 2 + 1):
        rows, columns = meeting(rank, step, sizes)
        count += (rows.stop - rows.start) * (columns.stop - columns.start)
    return count


class _Ring(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, products: Products, part: Part) -> Tensor:
        own = products.block(z)
        row_sum = z.new_zeros(z.shape[0])
        if ctx.needs_input_grad[0]:
            products.keep(_entries(part), own.element_size())
        trip = _Trip(part, own, row_sum, products.padding)
        products.square_sums(own, row_sum)
        for step, block in trip.visits():
            rows, columns = meeting(trip.rank, step, part.sizes)
            visiting_sum = z.new_zeros(block.shape[0])
            products.block_sums(own[rows], block[columns], row_sum[rows], visiting_sum[columns])
            trip.send_home(visiting_sum[columns], step)
        trip.finish()
        ctx.save_for_backward(z, row_sum)
        ctx.products, ctx.part = products, part
        return products.row_losses(z, row_sum).sum() / (2 * part.num_nodes)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        """Return dz_i = 1/(τM) Σ_{j≠i} (E_ij/S_i + E_ij/S_j − 2·[j = pos(i)]) z_j, where S are the row sums."""
        z, row_sum = ctx.saved_tensors
        products, part = ctx.products, ctx.part
        mean = part.sum(z.sum(0)) / (2 * part.num_nodes) if products.centres else None
        packed = products.pack(z, row_sum.reciprocal(), mean)
        own = products.own(packed)
        total = z.new_zeros(z.shape[0], products.width(z.shape[1]))
        trip = _Trip(part, packed, total)
        products.square_gather(own, total)
        for step, block in trip.visits():
            visiting = products.unpack(block)
            rows, columns = meeting(trip.rank, step, part.sizes)
            added = total.new_zeros(block.shape[0], total.shape[1])
            products.block_gather(own.part(rows), visiting.part(columns), total[rows], added[columns])
            trip.send_home(added[columns], step)
        trip.finish()
        dz = products.gradient(total, mean).sub_(z.roll(z.shape[0] // 2, 0), alpha=2)
        return dz.mul_(grad / (products.temperature * 2 * part.num_nodes)), None, None
