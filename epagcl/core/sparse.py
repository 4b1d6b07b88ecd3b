"""Sparse matrices and their products with dense ones: constant ones, and patterns whose values may learn."""

import warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from epagcl.core.hardware import has_triton

if TYPE_CHECKING:
    from epagcl.core.kernels.launch import RowChunks


# torch says these once per process at the first CSR tensor. The products used here are stable and tested, and the
# matrices are built sorted, or sorted where they are built.
for message in ("Sparse CSR tensor support is in beta", "Sparse invariant checks are implicitly disabled"):
    warnings.filterwarnings("ignore", message=message, category=UserWarning)


# Devices whose torch has CSR products.
CSR_DEVICES = ("cpu", "cuda")


class SparseMatrix:
    """A constant CSR matrix, or several of one pattern, whose product with a dense matrix is differentiable in that.

    ``A @ h`` has the gradient ``Aᵀ g``. The transpose is built on first use and kept; a symmetric matrix is its own.
    ``h`` may be several blocks of rows under each other, of which each is multiplied: ``[A h_1; A h_2]``.

    Attributes:
        rowptr: CSR row pointers, int64.
        col: column of each entry.
        value: the entries, or for V matrices with the same row pointers ``[V, entries]`` (``col`` too, or one for
            all): then ``A @ h`` is ``[A_1 h_1; A_2 h_2; ...]``, of one ``h`` for all or of V blocks.
        shape: of one matrix.
        symmetric: whether it is its own transpose.
    """

    def __init__(self, rowptr: Tensor, col: Tensor, value: Tensor, shape: tuple[int, int], symmetric: bool = False):
        self.rowptr, self.col, self.value = rowptr, col, value
        self.shape = shape
        self.symmetric = symmetric

    @classmethod
    def from_coo(cls, row: Tensor, col: Tensor, value: Tensor, shape: tuple[int, int]) -> "SparseMatrix":
        """From entries in any order (no duplicates)."""
        order = torch.argsort(row * shape[1] + col)
        return cls(rowptr_of(row, shape[0]), col[order], value[order], shape)

    @classmethod
    def from_torch(cls, x: Tensor) -> "SparseMatrix":
        """From any sparse torch tensor."""
        csr = x if x.layout == torch.sparse_csr else x.to_sparse_csr()
        return cls(csr.crow_indices(), csr.col_indices(), csr.values(), tuple(x.shape))

    @property
    def views(self) -> int:
        """V, the number of matrices."""
        return 1 if self.value.dim() == 1 else self.value.shape[0]

    @property
    def device(self) -> torch.device:
        """Where the matrix lies."""
        return self.value.device

    @property
    def dtype(self) -> torch.dtype:
        """Type of the values."""
        return self.value.dtype

    @property
    def row(self) -> Tensor:
        """Row of each entry."""
        counts = self.rowptr.diff()
        return torch.repeat_interleave(torch.arange(self.shape[0], device=self.device), counts)

    @cached_property
    def matrices(self) -> list[Tensor]:
        """Each matrix as a torch CSR tensor."""
        return [
            torch.sparse_csr_tensor(self.rowptr, col, value, self.shape, check_invariants=False)
            for col, value in zip(
                self.col.expand_as(self.value).view(self.views, -1), self.value.view(self.views, -1), strict=True
            )
        ]

    @property
    def csr(self) -> Tensor:
        """The matrix as a torch CSR tensor."""
        (matrix,) = self.matrices
        return matrix

    @cached_property
    def pieces(self) -> "RowChunks":
        """The rows as a GPU's kernel takes them."""
        from epagcl.core.kernels.launch import RowChunks

        return RowChunks.of(self.rowptr)

    @cached_property
    def pattern(self) -> "Pattern":
        """Where its entries stand, for products with other values at the same places."""
        return Pattern(self.rowptr, self.col, self.shape)

    @property
    def T(self) -> "SparseMatrix":
        """The transpose."""
        # Not kept by itself: a matrix that refers to itself stays in memory until the garbage collector looks.
        return self if self.symmetric else self._transpose

    @cached_property
    def _transpose(self) -> "SparseMatrix":
        assert self.views == 1, "several matrices of one pattern are views of a graph, and symmetric"
        return SparseMatrix.from_coo(self.col, self.row, self.value, self.shape[::-1])

    def _map(self, change: Callable[[Tensor], Tensor]) -> "SparseMatrix":
        return SparseMatrix(
            change(self.rowptr), change(self.col), change(self.value), self.shape, symmetric=self.symmetric
        )

    def to(self, device: torch.device | str) -> "SparseMatrix":
        """The matrix on another device."""
        return self if self.device == torch.device(device) else self._map(lambda t: t.to(device))

    def to_dense(self) -> Tensor:
        """The matrix with its zeros; several under each other."""
        return torch.cat([matrix.to_dense() for matrix in self.matrices])

    def __matmul__(self, dense: Tensor) -> Tensor:
        return _Product.apply(self, dense)


