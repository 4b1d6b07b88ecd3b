"""Triton kernels of the draws, the views and the sparse products; imported only where there is Triton and a GPU.

Each has a twin in plain torch (``randomness``, ``views``, ``sparse``) that computes the same and that the tests compare
with. All are deterministic: the only atomics add integers.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from epagcl.randomness import GAMMA, MULTIPLY_1, MULTIPLY_2, fold

_GAMMA, _MULTIPLY_1, _MULTIPLY_2 = (tl.constexpr(c % 2**64) for c in (GAMMA, MULTIPLY_1, MULTIPLY_2))
LONGEST = 128  # entries of a row that one program adds up; longer rows are cut


@triton.jit
def _hash64(x):
    """splitmix64, as :func:`epagcl.randomness.hash64`."""
    x = x.to(tl.uint64, bitcast=True) + _GAMMA
    x = (x ^ (x >> 30)) * _MULTIPLY_1
    x = (x ^ (x >> 27)) * _MULTIPLY_2
    return (x ^ (x >> 31)).to(tl.int64, bitcast=True)


@triton.jit
def _hash_kernel(counter, out, key, epoch, n, word, HAS_WORD: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    k = _hash64(tl.load(key) ^ tl.load(epoch))
    if HAS_WORD:
        k = _hash64(k ^ word)
    tl.store(out + i, _hash64(tl.load(counter + i, mask=i < n, other=0) ^ k), mask=i < n)


@triton.jit
def _keep_kernel(start, row, col, keep, key, epoch, weight, degree, num_nodes, num_entries, LENGTH: tl.constexpr):
    """weight[view, entry] = 1 if the entry's pair is in the epoch's view, else 0; degree[view, row] counts them."""
    segment, view = tl.program_id(0), tl.program_id(1)
    k = _hash64(tl.load(key) ^ tl.load(epoch))
    k = _hash64(k ^ view.to(tl.int64))
    i = tl.load(row + segment).to(tl.int64)
    first, end = tl.load(start + segment), tl.load(start + segment + 1)
    e = first + tl.arange(0, LENGTH)
    inside = e < end
    j = tl.load(col + e, mask=inside, other=0).to(tl.int64)
    bits = _hash64((tl.minimum(i, j) * num_nodes + tl.maximum(i, j)) ^ k)
    u = ((bits.to(tl.uint64, bitcast=True)) >> 40).to(tl.float32) * (2.0**-24)
    at = view.to(tl.int64) * num_entries + e
    kept = inside & (u < tl.load(keep + at, mask=inside, other=0.0))
    tl.store(weight + at, kept.to(tl.float32), mask=inside)
    tl.atomic_add(degree + view.to(tl.int64) * num_nodes + i, tl.sum(kept.to(tl.int32), 0))


@triton.jit
def _normalise_kernel(start, row, col, weight, degree, num_nodes, num_entries, LENGTH: tl.constexpr):
    """weight = 1/√(d_i d_j) where it is 1."""
    segment, view = tl.program_id(0), tl.program_id(1).to(tl.int64)
    i = tl.load(row + segment).to(tl.int64)
    first, end = tl.load(start + segment), tl.load(start + segment + 1)
    e = first + tl.arange(0, LENGTH)
    inside = e < end
    j = tl.load(col + e, mask=inside, other=0).to(tl.int64)
    at = view * num_entries + e
    w = tl.load(weight + at, mask=inside, other=0.0)
    degree += view * num_nodes
    mine = tl.load(degree + i).to(tl.float32)
    theirs = tl.load(degree + j, mask=inside & (w != 0), other=1).to(tl.float32)
    tl.store(weight + at, w * tl.rsqrt(mine) * tl.rsqrt(theirs), mask=inside)


@triton.jit
def _multiply_kernel(
    start,
    target,
    col,
    weight,
    h,
    out,
    spill,
    width,
    rows,
    spills,
    weight_stride,
    h_stride,
    UNROLL: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One piece of a row: Σ_e weight_e h[col_e]. Entries of weight 0 are not loaded.

    A row of one piece goes to out[target]; a piece of a longer one to spill[−1 − target].
    """
    segment, view = tl.program_id(0), tl.program_id(2).to(tl.int64)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    first, end = tl.load(start + segment), tl.load(start + segment + 1)
    acc = tl.zeros([BLOCK], tl.float32)
    for first_entry in range(first, end, UNROLL):
        e = first_entry + tl.arange(0, UNROLL)
        w = tl.load(weight + view * weight_stride + e, mask=e < end, other=0.0)
        j = tl.load(col + e, mask=e < end, other=0).to(tl.int64)
        x = tl.load(
            h + view * h_stride + j[:, None] * width + d[None, :],
            mask=(w != 0)[:, None] & (d < width)[None, :],
            other=0.0,
        )
        acc += tl.sum(w[:, None] * x, 0)
    to = tl.load(target + segment).to(tl.int64)
    if to >= 0:
        tl.store(out + (view * rows + to) * width + d, acc, mask=d < width)
    else:
        tl.store(spill + (view * spills - 1 - to) * width + d, acc, mask=d < width)


