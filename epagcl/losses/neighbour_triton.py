"""GREET's loss on a GPU: the launches of its kernels, and the autograd function."""

import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
import triton
from torch import Tensor
from torch.autograd.function import once_differentiable

from epagcl.core.kernels.launch import on_device_of_arguments
from epagcl.losses.infonce.tiled import LOG2_E
from epagcl.losses.infonce.tiles import Tiles
from epagcl.losses.infonce.triton_kernels import LIFT
from epagcl.losses.neighbour_kernels import bits_kernel, gradient_kernel, operand_kernel, row_sums_kernel

PAD = 128  # rows past the last one that a tile may read, and the unit of the bits of a row; all tile sizes divide it
PANEL_WORDS = 2**26  # words of bits at a time: rows beyond them are computed in further launches
LARGE_SHARED_MEMORY = 160 * 1024  # bytes for a program: A100 and H100
MEDIUM_SHARED_MEMORY = 96 * 1024  # GPUs of the same generations with less of it; Turing has 64 KiB
DTYPES = {"fp32": torch.float32, "fp16": torch.float16}


@on_device_of_arguments
def neighbour_loss(
    a: Tensor, b: Tensor, positives: Tensor, batch_size: int, temperature: float, precision: str
) -> Tensor:
    """Return the loss of :func:`epagcl.losses.neighbours.neighbour_nce` of unit rows.

    Memory is O(N(k + d)) plus the bits of one panel of rows.

    Args:
        a: unit rows of the first view, ``[N, d]``, float32, at most :func:`max_width` wide.
        b: unit rows of the second view.
        positives: the positives of each row, ``[N, k + 1]``, as row numbers.
        batch_size: the number of rows in a batch. Batches are cut from the first row on; the last may be smaller.
        temperature: τ.
        precision: the precision of the operands of the products: ``"fp32"``, or ``"fp16"``, which has the mantissa
            of TF32.
    """
    return _Fused.apply(a.contiguous(), b.contiguous(), positives.contiguous(), batch_size, temperature, precision)


def tiles_for(width: int, precision: str, device: torch.device) -> Tiles:
    """Return the tiles of both kernels: the largest that fit in shared memory and, almost, in the registers.

    They are not chosen by time, since they determine the order of the sums.
    """
    if precision == "fp32":  # computed without tensor cores, where a tile of both operands is in registers
        return Tiles(32, 32, 8, 1)
    if _shared_memory(device) >= LARGE_SHARED_MEMORY:
        return Tiles(64, 64, 4, 3) if width <= 128 else Tiles(64, 32, 8, 2)
    if _shared_memory(device) >= MEDIUM_SHARED_MEMORY and width <= 128:
        return Tiles(64, 32, 4, 2)
    return Tiles(32, 32, 4, 1)


def max_width(device: torch.device) -> int:
    """Return the width of the widest rows that the kernels take on a device."""
    return 256 if _shared_memory(device) >= MEDIUM_SHARED_MEMORY else 128


@cache
def _shared_memory(device: torch.device) -> int:
    """Return the bytes of shared memory of a program. There is no limit in the interpreter."""
    if device.type != "cuda":
        return LARGE_SHARED_MEMORY
    return int(triton.runtime.driver.active.utils.get_device_properties(device.index)["max_shared_mem"])


