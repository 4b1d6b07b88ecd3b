"""Bias and PReLU as fused Triton kernels."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from epagcl.core.kernels.launch import block_size, on_device_of_arguments, tile_warps


@triton.jit
def _activate_kernel(x, bias, slope, y, rows, width, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Compute y = max(t, 0) + slope·min(t, 0) with t = x + bias, for the ``rows`` rows of one member."""
    member = tl.program_id(2).to(tl.int64)
    x, y, bias, slope = x + member * rows * width, y + member * rows * width, bias + member * width, slope + member
    r = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (r < rows)[:, None] & (c < width)[None, :]
    at = r[:, None] * width + c[None, :]
    t = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    t += tl.load(bias + c, mask=c < width, other=0.0)[None, :]
    tl.store(y + at, tl.where(t > 0, t, tl.load(slope) * t), mask=inside)


@triton.jit
def _activate_back_kernel(
    x, bias, slope, grad, dx, dbias, dslope, rows, width, REPEAT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """Compute dx, and this program's partial sums of the gradients of bias and slope, for the rows of one member."""
    member = tl.program_id(2).to(tl.int64)
    x, grad, dx = x + member * rows * width, grad + member * rows * width, dx + member * rows * width
    bias, slope = bias + member * width, slope + member
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    b = tl.load(bias + c, mask=c < width, other=0.0)[None, :]
    a = tl.load(slope)
    to_bias = tl.zeros([ROWS, BLOCK], tl.float32)  # added up at the end, since threads would exchange them each time
    to_slope = tl.zeros([ROWS, BLOCK], tl.float32)
    for repeat in range(REPEAT):
        r = (tl.program_id(0).to(tl.int64) * REPEAT + repeat) * ROWS + tl.arange(0, ROWS)
        inside = (r < rows)[:, None] & (c < width)[None, :]
        at = r[:, None] * width + c[None, :]
        t = tl.load(x + at, mask=inside, other=0.0).to(tl.float32) + b
        g = tl.load(grad + at, mask=inside, other=0.0).to(tl.float32)
        d = tl.where(t > 0, g, a * g)
        tl.store(dx + at, d, mask=inside)
        to_bias += d
        to_slope += tl.where(t > 0, 0.0, t * g)
    out = (member * tl.num_programs(0) + tl.program_id(0)) * width + c
    tl.store(dbias + out, tl.sum(to_bias, 0), mask=c < width)
    tl.store(dslope + out, tl.sum(to_slope, 0), mask=c < width)


@on_device_of_arguments
def bias_prelu(x: Tensor, bias: Tensor, slope: Tensor) -> Tensor:
    """Return PReLU(x + bias) with one slope for all columns.

    With K slopes and a bias ``[K, d]``, x has K blocks of rows, each with its own slope and bias. Forward and
    backward each take one pass over x. Plain PyTorch takes three passes forward and four backward. x is float32 or
    fp16, which is also the type of the result; slopes and biases are float32.
    """
    return _BiasPReLU.apply(x, bias, slope)


class _BiasPReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, slope: Tensor) -> Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        block, members = block_size(x.shape[1]), slope.numel()
        rows, width = x.shape[0] // members, x.shape[1]
        step = 2048 // block
        grid = triton.cdiv(rows, step), triton.cdiv(width, block), members
        _activate_kernel[grid](x, bias, slope, y, rows, width, ROWS=step, BLOCK=block)
        ctx.save_for_backward(x, bias, slope)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, bias, slope = ctx.saved_tensors
        grad, dx = grad.contiguous(), torch.empty_like(x)
        block, members = block_size(x.shape[1]), slope.numel()
        rows, width = x.shape[0] // members, x.shape[1]
        step = 2048 // block
        repeat = 4 if x.shape[0] < 65_536 else 32  # more programs for small graphs, fewer partial sums for large ones
        blocks = triton.cdiv(rows, step * repeat)
        dbias, dslope = bias.new_empty(2, members, blocks, width)
        grid = blocks, triton.cdiv(width, block), members
        _activate_back_kernel[grid](
            *(x, bias, slope, grad, dx, dbias, dslope, rows, width),
            REPEAT=repeat,
            ROWS=step,
            BLOCK=block,
            num_warps=tile_warps(x.dtype),
        )
        return dx, dbias.sum(1).view_as(bias), dslope.sum((1, 2)).view_as(slope)
