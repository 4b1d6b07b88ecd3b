"""Exact InfoNCE in plain PyTorch: square tiles of z zᵀ, each used for its rows and its columns.

Memory is O(N·d) plus a constant. Forward keeps the M row sums. For small graphs, it also keeps the tiles, if they fit
in ``KEEP_BYTES``. Otherwise backward recomputes the tiles. Forward and backward take 1.5 products of 2M²d flops with
kept tiles and 2 without. Autograd on the dense formula takes 3 and keeps several M² arrays.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from epagcl.core.hardware import aligned_width
from epagcl.core.memory import KEEP_BYTES

# On a CPU two tiles and their operands fit in a core's cache; on a GPU one tile is large enough to occupy it.
TILE = {"cpu": 768, "cuda": 8192, "mps": 4096}
LOG2_E = math.log2(math.e)

Tile = tuple[slice, slice, Tensor]


def tiled_loss(x: Tensor, temperature: float, groups: int = 1, tile: int | None = None) -> Tensor:
    """Return mean_i (log Σ_{j≠i} e^{s_ij} − s_{i,pos(i)}) with s = z zᵀ/τ and z = x/‖x‖, inside each group of rows.

    Memory is O(N·d). Small groups of B rows are computed together, by one batched product that keeps N·B numbers.

    Args:
        x: the stacked rows of both views.
        temperature: τ.
        groups: the number of groups of equal size.
        tile: the number of rows and columns of a tile; by default it depends on the device.

    Examples:
        >>> tiled_loss(torch.ones(4, 2), temperature=0.5)  # all rows equal: log 3
        tensor(1.0986)
    """
    z = F.normalize(x, dim=1)
    tile = tile or TILE.get(x.device.type, 2048)
    if groups == 1:
        return _Tiled.apply(z, temperature, tile)
    if z.shape[0] // groups <= min(tile, 1024):
        return _Batched.apply(z.view(groups, -1, z.shape[1]), temperature)
    return torch.stack([_Tiled.apply(group, temperature, tile) for group in z.chunk(groups)]).mean()


def upper_tiles(z: Tensor, tile: int, *, fresh: bool) -> Iterator[Tile]:
    """Yield the rows, the columns and a buffer for each square tile in the upper triangle of z zᵀ.

    Unless ``fresh``, all tiles share one buffer. On a GPU the rows of its tiles are aligned, since products of other
    rows take longer.
    """
    m = z.shape[0]
    row_length = aligned_width if z.device.type == "cuda" else int
    buffer = z.new_empty(min(tile, m) * row_length(min(tile, m)))
    for i in range(0, m, tile):
        rows = slice(i, min(i + tile, m))
        for j in range(i, m, tile):
            columns = slice(j, min(j + tile, m))
            shape = rows.stop - i, columns.stop - j
            yield rows, columns, z.new_empty(shape) if fresh else buffer.as_strided(shape, (row_length(shape[1]), 1))


def _exponential_tiles(z: Tensor, temperature: float, tile: int, *, fresh: bool) -> Iterator[Tile]:
    """Yield the rows, the columns and E_ij = e^{z_i·z_j/τ} (0 where i = j) of each tile in the upper triangle.

    The caller may write to E. Unless ``fresh``, the next tile overwrites it.
    """
    scaled = z * (LOG2_E / temperature)  # 2^(s·log₂e): exp2 is three times as fast as exp on a CPU
    for rows, columns, e in upper_tiles(z, tile, fresh=fresh):
        torch.mm(scaled[rows], z[columns].T, out=e)
        e.exp2_()
        if rows == columns:
            e.fill_diagonal_(0)
        yield rows, columns, e


class _Tiled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, temperature: float, tile: int) -> Tensor:
        m = z.shape[0]
        keep = ctx.needs_input_grad[0] and m * (m + min(tile, m)) // 2 * z.element_size() <= KEEP_BYTES
        tiles: list[Tile] = []
        row_sum = z.new_zeros(m)
        for rows, columns, e in _exponential_tiles(z, temperature, tile, fresh=keep):
            row_sum[rows] += e.sum(1)
            if columns.start > rows.start:  # z zᵀ is symmetric: the tile below the diagonal is this one, transposed
                row_sum[columns] += e.sum(0)
            if keep:
                tiles.append((rows, columns, e))
        z1, z2 = z.chunk(2)
        ctx.save_for_backward(z, row_sum)
        ctx.temperature, ctx.tile, ctx.kept_tiles = temperature, tile, tiles
        return row_sum.log().mean() - (z1 * z2).sum(1).mean() / temperature

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        """Return dz_i = 1/(τM) Σ_{j≠i} (E_ij/S_i + E_ij/S_j − 2·[j = pos(i)]) z_j, where S are the row sums."""
        z, row_sum = ctx.saved_tensors
        m = z.shape[0]
        inverse = row_sum.reciprocal()
        dz = -2 * z.roll(m // 2, 0)
        weight = z.new_empty(min(ctx.tile, m) ** 2)
        # Backward overwrites the kept tiles, so a second backward has to recompute them.
        tiles, ctx.kept_tiles = ctx.kept_tiles, []
        for rows, columns, e in tiles or _exponential_tiles(z, ctx.temperature, ctx.tile, fresh=False):
            w = weight[: e.numel()].view(e.shape)
            torch.add(inverse[rows, None], inverse[None, columns], out=w)
            e.mul_(w)
            dz[rows].addmm_(e, z[columns])
            if columns.start > rows.start:
                dz[columns].addmm_(e.T, z[rows])
        return dz.mul_(grad / (ctx.temperature * m)), None, None


class _Batched(torch.autograd.Function):
    """The same loss for many small groups ``[G, B, d]``: one batched product forward, one backward."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, temperature: float) -> Tensor:
        e = torch.bmm(z * (LOG2_E / temperature), z.transpose(1, 2)).exp2_()
        e.diagonal(dim1=1, dim2=2).zero_()
        row_sum = e.sum(2)
        ctx.save_for_backward(z, e, row_sum)
        ctx.temperature = temperature
        return row_sum.log().mean() - (z * z.roll(z.shape[1] // 2, 1)).sum(2).mean() / temperature

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        z, e, row_sum = ctx.saved_tensors
        inverse = row_sum.reciprocal()
        weight = (inverse[:, :, None] + inverse[:, None, :]).mul_(e)
        dz = torch.baddbmm(z.roll(z.shape[1] // 2, 1), weight, z, beta=-2)
        return dz.mul_(grad / (ctx.temperature * row_sum.numel())), None
