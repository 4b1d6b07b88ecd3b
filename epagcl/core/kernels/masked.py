"""Products of a sparse matrix with a dense one of which each view hides some rows, as Triton kernels."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from epagcl.core.hardware import lowered
from epagcl.core.kernels.launch import RowChunks, block_size, gather_options, on_device_of_arguments
from epagcl.core.kernels.products import collect
from epagcl.core.sparse import SparseMatrix


@triton.jit
def _masked_multiply_kernel(
    start,
    target,
    col,
    value,
    mask,
    h,
    out,
    spill,
    width,
    rows,
    columns,
    spills,
    UNROLL: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute Σ_e value_e mask_v[col_e] h[col_e] over one chunk of a row, for the two views v of one member.

    Both views read each row of h once, and rows that both hide are not read.
    """
    chunk, member = tl.program_id(0), tl.program_id(2).to(tl.int64)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    first, end = tl.load(start + chunk), tl.load(start + chunk + 1)
    mask += 2 * member * columns
    h += member * columns * width
    first_sum = tl.zeros([BLOCK], tl.float32)
    second_sum = tl.zeros([BLOCK], tl.float32)
    for first_entry in range(first, end, UNROLL):
        e = first_entry + tl.arange(0, UNROLL)
        x = tl.load(value + e, mask=e < end, other=0.0)
        j = tl.load(col + e, mask=e < end, other=0).to(tl.int64)
        in_first = x * tl.load(mask + j, mask=e < end, other=0.0)
        in_second = x * tl.load(mask + columns + j, mask=e < end, other=0.0)
        y = tl.load(
            h + j[:, None] * width + d[None, :],
            mask=((in_first != 0) | (in_second != 0))[:, None] & (d < width)[None, :],
            other=0.0,
        ).to(tl.float32)
        first_sum += tl.sum(in_first[:, None] * y, 0)
        second_sum += tl.sum(in_second[:, None] * y, 0)
    to = tl.load(target + chunk).to(tl.int64)
    if to >= 0:
        at = 2 * member * rows + to
        tl.store(out + at * width + d, first_sum, mask=d < width)
        tl.store(out + (at + rows) * width + d, second_sum, mask=d < width)
    else:
        at = 2 * member * spills - 1 - to
        tl.store(spill + at * width + d, first_sum, mask=d < width)
        tl.store(spill + (at + spills) * width + d, second_sum, mask=d < width)


