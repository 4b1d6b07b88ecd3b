"""The products of the ring loss on GPUs: launches the kernels of one process, and those for blocks of other ranks."""

import torch
import triton
from torch import Tensor

from epagcl.losses.infonce import triton_loss
from epagcl.losses.infonce.ring_kernels import block_gather_kernel, block_sums_kernel
from epagcl.losses.infonce.ring_products import Operands, Products
from epagcl.losses.infonce.tiles import Tiles
from epagcl.losses.infonce.triton_kernels import row_losses_kernel
from epagcl.losses.infonce.triton_loss import BLOCKS_PER_ROUND, FP32_COLUMNS, PAD, PROGRAMS_PER_PROCESSOR


class TritonProducts(Products):
    """Products by Triton's kernels. Rows travel as the kernels read them: in fp16, half the bytes of float32.

    Examples:
        >>> TritonProducts(temperature=0.5, precision="fp16").padding
        128
    """

    padding = PAD

    def __init__(self, temperature: float, precision: str):
        super().__init__(temperature)
        self.precision = precision

    def keep(self, entries: int, element_size: int) -> None:
        """Keep nothing: the kernels write no tile to memory."""

    def block(self, z: Tensor) -> Tensor:
        """Return the scaled and rounded unit rows, which are followed by zeros in memory."""
        self.operands = triton_loss.Operands(z.contiguous(), self.temperature, 1, self.precision)
        return self.operands.a[: z.shape[0]]

    def square_sums(self, own: Tensor, row_sum: Tensor) -> None:
        """Add the exponentials of own rows, without the diagonal, to the sums of these rows."""
        if own.shape[0]:
            row_sum.add_(triton_loss.row_sums(self.operands, self._tiles_of_sums()))

    def block_sums(self, own: Tensor, visiting: Tensor, row_sum: Tensor, visiting_sum: Tensor) -> None:
        """Add the exponentials of own and visiting rows to the sums of both."""
        if own.shape[0] and visiting.shape[0]:
            block_sums(self.operands, own, visiting, row_sum, visiting_sum, self._tiles_of_sums())

    def row_losses(self, z: Tensor, row_sum: Tensor) -> Tensor:
        """Return the losses of the rounded rows."""
        o, losses = self.operands, torch.empty_like(row_sum)
        self.sums = row_sum
        if o.m:
            shape = o.rows_per_program, o.width, o.halves
            row_losses_kernel[(triton.cdiv(o.m, o.rows_per_program),)](o.a, row_sum, losses, o.size, o.m, *shape)
        return losses

    def pack(self, z: Tensor, inverse: Tensor, mean: Tensor | None) -> Tensor:
        """Return the bytes of the rows and of 1/S."""
        self.inverse = inverse
        parts = (self.operands.a[: z.shape[0]], inverse[:, None])
        return torch.cat([part.contiguous().view(torch.uint8) for part in parts], 1)

    def own(self, packed: Tensor) -> Operands:
        """Return the own rows, which need not be unpacked."""
        rows = self.operands.a[: packed.shape[0]]
        return Operands(rows, rows, self.inverse)

    def unpack(self, packed: Tensor) -> Operands:
        """Return the parts of packed rows; the rows are followed by zeros in memory."""
        rows = torch.zeros(
            packed.shape[0] + PAD, self.operands.a.shape[1], dtype=self.operands.a.dtype, device=packed.device
        )
        rows.view(torch.uint8)[: packed.shape[0]] = packed[:, :-4]
        rows = rows[: packed.shape[0]]
        return Operands(rows, rows, packed[:, -4:].contiguous().view(torch.float32)[:, 0])

    def square_gather(self, own: Operands, total: Tensor) -> None:
        """Add Σ_j E_ij (1/S_i + 1/S_j) a_j over own rows."""
        if own.rows.shape[0]:
            total.add_(triton_loss.gather(self.operands, self.sums, self._tiles_of_gather()).sum(0))

    def block_gather(self, own: Operands, visiting: Operands, total: Tensor, visiting_total: Tensor) -> None:
        """Add what own and visiting rows add to each other."""
        if own.rows.shape[0] and visiting.rows.shape[0]:
            tiles = self._tiles_of_gather()
            block_gather(self.operands, own, visiting, total, tiles)
            block_gather(self.operands, visiting, own, visiting_total, tiles)

    def gradient(self, total: Tensor, mean: Tensor | None) -> Tensor:
        """Return Σ_j E_ij (1/S_i + 1/S_j) z_j from sums of scaled rows."""
        o = self.operands
        return total.div_(o.scale * (1 if o.precision == "fp32" else o.lift))

    def _tiles_of_sums(self) -> Tiles:
        o = self.operands
        return o.tiles("sums", lambda tiles: triton_loss.row_sums(o, tiles))

    def _tiles_of_gather(self) -> Tiles:
        o, sums = self.operands, self.sums
        return o.tiles("gather", lambda tiles: triton_loss.gather(o, sums, tiles))


