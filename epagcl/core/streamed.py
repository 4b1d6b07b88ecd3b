"""Matrices that are larger than memory: read by chunks of rows, multiplied without being formed.

:class:`StreamedRows` is a dense or sparse matrix of N rows, :class:`DiskMatrix` one in temporary files, and
:class:`StreamedMatrix` a symmetric N×N matrix from CSR arrays that may be mapped from files.
"""

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from epagcl.core.errors import OutputError
from epagcl.core.files import check_space
from epagcl.core.memory import available_memory
from epagcl.core.sparse import SparseMatrix

CHUNK_BYTES = 1 << 26  # of dense rows that are read at once
ENTRIES = 1 << 22  # of a sparse matrix that are read at once
COLUMN_BYTES = 1 << 30  # for all columns that are multiplied at once, on graphs of usual size
COLUMN_BYTES_PER_ROW = 20  # five copies of a column: the result, and what a Chebyshev iteration keeps
LEAST_COLUMNS, MOST_COLUMNS = 16, 256
OTHERWISE = "set TMPDIR to another folder"  # if there is no space for temporary files


def columns_at_once(num_rows: int, device: torch.device | str = "cpu", available: float | None = None) -> int:
    """Return how many columns of N numbers are multiplied at once.

    As many as 1 GiB holds; if these are fewer than 16, up to 16 within a quarter of the memory, ``available`` bytes or
    what is available on the device. The more columns, the less often an operand is read.

    Examples:
        >>> columns_at_once(1_000_000), columns_at_once(100_000_000, available=16 * 2**30)
        (53, 2)
    """
    per_column = COLUMN_BYTES_PER_ROW * max(num_rows, 1)
    columns = min(COLUMN_BYTES // per_column, MOST_COLUMNS)
    if columns < LEAST_COLUMNS:
        available = available or available_memory(device) or COLUMN_BYTES
        columns = max(1, min(LEAST_COLUMNS, int(available / 4 / per_column)))
    return columns


def column_blocks(width: int, at_once: int) -> list[slice]:
    """Return the columns 0..width−1 in blocks.

    Examples:
        >>> column_blocks(5, 2)
        [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return [slice(start, min(start + at_once, width)) for start in range(0, width, at_once)]


class StreamedRows(ABC):
    """A matrix ``[N, F]`` that is read by chunks of rows. ``x @ v`` and ``x.T @ v`` hold one chunk at a time.

    Attributes:
        shape: N and F.
        device: where the chunks are, and the products.
    """

    shape: tuple[int, int]
    device: torch.device

    @abstractmethod
    def chunk(self, start: int, stop: int) -> Tensor | SparseMatrix:
        """Return some rows."""

    @property
    def rows_at_once(self) -> int:
        """The number of rows of a chunk."""
        return max(1, CHUNK_BYTES // (4 * max(self.shape[1], 1)))

    def spans(self) -> Iterator[tuple[int, int]]:
        """Yield the first row of each chunk, and the row after its last."""
        for start in range(0, self.shape[0], self.rows_at_once):
            yield start, min(start + self.rows_at_once, self.shape[0])

    def chunks(self) -> Iterator[Tensor | SparseMatrix]:
        """Yield all rows, chunk by chunk."""
        for start, stop in self.spans():
            yield self.chunk(start, stop)

    def __matmul__(self, v: Tensor) -> Tensor:
        out = v.new_empty(self.shape[0], v.shape[1])
        for start, stop in self.spans():
            out[start:stop] = self.chunk(start, stop) @ v
        return out

    @property
    def T(self) -> "_Transposed":
        """The transpose, for products."""
        return _Transposed(self)


class _Transposed(NamedTuple):
    rows: StreamedRows

    def __matmul__(self, v: Tensor) -> Tensor:
        out = v.new_zeros(self.rows.shape[1], v.shape[1])
        for start, stop in self.rows.spans():
            out += self.rows.chunk(start, stop).T @ v[start:stop].contiguous()
        return out


class FeatureRows(StreamedRows):
    """Features in an array or a SciPy CSR matrix, which may be mapped from a file: only the rows in use are read.

    Args:
        features: ``[N, F]``; a NumPy array, or SciPy's CSR.
        scale: function that scales rows, dense or ``torch.sparse_csr``; None: as they are.
        device: where rows are put.

    Examples:
        >>> rows = FeatureRows(np.eye(3, dtype=np.float32))
        >>> rows.take(np.array([2, 0])).tolist(), (rows @ torch.ones(3, 1)).flatten().tolist()
        ([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], [1.0, 1.0, 1.0])
    """

    def __init__(
        self, features: Any, scale: Callable[[Tensor], Tensor] | None = None, device: torch.device | str = "cpu"
    ):
        self.features, self.scale = features, scale
        self.shape, self.device = (features.shape[0], features.shape[1]), torch.device(device)
        self.sparse = not isinstance(features, np.ndarray)

    def chunk(self, start: int, stop: int) -> Tensor | SparseMatrix:
        """Return some rows."""
        return self._rows(slice(start, stop))

    def take(self, nodes: npt.NDArray[np.int64]) -> Tensor | SparseMatrix:
        """Return the rows of some nodes. Only these are read."""
        return self._rows(nodes)

    @property
    def rows_at_once(self) -> int:
        """The number of rows of a chunk; a sparse row counts with its average number of entries."""
        if not self.sparse:
            return super().rows_at_once
        return max(1, int(ENTRIES * self.shape[0] / max(self.features.nnz, 1)))

    def _rows(self, which: Any) -> Tensor | SparseMatrix:
        rows = self.features[which]
        if not self.sparse:
            x = torch.from_numpy(np.array(rows, dtype=np.float32))
            return (x if self.scale is None else self.scale(x)).to(self.device)
        rowptr, col = (torch.from_numpy(np.array(part, dtype=np.int64)) for part in (rows.indptr, rows.indices))
        matrix = SparseMatrix(rowptr, col, torch.from_numpy(np.array(rows.data, dtype=np.float32)), rows.shape)
        return (matrix if self.scale is None else SparseMatrix.from_torch(self.scale(matrix.csr))).to(self.device)


class DiskMatrix(StreamedRows):
    """A float32 matrix in temporary files, one for each block of columns. The files are gone when it is closed.

    Args:
        num_rows: N.
        device: where chunks are put.

    Examples:
        >>> with DiskMatrix(2) as matrix:
        ...     matrix.append(torch.tensor([[1.0], [2.0]]))
        ...     matrix.append(torch.tensor([[3.0], [4.0]]))
        ...     matrix.shape, matrix.chunk(1, 2).tolist()
        ((2, 2), [[2.0, 4.0]])
    """

    def __init__(self, num_rows: int, device: torch.device | str = "cpu"):
        self.num_rows, self.device = num_rows, torch.device(device)
        self._files: list[tuple[IO[bytes], int]] = []

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """N and the number of columns so far."""
        return self.num_rows, sum(width for _, width in self._files)

    def append(self, block: Tensor) -> None:
        """Add columns, ``[N, w]``."""
        self.append_rows([block], block.shape[1])

    def append_rows(self, chunks: "Iterator[Tensor] | Sequence[Tensor]", width: int) -> None:
        """Add columns that come as chunks of rows, ``[n, width]`` each."""
        with _temporary_files():
            file = tempfile.TemporaryFile()  # noqa: SIM115 (closed by close)
        self._files.append((file, width))
        for rows in chunks:
            values = rows.detach().cpu().contiguous().numpy().data
            with _temporary_files():
                file.write(values)
        with _temporary_files():
            file.flush()

    def chunk(self, start: int, stop: int) -> Tensor:
        """Return some rows."""
        parts = [self._read(file, width, start, stop) for file, width in self._files]
        return (parts[0] if len(parts) == 1 else torch.cat(parts, 1)).to(self.device)

    def split(self, rows: int) -> Iterator[Tensor]:
        """Yield all rows, some at a time, as :meth:`torch.Tensor.split` does."""
        for start in range(0, self.num_rows, rows):
            yield self.chunk(start, min(start + rows, self.num_rows))

    def close(self) -> None:
        """Remove the files."""
        for file, _ in self._files:
            with suppress(OSError):  # what could not be written is written again; it is not needed
                file.close()

    def __enter__(self) -> "DiskMatrix":
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    @staticmethod
    def _read(file: IO[bytes], width: int, start: int, stop: int) -> Tensor:
        file.seek(4 * width * start)
        values = np.fromfile(file, dtype=np.float32, count=width * (stop - start))
        return torch.from_numpy(values.reshape(stop - start, width))


def check_temporary_space(num_rows: int, columns: int) -> None:
    """Raise if the folder for temporary files has no space for so many columns of N rows.

    Examples:
        >>> check_temporary_space(1000, 2)
    """
    with _temporary_files():
        folder = Path(tempfile.gettempdir())
    check_space(folder, 4 * num_rows * columns, OTHERWISE)


@contextmanager
def _temporary_files() -> Iterator[None]:
    """Turn the errors of temporary files into one line that says where they are."""
    try:
        yield
    except OSError as error:
        place, reason = tempfile.tempdir or "the folder for temporary files", error.strerror or error
        raise OutputError(f"{place}: cannot be written ({reason}); free some space there, or {OTHERWISE}") from error


class CSR(NamedTuple):
    """The entries of a symmetric matrix by rows. Arrays may be mapped from files.

    Attributes:
        indptr: int64 ``[N + 1]``.
        indices: int32 or int64, both directions of each pair.
        weights: float32, one per entry; None: 1.
    """

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[Any]
    weights: npt.NDArray[np.float32] | None = None

    @property
    def num_rows(self) -> int:
        """N."""
        return len(self.indptr) - 1

    def spans(self) -> Iterator[tuple[int, int]]:
        """Yield the first row of each chunk of at most ``ENTRIES`` entries, and the row after its last."""
        start = 0
        while start < self.num_rows:
            limit = int(self.indptr[start]) + ENTRIES
            stop = max(start + 1, int(np.searchsorted(self.indptr, limit, side="right")) - 1)
            stop = min(stop, self.num_rows)
            yield start, stop
            start = stop

    def rows(self, start: int, stop: int) -> "CSR":
        """Return some rows in memory, with pointers from 0."""
        first, last = int(self.indptr[start]), int(self.indptr[stop])
        return CSR(
            np.array(self.indptr[start : stop + 1], dtype=np.int64) - first,
            np.array(self.indices[first:last]),
            None if self.weights is None else np.array(self.weights[first:last], dtype=np.float32),
        )


class StreamedMatrix:
    r"""The symmetric matrix c·S(A₁ + A₂ + … + λI)S with a diagonal matrix S, multiplied by chunks of rows.

    Memory is that of the two dense operands, of one scaled copy and of a chunk. There is no gradient.

    Args:
        parts: the entries of A₁, A₂, ...
        scale: the diagonal of S, ``[N]``.
        loop: λ.
        factor: c.

    Examples:
        >>> path = CSR(np.array([0, 1, 2]), np.array([1, 0]))
        >>> matrix = StreamedMatrix([path], torch.tensor([1.0, 2.0]), loop=1.0)  # [[1, 2], [2, 4]]
        >>> matrix @ torch.tensor([[1.0], [10.0]])
        tensor([[21.],
                [42.]])
    """

    views = 1
    symmetric = True

    def __init__(self, parts: Sequence[CSR], scale: Tensor, loop: float = 0.0, factor: float = 1.0):
        self.parts, self.scale, self.loop, self.factor = list(parts), scale, loop, factor
        self.shape = (scale.numel(), scale.numel())

    @property
    def device(self) -> torch.device:
        """The device of the products."""
        return self.scale.device

    @property
    def T(self) -> "StreamedMatrix":
        """The transpose: the matrix itself."""
        return self

    def scaled(self, factor: float) -> "StreamedMatrix":
        """Return ``factor`` times the matrix."""
        return StreamedMatrix(self.parts, self.scale, self.loop, factor * self.factor)

    def __matmul__(self, dense: Tensor) -> Tensor:
        return self.multiply(dense)

    @torch.no_grad()
    def multiply(self, dense: Tensor) -> Tensor:
        """Return the product with a dense matrix ``[N, k]``."""
        scale = self.scale[:, None]
        dense = dense * scale
        out = dense * self.loop
        for part in self.parts:
            for start, stop in part.spans():
                rows = part.rows(start, stop)
                if len(rows.indices):
                    out[start:stop] += self._csr(rows) @ dense
        return out.mul_(scale if self.factor == 1 else self.factor * scale)

    def _csr(self, rows: CSR) -> Tensor:
        values = torch.ones(len(rows.indices)) if rows.weights is None else torch.from_numpy(rows.weights)
        values = values.to(self.scale.dtype)
        indices = torch.from_numpy(rows.indices)
        indptr = torch.from_numpy(rows.indptr).to(indices.dtype)
        shape = (rows.num_rows, self.shape[1])
        return torch.sparse_csr_tensor(indptr, indices, values, shape, check_invariants=False).to(self.device)