@triton.jit
def _collect_kernel(long_row, long_start, spill, out, width, rows, spills, BLOCK: tl.constexpr):
    """Rows that were cut: the sum of their pieces, in order."""
    i, view = tl.program_id(0), tl.program_id(2).to(tl.int64)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    first, end = tl.load(long_start + i), tl.load(long_start + i + 1)
    acc = tl.zeros([BLOCK], tl.float32)
    at = spill + (view * spills + first) * width + d
    for _ in range(first, end):
        acc += tl.load(at, mask=d < width, other=0.0)
        at += width
    tl.store(out + (view * rows + tl.load(long_row + i)) * width + d, acc, mask=d < width)


@dataclass(frozen=True, eq=False)
class Pieces:
    """Rows of a CSR pattern cut into pieces of at most ``LONGEST`` entries, so that no program has much more to do."""

    num_rows: int
    start: Tensor  # first entry of each piece, and the end
    row: Tensor  # row of each piece
    target: Tensor  # the row if it is whole, else −1 − number of the piece among those of cut rows
    long_row: Tensor  # the rows that were cut
    long_start: Tensor  # their first piece among those of cut rows, and the end

    @classmethod
    def of(cls, rowptr: Tensor) -> "Pieces":
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


def hash_stream(counter: Tensor, stream: tuple[int | Tensor, ...], place: int) -> Tensor:
    """hash64(counter ^ key) for a stream whose word at ``place`` is a tensor, with at most one word behind it."""
    out = torch.empty_like(counter)
    n = counter.numel()
    key = _key_tensor(stream[:place], counter.device)
    word, *more = stream[place + 1 :] or (0,)
    assert not more, "at most one word after the epoch"
    _hash_kernel[(triton.cdiv(n, 1024),)](
        counter, out, key, stream[place], n, word, place + 1 < len(stream), BLOCK=1024
    )
    return out


_keys: dict[tuple[tuple[int, ...], torch.device], Tensor] = {}


def _key_tensor(words: tuple[int, ...], device: torch.device) -> Tensor:
    """The folded key on the device, made once: a 64-bit number passed as an argument would be specialised on."""
    if (words, device) not in _keys:
        _keys[words, device] = torch.tensor(fold(words), device=device)
    return _keys[words, device]


def view_weights(pieces: Pieces, col: Tensor, keep: Tensor, stream: tuple[int, ...], epoch: Tensor) -> Tensor:
    """Entries of Â for each view of an epoch, 0 where a pair is not in it: ``[V, entries]`` on a fixed pattern.

    Args:
        pieces: of the pattern of Ã with everything that can occur, loops included.
        col: its columns, int32.
        keep: probability of each entry in each view, ``[V, entries]``; above 1 for loops.
        stream: seed and purpose of the draw.
        epoch: a number on the device.
    """
    views, entries = keep.shape
    n = pieces.num_rows
    weight = torch.empty_like(keep)
    degree = torch.zeros(views, n, dtype=torch.int32, device=keep.device)
    grid = (pieces.row.numel(), views)
    key = _key_tensor(stream, keep.device)
    options = {"LENGTH": LONGEST, "num_warps": 1}
    _keep_kernel[grid](pieces.start, pieces.row, col, keep, key, epoch, weight, degree, n, entries, **options)
    _normalise_kernel[grid](pieces.start, pieces.row, col, weight, degree, n, entries, **options)
    return weight


def multiply_pattern(pieces: Pieces, col: Tensor, weight: Tensor, h: Tensor, views: int, num_columns: int) -> Tensor:
    """``[A_1 h_1; A_2 h_2; ...]`` for matrices of one pattern.

    Args:
        pieces: of the pattern.
        col: its columns, int32.
        weight: entries, ``[entries]`` for all views or ``[V, entries]``.
        h: ``[num_columns, d]`` for all views or ``[V·num_columns, d]``, float32.
        views: V.
        num_columns: of each matrix.
    """
    h = h.contiguous()
    width = h.shape[1]
    spills = int(pieces.long_start.numel() > 1) and pieces.target.numel() - (pieces.num_rows - pieces.long_row.numel())
    out = torch.empty(views * pieces.num_rows, width, device=h.device)
    spill = torch.empty(views * spills, width, device=h.device)
    block = min(512, max(32, triton.next_power_of_2(width)))
    warps = max(1, block // 128)
    weight_stride = weight.shape[1] if weight.dim() == 2 else 0
    h_stride = num_columns * width if h.shape[0] > num_columns else 0
    parts = triton.cdiv(width, block)
    _multiply_kernel[(pieces.row.numel(), parts, views)](
        *(pieces.start, pieces.target, col, weight, h, out, spill),
        *(width, pieces.num_rows, spills, weight_stride, h_stride),
        UNROLL=8,
        BLOCK=block,
        num_warps=warps,
    )
    if spills:
        _collect_kernel[(pieces.long_row.numel(), parts, views)](
            pieces.long_row, pieces.long_start, spill, out, width, pieces.num_rows, spills, BLOCK=block, num_warps=warps
        )
    return out
