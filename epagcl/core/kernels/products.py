"""Sparse products as Triton kernels."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from epagcl.core.kernels.launch import MAX_CHUNK, RowChunks, block_size, gather_options, on_device_of_arguments

NARROW = 8  # columns of rows that one thread reads


class Update(NamedTuple):
    """A sum with the product A h that is computed in the same pass: ``out ← scale·A h + c₁ T₁ + c₂ T₂``.

    Attributes:
        scale: the factor of the product.
        terms: one or two pairs of a factor and a contiguous tensor with the shape and the type of the product.
        out: contiguous memory for the sum. It may be one of the terms, but not h, which all rows read.
        product: whether the product itself is stored and returned too.
    """

    scale: float
    terms: Sequence[tuple[float, Tensor]]
    out: Tensor
    product: bool = False


@triton.jit
def _add_terms(first, second, at, mask, a, b, TERMS: tl.constexpr):
    """Return a·first + b·second at some places, or the first term alone."""
    total = a * tl.load(first + at, mask=mask, other=0.0).to(tl.float32)
    if TERMS == 2:
        total += b * tl.load(second + at, mask=mask, other=0.0).to(tl.float32)
    return total


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
    updated,
    first_term,
    second_term,
    width,
    rows,
    spills,
    stride,
    col_stride,
    h_stride,
    scale,
    a,
    b,
    COUNTED: tl.constexpr,
    TERMS: tl.constexpr,
    PRODUCT: tl.constexpr,
    UNROLL: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute Σ_e weight_e h[col_e] over one chunk of a row, or over its first ``count`` entries if COUNTED.

    The sum of a whole row is written to out[target] if PRODUCT. If there are TERMS, scale times the sum plus the terms
    is written to updated[target]. The sum of a chunk of a cut row is written to spill[−1 − target].
    """
    chunk, view = tl.program_id(0), tl.program_id(2).to(tl.int64)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    first, end = tl.load(start + chunk), tl.load(start + chunk + 1)
    if COUNTED:
        end = first + tl.load(count + view * tl.num_programs(0) + chunk)
    if TERMS > 0:  # loaded before the rows of h, so that the program waits for both at once
        row = tl.load(target + chunk).to(tl.int64)
        at = (view * rows + row) * width + d
        total = _add_terms(first_term, second_term, at, d < tl.where(row >= 0, width, 0), a, b, TERMS)
    acc = tl.zeros([BLOCK], tl.float32)
    for first_entry in range(first, end, UNROLL):
        e = first_entry + tl.arange(0, UNROLL)
        w = tl.load(weight + view * stride + e, mask=e < end, other=0.0)
        j = tl.load(col + view * col_stride + e, mask=e < end, other=0).to(tl.int64)
        x = tl.load(
            h + view * h_stride + j[:, None] * width + d[None, :],
            mask=(w != 0)[:, None] & (d < width)[None, :],
            other=0.0,
        ).to(tl.float32)
        acc += tl.sum(w[:, None] * x, 0)
    to = tl.load(target + chunk).to(tl.int64)
    if to >= 0:
        if PRODUCT:
            tl.store(out + (view * rows + to) * width + d, acc, mask=d < width)
        if TERMS > 0:
            tl.store(updated + (view * rows + to) * width + d, scale * acc + total, mask=d < width)
    else:
        tl.store(spill + (view * spills - 1 - to) * width + d, acc, mask=d < width)


