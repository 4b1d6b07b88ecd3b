"""NumPy files that are written part by part, by one process, and appear when they are complete."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike

from epagcl.core.files import atomic_path


class ArrayWriter:
    """An array in a file that grows along its first axis.

    Args:
        file: the open file.
        dtype: type of the array.
        columns: length of the second axis; None for an array with one axis.
    """

    def __init__(self, file: BinaryIO, dtype: DTypeLike, columns: int | None = None):
        self.file, self.dtype, self.columns, self.rows = file, np.dtype(dtype), columns, 0
        self._header = self._write_header()

    def append(self, values: np.ndarray) -> None:
        """Write further rows."""
        self.rows += len(values)
        self.file.write(np.ascontiguousarray(values, dtype=self.dtype).data)

    def finish(self) -> None:
        """Write the final shape. NumPy pads the header, so that its length does not depend on the number of rows."""
        self.file.seek(0)
        assert self._write_header() == self._header

    def _write_header(self) -> int:
        shape = (self.rows,) if self.columns is None else (self.rows, self.columns)
        description = {"descr": npy.dtype_to_descr(self.dtype), "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(self.file, description)
        return self.file.tell()


@contextmanager
def writing_array(path: Path, dtype: DTypeLike, columns: int | None = None) -> Iterator[ArrayWriter]:
    """Yield the writer of an array. The file appears when the block ends without an error.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     with writing_array(Path(folder, "a.npy"), np.int64) as writer:
        ...         writer.append(np.arange(2))
        ...         writer.append(np.arange(3))
        ...     np.load(Path(folder, "a.npy")).tolist()
        [0, 1, 0, 1, 2]
    """
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        writer = ArrayWriter(file, dtype, columns)
        yield writer
        writer.finish()
