"""Sparse matrices with constant values, and their differentiable products with dense matrices."""

import warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from epagcl.core.determinism import is_deterministic
from epagcl.core.errors import InputError
from epagcl.core.hardware import KERNEL_TYPES, has_triton, lowered

if TYPE_CHECKING:
    from epagcl.core.kernels.launch import RowChunks
    from epagcl.core.kernels.products import Update
    from epagcl.core.pattern import Pattern
    from epagcl.core.streamed import StreamedMatrix

# PyTorch warns once per process at the first CSR tensor. The products used here are stable and tested, and the matrices
# are sorted when they are built.
for message in ("Sparse CSR tensor support is in beta", "Sparse invariant checks are implicitly disabled"):
    warnings.filterwarnings("ignore", message=message, category=UserWarning)

CSR_DEVICES = ("cpu", "cuda")  # PyTorch has CSR products on these devices only


class SparseMatrix:
    """One or several constant CSR matrices. Their product with a dense matrix is differentiable in the dense matrix.

    ``A @ h`` has the gradient ``Aᵀ g``. The transpose is built on first use and cached. A symmetric matrix is its own
    transpose. If ``h`` has several blocks of rows, A multiplies each of them: ``[A h_1; A h_2]``.

    V matrices with the same row pointers are stored as one. Then ``A @ h`` is ``[A_1 h_1; A_2 h_2; ...]``, where ``h``
    has V blocks, or one block for all matrices.

    With fp16 activations (:func:`~epagcl.core.hardware.lowering`), ``A @ h`` is fp16; its sums are float32.

    Attributes:
        rowptr: the CSR row pointers, int64.
        col: the column of each entry, ``[entries]``; for V matrices also ``[V, entries]``.
        value: the value of each entry, ``[entries]``; for V matrices ``[V, entries]``.
        shape: the shape of one matrix.
        symmetric: whether each matrix is its own transpose.

    Examples:
        >>> matrix = SparseMatrix.from_torch(torch.tensor([[0.0, 2.0], [1.0, 0.0]]).to_sparse())
        >>> matrix @ torch.tensor([[1.0], [10.0]])
        tensor([[20.],
                [ 1.]])
    """

    def __init__(self, rowptr: Tensor, col: Tensor, value: Tensor, shape: tuple[int, int], symmetric: bool = False):
        self.rowptr, self.col, self.value = rowptr, col, value
        self.shape = shape
        self.symmetric = symmetric

    @classmethod
    def from_coo(cls, row: Tensor, col: Tensor, value: Tensor, shape: tuple[int, int]) -> "SparseMatrix":
        """Return the matrix of entries in any order, without duplicates."""
        order = torch.argsort(row * shape[1] + col)
        return cls(rowptr_of(row, shape[0]), col[order], value[order], shape)

    @classmethod
    def from_torch(cls, x: Tensor) -> "SparseMatrix":
        """Return the matrix of a sparse PyTorch tensor in any layout."""
        csr = x if x.layout == torch.sparse_csr else x.to_sparse_csr()
        return cls(csr.crow_indices(), csr.col_indices(), csr.values(), (x.shape[0], x.shape[1]))

    @property
    def views(self) -> int:
        """V, the number of matrices."""
        return 1 if self.value.dim() == 1 else self.value.shape[0]

    @property
    def device(self) -> torch.device:
        """The device of the values."""
        return self.value.device

    @property
    def dtype(self) -> torch.dtype:
        """The type of the values."""
        return self.value.dtype

    @property
    def row(self) -> Tensor:
        """The row of each entry."""
        counts = self.rowptr.diff()
        return torch.repeat_interleave(torch.arange(self.shape[0], device=self.device), counts)

    @cached_property
    def matrices(self) -> list[Tensor]:
        """The matrices as PyTorch CSR tensors."""
        return [
            torch.sparse_csr_tensor(self.rowptr, col, value, self.shape, check_invariants=False)
            for col, value in zip(
                self.col.expand_as(self.value).view(self.views, -1), self.value.view(self.views, -1), strict=True
            )
        ]

    @property
    def csr(self) -> Tensor:
        """The matrix as a PyTorch CSR tensor, if there is one matrix only."""
        (matrix,) = self.matrices
        return matrix

    @cached_property
    def chunks(self) -> "RowChunks":
        """The row chunks for the Triton kernels."""
        from epagcl.core.kernels.launch import RowChunks

        return RowChunks.from_rowptr(self.rowptr)

    @cached_property
    def long_chunks(self) -> "RowChunks":
        """The row chunks for the kernels of feature matrices; longer ones if there are many entries."""
        from epagcl.core.kernels.launch import LONG_CHUNK, MIN_LONG_CHUNKS, RowChunks

        is_large = self.col.numel() >= LONG_CHUNK * MIN_LONG_CHUNKS
        return RowChunks.from_rowptr(self.rowptr, LONG_CHUNK) if is_large else self.chunks

    @cached_property
    def pattern(self) -> "Pattern":
        """The positions of the entries."""
        from epagcl.core.pattern import Pattern  # which builds matrices in turn

        return Pattern(self.rowptr, self.col, self.shape)

    @property
    def T(self) -> "SparseMatrix":
        """The transpose."""
        # A symmetric matrix does not cache itself: the reference cycle would keep it until a garbage collection.
        return self if self.symmetric else self._transpose

    @cached_property
    def _transpose(self) -> "SparseMatrix":
        assert self.views == 1, "only a single matrix can be transposed; the views of a graph are symmetric"
        return SparseMatrix.from_coo(self.col, self.row, self.value, self.shape[::-1])

    def _map(self, function: Callable[[Tensor], Tensor]) -> "SparseMatrix":
        return SparseMatrix(
            function(self.rowptr), function(self.col), function(self.value), self.shape, symmetric=self.symmetric
        )

    def to(self, device: torch.device | str) -> "SparseMatrix":
        """Return the matrix on a device."""
        return self if self.device == torch.device(device) else self._map(lambda t: t.to(device))

    def rows(self, start: int, stop: int) -> "SparseMatrix":
        """Return the rows ``start`` to ``stop - 1`` of a single matrix, as a copy."""
        entries = slice(int(self.rowptr[start]), int(self.rowptr[stop]))
        rowptr = self.rowptr[start : stop + 1] - self.rowptr[start]
        return SparseMatrix(
            rowptr, self.col[entries].clone(), self.value[entries].clone(), (stop - start, self.shape[1])
        )

    def scaled(self, factor: float) -> "SparseMatrix":
        """Return ``factor`` times the matrix."""
        scaled = SparseMatrix(self.rowptr, self.col, factor * self.value, self.shape, symmetric=self.symmetric)
        if has_triton(self.device):
            scaled.chunks = self.chunks
        return scaled

    def to_dense(self) -> Tensor:
        """Return the dense matrix; for several matrices, their dense matrices stacked by rows."""
        return torch.cat([matrix.to_dense() for matrix in self.matrices])

    def __matmul__(self, dense: Tensor) -> Tensor:
        return _Product.apply(self, lowered(dense))