def rowptr_of(row: Tensor, num_rows: int) -> Tensor:
    """CSR row pointers of entries with these rows."""
    counts = torch.bincount(row, minlength=num_rows)
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


class StackedMatrix:
    """Matrices of one shape with patterns of their own: ``A @ h`` is ``[A_1 h_1; A_2 h_2; ...]``, as above."""

    def __init__(self, parts: Sequence[SparseMatrix]):
        self.parts = list(parts)
        self.shape = self.parts[0].shape

    @property
    def views(self) -> int:
        """Number of matrices."""
        return len(self.parts)

    @property
    def T(self) -> "StackedMatrix":
        """The transposes."""
        return self if all(part.symmetric for part in self.parts) else StackedMatrix([part.T for part in self.parts])

    @cached_property
    def matrices(self) -> list[Tensor]:
        """Each matrix as a torch CSR tensor."""
        return [part.csr for part in self.parts]

    @property
    def device(self) -> torch.device:
        """Where the matrices lie."""
        return self.parts[0].device

    def __matmul__(self, dense: Tensor) -> Tensor:
        return _Product.apply(self, dense)


class Pattern:
    """Where the entries of a sparse matrix stand; their values are arguments, and have gradients too.

    ``multiply`` and ``products`` are each other's gradients: sums over a row, in its order, so that both are
    deterministic on every device.
    """

    def __init__(self, rowptr: Tensor, col: Tensor, shape: tuple[int, int]):
        self.rowptr, self.col, self.shape = rowptr, col, shape

    @cached_property
    def row(self) -> Tensor:
        """Row of each entry."""
        return torch.repeat_interleave(torch.arange(self.shape[0], device=self.col.device), self.rowptr.diff())

    @cached_property
    def order(self) -> Tensor:
        """The entries in the order of the transpose: value[order] are its values."""
        return torch.argsort(self.col.long() * self.shape[0] + self.row)

    @cached_property
    def T(self) -> "Pattern":
        """Of the transpose."""
        col = self.col.long()
        return Pattern(rowptr_of(col, self.shape[1]), self.row[self.order].to(self.col.dtype), self.shape[::-1])

    @cached_property
    def pieces(self) -> "RowChunks":
        """The rows as a GPU's kernels take them."""
        from epagcl.core.kernels.launch import RowChunks

        return RowChunks.of(self.rowptr)

    def matrix(self, value: Tensor) -> SparseMatrix:
        """The matrix with these values, ``[entries]`` or for several matrices ``[V, entries]``."""
        matrix = SparseMatrix(self.rowptr, self.col, value, self.shape)
        if has_triton(value.device):
            matrix.chunks = self.chunks
        return matrix

    def multiply(self, value: Tensor, dense: Tensor) -> Tensor:
        """``matrix(value) @ dense``, differentiable in both."""
        return _WeightedProduct.apply(self, value, dense)

    @cached_property
    def loop(self) -> Tensor:
        """Which entries stand on the diagonal."""
        return self.row == self.col

    def edge_sums(self, a: Tensor, b: Tensor) -> Tensor:
        """a_i + b_j for each entry (i, j), of numbers ``[rows]`` and ``[columns]`` or V blocks of these.

        As products of rows of width 2, whose gradient is a sum in order.
        """
        return self.edge_dots(torch.stack([a, torch.ones_like(a)], 1), torch.stack([torch.ones_like(b), b], 1))

    def edge_dots(self, a: Tensor, b: Tensor) -> Tensor:
        """a_i · b_j for each entry (i, j), ``[entries]``; of V blocks of rows ``[V, entries]``. Differentiable."""
        return _EntryProducts.apply(self, a, b)


