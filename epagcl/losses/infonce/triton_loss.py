"""Exact InfoNCE on a GPU: launches the kernels of :mod:`epagcl.losses.infonce.triton_kernels`."""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import triton
from torch import Tensor
from torch.autograd.function import once_differentiable

from epagcl.core.kernels.launch import on_device_of_arguments
from epagcl.losses.infonce.tiles import Tiles, tiles_for
from epagcl.losses.infonce.triton_kernels import (
    LIFT,
    SPREAD,
    add_up_kernel,
    finish_kernel,
    gather_kernel,
    row_losses_kernel,
    row_sums_kernel,
    unit_kernel,
)

PAD = 128  # rows past the last one that a tile may read; the size of the largest tile
PROGRAMS_PER_PROCESSOR = 12  # of row_sums on each multiprocessor, before symmetry halves them
MAX_PARTS = 6  # parts of the columns in gather; each part is an array of the size of x
BLOCKS_PER_ROUND = 256  # blocks of row_sums in a round; each needs one number per row
FP32_COLUMNS = 32_768  # columns that gather adds up in one round in fp32
DTYPES = {"fp32": torch.float16, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


@on_device_of_arguments
def triton_loss(x: Tensor, temperature: float, groups: int, precision: str) -> Tensor:
    """Return mean_i (log Σ_{j≠i} e^{s_ij} − s_{i,pos(i)}) with s = z zᵀ/τ and z = x/‖x‖, inside each group of rows.

    Memory is O(N·d).

    Args:
        x: the stacked rows of both views.
        temperature: τ.
        groups: the number of groups of equal size.
        precision: the precision of the operands, one of :data:`epagcl.losses.PRECISIONS`.
    """
    return _Fused.apply(x.contiguous(), temperature, groups, precision)


class Operands:
    """The scaled unit rows a and the norms ‖x‖, with their sizes.

    Attributes:
        m: the number of rows.
        d: the width of the rows.
        size: the number of rows of a group.
        halves: 2 if each number of a is stored as two fp16 halves, else 1.
        width: the padded width of the rows, a power of two.
        scale: the factor of the unit rows in a.
        lift: the factor of the weights of the gradient, which keeps them in the range of fp16.
        rows_per_program: the rows per program of the kernels that pass over the rows once.
        a: the scaled unit rows, padded.
        norm: ‖x‖.
    """

    def __init__(self, x: Tensor, temperature: float, groups: int, precision: str):
        self.m, self.d = x.shape
        self.groups, self.size, self.precision = groups, self.m // groups, precision
        self.halves = 2 if precision == "fp32" else 1
        self.width = max(16, triton.next_power_of_2(self.d))
        self.scale = math.sqrt(math.log2(math.e) / temperature) * (SPREAD.value if self.halves == 2 else 1)
        dtype = DTYPES[precision]
        self.lift = LIFT.value if dtype == torch.float16 else 1.0
        self.rows_per_program = max(1, 2048 // self.width)
        padded = triton.cdiv(self.m + PAD, PAD) * PAD
        self.a = torch.empty(padded, self.halves * self.width, dtype=dtype, device=x.device)
        self.norm = torch.empty(self.m, dtype=torch.float32, device=x.device)
        shape = self.rows_per_program, self.width, self.halves
        unit_kernel[(triton.cdiv(padded, self.rows_per_program),)](
            x, self.a, self.norm, self.m, padded, self.d, self.scale, *shape
        )

    def tiles(self, kernel: str, launch: Callable[[Tiles], Tensor]) -> Tiles:
        """Return the tiles of a kernel."""
        return tiles_for(kernel, self.precision, self.width, self.size, self.a.device, launch)


def row_sums(o: Operands, tiles: Tiles, symmetric: bool = True) -> Tensor:
    """Return the row sums S, ``[M]``. If ``symmetric``, tiles right of the diagonal are used for rows and columns."""
    blocks = triton.cdiv(o.size, tiles.rows)
    # The column sums of each block of a round are stored separately, so a round needs this many numbers per row.
    per_round = min(blocks, BLOCKS_PER_ROUND) if symmetric else blocks
    # The columns per program follow from the number of programs per multiprocessor.
    chunk = blocks * o.groups * o.size // (PROGRAMS_PER_PROCESSOR * _num_processors(o.a.device))
    chunk = min(max(triton.cdiv(chunk, PAD) * PAD, 2 * PAD), 128 * PAD)
    chunks = triton.cdiv(o.size, chunk)
    sums = torch.zeros(o.m, dtype=torch.float32, device=o.a.device)
    row_part = sums.new_empty(o.groups * chunks * per_round * tiles.rows)
    column_part = sums.new_empty(o.groups * per_round * o.size if symmetric else 0)
    for first in range(0, blocks, per_round):
        round_blocks = min(per_round, blocks - first)
        row_sums_kernel[(round_blocks * o.groups, chunks)](
            *(o.a, row_part, column_part, o.size, first, round_blocks, chunk),
            *(symmetric, tiles.rows, tiles.columns, o.width, o.precision, tiles.stages),
            num_warps=tiles.warps,
            num_stages=tiles.stages,
        )
        add_up_kernel[((blocks - first) * o.groups,)](
            *(row_part, column_part, sums, o.size, first, round_blocks, blocks - first),
            *(chunk, chunks, symmetric, tiles.rows),
        )
    return sums


def gather(o: Operands, sums: Tensor, tiles: Tiles, parts: int = 0) -> Tensor:
    """Return Σ_j E_ij (1/S_i + 1/S_j) a_j as a sum of parts, ``[parts, M, d]``; times ``o.lift`` except in fp32.

    Args:
        o: the operands.
        sums: the row sums S.
        tiles: the tiles of the kernel.
        parts: the number of parts of the columns, which are computed in parallel; 0 chooses the number.
    """
    blocks = triton.cdiv(o.size, tiles.rows)
    width = min(o.width, 128) if o.precision == "fp32" else o.width
    slices = o.width // width
    all_tiles = triton.cdiv(o.size, tiles.columns)
    parts = parts or _num_parts(blocks * o.groups * slices, all_tiles, _num_processors(o.a.device))
    out = sums.new_empty(parts, o.m, o.d)
    inverse = o.lift / sums
    # The rounding error of a sum grows with its length. In fp32 the sum is split into shorter sums, one per round.
    per_round = min(all_tiles, FP32_COLUMNS // tiles.columns) if o.precision == "fp32" else all_tiles
    per_part = triton.cdiv(per_round, parts)
    for begin in range(0, all_tiles, per_part * parts):
        gather_kernel[(blocks * o.groups, parts * slices)](
            *(o.a, inverse, out, o.size, o.m, o.d, blocks, begin, per_part),
            *(begin > 0, begin + per_part * parts >= all_tiles),
            *(tiles.rows, tiles.columns, o.width, width, o.precision, tiles.stages),
            num_warps=tiles.warps,
            num_stages=tiles.stages,
        )
    return out


def _num_parts(blocks: int, tiles: int, processors: int) -> int:
    """Return the fewest parts of the columns that leave few processors idle in the last wave of programs."""

    def idle_share(parts: int) -> float:
        waves = triton.cdiv(blocks * parts, processors)
        return 1 - blocks * parts / (waves * processors)

    # Each part costs a pass over the output, which is not worth it for fewer than 8 tiles.
    return min(range(1, max(2, min(MAX_PARTS, tiles // 8) + 1)), key=lambda parts: idle_share(parts) + 0.02 * parts)


@cache
def _num_processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, temperature: float, groups: int, precision: str) -> Tensor:
        o = Operands(x, temperature, groups, precision)
        sums = row_sums(o, o.tiles("sums", lambda tiles: row_sums(o, tiles)))
        losses = torch.empty_like(sums)
        shape = o.rows_per_program, o.width, o.halves
        row_losses_kernel[(triton.cdiv(o.m, o.rows_per_program),)](o.a, sums, losses, o.size, o.m, *shape)
        ctx.save_for_backward(x, sums)
        ctx.operands, ctx.temperature = o, temperature
        return losses.mean()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        """Return dx by dz_i = 1/(τM) Σ_{j≠i} (E_ij/S_i + E_ij/S_j − 2·[j = pos(i)]) z_j and z = x/‖x‖."""
        x, sums = ctx.saved_tensors
        o = ctx.operands
        parts = gather(o, sums, o.tiles("gather", lambda tiles: gather(o, sums, tiles)))
        dx = torch.empty_like(x)
        finish_kernel[(triton.cdiv(o.m, o.rows_per_program),)](
            *(parts, o.a, x, o.norm, grad, dx, o.size, o.m, o.d, parts.shape[0], o.m * o.d),
            *(o.scale, 1 / (o.scale * (1 if o.precision == "fp32" else o.lift)), 1 / (ctx.temperature * o.m)),
            *(o.rows_per_program, o.width, o.halves),
        )
        return dx, None, None, None
