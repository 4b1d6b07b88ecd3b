"""Arrays written to files so that every error is raised."""

from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy


def write_array(file: BinaryIO, array: "np.ndarray[Any, Any]") -> None:
    """Write an array to an open file in NumPy's format.

    ``np.save`` and ``ndarray.tofile`` write to a file through the C library. On a full disk, they can lose the end of
    the array without an error.

    Args:
        file: the file, opened for writing bytes.
        array: the array, not of objects.

    Examples:
        >>> from tempfile import TemporaryFile
        >>> with TemporaryFile() as file:
        ...     write_array(file, np.arange(3))
        ...     _ = file.seek(0)
        ...     np.load(file).tolist()
        [0, 1, 2]
    """
    writer: Any = _Writer(file)
    npy.write_array(writer, np.asanyarray(array), allow_pickle=False)


def write_values(file: BinaryIO, array: "np.ndarray[Any, Any]") -> None:
    """Write the values of an array to an open file, without a header.

    Args:
        file: the file, opened for writing bytes.
        array: the array, not of objects.

    Examples:
        >>> from tempfile import TemporaryFile
        >>> with TemporaryFile() as file:
        ...     write_values(file, np.array([1, 2], dtype=np.uint8))
        ...     _ = file.seek(0)
        ...     file.read()
        b'\\x01\\x02'
    """
    file.write(np.ascontiguousarray(array).data)


class _Writer:
    """A file that does not look like one, so that NumPy calls its method ``write``."""

    def __init__(self, file: BinaryIO):
        self.write = file.write
