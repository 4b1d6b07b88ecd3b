"""Sparse products as Triton kernels."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from epagcl.core.kernels.launch import RowChunks, block_size, on_device_of_arguments


@triton.jit
def _multiply_kernel(
    start,
    target,
    count,
    col,
    weight,
    h,
    out,
    spill,
    width,
    rows,
    spills,
    stride,
    col_stride,
    h_stride,
    COUNTED: tl.constexpr,
    UNROLL: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute Σ_e weight_e h[col_e] over one chunk of a row, or over its first ``count`` entries if COUNTED.

    The sum of a whole row is written to out[target]. The sum of a chunk of a cut row is written to spill[−1 − target].
    """
    chunk, view = tl.program_id(0), tl.program_id(2).to(tl.int64)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    first, end = tl.load(start + chunk), tl.load(start + chunk + 1)
    if COUNTED:
        end = first + tl.load(count + view * tl.num_programs(0) + chunk)
    acc = tl.zeros([BLOCK], tl.float32)
    for first_entry in range(first, end, UNROLL):
        e = first_entry + tl.arange(0, UNROLL)
        w = tl.load(weight + view * stride + e, mask=e < end, other=0.0)
        j = tl.load(col + view * col_stride + e, mask=e < end, other=0).to(tl.int64)
        x = tl.load(
            h + view * h_stride + j[:, None] * width + d[None, :],
            mask=(w != 0)[:, None] & (d < width)[None, :],
            other=0.0,
        )
        acc += tl.sum(w[:, None] * x, 0)
    to = tl.load(target + chunk).to(tl.int64)
    if to >= 0:
        tl.store(out + (view * rows + to) * width + d, acc, mask=d < width)
    else:
        tl.store(spill + (view * spills - 1 - to) * width + d, acc, mask=d < width)


@triton.jit
def collect_kernel(long_row, long_start, spill, out, width, rows, spills, BLOCK: tl.constexpr):
    """Add up the chunks of the cut rows, in order."""
    i, view = tl.program_id(0), tl.program_id(2).to(tl.int64)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    first, end = tl.load(long_start + i), tl.load(long_start + i + 1)
    acc = tl.zeros([BLOCK], tl.float32)
    at = spill + (view * spills + first) * width + d
    for _ in range(first, end):
        acc += tl.load(at, mask=d < width, other=0.0)
        at += width
    tl.store(out + (view * rows + tl.load(long_row + i)) * width + d, acc, mask=d < width)


@triton.jit
def _edge_dots_kernel(
    start, row, col, a, b, out, width, entries, a_stride, b_stride, UNROLL: tl.constexpr, BLOCK: tl.constexpr
):
    """Compute a[row] · b[col_e] for the entries e of one chunk of a row."""
    chunk, view = tl.program_id(0), tl.program_id(1).to(tl.int64)
    first, end = tl.load(start + chunk), tl.load(start + chunk + 1)
    mine = a + view * a_stride + tl.load(row + chunk).to(tl.int64) * width
    for first_entry in range(first, end, UNROLL):
        e = first_entry + tl.arange(0, UNROLL)
        j = tl.load(col + e, mask=e < end, other=0).to(tl.int64)
        acc = tl.zeros([UNROLL], tl.float32)
        for first_column in range(0, width, BLOCK):
            d = first_column + tl.arange(0, BLOCK)
            x = tl.load(mine + d, mask=d < width, other=0.0)
            y = tl.load(
                b + view * b_stride + j[:, None] * width + d[None, :],
                mask=(e < end)[:, None] & (d < width)[None, :],
                other=0.0,
            )
            acc += tl.sum(x[None, :] * y, 1)
        tl.store(out + view * entries + e, acc, mask=e < end)


@on_device_of_arguments
def multiply_pattern(chunks: RowChunks, col: Tensor, weight: Tensor, h: Tensor, views: int, num_columns: int) -> Tensor:
    """Return ``[A_1 h_1; A_2 h_2; ...]`` for V matrices with one sparsity pattern.

    Args:
        chunks: the chunks of the pattern.
        col: the columns of the entries, ``[entries]`` for all views or ``[V, entries]``.
        weight: the values of the entries, ``[entries]`` for all views or ``[V, entries]``.
        h: ``[num_columns, d]`` for all views or ``[V·num_columns, d]``, float32.
        views: V.
        num_columns: the number of columns of each matrix.
    """
    h = h.contiguous()
    width = h.shape[1]
    spills = chunks.num_spills
    out = torch.empty(views * chunks.num_rows, width, device=h.device)
    spill = torch.empty(views * spills, width, device=h.device)
    block = block_size(width)
    warps = max(1, block // 128)
    stride, col_stride = (t.shape[1] if t.dim() == 2 else 0 for t in (weight, col))
    count = weight if chunks.count is None else chunks.count
    h_stride = num_columns * width if h.shape[0] > num_columns else 0
    parts = triton.cdiv(width, block)
    _multiply_kernel[(chunks.row.numel(), parts, views)](
        *(chunks.start, chunks.target, count, col, weight, h, out, spill),
        *(width, chunks.num_rows, spills, stride, col_stride, h_stride),
        COUNTED=chunks.count is not None,
        UNROLL=16,
        BLOCK=block,
        num_warps=warps,
    )
    if spills:
        collect_kernel[(chunks.long_row.numel(), parts, views)](
            chunks.long_row, chunks.long_start, spill, out, width, chunks.num_rows, spills, BLOCK=block, num_warps=warps
        )
    return out


@on_device_of_arguments
def edge_dots(chunks: RowChunks, col: Tensor, a: Tensor, b: Tensor, views: int, num_columns: int) -> Tensor:
    """Return a_i · b_j for each entry (i, j) of a pattern, ``[V, entries]``.

    Args:
        chunks: the chunks of the pattern.
        col: the columns of the entries.
        a: ``[num_rows, d]`` for all views or ``[V·num_rows, d]``, float32.
        b: ``[num_columns, d]`` for all views or ``[V·num_columns, d]``.
        views: V.
        num_columns: the number of columns of the pattern.
    """
    a, b = a.contiguous(), b.contiguous()
    width = a.shape[1]
    out = torch.empty(views, col.numel(), device=a.device)
    a_stride, b_stride = (
        x.shape[0] // views * width if x.shape[0] > n else 0 for x, n in ((a, chunks.num_rows), (b, num_columns))
    )
    block = min(128, triton.next_power_of_2(width))
    _edge_dots_kernel[(chunks.row.numel(), views)](
        *(chunks.start, chunks.row, col, a, b, out, width, col.numel(), a_stride, b_stride),
        UNROLL=16,
        BLOCK=block,
        num_warps=max(1, block // 64),
    )
    return out
