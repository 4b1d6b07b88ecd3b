"""Helpers to launch kernels: row chunks, the current device and the block size."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec, TypeVar

import torch
import triton
from torch import Tensor

_P = ParamSpec("_P")
_T = TypeVar("_T")

MAX_CHUNK = 64  # maximum number of entries of a row per program; longer rows are cut into chunks
LONG_CHUNK = 256  # the same for large feature matrices: their rows are long, and sums of cut rows take time
MIN_LONG_CHUNKS = 1024  # a matrix with fewer entries than so many long chunks is not large
PROGRAMS = 512  # programs that keep a large GPU busy


@dataclass(frozen=True, eq=False)
class RowChunks:
    """The rows of a CSR pattern, cut into chunks to balance the programs.

    Attributes:
        num_rows: the number of rows.
        start: the first entry of each chunk, and the end of the last.
        row: the row of each chunk.
        target: the row of each chunk that is a whole row. A chunk of a cut row has −1 − k instead, where k counts the
            chunks of cut rows.
        long_row: the cut rows.
        long_start: the first chunk k of each cut row, and the end of the last.
        count: how many entries of each chunk a view uses, ``[V, chunks]``. These entries come first in the chunk. None
            if all entries are used.
    """

    num_rows: int
    start: Tensor
    row: Tensor
    target: Tensor
    long_row: Tensor
    long_start: Tensor
    count: Tensor | None = None

    @classmethod
    def from_rowptr(cls, rowptr: Tensor, longest: int | None = None) -> "RowChunks":
        """Return the chunks of CSR row pointers. An empty row has one empty chunk.

        Args:
            rowptr: the row pointers.
            longest: maximum number of entries of a chunk; None: ``MAX_CHUNK``.

        Examples:
            >>> RowChunks.from_rowptr(torch.tensor([0, 3, 3, 103])).start
            tensor([  0,   3,   3,  67, 103])
        """
        longest = MAX_CHUNK if longest is None else longest
        length = rowptr.diff()
        count = ((length + longest - 1) // longest).clamp(min=1)
        row = torch.repeat_interleave(torch.arange(length.numel(), device=rowptr.device), count)
        before = count.cumsum(0) - count
        number = torch.arange(row.numel(), device=rowptr.device) - before[row]
        start = torch.cat([rowptr[:-1][row] + number * longest, rowptr[-1:]])
        cut = (count > 1)[row]
        target = torch.where(cut, -cut.long().cumsum(0), row)
        long_row = (count > 1).nonzero()[:, 0]
        long_count = count[long_row]
        long_start = torch.cat([long_count.new_zeros(1), long_count.cumsum(0)])
        return cls(length.numel(), start, *(t.int() for t in (row, target, long_row, long_start)))

    @property
    def num_spills(self) -> int:
        """The number of chunks of cut rows."""
        return int(self.long_start.numel() > 1) and self.target.numel() - (self.num_rows - self.long_row.numel())


def on_device_of_arguments(launch: Callable[_P, _T]) -> Callable[_P, _T]:
    """Decorate a function that launches kernels, to launch them on the device of its first tensor argument.

    Triton itself launches on the current device, even if the arguments are on another one.
    """

    @wraps(launch)
    def launch_there(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        with torch.cuda.device_of(next(a for a in args if isinstance(a, Tensor))):
            return launch(*args, **kwargs)

    return launch_there


def block_size(width: int) -> int:
    """Return the number of columns per program: as large as possible with few unused columns.

    Examples:
        >>> block_size(512), block_size(300), block_size(3)
        (512, 128, 32)
    """
    for block in (512, 256, 128):
        if triton.cdiv(width, block) * block <= 1.15 * width:
            return block
    return max(32, min(128, triton.next_power_of_2(width)))


def gather_options(block: int, dtype: torch.dtype) -> dict[str, int]:
    """Return the launch options of a kernel in which a program adds up rows of ``block`` numbers.

    Each thread reads 32 bytes of a row, since all threads of a program read the place and the weight of each row too.
    The options are the fastest on an H200.

    Examples:
        >>> gather_options(512, torch.float16)
        {'UNROLL': 4, 'num_warps': 1}
        >>> gather_options(512, torch.float32)
        {'UNROLL': 8, 'num_warps': 2}
    """
    wide = dtype == torch.float16 and block == 512
    return {"UNROLL": 4 if wide else 8, "num_warps": max(1, block * dtype.itemsize // 1024)}


def tile_warps(dtype: torch.dtype) -> int:
    """Return the number of warps of a kernel that works on tiles of 2048 numbers, 16 bytes of a row per thread.

    Examples:
        >>> tile_warps(torch.float32), tile_warps(torch.float16)
        (4, 2)
    """
    return 4 if dtype == torch.float32 else 2


def row_tiles(rows: int, width: int, blocks: int) -> tuple[tuple[int, int, int], dict[str, int]]:
    """Return the grid of programs that go through the rows of some blocks, and the tiles of each program.

    A program computes several tiles, one below the other, since each program has partial sums.

    Examples:
        >>> row_tiles(100_000, 512, 2)
        ((782, 1, 2), {'REPEAT': 32, 'ROWS': 4, 'BLOCK': 512})
    """
    block = block_size(width)
    step = 2048 // block
    tiles = triton.cdiv(rows, step) * triton.cdiv(width, block) * blocks
    repeat = min(1 << (max(tiles // PROGRAMS, 1).bit_length() - 1), 32)  # powers of 2 compile fewer kernels
    grid = triton.cdiv(rows, step * repeat), triton.cdiv(width, block), blocks
    return grid, {"REPEAT": repeat, "ROWS": step, "BLOCK": block}