class _Panels:
    """The positives as bits, for some rows of every batch at a time.

    Attributes:
        share: 1/|P_i|. It is computed with the first bits.
    """

    def __init__(self, positives: Tensor, batch_size: int):
        self.positives, self.batch_size = positives, batch_size
        self.batches = triton.cdiv(positives.shape[0], batch_size)
        self.share = torch.empty(positives.shape[0], dtype=torch.float32, device=positives.device)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield the first row of each panel in its batch, and the number of its rows."""
        step = PANEL_WORDS // (self.batches * _num_words(self.batch_size)) // PAD * PAD
        step = min(max(step, PAD), self.batch_size)
        for first in range(0, self.batch_size, step):
            yield first, min(step, self.batch_size - first)

    def bits(self, rows: tuple[int, int], columns: tuple[int, int]) -> Tensor:
        """Return the bits of some rows and columns of every batch, ``[batches, rows, words]``; see ``__iter__``."""
        n, k = self.positives.shape
        words = _num_words(columns[1])
        bits = torch.zeros(self.batches, rows[1], words, dtype=torch.int32, device=self.positives.device)
        width = triton.next_power_of_2(k)
        rows_per_program = max(1, 1024 // width)
        bits_kernel[(triton.cdiv(n, rows_per_program),)](
            *(self.positives, bits, self.share, n, self.batch_size, k, *rows, *columns, words),
            *(rows_per_program, width),
        )
        return bits


def _num_words(columns: int) -> int:
    """Return the number of words of a row of bits. The last tile of rows or columns reads within them."""
    return triton.cdiv(columns, PAD) * (PAD // 32)


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, a: Tensor, b: Tensor, positives: Tensor, batch_size: int, temperature: float, precision: str
    ) -> Tensor:
        n, d = a.shape
        width = max(16, triton.next_power_of_2(d))
        padded = n + PAD
        z = torch.empty(2, padded, width, dtype=DTYPES[precision], device=a.device)
        rows_per_program = max(1, 4096 // width)
        ctx.scale = math.sqrt(LOG2_E / temperature)
        for x, out in zip((a, b), z, strict=True):
            operand_kernel[(triton.cdiv(padded, rows_per_program),)](
                x, out, n, padded, d, ctx.scale, rows_per_program, width
            )
        panels, everything = _Panels(positives, batch_size), (0, batch_size)
        tiles = tiles_for(width, precision, a.device)
        inverse, losses = (torch.empty(2, n, dtype=torch.float32, device=a.device) for _ in range(2))
        for first, num_rows in panels:
            bits = panels.bits((first, num_rows), everything)
            blocks = triton.cdiv(num_rows, tiles.rows)
            row_sums_kernel[(blocks * panels.batches, 2)](
                *(z, bits, panels.share, inverse, losses, n, padded, batch_size, first, num_rows, bits.shape[2]),
                *(blocks, math.exp(-1 / temperature)),
                *(tiles.rows, tiles.columns, width, precision, tiles.stages),
                num_warps=tiles.warps,
                num_stages=tiles.stages,
            )
        ctx.save_for_backward(z, inverse, positives)
        ctx.d, ctx.batch_size, ctx.temperature, ctx.precision = d, batch_size, temperature, precision
        return losses.mean()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None, None, None]:
        """Return da_i = 1/(2τN) Σ_k w_ik b_k, with the weights of :func:`gradient_kernel`, and db_i likewise."""
        z, inverse, positives = ctx.saved_tensors
        n, (_, padded, width) = inverse.shape[1], z.shape
        out = inverse.new_empty(2, n, ctx.d)
        panels, everything = _Panels(positives, ctx.batch_size), (0, ctx.batch_size)
        tiles = tiles_for(width, ctx.precision, z.device)
        lift = LIFT.value if ctx.precision == "fp16" else 1.0
        for panel in panels:
            first, num_rows = panel
            bits = panels.bits(panel, everything)
            column_bits = bits if panel == everything else panels.bits(everything, panel)
            blocks = triton.cdiv(num_rows, tiles.rows)
            gradient_kernel[(blocks * panels.batches, 2)](
                *(z, bits, column_bits, panels.share, inverse, grad, out, n, padded, ctx.d, ctx.batch_size),
                *(first, num_rows, bits.shape[2], column_bits.shape[2], blocks),
                1 / (2 * ctx.temperature * n * ctx.scale * lift),
                *(tiles.rows, tiles.columns, width, ctx.precision, tiles.stages),
                num_warps=tiles.warps,
                num_stages=tiles.stages,
            )
        return *out.unbind(), None, None, None, None
