"""Sparse matrices that do not learn: node features and normalised adjacencies, and their product with dense ones."""

import warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from epagcl.hardware import has_triton

if TYPE_CHECKING:
    from epagcl.kernels import Pieces

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
        value: the entries, or for V matrices with the same row pointers ``[V, entries]``, as ``col``: then ``A @ h``
            is ``[A_1 h_1; A_2 h_2; ...]``, of one ``h`` for all or of V blocks.
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
            for col, value in zip(self.col.view(self.views, -1), self.value.view(self.views, -1), strict=True)
        ]

    @property
    def csr(self) -> Tensor:
        """The matrix as a torch CSR tensor."""
        (matrix,) = self.matrices
        return matrix

    @cached_property
    def pieces(self) -> "Pieces":
        """The rows as a GPU's kernel takes them."""
        from epagcl.kernels import Pieces

        return Pieces.of(self.rowptr)

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


def entries(counter: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sorted entries of Ã = A + I for pairs i·N + j: row, column, number of the pair (of loops: one past the last)."""
    i, j = counter // num_nodes, counter % num_nodes
    loops = torch.arange(num_nodes, device=counter.device)
    key, order = torch.sort(torch.cat([counter, j * num_nodes + i, loops * (num_nodes + 1)]))
    pair = torch.where(order < 2 * counter.numel(), order % max(counter.numel(), 1), counter.numel())
    return key // num_nodes, key % num_nodes, pair


def gcn_adjacency(row: Tensor, col: Tensor, num_nodes: int) -> SparseMatrix:
    """Â = D̃^-½ Ã D̃^-½ (Eq. 1) from the sorted entries of Ã = A + I: both directions of each pair and every loop."""
    rowptr = rowptr_of(row, num_nodes)
    scale = rowptr.diff().to(torch.float32).rsqrt()  # degree ≥ 1: the loop is always there
    return SparseMatrix(rowptr, col, scale[row] * scale[col], (num_nodes, num_nodes), symmetric=True)


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


def multiply(matrix: SparseMatrix | StackedMatrix, dense: Tensor) -> Tensor:
    """``matrix @ dense`` without gradient, by the fastest means the device has."""
    rows, columns = matrix.shape
    blocks = dense.shape[0] // columns if columns else 1
    views = max(matrix.views, blocks)
    if isinstance(matrix, SparseMatrix) and dense.dtype == torch.float32 and has_triton(dense.device):
        from epagcl.kernels import multiply_pattern

        return multiply_pattern(matrix.pieces, matrix.col, matrix.value, dense, views, columns)
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