def rowptr_of(row: Tensor, num_rows: int) -> Tensor:
    """Return the CSR row pointers of entries in the given rows.

    Examples:
        >>> rowptr_of(torch.tensor([0, 0, 2]), num_rows=3)
        tensor([0, 2, 2, 3])
    """
    counts = torch.bincount(row, minlength=num_rows)
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


class StackedMatrix:
    """Several matrices of one shape, each with its own pattern.

    ``A @ h`` is ``[A_1 h_1; A_2 h_2; ...]``, where ``h`` has one block of rows per matrix, or one block for all.

    Examples:
        >>> identity = SparseMatrix.from_torch(torch.eye(2).to_sparse())
        >>> swap = SparseMatrix.from_torch(torch.tensor([[0.0, 1.0], [1.0, 0.0]]).to_sparse())
        >>> (StackedMatrix([identity, swap]) @ torch.tensor([[1.0], [2.0]])).flatten()
        tensor([1., 2., 2., 1.])
    """

    def __init__(self, parts: Sequence[SparseMatrix]):
        self.parts = list(parts)
        self.shape = self.parts[0].shape

    @property
    def views(self) -> int:
        """The number of matrices."""
        return len(self.parts)

    @property
    def T(self) -> "StackedMatrix":
        """The transposes."""
        return self if all(part.symmetric for part in self.parts) else StackedMatrix([part.T for part in self.parts])

    @cached_property
    def matrices(self) -> list[Tensor]:
        """The matrices as PyTorch CSR tensors."""
        return [part.csr for part in self.parts]

    @property
    def device(self) -> torch.device:
        """The device of the matrices."""
        return self.parts[0].device

    def scaled(self, factor: float) -> "StackedMatrix":
        """Return ``factor`` times the matrices."""
        return StackedMatrix([part.scaled(factor) for part in self.parts])

    def multiply(self, dense: Tensor) -> Tensor:
        """Return ``self @ dense`` without gradient."""
        if dense.dtype == torch.float16:  # PyTorch multiplies matrices of one type only
            return _multiply_views(self, dense.float()).half()
        return _multiply_views(self, dense)

    def __matmul__(self, dense: Tensor) -> Tensor:
        return _Product.apply(self, dense)


