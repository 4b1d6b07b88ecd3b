"""Cosines of the rows of two matrices as fused Triton kernels."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from epagcl.core.kernels.launch import on_device_of_arguments

EPSILON = 1e-8  # the smallest norm, as in torch.nn.functional.cosine_similarity


@triton.jit
def _cosine_kernel(
    a, b, weight, out, n, shift, width, epsilon, GRADIENT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """Compute cos(a_i, b_j) with j = i + shift (mod n) for some rows i, or with GRADIENT weight_i times its gradient.

    The second pass over a row for the gradient finds it in the cache.
    """
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    j = (i + shift) % n
    inside = i < n
    product = tl.zeros([ROWS], tl.float32)
    a_square = tl.zeros([ROWS], tl.float32)
    b_square = tl.zeros([ROWS], tl.float32)
    for first in range(0, width, BLOCK):
        d = first + tl.arange(0, BLOCK)
        mask = inside[:, None] & (d < width)[None, :]
        x = tl.load(a + i[:, None] * width + d[None, :], mask=mask, other=0.0).to(tl.float32)
        y = tl.load(b + j[:, None] * width + d[None, :], mask=mask, other=0.0).to(tl.float32)
        product += tl.sum(x * y, 1)
        a_square += tl.sum(x * x, 1)
        b_square += tl.sum(y * y, 1)
    a_norm = tl.sqrt(a_square)
    a_bound, b_bound = tl.maximum(a_norm, epsilon), tl.maximum(tl.sqrt(b_square), epsilon)
    cosine = product / (a_bound * b_bound)
    if GRADIENT:  # (b / |b| − cos · a / |a|) / |a|
        scale = tl.load(weight + i, mask=inside, other=0.0) / a_bound
        of_b = scale / b_bound
        of_a = scale * cosine / tl.where(a_norm > 0, a_norm, 1.0)  # a row without length is multiplied by 0
        for first in range(0, width, BLOCK):
            d = first + tl.arange(0, BLOCK)
            mask = inside[:, None] & (d < width)[None, :]
            x = tl.load(a + i[:, None] * width + d[None, :], mask=mask, other=0.0).to(tl.float32)
            y = tl.load(b + j[:, None] * width + d[None, :], mask=mask, other=0.0).to(tl.float32)
            tl.store(out + i[:, None] * width + d[None, :], of_b[:, None] * y - of_a[:, None] * x, mask=mask)
    else:
        tl.store(out + i, cosine, mask=inside)


@on_device_of_arguments
def _launch(a: Tensor, b: Tensor, weight: Tensor | None, out: Tensor, shift: int) -> Tensor:
    n, width = a.shape
    block = min(512, triton.next_power_of_2(width))
    rows = max(1, 1024 // block)
    _cosine_kernel[(triton.cdiv(n, rows),)](
        *(a, b, a if weight is None else weight, out, n, shift, width, EPSILON),
        GRADIENT=weight is not None,
        ROWS=rows,
        BLOCK=block,
    )
    return out


def shifted_cosines(a: Tensor, b: Tensor, shift: int) -> Tensor:
    """Return cos(a_i, b_{i + shift}) of all rows i, float32 ``[N]``, differentiable in a. The rows of b are a circle.

    Forward and backward each read both matrices once. Plain PyTorch normalises copies of them first: about 20 passes.

    Args:
        a: ``[N, d]``, float32 or fp16.
        b: ``[N, d]``, float32 or fp16; no gradient.
        shift: between 0 and N − 1.
    """
    return _ShiftedCosines.apply(a.contiguous(), b.contiguous(), shift)


class _ShiftedCosines(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, shift: int) -> Tensor:
        ctx.save_for_backward(a, b)
        ctx.shift = shift
        return _launch(a, b, None, a.new_empty(a.shape[0], dtype=torch.float32), shift)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        a, b = ctx.saved_tensors
        return _launch(a, b, grad.contiguous(), torch.empty_like(a), ctx.shift), None, None
