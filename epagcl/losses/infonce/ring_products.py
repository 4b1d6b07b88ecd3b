"""The products of the ring loss: tiles of exponentials, and what they add to the gradient, in float32 or bf16.

The bf16 form is that of :mod:`epagcl.losses.infonce.tiled_bf16`, which explains it.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from epagcl.core.hardware import fused_sigmoid
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
    """Products in float32, or in float64 if the rows are.

    Attributes:
        temperature: τ.
        centres: whether the gradient adds up rows minus their mean.

    Examples:
        >>> z = torch.eye(2)
        >>> Products(temperature=1.0).exponentials(z, z).diagonal()
        tensor([2.7183, 2.7183])
    """

    centres = False

    def __init__(self, temperature: float):
        self.temperature = temperature

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

    def __init__(self, temperature: float):
        super().__init__(temperature)
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


def products_for(precision: str, temperature: float) -> Products:
    """Return the products of a precision, ``"fp32"`` or ``"bf16"``.

    Examples:
        >>> products_for("fp32", temperature=0.5).temperature
        0.5
    """
    return Bf16Products(temperature) if precision == "bf16" else Products(temperature)
