"""Row permutations. A permutation repeats no row, so its gradient is a copy and not a sum."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from epagcl.core.hardware import takes_kernels


def permute_rows(x: Tensor, order: Tensor) -> Tensor:
    """Return ``x[order]`` for a permutation ``order``. Its gradient is a copy, deterministic on every device.

    Examples:
        >>> permute_rows(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([2, 0, 1]))
        tensor([[3.],
                [1.],
                [2.]])
    """
    return _Permute.apply(x, order)


class _Permute(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor) -> Tensor:
        ctx.save_for_backward(order)
        return x.index_select(0, order)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (order,) = ctx.saved_tensors
        return torch.empty_like(grad).index_copy_(0, order, grad), None


def row_products(a: Tensor, b: Tensor, orders: Tensor) -> Tensor:
    """Return a_i · b_{π(i)} for each row i and each permutation π. Memory is O(N·d).

    Args:
        a: ``[N, d]``.
        b: ``[N, d]``.
        orders: K permutations of the rows, ``[K, N]``.

    Returns:
        The products, ``[K, N]``.

    Examples:
        >>> a = torch.tensor([[1.0], [2.0], [3.0]])
        >>> row_products(a, a, torch.tensor([[1, 2, 0]]))
        tensor([[2., 6., 3.]])
    """
    return _RowProducts.apply(a, b, orders)


class _RowProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, orders: Tensor) -> Tensor:
        ctx.save_for_backward(a, b, orders)
        if takes_kernels(a):
            from epagcl.core.kernels.rows import row_dots

            return row_dots(a, b, orders)
        return torch.stack([torch.linalg.vecdot(a, b[order]) for order in orders])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        a, b, orders = ctx.saved_tensors
        if takes_kernels(a):
            from epagcl.core.kernels.rows import row_sums

            return row_sums(grad, b, orders), row_sums(grad, a, _inverse(orders), gathered=True), None
        grad_a, grad_b = torch.zeros_like(a), torch.zeros_like(b)
        for g, order in zip(grad[:, :, None], orders, strict=True):
            grad_a.addcmul_(g, b[order])
            grad_b[order] += g * a
        return grad_a, grad_b, None


def _inverse(orders: Tensor) -> Tensor:
    """Return the inverse of each permutation."""
    count, n = orders.shape
    number = torch.arange(count * n, device=orders.device)
    places = (orders + n * torch.arange(count, device=orders.device)[:, None]).flatten()
    return (torch.empty_like(number).index_copy_(0, places, number) % n).view_as(orders)
