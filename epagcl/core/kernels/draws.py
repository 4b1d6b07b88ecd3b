"""Triton kernels of the draws, the views and the sparse products; imported only where there is Triton and a GPU.

Each has a twin in plain torch (``randomness``, ``views``, ``sparse``) that computes the same and that the tests compare
with. All are deterministic: the only atomics add integers.
"""

from dataclasses import replace

import torch
import triton
import triton.language as tl
from torch import Tensor

from epagcl.core.hashing import GAMMA, MULTIPLY_1, MULTIPLY_2, fold
from epagcl.core.kernels.launch import LONGEST, RowChunks, on_its_device

_GAMMA, _MULTIPLY_1, _MULTIPLY_2 = (tl.constexpr(c % 2**64) for c in (GAMMA, MULTIPLY_1, MULTIPLY_2))


@triton.jit
def _hash64(x):
    """splitmix64, as :func:`epagcl.core.hashing.hash64`."""
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
def _keep_kernel(
    start, row, col, keep, key, epoch, out_col, weight, count, degree, num_nodes, num_entries, LENGTH: tl.constexpr
):
    """Entries whose pair is in the epoch's view, weight 1, moved to the front of their piece; the others, 0, behind.

    count[view, piece] is how many are kept, degree[view, row] the same for the row.
    """
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
    at = view.to(tl.int64) * num_entries
    kept = inside & (u < tl.load(keep + at + e, mask=inside, other=0.0))
    number = kept.to(tl.int32)
    total = tl.sum(number, 0)
    place = tl.where(kept, tl.cumsum(number, 0) - 1, total + tl.cumsum(1 - number, 0) - 1)
    tl.store(out_col + at + first + place, j.to(tl.int32), mask=inside)
    tl.store(weight + at + first + place, kept.to(tl.float32), mask=inside)
    tl.store(count + view * tl.num_programs(0) + segment, total)
    tl.atomic_add(degree + view.to(tl.int64) * num_nodes + i, total)


@triton.jit
def _normalise_kernel(start, row, col, weight, count, degree, num_nodes, num_entries, LENGTH: tl.constexpr):
    """weight = 1/√(d_i d_j) of the entries that are kept."""
    segment, view = tl.program_id(0), tl.program_id(1).to(tl.int64)
    i = tl.load(row + segment).to(tl.int64)
    e = tl.arange(0, LENGTH)
    kept = e < tl.load(count + view * tl.num_programs(0) + segment)
    at = view * num_entries + tl.load(start + segment) + e
    j = tl.load(col + at, mask=kept, other=0)
    degree += view * num_nodes
    mine = tl.load(degree + i).to(tl.float32)
    theirs = tl.load(degree + j, mask=kept, other=1).to(tl.float32)
    tl.store(weight + at, tl.rsqrt(mine) * tl.rsqrt(theirs), mask=kept)


@on_its_device
def hash_stream(counter: Tensor, stream: tuple[int | Tensor, ...], place: int) -> Tensor:
    """hash64(counter ^ key) for a stream whose word at ``place`` is a tensor, with at most one word behind it."""
    counter = counter.to(torch.int64).contiguous()
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


@on_its_device
def view_weights(
    chunks: RowChunks, col: Tensor, keep: Tensor, stream: tuple[int, ...], epoch: Tensor
) -> tuple[RowChunks, Tensor, Tensor]:
    """Entries of Â for each view of an epoch on a fixed pattern: in each piece those of the view, then the rest with 0.

    Static shapes, and products that pass over what is not in the view.

    Args:
        chunks: of the pattern of Ã with everything that can occur, loops included.
        col: its columns, int32.
        keep: probability of each entry in each view, ``[V, entries]``; above 1 for loops.
        stream: seed and purpose of the draw.
        epoch: a number on the device.

    Returns:
        The chunks with their counts, and columns and weights of the entries, ``[V, entries]``.
    """
    views, entries = keep.shape
    n = chunks.num_rows
    weight, out_col = torch.empty_like(keep), torch.empty_like(keep, dtype=torch.int32)
    count = torch.empty(views, chunks.row.numel(), dtype=torch.int32, device=keep.device)
    degree = torch.zeros(views, n, dtype=torch.int32, device=keep.device)
    grid = (chunks.row.numel(), views)
    key = _key_tensor(stream, keep.device)
    options = {"LENGTH": LONGEST, "num_warps": 1}
    _keep_kernel[grid](
        *(chunks.start, chunks.row, col, keep, key, epoch, out_col, weight, count, degree, n, entries), **options
    )
    _normalise_kernel[grid](chunks.start, chunks.row, out_col, weight, count, degree, n, entries, **options)
    return replace(chunks, count=count), out_col, weight
