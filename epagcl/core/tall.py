"""Products of tall matrices, such as activations of all nodes, with small weights."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from epagcl.core.hardware import lowered, takes_kernels

TILE = 128  # rows and columns of a result that one program of a matrix product computes
PROGRAMS = 128  # programs that keep a large GPU busy
MIN_ROWS = 2048  # of a part; smaller parts cost more than they gain


def times_weight(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return X W + b, differentiable. With fp16 activations, operands and result are in fp16.

    The gradient of the weight is a :func:`tall_product`. The gradients of a float32 weight and bias are float32.

    Args:
        x: ``[N, F]``, or ``[K, N, F]`` for K blocks of rows.
        weight: ``[F, F']``, or ``[K, F, F']``.
        bias: ``[F']``, or ``[K, F']``; None: none.

    Examples:
        >>> times_weight(torch.ones(2, 3), torch.ones(3, 1)).tolist()
        [[3.0], [3.0]]
    """
    if takes_kernels(x) and takes_kernels(weight):
        return _TimesWeight.apply(x, weight, bias)
    return _product(x, weight, bias)


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return X W + b, with the bias added by the product itself."""
    if bias is None:
        return x @ weight
    return torch.addmm(bias, x, weight) if x.dim() == 2 else torch.baddbmm(bias[:, None], x, weight)


def tall_product(a: Tensor, b: Tensor) -> Tensor:
    """Return aᵀ b, float32 if the operands are fp16.

    A library uses few programs for a small result in fp16. The result is then the sum of the products of parts of the
    rows, added in a fixed order. Each part is rounded to fp16 once; all sums are float32.

    Args:
        a: ``[N, F]``, or ``[K, N, F]`` for K blocks of rows.
        b: ``[N, F']``, or ``[K, N, F']``.

    Examples:
        >>> tall_product(torch.ones(1000, 2), torch.ones(1000, 1)).tolist()
        [[1000.0], [1000.0]]
    """
    if a.dtype != torch.float16:  # the library itself splits the rows
        return a.mT @ b
    if a.dim() == 3:
        return torch.stack([tall_product(*block) for block in zip(a, b, strict=True)])
    rows, shape = a.shape[0], (a.shape[1], b.shape[1])
    parts = min(PROGRAMS // (-(-shape[0] // TILE) * -(-shape[1] // TILE)), rows // MIN_ROWS)
    if parts < 2:
        return (a.T @ b).float()
    size = rows // parts
    first, last = slice(0, parts * size), slice(parts * size, rows)  # parts of equal size, and the rows that are left
    products = a.new_empty(parts + (rows > parts * size), *shape)
    torch.bmm(a[first].view(parts, size, -1).mT, b[first].view(parts, size, -1), out=products[:parts])
    if rows > parts * size:
        torch.mm(a[last].T, b[last], out=products[parts])
    return products.sum(0, dtype=torch.float32)


class _TimesWeight(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        x, weight, bias = lowered(x), lowered(weight), None if bias is None else lowered(bias)
        ctx.save_for_backward(x, weight)
        if bias is None or x.dim() == 2:
            return _product(x, weight, bias)
        out = x.new_empty(*x.shape[:2], weight.shape[2])
        for block in zip(bias, x, weight, out, strict=True):  # a product of all blocks would copy the bias to each row
            torch.addmm(*block[:3], out=block[3])
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        from epagcl.core.kernels.columns import column_sums

        x, weight = ctx.saved_tensors
        grad = grad.contiguous()
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        return (
            grad @ weight.mT if needs_x else None,
            tall_product(x, grad) if needs_weight else None,
            column_sums(grad) if needs_bias else None,
        )