def multiply(matrix: "SparseMatrix | StackedMatrix | StreamedMatrix", dense: Tensor) -> Tensor:
    """Return ``matrix @ dense`` without gradient, by the fastest implementation on the device.

    Examples:
        >>> multiply(SparseMatrix.from_torch(torch.eye(2).to_sparse()), torch.tensor([[1.0], [2.0]])).flatten()
        tensor([1., 2.])
    """
    if not isinstance(matrix, SparseMatrix):
        return matrix.multiply(dense)
    return _multiply_by_kernel(matrix, dense) if _has_kernel(dense) else _multiply_views(matrix, dense)


def multiply_lerp(
    matrix: "SparseMatrix | StackedMatrix | StreamedMatrix",
    dense: Tensor,
    shift: Tensor,
    start: Tensor | None,
    weight: float,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``start + weight·(matrix @ dense + shift − start)`` without gradient, in one pass on a GPU with Triton.

    Args:
        matrix: one or several matrices.
        dense: as in :func:`multiply`, contiguous like all tensors here.
        shift: added to the product, whose shape it has.
        start: tensor of the same shape; None: 0.
        weight: 0 returns ``start``, 1 the shifted product; larger weights go beyond it.
        out: memory for the result, which may be ``start``; None: new memory.

    Examples:
        >>> identity = SparseMatrix.from_torch(torch.eye(2).to_sparse())
        >>> h, start = torch.tensor([[1.0], [2.0]]), torch.tensor([[4.0], [4.0]])
        >>> multiply_lerp(identity, h, torch.ones(2, 1), start, weight=0.5).flatten()
        tensor([3.0000, 3.5000])
    """
    if isinstance(matrix, SparseMatrix) and _has_kernel(dense):
        from epagcl.core.kernels.products import Update

        terms = [(weight, shift)] if start is None else [(weight, shift), (1 - weight, start)]
        update = Update(weight, terms, torch.empty_like(shift) if out is None else out)
        return _multiply_by_kernel(matrix, dense, update)
    start = torch.zeros_like(shift) if start is None else start
    return torch.lerp(start, multiply(matrix, dense).add_(shift), weight, out=out)


def multiply_accumulate(
    matrix: "SparseMatrix | StackedMatrix | StreamedMatrix", dense: Tensor, total: Tensor, weight: float
) -> Tensor:
    """Return ``matrix @ dense`` without gradient and add ``weight`` times it to ``total``, in one pass with Triton.

    Args:
        matrix: one or several matrices.
        dense: as in :func:`multiply`, contiguous.
        total: contiguous tensor with the shape of the product; changed in place.
        weight: the factor of the product in the total.

    Examples:
        >>> identity, total = SparseMatrix.from_torch(torch.eye(2).to_sparse()), torch.ones(2, 1)
        >>> multiply_accumulate(identity, torch.tensor([[1.0], [2.0]]), total, weight=10.0).flatten()
        tensor([1., 2.])
        >>> total.flatten()
        tensor([11., 21.])
    """
    if isinstance(matrix, SparseMatrix) and _has_kernel(dense):
        from epagcl.core.kernels.products import Update

        return _multiply_by_kernel(matrix, dense, Update(weight, [(1.0, total)], total, product=True))
    product = multiply(matrix, dense)
    total.add_(product, alpha=weight)
    return product


def _has_kernel(dense: Tensor) -> bool:
    """Return whether a Triton kernel computes products with a dense matrix."""
    return dense.dtype in KERNEL_TYPES and has_triton(dense.device)


def _multiply_by_kernel(matrix: SparseMatrix, dense: Tensor, update: "Update | None" = None) -> Tensor:
    """Return ``matrix @ dense`` or the sum of an update by the Triton kernel."""
    from epagcl.core.kernels.products import multiply_pattern

    columns = matrix.shape[1]
    views = max(matrix.views, dense.shape[0] // columns if columns else 1)
    return multiply_pattern(matrix.chunks, matrix.col, matrix.value, dense, views, columns, update)


def _multiply_views(matrix: SparseMatrix | StackedMatrix, dense: Tensor) -> Tensor:
    """Return ``matrix @ dense``, one view after the other, by plain PyTorch."""
    rows, columns = matrix.shape
    blocks = dense.shape[0] // columns if columns else 1
    views = max(matrix.views, blocks)
    if rows == 0 or columns == 0:  # as on a rank without nodes
        return dense.new_zeros(views * rows, dense.shape[1])
    if dense.device.type == "cuda" and is_deterministic():
        return _multiply_in_order(matrix, dense, views, blocks)
    out = dense.new_empty(views * rows, dense.shape[1])
    for view, part in enumerate(out.split(rows)):
        h = dense.narrow(0, view % blocks * columns, columns)
        if dense.device.type in CSR_DEVICES:
            # addmm with beta=0, since mm(out=...) would allocate zeros and copy them.
            torch.addmm(part, matrix.matrices[view % matrix.views], h, beta=0, out=part)
        else:  # MPS: gather the messages and add them up
            single = matrix.parts[view] if isinstance(matrix, StackedMatrix) else matrix
            part.zero_().index_add_(0, single.row, h[single.col] * single.value[:, None])
    return out


def _multiply_in_order(matrix: SparseMatrix | StackedMatrix, dense: Tensor, views: int, blocks: int) -> Tensor:
    """Return the product without cuSPARSE, which promises no fixed order of its sums."""
    if isinstance(matrix, SparseMatrix) or not has_triton(dense.device) or dense.dtype != torch.float32:
        raise InputError(f"no deterministic sparse product of {dense.dtype} without Triton on a GPU; use device=cpu")
    columns = matrix.shape[1]
    parts = (dense.narrow(0, view % blocks * columns, columns) for view in range(views))
    return torch.cat([multiply(matrix.parts[view % matrix.views], h) for view, h in enumerate(parts)])


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: SparseMatrix | StackedMatrix, dense: Tensor) -> Tensor:
        ctx.matrix, ctx.rows = matrix, dense.shape[0]
        return multiply(matrix, dense.contiguous())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        grad = multiply(ctx.matrix.T, grad.contiguous())
        if grad.shape[0] != ctx.rows:  # one block shared by all views: its gradient is the sum over the views
            grad = grad.view(-1, ctx.rows, grad.shape[1]).sum(0)
        return None, grad
