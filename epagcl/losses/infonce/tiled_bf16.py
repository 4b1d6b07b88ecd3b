"""InfoNCE on CPUs with bf16 instructions: the tiles of ``tiled`` with bf16 operands and float32 sums.

PyTorch rounds a product of bf16 matrices to bf16. Similarities with 8 bits would give exponentials that are wrong by up
to 2⁻⁹/τ, so the exponential is fused into the product, before the only rounding:

- oneDNN, the library behind PyTorch's bf16 products, has no fused exponential but a fused sigmoid. For x ≤ −16 they are
  equal in float32: σ(x) = eˣ/(1 + eˣ) and eˣ ≤ 1.2e-7. A bias moves all exponents s_ij below −16, which is possible
  since |s_ij| ≤ 1/τ, and cancels in E_ij/S_i.
- The row sums are those of the rounded E_ij, so the probabilities E_ij/S_i of a row sum to one.
- The gradient needs Σ_j W_ij z_j. If rows are nearly identical, what matters is how they differ from their mean z̄, and
  bf16 would lose it. So the product is Σ_j W_ij (z_j − z̄) + (Σ_j W_ij) z̄, where the second term is float32.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from epagcl.core.hardware import fused_sigmoid
from epagcl.core.memory import KEEP_BYTES

TILE = 768  # two bf16 tiles and their operands fit in a core's cache
MARGIN = 16.0  # the distance of the largest exponent from 0
MIN_ROWS = 128  # with fewer rows, calling the products takes longer than the products

Tile = tuple[slice, slice, Tensor]


def tiled_bf16_loss(x: Tensor, temperature: float, groups: int = 1, tile: int = TILE) -> Tensor:
    """Return the loss of ``tiled_loss`` with operands in bf16. The CPU must have bf16 instructions.

    Args:
        x: the stacked rows of both views, float32.
        temperature: τ.
        groups: the number of groups of equal size.
        tile: about the number of rows and columns of a tile.
    """
    return _TiledBf16.apply(F.normalize(x, dim=1), temperature, groups, tile)


def _slices(rows: int, groups: int, tile: int) -> Iterator[tuple[slice, slice]]:
    """Yield the rows and the columns of the tiles in the upper triangle of each group's block of z zᵀ."""
    size = rows // groups
    for first in range(0, rows, size):
        starts = range(first, first + size, tile)
        slices = [slice(start, min(start + tile, first + size)) for start in starts]
        for i, row_slice in enumerate(slices):
            for column_slice in slices[i:]:
                yield row_slice, column_slice


def _exponential_tiles(scaled: Tensor, shift: float, groups: int, tile: int) -> Iterator[Tile]:
    """Yield the rows, the columns and E_ij = e^{z_i·z_j/τ − shift} (0 where i = j) of each tile, in bf16."""
    bias = scaled.new_full((min(tile, scaled.shape[0]),), -shift)
    for rows, columns in _slices(scaled.shape[0], groups, tile):
        e = fused_sigmoid(scaled[rows], scaled[columns], bias[: columns.stop - columns.start])
        if rows == columns:
            e.fill_diagonal_(0)
        result = [(rows, columns, e)]
        del e
        yield result.pop()  # without a reference, so that the next tile can reuse the memory


def _add_sums(sums: Tensor, rows: slice, columns: slice, values: Tensor) -> None:
    """Add the row sums of a tile and, unless it is on the diagonal, of its transpose, the tile below the diagonal."""
    sums[rows].add_(values.sum(1))  # sums[rows] += … would copy the result onto itself
    if columns.start > rows.start:
        sums[columns].add_(values.sum(0))


def _positives(z: Tensor, groups: int) -> Tensor:
    """Return for each row the row of the same node in the other view."""
    blocks = z.view(groups, -1, z.shape[1])
    return blocks.roll(blocks.shape[1] // 2, 1).view_as(z)


class _TiledBf16(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, temperature: float, groups: int, tile: int) -> Tensor:
        m = z.shape[0]
        # Both operands of z zᵀ/τ are z/√τ, rounded alike, so the rounded similarities are symmetric as well.
        scaled = (z * temperature**-0.5).bfloat16()
        shift = torch.tensor(1 / temperature + MARGIN).bfloat16().item()  # a number that bf16 represents exactly
        size = m // groups
        tile = math.ceil(size / max(1, round(size / tile)))  # tiles of equal size, without a narrow last one
        keep = ctx.needs_input_grad[0] and m * (size + tile) // 2 * scaled.element_size() <= KEEP_BYTES
        tiles: list[Tile] = []
        row_sum = z.new_zeros(m)
        buffer = z.new_empty(tile**2)
        for rows, columns, e in _exponential_tiles(scaled, shift, groups, tile):
            _add_sums(row_sum, rows, columns, buffer[: e.numel()].view(e.shape).copy_(e))
            if keep:
                tiles.append((rows, columns, e))
            del e  # before the next tile is allocated: fresh memory costs as much as a pass over the tile
        ctx.save_for_backward(z, scaled, row_sum)
        ctx.temperature, ctx.shift, ctx.groups, ctx.tile, ctx.kept_tiles = temperature, shift, groups, tile, tiles
        # The similarities of positives are those of the rounded rows too: what rounding adds to all s_ij cancels.
        rounded = scaled.float()
        return row_sum.log().mean() + shift - (rounded * _positives(rounded, groups)).sum(1).mean()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        """Return the gradient of ``tiled``, with the weights W_ij = E_ij/S_i + E_ij/S_j and the rows z_j in bf16."""
        z, scaled, row_sum = ctx.saved_tensors
        m = z.shape[0]
        inverse = row_sum.reciprocal()
        mean = z.mean(0)
        centred = (z - mean).bfloat16()
        weight_sum = z.new_zeros(m)
        dz = -2 * _positives(z, ctx.groups)
        buffer, product = z.new_empty(ctx.tile**2), centred.new_empty(ctx.tile, z.shape[1])
        # Backward overwrites the kept tiles, so a second backward has to recompute them.
        tiles, ctx.kept_tiles = ctx.kept_tiles, []
        for rows, columns, e in tiles or _exponential_tiles(scaled, ctx.shift, ctx.groups, ctx.tile):
            w = buffer[: e.numel()].view(e.shape)
            torch.add(inverse[rows, None], inverse[None, columns], out=w)
            _add_sums(weight_sum, rows, columns, w.mul_(e))
            e.copy_(w)
            dz[rows].add_(torch.mm(e, centred[columns], out=product[: e.shape[0]]))
            if columns.start > rows.start:
                dz[columns].add_(torch.mm(e.T, centred[rows], out=product[: e.shape[1]]))
            del e
        dz.addr_(weight_sum, mean)
        return dz.mul_(grad / (ctx.temperature * m)), None, None, None
