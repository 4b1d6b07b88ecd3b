"""Batch norm of several views and PReLU as fused Triton kernels."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from epagcl.core.kernels.launch import on_device_of_arguments, row_tiles, tile_warps

PARTS = 256  # partial results that one program combines at a time


@triton.jit
def _absorb(count, mean, squares, others, their_mean, their_squares):
    """Return count, mean and sum of squared deviations of each group and others together, by Chan's formula."""
    total = count + others
    share = (others / tl.maximum(total, 1.0))[:, None]
    delta = their_mean - mean
    return total, mean + share * delta, squares + their_squares + delta * delta * share * count[:, None]


@triton.jit
def _join(count, mean, squares):
    """Return the mean and the sum of squared deviations of all groups together."""
    joint = tl.sum(count[:, None] * mean, 0) / tl.sum(count, 0)
    delta = mean - joint[None, :]
    return joint, tl.sum(squares + count[:, None] * delta * delta, 0)


@triton.jit
def _statistics_kernel(x, partial, rows, width, REPEAT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Compute the mean and the sum of squared deviations of each column, for this program's rows of one view.

    The mean is relative to the first row of the view. This row is never more than √N standard deviations from the mean,
    whereas 0 may be arbitrarily many, and rounded means would then spoil the variance.
    """
    view = tl.program_id(2).to(tl.int64)
    x += view * rows * width
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    origin = tl.load(x + c, mask=c < width, other=0.0).to(tl.float32)[None, :]
    count = tl.zeros([ROWS], tl.float32)
    mean = tl.zeros([ROWS, BLOCK], tl.float32)
    squares = tl.zeros([ROWS, BLOCK], tl.float32)
    for repeat in range(REPEAT):
        r = (tl.program_id(0).to(tl.int64) * REPEAT + repeat) * ROWS + tl.arange(0, ROWS)
        inside = (r < rows)[:, None] & (c < width)[None, :]
        value = tl.load(x + r[:, None] * width + c[None, :], mask=inside, other=0.0).to(tl.float32) - origin
        count, mean, squares = _absorb(count, mean, squares, (r < rows).to(tl.float32), value, 0.0)
    joint, total = _join(count, mean, squares)
    parts = tl.num_programs(0)
    out = (view * parts + tl.program_id(0)) * width + c
    tl.store(partial + out, joint, mask=c < width)
    tl.store(partial + tl.num_programs(2).to(tl.int64) * parts * width + out, total, mask=c < width)


@triton.jit
def _combine_kernel(
    x,
    partial,
    statistics,
    bias,
    running_mean,
    running_var,
    rows,
    width,
    parts,
    step,
    MOMENTUM: tl.constexpr,
    EPS: tl.constexpr,
    VIEWS: tl.constexpr,
    PARTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute mean and 1/√(var + ε) of each view from the parts of ``step`` rows, and update running statistics."""
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    b = tl.load(bias + c, mask=c < width, other=0.0)
    new_mean = tl.load(running_mean + c, mask=c < width, other=0.0)
    new_var = tl.load(running_var + c, mask=c < width, other=0.0)
    for view in range(VIEWS):
        count = tl.zeros([PARTS], tl.float32)
        means = tl.zeros([PARTS, BLOCK], tl.float32)
        squares = tl.zeros([PARTS, BLOCK], tl.float32)
        for first in range(0, parts, PARTS):
            p = first + tl.arange(0, PARTS).to(tl.int64)
            inside = (p < parts)[:, None] & (c < width)[None, :]
            at = (view * parts + p[:, None]) * width + c[None, :]
            their_mean = tl.load(partial + at, mask=inside, other=0.0)
            their_squares = tl.load(partial + VIEWS * parts * width + at, mask=inside, other=0.0)
            others = tl.maximum(tl.minimum(rows - p * step, step), 0).to(tl.float32)  # 0 past the last part
            count, means, squares = _absorb(count, means, squares, others, their_mean, their_squares)
        mean, total = _join(count, means, squares)
        origin = view * rows + tl.zeros([BLOCK], tl.int64)  # the first row of the view
        mean += tl.load(x + origin * width + c, mask=c < width, other=0.0).to(tl.float32)
        tl.store(statistics + view * width + c, mean, mask=c < width)
        tl.store(statistics + (VIEWS + view) * width + c, tl.rsqrt(total / rows + EPS), mask=c < width)
        new_mean = (1 - MOMENTUM) * new_mean + MOMENTUM * (mean + b)
        new_var = (1 - MOMENTUM) * new_var + MOMENTUM * (total / (rows - 1))
    tl.store(running_mean + c, new_mean, mask=c < width)
    tl.store(running_var + c, new_var, mask=c < width)


@triton.jit
def _constants(statistics, scale, shift, c, width):
    """Return mean, 1/√(var + ε), scale and shift of the columns of this program's view."""
    view = tl.program_id(2)
    mean = tl.load(statistics + view * width + c, mask=c < width, other=0.0)[None, :]
    rstd = tl.load(statistics + (tl.num_programs(2) + view) * width + c, mask=c < width, other=0.0)[None, :]
    factor = tl.load(scale + c, mask=c < width, other=0.0)[None, :]
    return mean, rstd, factor, tl.load(shift + c, mask=c < width, other=0.0)[None, :]


@triton.jit
def _normalised(x, at, inside, mean, rstd, factor, offset):
    """Return x̂ = (x − mean)/√(var + ε) and t = scale·x̂ + shift of a tile."""
    normed = (tl.load(x + at, mask=inside, other=0.0).to(tl.float32) - mean) * rstd
    return normed, factor * normed + offset


@triton.jit
def _activate_kernel(
    x,
    statistics,
    scale,
    shift,
    slope,
    y,
    rows,
    width,
    REPEAT: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute y = max(t, 0) + slope·min(t, 0) with t = scale·x̂ + shift, for this program's rows of one view."""
    view = tl.program_id(2).to(tl.int64)
    x, y = x + view * rows * width, y + view * rows * width
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mean, rstd, factor, offset = _constants(statistics, scale, shift, c, width)
    a = tl.load(slope)
    for repeat in range(REPEAT):
        r = (tl.program_id(0).to(tl.int64) * REPEAT + repeat) * ROWS + tl.arange(0, ROWS)
        inside = (r < rows)[:, None] & (c < width)[None, :]
        at = r[:, None] * width + c[None, :]
        _, t = _normalised(x, at, inside, mean, rstd, factor, offset)
        tl.store(y + at, tl.where(t > 0, t, a * t), mask=inside)


@triton.jit
def _back_sums_kernel(
    x,
    statistics,
    scale,
    shift,
    slope,
    grad,
    partial,
    rows,
    width,
    REPEAT: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute the sums of d = grad·PReLU'(t), of d·x̂ and of grad·min(t, 0), for this program's rows of one view."""
    view = tl.program_id(2).to(tl.int64)
    x, grad = x + view * rows * width, grad + view * rows * width
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mean, rstd, factor, offset = _constants(statistics, scale, shift, c, width)
    a = tl.load(slope)
    to_shift = tl.zeros([ROWS, BLOCK], tl.float32)  # added up at the end, since threads would exchange them each time
    to_scale = tl.zeros([ROWS, BLOCK], tl.float32)
    to_slope = tl.zeros([ROWS, BLOCK], tl.float32)
    for repeat in range(REPEAT):
        r = (tl.program_id(0).to(tl.int64) * REPEAT + repeat) * ROWS + tl.arange(0, ROWS)
        inside = (r < rows)[:, None] & (c < width)[None, :]
        at = r[:, None] * width + c[None, :]
        normed, t = _normalised(x, at, inside, mean, rstd, factor, offset)
        g = tl.load(grad + at, mask=inside, other=0.0).to(tl.float32)  # 0 outside, and so are all three sums
        d = tl.where(t > 0, g, a * g)
        to_shift += d
        to_scale += d * normed
        to_slope += tl.where(t > 0, 0.0, t * g)
    parts, size = tl.num_programs(0), tl.num_programs(2).to(tl.int64) * tl.num_programs(0) * width
    out = (view * parts + tl.program_id(0)) * width + c
    tl.store(partial + out, tl.sum(to_shift, 0), mask=c < width)
    tl.store(partial + size + out, tl.sum(to_scale, 0), mask=c < width)
    tl.store(partial + 2 * size + out, tl.sum(to_slope, 0), mask=c < width)


@triton.jit
def _back_kernel(
    x,
    statistics,
    scale,
    shift,
    slope,
    grad,
    sums,
    dx,
    rows,
    width,
    REPEAT: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute dx = scale/√(var + ε) · (d − mean(d) − x̂·mean(d·x̂)), for this program's rows of one view."""
    view = tl.program_id(2).to(tl.int64)
    x, grad, dx = x + view * rows * width, grad + view * rows * width, dx + view * rows * width
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mean, rstd, factor, offset = _constants(statistics, scale, shift, c, width)
    a = tl.load(slope)
    mean_d = tl.load(sums + view * width + c, mask=c < width, other=0.0)[None, :] / rows
    mean_dx = tl.load(sums + (tl.num_programs(2) + view) * width + c, mask=c < width, other=0.0)[None, :] / rows
    for repeat in range(REPEAT):
        r = (tl.program_id(0).to(tl.int64) * REPEAT + repeat) * ROWS + tl.arange(0, ROWS)
        inside = (r < rows)[:, None] & (c < width)[None, :]
        at = r[:, None] * width + c[None, :]
        normed, t = _normalised(x, at, inside, mean, rstd, factor, offset)
        g = tl.load(grad + at, mask=inside, other=0.0).to(tl.float32)
        d = tl.where(t > 0, g, a * g)
        tl.store(dx + at, factor * rstd * (d - mean_d - normed * mean_dx), mask=inside)


@on_device_of_arguments
def batch_norm_prelu(
    x: Tensor,
    bias: Tensor,
    scale: Tensor,
    shift: Tensor,
    slope: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    *,
    views: int,
    momentum: float,
    eps: float = 1e-5,
) -> Tensor:
    """Return PReLU(scale·norm(x + bias) + shift) with one slope, each view normalised by its own statistics.

    The bias cancels. Only the running mean contains it, and its gradient is exactly 0. Forward and backward each take
    two passes over x. The sums of both are added in a fixed order, so that results are deterministic.

    Args:
        x: ``[V·N, d]``, the views one after the other, float32 or fp16, which is also the type of the result.
        bias: ``[d]``, float32 like all other arguments.
        scale: ``[d]``.
        shift: ``[d]``.
        slope: the slope of PReLU, one number.
        running_mean: ``[d]``; updated in place, by the views in order.
        running_var: ``[d]``, unbiased; updated likewise.
        views: V.
        momentum: weight of new statistics, as in ``torch.nn.functional.batch_norm``.
        eps: added to the variance.
    """
    if x.shape[0] <= views:  # in the words of PyTorch
        size = torch.Size([x.shape[0] // views, x.shape[1]])
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {size}")
    x = x.contiguous()
    statistics = _statistics(x, bias.detach(), running_mean, running_var, views, momentum, eps)
    return _BatchNormPReLU.apply(x, bias, scale, shift, slope, statistics)


def _statistics(
    x: Tensor, bias: Tensor, running_mean: Tensor, running_var: Tensor, views: int, momentum: float, eps: float
) -> Tensor:
    """Return mean and 1/√(var + ε) of each view and column, ``[2, V, d]``, and update the running statistics."""
    rows, width = x.shape[0] // views, x.shape[1]
    grid, tile = row_tiles(rows, width, views)
    warps, parts = tile_warps(x.dtype), grid[0]
    partial, statistics = running_mean.new_empty(2, views, parts, width), running_mean.new_empty(2, views, width)
    _statistics_kernel[grid](x, partial, rows, width, **tile, num_warps=warps)
    block = 16  # few columns per program, since there are few columns in all
    _combine_kernel[(triton.cdiv(width, block),)](
        x,
        partial,
        statistics,
        bias,
        running_mean,
        running_var,
        rows,
        width,
        parts,
        tile["ROWS"] * tile["REPEAT"],
        MOMENTUM=momentum,
        EPS=eps,
        VIEWS=views,
        PARTS=PARTS,
        BLOCK=block,
        num_warps=8,
    )
    return statistics


class _BatchNormPReLU(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, bias: Tensor, scale: Tensor, shift: Tensor, slope: Tensor, statistics: Tensor
    ) -> Tensor:
        views, width = statistics.shape[1:]
        rows = x.shape[0] // views
        grid, tile = row_tiles(rows, width, views)
        y = torch.empty_like(x)
        _activate_kernel[grid](x, statistics, scale, shift, slope, y, rows, width, **tile)
        ctx.save_for_backward(x, bias, scale, shift, slope, statistics)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, bias, scale, shift, slope, statistics = ctx.saved_tensors
        views, width = statistics.shape[1:]
        rows = x.shape[0] // views
        grid, tile = row_tiles(rows, width, views)
        grad, dx = grad.contiguous(), torch.empty_like(x)
        partial = statistics.new_empty(3, views, grid[0], width)
        _back_sums_kernel[grid](
            *(x, statistics, scale, shift, slope, grad, partial, rows, width), **tile, num_warps=tile_warps(x.dtype)
        )
        sums = partial.sum(2)
        _back_kernel[grid](x, statistics, scale, shift, slope, grad, sums, dx, rows, width, **tile)
        dshift, dscale, dslope = sums.sum(1)
        return dx, torch.zeros_like(bias), dscale, dshift, dslope.sum().view_as(slope), None