def _products(pattern: Pattern, a: Tensor, b: Tensor) -> Tensor:
    """Row products at the entries of a pattern, without gradient; memory beside the result is bounded."""
    (rows, columns), entries = pattern.shape, pattern.col.numel()
    views = max(a.shape[0] // rows, b.shape[0] // columns)
    if a.dtype == torch.float32 and has_triton(a.device):
        from epagcl.core.kernels.products import entry_products

        out = entry_products(pattern.chunks, pattern.col, a, b, views, columns)
    else:
        out = a.new_empty(views, entries)
        step = max(1, 2**22 // a.shape[1])
        for view in range(views):
            left, right = (x.narrow(0, view * n if x.shape[0] > n else 0, n) for x, n in ((a, rows), (b, columns)))
            for e in range(0, entries, step):
                part = slice(e, e + step)
                torch.linalg.vecdot(left[pattern.row[part]], right[pattern.col[part].long()], out=out[view, part])
    return out if views > 1 else out[0]


def multiply(matrix: SparseMatrix | StackedMatrix, dense: Tensor) -> Tensor:
    """``matrix @ dense`` without gradient, by the fastest means the device has."""
    rows, columns = matrix.shape
    blocks = dense.shape[0] // columns if columns else 1
    views = max(matrix.views, blocks)
    if isinstance(matrix, SparseMatrix) and dense.dtype == torch.float32 and has_triton(dense.device):
        from epagcl.core.kernels.products import multiply_pattern

        return multiply_pattern(matrix.chunks, matrix.col, matrix.value, dense, views, columns)
    out = dense.new_empty(views * rows, dense.shape[1])
    for view, part in enumerate(out.split(rows)):
        h = dense.narrow(0, view % blocks * columns, columns)
        if dense.device.type in CSR_DEVICES:
            # beta = 0: mm(out=...) would make zeros, and copy them.
            torch.addmm(part, matrix.matrices[view % matrix.views], h, beta=0, out=part)
        else:  # mps: gather the messages and add them up
            single = matrix.parts[view] if isinstance(matrix, StackedMatrix) else matrix
            part.zero_().index_add_(0, single.row, h[single.col] * single.value[:, None])
    return out


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, matrix: SparseMatrix | StackedMatrix, dense: Tensor) -> Tensor:
        ctx.matrix, ctx.rows = matrix, dense.shape[0]
        return multiply(matrix, dense.contiguous())

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> tuple[None, Tensor]:
        grad = multiply(ctx.matrix.T, grad.contiguous())
        if grad.shape[0] != ctx.rows:  # one h for all views
            grad = grad.view(-1, ctx.rows, grad.shape[1]).sum(0)
        return None, grad


class _WeightedProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx, pattern: Pattern, value: Tensor, dense: Tensor) -> Tensor:
        dense = dense.contiguous()
        ctx.pattern = pattern
        ctx.save_for_backward(value, dense)
        return multiply(pattern.matrix(value.detach()), dense)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        value, dense = ctx.saved_tensors
        pattern, grad = ctx.pattern, grad.contiguous()
        to_value = to_dense = None
        if ctx.needs_input_grad[1]:
            to_value = _summed(_products(pattern, grad, dense), value)
        if ctx.needs_input_grad[2]:
            to_dense = _summed(multiply(pattern.T.matrix(value[..., pattern.order]), grad), dense)
        return None, to_value, to_dense


class _EntryProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx, pattern: Pattern, a: Tensor, b: Tensor) -> Tensor:
        ctx.pattern = pattern
        ctx.save_for_backward(a, b)
        return _products(pattern, a.contiguous(), b.contiguous())

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        a, b = ctx.saved_tensors
        pattern, grad = ctx.pattern, grad.contiguous()
        to_a = to_b = None
        if ctx.needs_input_grad[1]:
            to_a = _summed(multiply(pattern.matrix(grad), b.contiguous()), a)
        if ctx.needs_input_grad[2]:
            to_b = _summed(multiply(pattern.T.matrix(grad[..., pattern.order]), a.contiguous()), b)
        return None, to_a, to_b


def _summed(grad: Tensor, of: Tensor) -> Tensor:
    """The gradient of an argument from that of each view; one argument for all views gets their sum."""
    return grad.view_as(of) if grad.numel() == of.numel() else grad.view(-1, *of.shape).sum(0)