@triton.jit
def _masked_gather_kernel(
    start,
    row,
    target,
    col,
    value,
    mask,
    grad,
    out,
    spill,
    width,
    rows,
    columns,
    spills,
    UNROLL: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute Σ_v mask_v[row] Σ_e value_e grad_v[col_e] over one chunk of a row, for the two views v of one member.

    A view that hides the row reads nothing.
    """
    chunk, member = tl.program_id(0), tl.program_id(2).to(tl.int64)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    first, end = tl.load(start + chunk), tl.load(start + chunk + 1)
    own = tl.load(row + chunk)
    acc = tl.zeros([BLOCK], tl.float32)
    for view in tl.static_range(2):
        weight = tl.load(mask + (2 * member + view) * rows + own)
        seen = grad + (2 * member + view) * columns * width
        last = tl.where(weight != 0, end, first)  # no entries if the view hides the row
        for first_entry in range(first, last, UNROLL):
            e = first_entry + tl.arange(0, UNROLL)
            x = tl.load(value + e, mask=e < end, other=0.0)
            j = tl.load(col + e, mask=e < end, other=0).to(tl.int64)
            y = tl.load(
                seen + j[:, None] * width + d[None, :], mask=(x != 0)[:, None] & (d < width)[None, :], other=0.0
            ).to(tl.float32)
            acc += weight * tl.sum(x[:, None] * y, 0)
    to = tl.load(target + chunk).to(tl.int64)
    if to >= 0:
        tl.store(out + (member * rows + to) * width + d, acc, mask=d < width)
    else:
        tl.store(spill + (member * spills - 1 - to) * width + d, acc, mask=d < width)


@on_device_of_arguments
def _multiply_masked(chunks: RowChunks, col: Tensor, value: Tensor, h: Tensor, mask: Tensor) -> Tensor:
    """Return A (mask_v ∘ h), stacked over the views v; two views in turn share each block of h.

    Args:
        chunks: the chunks of A.
        col: the columns of its entries.
        value: their values.
        h: K blocks of rows, ``[K·columns, d]``, float32 or fp16, which is also the type of the result.
        mask: the factor of each row of h in each view, ``[2K, columns]``.
    """
    columns, members = mask.shape[1], mask.shape[0] // 2
    h, mask = h.contiguous(), mask.contiguous()
    width, rows, spills = h.shape[1], chunks.num_rows, chunks.num_spills
    out = h.new_empty(2 * members * rows, width)
    spill = torch.empty(2 * members * spills, width, device=h.device)
    block = block_size(width)
    _masked_multiply_kernel[(chunks.row.numel(), triton.cdiv(width, block), members)](
        *(chunks.start, chunks.target, col, value, mask, h, out, spill, width, rows, columns, spills),
        **gather_options(block, h.dtype),
        BLOCK=block,
    )
    if spills:
        collect(chunks, spill, out, 2 * members)
    return out


@on_device_of_arguments
def _gather_masked(chunks: RowChunks, col: Tensor, value: Tensor, grad: Tensor, mask: Tensor) -> Tensor:
    """Return Σ_v mask_v ∘ (A grad_v) over the two views v of each member: the gradient of :func:`_multiply_masked`.

    The result is float32, since it adds up many rows.

    Args:
        chunks: the chunks of A, the transpose of the matrix in :func:`_multiply_masked`.
        col: the columns of its entries.
        value: their values.
        grad: the gradient of each view, ``[2K·columns, d]``, float32 or fp16.
        mask: ``[2K, rows]``.
    """
    members = mask.shape[0] // 2
    grad, mask = grad.contiguous(), mask.contiguous()
    columns, width = grad.shape[0] // mask.shape[0], grad.shape[1]
    rows, spills = chunks.num_rows, chunks.num_spills
    out = torch.empty(members * rows, width, device=grad.device)
    spill = torch.empty(members * spills, width, device=grad.device)
    block = block_size(width)
    _masked_gather_kernel[(chunks.row.numel(), triton.cdiv(width, block), members)](
        *(chunks.start, chunks.row, chunks.target, col, value, mask, grad, out, spill, width, rows, columns, spills),
        UNROLL=16,
        BLOCK=block,
        num_warps=max(1, block * grad.dtype.itemsize // 512),  # rows are few and long
    )
    if spills:
        collect(chunks, spill, out, members)
    return out


def masked_product(matrix: SparseMatrix, dense: Tensor, mask: Tensor) -> Tensor:
    """Return A (m_v ∘ h) of the views v as stacked rows, differentiable in h.

    The two views of a member read h itself and not a masked copy each: half the traffic, which is the time that the
    product takes. Hidden rows are not read.

    Args:
        matrix: A, one matrix.
        dense: h, ``[columns, d]``, or one block for each of K members, ``[K, columns, d]``, float32. With fp16
            activations, the product is that of h in fp16.
        mask: m, the factor of each row of h in each view, ``[2K, columns]``. Views 2k and 2k + 1 belong to member k.
    """
    return _MaskedProduct.apply(matrix, dense, mask)


class _MaskedProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: SparseMatrix, dense: Tensor, mask: Tensor) -> Tensor:
        ctx.matrix, ctx.shape = matrix, dense.shape
        ctx.save_for_backward(mask)
        return _multiply_masked(matrix.long_chunks, matrix.col, matrix.value, lowered(dense).flatten(0, -2), mask)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, None]:
        (mask,) = ctx.saved_tensors
        transpose = ctx.matrix.T
        grad = _gather_masked(transpose.long_chunks, transpose.col, transpose.value, grad, mask)
        return None, grad.view(ctx.shape), None
