"""Sparse matrices and their products with dense ones: constant ones, and patterns whose values may learn."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

if TYPE_CHECKING:
    pass


def permute_rows(x: Tensor, order: Tensor) -> Tensor:
    """``x[order]`` for a permutation: no row comes twice, so that the gradient is a copy and not a sum."""
    return _Permute.apply(x, order)


class _Permute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, order: Tensor) -> Tensor:
        ctx.save_for_backward(order)
        return x.index_select(0, order)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:
        (order,) = ctx.saved_tensors
        return torch.empty_like(grad).index_copy_(0, order, grad), None


def row_products(a: Tensor, b: Tensor, orders: Tensor) -> Tensor:
    """a_i · b_{π(i)} for each of K permutations π ``[K, N]`` of the rows: ``[K, N]``; memory O(N·d)."""
    return _RowProducts.apply(a, b, orders)


class _RowProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a: Tensor, b: Tensor, orders: Tensor) -> Tensor:
        ctx.save_for_backward(a, b, orders)
        return torch.stack([torch.linalg.vecdot(a, b[order]) for order in orders])

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        a, b, orders = ctx.saved_tensors
        to_a, to_b = torch.zeros_like(a), torch.zeros_like(b)
        for g, order in zip(grad[:, :, None], orders, strict=True):
            to_a.addcmul_(g, b[order])
            to_b[order] += g * a  # a permutation: no row comes twice
        return to_a, to_b, None
