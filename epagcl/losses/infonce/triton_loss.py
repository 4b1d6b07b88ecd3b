"""Exact InfoNCE on a GPU: the launches of :mod:`epagcl.losses.infonce.triton_kernels`, and their autograd function."""

import math
from collections.abc import Callable
from functools import cache

import torch
import triton
from torch import Tensor
from torch.autograd.function import once_differentiable

from epagcl.core.kernels.launch import on_its_device
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

PAD = 128  # rows after the last that a tile may read; the largest tile
CHUNKS = 12  # programs of row_sums for each multiprocessor, before symmetry halves them
MOST_PARTS = 6  # into which the columns of gather are cut; each is an array of the size of x
BLOCKS_PER_ROUND = 256  # of row_sums; each is a number for every row
FP32_COLUMNS = 32_768  # that gather adds up at once in fp32
DTYPES = {"fp32": torch.float16, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


@on_its_device
def triton_loss(x: Tensor, temperature: float, groups: int, precision: str) -> Tensor:
    """mean_i (log Σ_{j≠i} e^{s_ij} − s_{i,pos(i)}), s = z zᵀ/τ, z = x/‖x‖, inside each group; memory O(N·d)."""
    return _Fused.apply(x.contiguous(), temperature, groups, precision)


class Operands:
    """a and ‖x‖ of the rows, and what the kernels need to know of them."""

    def __init__(self, x: Tensor, temperature: float, groups: int, precision: str):
        self.m, self.d = x.shape
        self.groups, self.size, self.precision = groups, self.m // groups, precision
        self.halves = 2 if precision == "fp32" else 1
        self.width = max(16, triton.next_power_of_2(self.d))
        self.scale = math.sqrt(math.log2(math.e) / temperature) * (SPREAD.value if self.halves == 2 else 1)
        dtype = DTYPES[precision]
        self.lift = LIFT.value if dtype == torch.float16 else 1.0
        self.few_rows = max(1, 2048 // self.width)  # of the kernels that go over the rows once
        padded = triton.cdiv(self.m + PAD, PAD) * PAD
        self.a = torch.empty(padded, self.halves * self.width, dtype=dtype, device=x.device)
        self.norm = torch.empty(self.m, dtype=torch.float32, device=x.device)
        shape = self.few_rows, self.width, self.halves
        unit_kernel[(triton.cdiv(padded, self.few_rows),)](
            x, self.a, self.norm, self.m, padded, self.d, self.scale, *shape
        )

    def tiles(self, kernel: str, launch: Callable[[Tiles], Tensor]) -> Tiles:
        """The fastest tiles of a kernel."""
        return tiles_for(kernel, self.precision, self.width, self.size, self.a.device, launch)


def row_sums(o: Operands, tiles: Tiles, symmetric: bool = True) -> Tensor:
    """S, ``[M]``."""
    blocks = triton.cdiv(o.size, tiles.rows)
    # Column sums of a round's blocks are kept apart until they are added up: that many numbers for each row.
    per_round = min(blocks, BLOCKS_PER_ROUND) if symmetric else blocks
    # Some programs for each multiprocessor, with as many columns each as that leaves.
    chunk = blocks * o.groups * o.size // (CHUNKS * _processors(o.a.device))
    chunk = min(max(triton.cdiv(chunk, PAD) * PAD, 2 * PAD), 128 * PAD)
    chunks = triton.cdiv(o.size, chunk)
    sums = torch.zeros(o.m, dtype=torch.float32, device=o.a.device)
    row_part = sums.new_empty(o.groups * chunks * per_round * tiles.rows)
    column_part = sums.new_empty(o.groups * per_round * o.size if symmetric else 0)
    for first in range(0, blocks, per_round):
        now = min(per_round, blocks - first)
        row_sums_kernel[(now * o.groups, chunks)](
            *(o.a, row_part, column_part, o.size, first, now, chunk),
            *(symmetric, tiles.rows, tiles.columns, o.width, o.precision, tiles.stages),
            num_warps=tiles.warps,
            num_stages=tiles.stages,
        )
        add_up_kernel[((blocks - first) * o.groups,)](
            *(row_part, column_part, sums, o.size, first, now, blocks - first, chunk, chunks, symmetric, tiles.rows)
        )
    return sums


def gather(o: Operands, sums: Tensor, tiles: Tiles, parts: int = 0) -> Tensor:
    """Σ_j E_ij (1/S_i + 1/S_j) a_j, lifted but in fp32, in ``parts`` addends: ``[parts, M, d]``."""
    blocks = triton.cdiv(o.size, tiles.rows)
    width = min(o.width, 128) if o.precision == "fp32" else o.width
    slices = o.width // width
    parts = parts or _parts(blocks * o.groups * slices, triton.cdiv(o.size, tiles.columns), _processors(o.a.device))
    out = sums.new_empty(parts, o.m, o.d)
    inverse = o.lift / sums
    # A sum of M terms loses bits with each; in fp32 it is made of shorter ones, a round each.
    all_tiles = triton.cdiv(o.size, tiles.columns)
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


def _parts(blocks: int, tiles: int, processors: int) -> int:
    """Into how many parts to cut the columns: the fewest that leave little of the last wave of programs idle."""

    def idle(parts: int) -> float:
        waves = triton.cdiv(blocks * parts, processors)
        return 1 - blocks * parts / (waves * processors)

    # A part costs a pass over the output; few tiles are not worth one.
    return min(range(1, max(2, min(MOST_PARTS, tiles // 8) + 1)), key=lambda parts: idle(parts) + 0.02 * parts)


@cache
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, temperature: float, groups: int, precision: str) -> Tensor:
        o = Operands(x, temperature, groups, precision)
        sums = row_sums(o, o.tiles("sums", lambda tiles: row_sums(o, tiles)))
        losses = torch.empty_like(sums)
        shape = o.few_rows, o.width, o.halves
        row_losses_kernel[(triton.cdiv(o.m, o.few_rows),)](o.a, sums, losses, o.size, o.m, *shape)
        ctx.save_for_backward(x, sums)
        ctx.operands, ctx.temperature = o, temperature
        return losses.mean()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None, None, None]:
        """dz_i = 1/(τM) Σ_{j≠i} (E_ij/S_i + E_ij/S_j − 2·[j = pos(i)]) z_j, and through z = x/‖x‖."""
        x, sums = ctx.saved_tensors
        o = ctx.operands
        parts = gather(o, sums, o.tiles("gather", lambda tiles: gather(o, sums, tiles)))
        dx = torch.empty_like(x)
        finish_kernel[(triton.cdiv(o.m, o.few_rows),)](
            *(parts, o.a, x, o.norm, grad, dx, o.size, o.m, o.d, parts.shape[0], o.m * o.d),
            *(o.scale, 1 / (o.scale * (1 if o.precision == "fp32" else o.lift)), 1 / (ctx.temperature * o.m)),
            *(o.few_rows, o.width, o.halves),
        )
        return dx, None, None, None