@triton.jit
def _collect_kernel(
    long_row,
    long_start,
    spill,
    out,
    updated,
    first_term,
    second_term,
    width,
    rows,
    spills,
    scale,
    a,
    b,
    TERMS: tl.constexpr,
    PRODUCT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Add up the chunks of the cut rows, in order, and write them as ``_multiply_kernel`` writes whole rows."""
    i, view = tl.program_id(0), tl.program_id(2).to(tl.int64)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    first, end = tl.load(long_start + i), tl.load(long_start + i + 1)
    acc = tl.zeros([BLOCK], tl.float32)
    at = spill + (view * spills + first) * width + d
    for _ in range(first, end):
        acc += tl.load(at, mask=d < width, other=0.0)
        at += width
    to = (view * rows + tl.load(long_row + i)) * width + d
    if PRODUCT:
        tl.store(out + to, acc, mask=d < width)
    if TERMS > 0:
        total = _add_terms(first_term, second_term, to, d < width, a, b, TERMS)
        tl.store(updated + to, scale * acc + total, mask=d < width)


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
def multiply_pattern(
    chunks: RowChunks,
    col: Tensor,
    weight: Tensor,
    h: Tensor,
    views: int,
    num_columns: int,
    update: Update | None = None,
) -> Tensor:
    """Return ``[A_1 h_1; A_2 h_2; ...]`` for V matrices with one sparsity pattern, or the sum of an update.

    Args:
        chunks: the chunks of the pattern.
        col: the columns of the entries, ``[entries]`` for all views or ``[V, entries]``.
        weight: the values of the entries, ``[entries]`` for all views or ``[V, entries]``.
        h: ``[num_columns, d]`` for all views or ``[V·num_columns, d]``, float32 or fp16, which is also the type of the
            result. Sums are float32.
        views: V.
        num_columns: the number of columns of each matrix.
        update: a sum to compute in the same pass. The product is stored only if the update says so.
    """
    h = h.contiguous()
    width = h.shape[1]
    shape = (views * chunks.num_rows, width)
    spills = chunks.num_spills
    product = update is None or update.product
    out = update.out if update is not None and not product else h.new_empty(shape)
    scale, terms, updated, _ = update or Update(1.0, [], out)
    assert all(t.shape == shape and t.is_contiguous() for t in (updated, *(term for _, term in terms)))
    (a, first), (b, second) = [*terms, (0.0, out), (0.0, out)][:2]  # the kernels ignore what is missing
    flags = {"TERMS": len(terms), "PRODUCT": product}
    spill = torch.empty(views * spills, width, device=h.device)
    # Threads share the columns of wide rows, and the entries of narrow ones.
    block = block_size(width) if width > NARROW else triton.next_power_of_2(width)
    options = gather_options(block, h.dtype) if width > NARROW else {"UNROLL": MAX_CHUNK, "num_warps": 1}
    stride, col_stride = (t.shape[1] if t.dim() == 2 else 0 for t in (weight, col))
    count = weight if chunks.count is None else chunks.count
    h_stride = num_columns * width if h.shape[0] > num_columns else 0
    parts = triton.cdiv(width, block)
    _multiply_kernel[(chunks.row.numel(), parts, views)](
        *(chunks.start, chunks.target, count, col, weight, h, out, spill, updated, first, second),
        *(width, chunks.num_rows, spills, stride, col_stride, h_stride, scale, a, b),
        COUNTED=chunks.count is not None,
        **flags,
        **options,
        BLOCK=block,
    )
    if spills:
        _collect_kernel[(chunks.long_row.numel(), parts, views)](
            *(chunks.long_row, chunks.long_start, spill, out, updated, first, second),
            *(width, chunks.num_rows, spills, scale, a, b),
            **flags,
            BLOCK=block,
            num_warps=max(1, block // 128),
        )
    return out


def collect(chunks: RowChunks, spill: Tensor, out: Tensor, views: int) -> None:
    """Write the cut rows of a product from the sums of their chunks, ``[V·spills, d]``, to its rows ``[V·rows, d]``."""
    width = out.shape[1]
    block = block_size(width)
    _collect_kernel[(chunks.long_row.numel(), triton.cdiv(width, block), views)](
        *(chunks.long_row, chunks.long_start, spill, out, out, out, out),
        *(width, chunks.num_rows, chunks.num_spills, 1.0, 0.0, 0.0),
        TERMS=0,
        PRODUCT=True,
        BLOCK=block,
        num_warps=max(1, block // 128),
    )


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
