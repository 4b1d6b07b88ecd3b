"""The pattern of a sparse matrix: products whose values are arguments that may require a gradient."""

from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from epagcl.core.hardware import has_triton
from epagcl.core.sparse import SparseMatrix, multiply, rowptr_of

if TYPE_CHECKING:
    from epagcl.core.kernels.launch import RowChunks


class Pattern:
    """The positions of the entries of a sparse matrix. The values are arguments, which may require gradients.

    :meth:`multiply` and :meth:`edge_dots` are each other's gradients. Both add up the entries of a row in order, so
    they are deterministic on every device.

    Examples:
        >>> pattern = SparseMatrix.from_torch(torch.tensor([[1.0, 1.0], [0.0, 1.0]]).to_sparse()).pattern
        >>> h = torch.tensor([[1.0], [10.0]])
        >>> pattern.multiply(torch.tensor([1.0, 2.0, 3.0]), h).flatten()
        tensor([21., 30.])
        >>> pattern.edge_dots(h, h)
        tensor([  1.,  10., 100.])
    """

    def __init__(self, rowptr: Tensor, col: Tensor, shape: tuple[int, int]):
        self.rowptr, self.col, self.shape = rowptr, col, shape

    @cached_property
    def row(self) -> Tensor:
        """The row of each entry."""
        return torch.repeat_interleave(torch.arange(self.shape[0], device=self.col.device), self.rowptr.diff())

    @cached_property
    def order(self) -> Tensor:
        """The permutation that sorts the entries for the transpose, whose values are ``value[order]``."""
        return torch.argsort(self.col.long() * self.shape[0] + self.row)

    @cached_property
    def T(self) -> "Pattern":
        """The pattern of the transpose."""
        col = self.col.long()
        return Pattern(rowptr_of(col, self.shape[1]), self.row[self.order].to(self.col.dtype), self.shape[::-1])

    @cached_property
    def chunks(self) -> "RowChunks":
        """The row chunks for the Triton kernels."""
        from epagcl.core.kernels.launch import RowChunks

        return RowChunks.from_rowptr(self.rowptr)

    @cached_property
    def loop(self) -> Tensor:
        """A mask of the entries on the diagonal."""
        return self.row == self.col

    def matrix(self, value: Tensor) -> SparseMatrix:
        """Return the matrix with the given values, ``[entries]`` or for V matrices ``[V, entries]``."""
        matrix = SparseMatrix(self.rowptr, self.col, value, self.shape)
        if has_triton(value.device):
            matrix.chunks = self.chunks
        return matrix

    def multiply(self, value: Tensor, dense: Tensor) -> Tensor:
        """Return ``matrix(value) @ dense``, differentiable in both arguments."""
        return _WeightedProduct.apply(self, value, dense)

    def edge_sums(self, a: Tensor, b: Tensor) -> Tensor:
        """Return a_i + b_j for each entry (i, j), differentiable in both arguments.

        The sums are computed as dot products of rows of width 2. Their gradient adds up the entries in a fixed order.

        Args:
            a: ``[rows]``, or V blocks of it.
            b: ``[columns]``, or V blocks of it.
        """
        return self.edge_dots(torch.stack([a, torch.ones_like(a)], 1), torch.stack([torch.ones_like(b), b], 1))

    def edge_dots(self, a: Tensor, b: Tensor) -> Tensor:
        """Return a_i · b_j for each entry (i, j), differentiable in both arguments.

        Args:
            a: ``[rows, d]``, or V blocks of it.
            b: ``[columns, d]``, or V blocks of it.

        Returns:
            The products, ``[entries]`` or ``[V, entries]``.
        """
        return _EdgeDots.apply(self, a, b)


def _edge_dots(pattern: Pattern, a: Tensor, b: Tensor) -> Tensor:
    """Return a_i · b_j at the entries of a pattern, without gradient. Temporary memory is bounded."""
    (rows, columns), entries = pattern.shape, pattern.col.numel()
    views = max(a.shape[0] // rows, b.shape[0] // columns)
    if a.dtype == torch.float32 and has_triton(a.device):
        from epagcl.core.kernels.products import edge_dots

        out = edge_dots(pattern.chunks, pattern.col, a, b, views, columns)
    else:
        out = a.new_empty(views, entries)
        step = max(1, 2**22 // a.shape[1])
        for view in range(views):
            left, right = (x.narrow(0, view * n if x.shape[0] > n else 0, n) for x, n in ((a, rows), (b, columns)))
            for e in range(0, entries, step):
                part = slice(e, e + step)
                torch.linalg.vecdot(left[pattern.row[part]], right[pattern.col[part].long()], out=out[view, part])
    return out if views > 1 else out[0]


class _WeightedProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pattern: Pattern, value: Tensor, dense: Tensor) -> Tensor:
        dense = dense.contiguous()
        ctx.pattern = pattern
        ctx.save_for_backward(value, dense)
        return multiply(pattern.matrix(value.detach()), dense)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        value, dense = ctx.saved_tensors
        pattern, grad = ctx.pattern, grad.contiguous()
        grad_value = grad_dense = None
        if ctx.needs_input_grad[1]:
            grad_value = _sum_over_views(_edge_dots(pattern, grad, dense), value)
        if ctx.needs_input_grad[2]:
            grad_dense = _sum_over_views(multiply(pattern.T.matrix(value[..., pattern.order]), grad), dense)
        return None, grad_value, grad_dense


class _EdgeDots(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pattern: Pattern, a: Tensor, b: Tensor) -> Tensor:
        ctx.pattern = pattern
        ctx.save_for_backward(a, b)
        return _edge_dots(pattern, a.contiguous(), b.contiguous())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        a, b = ctx.saved_tensors
        pattern, grad = ctx.pattern, grad.contiguous()
        grad_a = grad_b = None
        if ctx.needs_input_grad[1]:
            grad_a = _sum_over_views(multiply(pattern.matrix(grad), b.contiguous()), a)
        if ctx.needs_input_grad[2]:
            grad_b = _sum_over_views(multiply(pattern.T.matrix(grad[..., pattern.order]), a.contiguous()), b)
        return None, grad_a, grad_b


def _sum_over_views(grad: Tensor, argument: Tensor) -> Tensor:
    """Return the gradient of an argument from the gradients per view. A shared argument gets the sum over the views."""
    return grad.view_as(argument) if grad.numel() == argument.numel() else grad.view(-1, *argument.shape).sum(0)
