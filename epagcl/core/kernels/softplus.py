"""The sum of a softplus and its derivative, in one pass over a matrix."""

import triton
import triton.language as tl
from torch import Tensor

from epagcl.core.kernels.launch import on_device_of_arguments

BLOCK = 1024  # columns that a program reads at a time


@triton.jit
def _softplus_kernel(s, sums, columns, stride, DERIVATIVE: tl.constexpr, BLOCK: tl.constexpr):
    """Compute the sum of log(1 + e^s) over one row, and with DERIVATIVE replace s by σ(s)."""
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, columns, BLOCK):
        d = first + tl.arange(0, BLOCK)
        at = s + row * stride + d
        x = tl.load(at, mask=d < columns, other=0.0)
        e = tl.exp(-tl.abs(x))  # at most 1, so that nothing overflows
        log1p = tl.where(e < 1e-3, e - 0.5 * e * e, tl.log(1 + e))  # 1 + e rounds a small e away
        total += tl.where(d < columns, tl.maximum(x, 0.0) + log1p, 0.0)
        if DERIVATIVE:
            tl.store(at, tl.where(x < 0, e, 1.0) / (1 + e), mask=d < columns)
    tl.store(sums + row, tl.sum(total, 0))


@on_device_of_arguments
def softplus_sum(s: Tensor, *, derivative: bool) -> Tensor:
    """Return Σ log(1 + e^s) over all entries of a matrix, without gradient.

    Args:
        s: float32 ``[rows, columns]``; the columns of a row are contiguous.
        derivative: whether s is overwritten by the derivative σ(s).
    """
    assert s.stride(1) == 1
    sums = s.new_empty(s.shape[0])
    _softplus_kernel[(s.shape[0],)](s, sums, s.shape[1], s.stride(0), DERIVATIVE=derivative, BLOCK=BLOCK)
    return sums.sum()
