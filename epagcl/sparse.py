"""Sparse matrices that do not learn: node features and normalised adjacencies, and their product with dense ones."""

import warnings
from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor

# torch says these once per process at the first CSR tensor. The products used here are stable and tested, and the
# matrices are built sorted, or sorted where they are built.
for message in ("Sparse CSR tensor support is in beta", "Sparse invariant checks are implicitly disabled"):
    warnings.filterwarnings("ignore", message=message, category=UserWarning)

# Devices whose torch has CSR products.
CSR_DEVICES = ("cpu", "cuda")


class SparseMatrix:
    """A constant CSR matrix whose product with a dense matrix is differentiable in the dense one.

    ``A @ h`` has the gradient ``Aᵀ g``. The transpose is built on first use and kept; a symmetric matrix is its own.
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
    def csr(self) -> Tensor:
        """The matrix as a torch CSR tensor."""
        return torch.sparse_csr_tensor(self.rowptr, self.col, self.value, self.shape, check_invariants=False)

    @cached_property
    def T(self) -> "SparseMatrix":
        """The transpose."""
        if self.symmetric:
            return self
        return SparseMatrix.from_coo(self.col, self.row, self.value, self.shape[::-1])

    def _map(self, change: Callable[[Tensor], Tensor]) -> "SparseMatrix":
        return SparseMatrix(
            change(self.rowptr), change(self.col), change(self.value), self.shape, symmetric=self.symmetric
        )

    def to(self, device: torch.device | str) -> "SparseMatrix":
        """The matrix on another device."""
        return self if self.device == torch.device(device) else self._map(lambda t: t.to(device))

    def to_dense(self) -> Tensor:
        """The matrix with its zeros."""
        return self.csr.to_dense()

    def __matmul__(self, dense: Tensor) -> Tensor:
        return _Product.apply(self, dense)


def rowptr_of(row: Tensor, num_rows: int) -> Tensor:
    """CSR row pointers of entries with these rows."""
    counts = torch.bincount(row, minlength=num_rows)
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def gcn_adjacency(row: Tensor, col: Tensor, num_nodes: int) -> SparseMatrix:
    """Â = D̃^-½ Ã D̃^-½ (Eq. 1) from the sorted entries of Ã = A + I: both directions of each pair and every loop."""
    rowptr = rowptr_of(row, num_nodes)
    scale = rowptr.diff().to(torch.float32).rsqrt()  # degree ≥ 1: the loop is always there
    return SparseMatrix(rowptr, col, scale[row] * scale[col], (num_nodes, num_nodes), symmetric=True)


def multiply(matrix: SparseMatrix, dense: Tensor) -> Tensor:
    """``matrix @ dense`` without gradient, by the fastest means the device has."""
    if dense.device.type in CSR_DEVICES:
        return matrix.csr @ dense
    # Elsewhere (mps): gather the messages and add them up.
    out = dense.new_zeros(matrix.shape[0], dense.shape[1])
    return out.index_add_(0, matrix.row, dense[matrix.col] * matrix.value[:, None])


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, matrix: SparseMatrix, dense: Tensor) -> Tensor:
        ctx.matrix = matrix
        return multiply(matrix, dense)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[None, Tensor]:
        return None, multiply(ctx.matrix.T, grad.contiguous())
