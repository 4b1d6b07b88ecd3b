"""Triton kernels of the draws, the views and the sparse products; imported only where there is Triton and a GPU.

Each has a twin in plain torch (``randomness``, ``views``, ``sparse``) that computes the same and that the tests compare
with. All are deterministic: the only atomics add integers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

import torch
import triton
from torch import Tensor

Result = TypeVar("Result")


LONGEST = 64  # entries of a row that one program adds up; longer rows are cut


@dataclass(frozen=True, eq=False)
class RowChunks:
    """Rows of a CSR pattern cut into chunks of at most ``LONGEST`` entries, so that no program has much more to do."""

    num_rows: int
    start: Tensor  # first entry of each piece, and the end
    row: Tensor  # row of each piece
    target: Tensor  # the row if it is whole, else −1 − number of the piece among those of cut rows
    long_row: Tensor  # the rows that were cut
    long_start: Tensor  # their first piece among those of cut rows, and the end
    count: Tensor | None = None  # [V, chunks]: how many entries of a piece are not 0, where those stand first

    @classmethod
    def of(cls, rowptr: Tensor) -> "RowChunks":
        """From CSR row pointers; an empty row is one empty piece."""
        length = rowptr.diff()
        count = ((length + LONGEST - 1) // LONGEST).clamp(min=1)
        row = torch.repeat_interleave(torch.arange(length.numel(), device=rowptr.device), count)
        before = count.cumsum(0) - count
        number = torch.arange(row.numel(), device=rowptr.device) - before[row]
        start = torch.cat([rowptr[:-1][row] + number * LONGEST, rowptr[-1:]])
        cut = (count > 1)[row]
        target = torch.where(cut, -cut.long().cumsum(0), row)
        long_row = (count > 1).nonzero()[:, 0]
        long_count = count[long_row]
        long_start = torch.cat([long_count.new_zeros(1), long_count.cumsum(0)])
        return cls(length.numel(), start, *(t.int() for t in (row, target, long_row, long_start)))


def on_its_device(launch: Callable[..., Result]) -> Callable[..., Result]:
    """Triton launches on the current device, whichever its arguments lie on: make theirs the current one."""

    @wraps(launch)
    def run(*arguments: Any) -> Result:
        with torch.cuda.device_of(next(a for a in arguments if isinstance(a, Tensor))):
            return launch(*arguments)

    return run


def block_size(width: int) -> int:
    """Columns of one program: many, but few of them past the last."""
    for block in (512, 256, 128):
        if triton.cdiv(width, block) * block <= 1.15 * width:
            return block
    return max(32, min(128, triton.next_power_of_2(width)))