def block_sums(
    o: triton_loss.Operands, own: Tensor, visiting: Tensor, row_sum: Tensor, visiting_sum: Tensor, tiles: Tiles
) -> None:
    """Add Σ_j E_ij to the sums of own rows, and Σ_i E_ij to those of visiting rows; each E is computed once.

    Args:
        o: the operands of this rank, for their form.
        own: own rows; up to ``PAD`` rows after them in memory are read.
        visiting: visiting rows, likewise.
        row_sum: the sums of the own rows, which change.
        visiting_sum: the sums of the visiting rows, which change.
        tiles: the tiles of the kernel.
    """
    rows, columns = own.shape[0], visiting.shape[0]
    blocks = triton.cdiv(rows, tiles.rows)
    chunk = blocks * columns // (PROGRAMS_PER_PROCESSOR * triton_loss._num_processors(own.device))
    chunk = min(max(triton.cdiv(chunk, PAD) * PAD, 2 * PAD), 128 * PAD)
    chunks = triton.cdiv(columns, chunk)
    # The column sums of each block of a round are stored separately, so a round needs this many numbers per column.
    for first in range(0, blocks, BLOCKS_PER_ROUND):
        count = min(BLOCKS_PER_ROUND, blocks - first)
        row_part = row_sum.new_empty(chunks, count * tiles.rows)
        column_part = row_sum.new_empty(count, columns)
        block_sums_kernel[(count, chunks)](
            *(own, visiting, row_part, column_part, rows, columns, first, count, chunk),
            *(tiles.rows, tiles.columns, o.width, o.precision, tiles.stages),
            num_warps=tiles.warps,
            num_stages=tiles.stages,
        )
        start = first * tiles.rows
        stop = min(start + count * tiles.rows, rows)
        row_sum[start:stop].add_(row_part.sum(0)[: stop - start])
        visiting_sum.add_(column_part.sum(0))


def block_gather(o: triton_loss.Operands, rows: Operands, columns: Operands, into: Tensor, tiles: Tiles) -> None:
    """Add Σ_j E_ij (1/S_i + 1/S_j) b_j over the columns to ``into``; times ``o.lift`` except in fp32."""
    count, other = rows.rows.shape[0], columns.rows.shape[0]
    blocks = triton.cdiv(count, tiles.rows)
    width = min(o.width, 128) if o.precision == "fp32" else o.width
    slices = o.width // width
    all_tiles = triton.cdiv(other, tiles.columns)
    parts = triton_loss._num_parts(blocks * slices, all_tiles, triton_loss._num_processors(o.a.device))
    out = into.new_empty(parts, count, o.d)
    inverses = (rows.inverse * o.lift, columns.inverse * o.lift)
    per_round = min(all_tiles, FP32_COLUMNS // tiles.columns) if o.precision == "fp32" else all_tiles
    per_part = triton.cdiv(per_round, parts)
    for begin in range(0, all_tiles, per_part * parts):
        block_gather_kernel[(blocks, parts * slices)](
            *(rows.rows, inverses[0], columns.rows, inverses[1], out, count, other, o.d, begin, per_part),
            *(begin > 0, begin + per_part * parts >= all_tiles),
            *(tiles.rows, tiles.columns, o.width, width, o.precision, tiles.stages),
            num_warps=tiles.warps,
            num_stages=tiles.stages,
        )
    into.add_(out.sum(0))
