"""Products of rows with permuted rows, as Triton kernels."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from epagcl.core.kernels.launch import on_device_of_arguments


@triton.jit
def _dots_kernel(a, b, orders, out, n, count, width, UNROLL: tl.constexpr, BLOCK: tl.constexpr):
    """Compute a_i · b_{π(i)} of one row i for all permutations π."""
    i = tl.program_id(0).to(tl.int64)
    for first in range(0, count, UNROLL):
        k = first + tl.arange(0, UNROLL).to(tl.int64)
        j = tl.load(orders + k * n + i, mask=k < count, other=0)
        acc = tl.zeros([UNROLL], tl.float32)
        for first_column in range(0, width, BLOCK):
            d = first_column + tl.arange(0, BLOCK)
            x = tl.load(a + i * width + d, mask=d < width, other=0.0).to(tl.float32)
            inside = (k < count)[:, None] & (d < width)[None, :]
            y = tl.load(b + j[:, None] * width + d[None, :], mask=inside, other=0.0).to(tl.float32)
            acc += tl.sum(x[None, :] * y, 1)
        tl.store(out + k * n + i, acc, mask=k < count)


@triton.jit
def _sums_kernel(
    weight, b, orders, out, n, count, width, GATHERED: tl.constexpr, UNROLL: tl.constexpr, BLOCK: tl.constexpr
):
    """Compute Σ_π w b_{π(i)} of one row i. The weight w of π is at (π, i), or if GATHERED at (π, π(i))."""
    i = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK], tl.float32)
    for first in range(0, count, UNROLL):
        k = first + tl.arange(0, UNROLL).to(tl.int64)
        j = tl.load(orders + k * n + i, mask=k < count, other=0)
        at = k * n + (j if GATHERED else i)
        w = tl.load(weight + at, mask=k < count, other=0.0)
        inside = (k < count)[:, None] & (d < width)[None, :]
        x = tl.load(b + j[:, None] * width + d[None, :], mask=inside, other=0.0).to(tl.float32)
        acc += tl.sum(w[:, None] * x, 0)
    tl.store(out + i * width + d, acc, mask=d < width)


def _block(width: int) -> int:
    return min(256, triton.next_power_of_2(width))


@on_device_of_arguments
def row_dots(a: Tensor, b: Tensor, orders: Tensor) -> Tensor:
    """Return a_i · b_{π(i)}, float32 ``[K, N]``, for K permutations ``[K, N]``; a and b are ``[N, d]``."""
    a, b, orders = a.contiguous(), b.contiguous(), orders.contiguous()
    (count, n), width = orders.shape, a.shape[1]
    out, block = a.new_empty(count, n, dtype=torch.float32), _block(width)
    _dots_kernel[(n,)](a, b, orders, out, n, count, width, UNROLL=8, BLOCK=block, num_warps=max(1, block // 128))
    return out


@on_device_of_arguments
def row_sums(weight: Tensor, b: Tensor, orders: Tensor, *, gathered: bool = False) -> Tensor:
    """Return Σ_π w_π(i) b_{π(i)}, or with ``gathered`` Σ_π w_π(π(i)) b_{π(i)}, as rows ``[N, d]``.

    Args:
        weight: w, one number for each permutation and row, ``[K, N]``.
        b: ``[N, d]``, float32 or fp16, which is also the type of the result.
        orders: K permutations, ``[K, N]``.
        gathered: whether a weight belongs to the row π(i) in place of i.
    """
    weight, b, orders = weight.contiguous(), b.contiguous(), orders.contiguous()
    (count, n), width = orders.shape, b.shape[1]
    out, block = torch.empty_like(b), _block(width)
    _sums_kernel[(n, triton.cdiv(width, block))](
        *(weight, b, orders, out, n, count, width),
        GATHERED=gathered,
        UNROLL=8,
        BLOCK=block,
        num_warps=max(1, block // 128),
    )
    return out
