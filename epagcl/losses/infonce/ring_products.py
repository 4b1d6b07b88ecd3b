"""The products of the ring loss: tiles of exponentials, and what they add to the gradient, in float32 or bf16.

The bf16 form is that of :mod:`epagcl.losses.infonce.tiled_bf16`, which explains it. On GPUs,
:mod:`epagcl.losses.infonce.triton_ring` computes the same by kernels.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from epagcl.core.hardware import fused_sigmoid
from epagcl.core.memory import KEEP_BYTES
from epagcl.losses.infonce.tiled import LOG2_E
from epagcl.losses.infonce.tiled_bf16 import MARGIN


class Operands(NamedTuple):
    """Rows of a rank as the backward pass needs them.

    Attributes:
        block: the rows as :meth:`Products.exponentials` takes them.
        rows: the rows that the gradient adds up.
        inverse: 1/S of each row, float32.
    """

    block: Tensor
    rows: Tensor
    inverse: Tensor

    def part(self, rows: slice) -> "Operands":
        """Return some of the rows."""
        return Operands(self.block[rows], self.rows[rows], self.inverse[rows])


class Products:
    """Products in float32, or in float64 if the rows are. An instance serves one forward pass and its backward pass.

    Attributes:
        temperature: τ.
        tile: the number of rows and columns of a tile.
        keeps: whether the forward pass keeps its tiles for the backward pass.
        centres: whether the gradient adds up rows minus their mean.
        padding: rows past the last one of a received block that may be read.

    Examples:
        >>> z = torch.eye(2)
        >>> Products(temperature=1.0).exponentials(z, z).diagonal()
        tensor([2.7183, 2.7183])
    """

    centres = False
    padding = 0

    def __init__(self, temperature: float, tile: int = 2048):
        self.temperature, self.tile, self.keeps = temperature, tile, False
        self._kept: list[Tensor] = []

    def keep(self, entries: int, element_size: int) -> None:
        """Keep the tiles of the forward pass, if this many numbers are few enough."""
        self.keeps = entries * element_size <= KEEP_BYTES

    def square_sums(self, own: Tensor, row_sum: Tensor) -> None:
        """Add the exponentials of own rows, without the diagonal, to the sums of these rows."""
        everything = slice(0, own.shape[0])
        for rows, columns in _tiles(everything, everything, self.tile, upper=True):
            e = self.exponentials(own[rows], own[columns])
            if rows == columns:
                e.fill_diagonal_(0)
            row_sum[rows].add_(e.sum(1, dtype=row_sum.dtype))
            if columns.start > rows.start:  # z zᵀ is symmetric: the tile below the diagonal is this one, transposed
                row_sum[columns].add_(e.sum(0, dtype=row_sum.dtype))
            self._kept += [e] if self.keeps else []

    def block_sums(self, own: Tensor, visiting: Tensor, row_sum: Tensor, visiting_sum: Tensor) -> None:
        """Add the exponentials of own and visiting rows to the sums of both."""
        for rows, columns in _tiles(slice(0, own.shape[0]), slice(0, visiting.shape[0]), self.tile):
            e = self.exponentials(own[rows], visiting[columns])
            row_sum[rows].add_(e.sum(1, dtype=row_sum.dtype))
            visiting_sum[columns].add_(e.sum(0, dtype=row_sum.dtype))
            self._kept += [e] if self.keeps else []

    def square_gather(self, own: Operands, total: Tensor) -> None:
        """Add Σ_j E_ij (1/S_i + 1/S_j) z_j over own rows. Kept tiles are overwritten; a second pass recomputes them."""
        self._left, self._kept = iter(self._kept), []
        everything = slice(0, own.block.shape[0])
        for rows, columns in _tiles(everything, everything, self.tile, upper=True):
            e = next(self._left, None)
            if e is None:
                e = self.exponentials(own.block[rows], own.block[columns])
                if rows == columns:
                    e.fill_diagonal_(0)
            above = total[columns] if columns.start > rows.start else None
            self.gather(e, own.part(rows), own.part(columns), total[rows], above)

    def block_gather(self, own: Operands, visiting: Operands, total: Tensor, visiting_total: Tensor) -> None:
        """Add what own and visiting rows add to each other; called after :meth:`square_gather`, in order of visits."""
        for rows, columns in _tiles(slice(0, own.block.shape[0]), slice(0, visiting.block.shape[0]), self.tile):
            e = next(self._left, None)
            if e is None:
                e = self.exponentials(own.block[rows], visiting.block[columns])
            self.gather(e, own.part(rows), visiting.part(columns), total[rows], visiting_total[columns])

    def block(self, z: Tensor) -> Tensor:
        """Return unit rows in the form in which they travel forward."""
        return z

    def exponentials(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Return e^{z_i·z_j/τ}, up to a constant factor, of the rows and columns of a tile."""
        return torch.mm(rows * (LOG2_E / self.temperature), columns.T).exp2_()  # exp2 is faster than exp on a CPU

    def row_losses(self, z: Tensor, row_sum: Tensor) -> Tensor:
        """Return log S_i − z_i·z_pos(i)/τ of each row."""
        return row_sum.log() - (z * z.roll(z.shape[0] // 2, 0)).sum(1) / self.temperature

    def pack(self, z: Tensor, inverse: Tensor, mean: Tensor | None) -> Tensor:
        """Return the rows and 1/S in the form in which they travel backward."""
        return torch.cat([z, inverse[:, None]], 1)

    def unpack(self, packed: Tensor) -> Operands:
        """Return the parts of packed rows."""
        return Operands(packed[:, :-1], packed[:, :-1], packed[:, -1])

    def own(self, packed: Tensor) -> Operands:
        """Return the parts of the own packed rows."""
        return self.unpack(packed)

    def width(self, width: int) -> int:
        """Return how many numbers per row :meth:`gather` adds up."""
        return width

    def gather(
        self, e: Tensor, rows: Operands, columns: Operands, into_rows: Tensor, into_columns: Tensor | None
    ) -> None:
        """Add Σ_j E_ij (1/S_i + 1/S_j) z_j of a tile to its rows and, unless on the diagonal, to its columns."""
        e.mul_(rows.inverse[:, None] + columns.inverse)
        into_rows.addmm_(e, columns.rows)
        if into_columns is not None:
            into_columns.addmm_(e.T, rows.rows)

    def gradient(self, total: Tensor, mean: Tensor | None) -> Tensor:
        """Return Σ_j E_ij (1/S_i + 1/S_j) z_j from what :meth:`gather` has added up."""
        return total


class Bf16Products(Products):
    """Products with bf16 operands and float32 sums, on CPUs with bf16 instructions. Half the bytes travel forward."""

    centres = True

    def __init__(self, temperature: float, tile: int = 2048):
        super().__init__(temperature, tile)
        self.shift = torch.tensor(1 / temperature + MARGIN).bfloat16().item()

    def block(self, z: Tensor) -> Tensor:
        """Return z/√τ in bf16."""
        return (z * self.temperature**-0.5).bfloat16()

    def exponentials(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Return e^{z_i·z_j/τ − shift} in bf16."""
        return fused_sigmoid(rows, columns, columns.new_full((columns.shape[0],), -self.shift))

    def row_losses(self, z: Tensor, row_sum: Tensor) -> Tensor:
        """Return the losses of the rounded rows."""
        rounded = self.block(z).float()
        return row_sum.log() + self.shift - (rounded * rounded.roll(z.shape[0] // 2, 0)).sum(1)

    def pack(self, z: Tensor, inverse: Tensor, mean: Tensor | None) -> Tensor:
        """Return the bytes of z/√τ and z − z̄ in bf16, and of 1/S in float32."""
        assert mean is not None
        parts = (self.block(z), (z - mean).bfloat16(), inverse[:, None])
        return torch.cat([part.contiguous().view(torch.uint8) for part in parts], 1)

    def unpack(self, packed: Tensor) -> Operands:
        """Return the parts of packed rows."""
        width = (packed.shape[1] - 4) // 2
        block, rows, inverse = packed.split([width, width, 4], 1)
        return Operands(
            block.contiguous().view(torch.bfloat16),
            rows.contiguous().view(torch.bfloat16),
            inverse.contiguous().view(torch.float32)[:, 0],
        )

    def width(self, width: int) -> int:
        """Return one number more than the width: the sum of the weights."""
        return width + 1

    def gather(
        self, e: Tensor, rows: Operands, columns: Operands, into_rows: Tensor, into_columns: Tensor | None
    ) -> None:
        """Add the weighted sums of centred rows, and the sums of the weights."""
        weight = (rows.inverse[:, None] + columns.inverse).mul_(e)
        e.copy_(weight)
        into_rows[:, -1].add_(weight.sum(1))
        into_rows[:, :-1].add_(e @ columns.rows)
        if into_columns is not None:
            into_columns[:, -1].add_(weight.sum(0))
            into_columns[:, :-1].add_(e.T @ rows.rows)

    def gradient(self, total: Tensor, mean: Tensor | None) -> Tensor:
        """Return the sums of rows: those of centred rows, plus the weights times the mean."""
        assert mean is not None
        return total[:, :-1].addr(total[:, -1], mean)


def _tiles(rows: slice, columns: slice, tile: int, *, upper: bool = False) -> Iterator[tuple[slice, slice]]:
    """Yield the tiles of a rectangle; of a square only those on and above the diagonal, if ``upper``."""
    for i in range(rows.start, rows.stop, tile):
        for j in range(i if upper else columns.start, columns.stop, tile):
            yield slice(i, min(i + tile, rows.stop)), slice(j, min(j + tile, columns.stop))


def products_for(precision: str, temperature: float, tile: int = 2048, *, triton: bool = False) -> Products:
    """Return the products of a precision: of Triton's kernels, or ``"fp32"`` or ``"bf16"`` on CPUs.

    Examples:
        >>> products_for("fp32", temperature=0.5).temperature
        0.5
    """
    if triton:
        from epagcl.losses.infonce.triton_ring import TritonProducts  # imported here, since Triton is optional

        return TritonProducts(temperature, precision)
    return Bf16Products(temperature, tile) if precision == "bf16" else Products(temperature, tile)
