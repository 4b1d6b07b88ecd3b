"""Random draws and sampled views as Triton kernels."""

from dataclasses import replace

import torch
import triton
import triton.language as tl
from torch import Tensor

from epagcl.core.hashing import GAMMA, MULTIPLY_1, MULTIPLY_2, fold
from epagcl.core.kernels.launch import MAX_CHUNK, RowChunks, on_device_of_arguments

_GAMMA, _MULTIPLY_1, _MULTIPLY_2 = (tl.constexpr(c % 2**64) for c in (GAMMA, MULTIPLY_1, MULTIPLY_2))


@triton.jit
def _hash64(x):
    """Compute splitmix64, as :func:`epagcl.core.hashing.hash64` does."""
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
    """Move the entries that are in the epoch's view to the front of their chunk.

    They get weight 1. The other entries follow with weight 0. count[view, chunk] is the number of the chunk's entries
    in the view, and degree[view, row] is the number of the row's entries in the view.
    """
    chunk, view = tl.program_id(0), tl.program_id(1)
    k = _hash64(tl.load(key) ^ tl.load(epoch))
    k = _hash64(k ^ view.to(tl.int64))
    i = tl.load(row + chunk).to(tl.int64)
    first, end = tl.load(start + chunk), tl.load(start + chunk + 1)
    e = first + tl.arange(0, LENGTH)
    inside = e < end
    j = tl.load(col + e, mask=inside, other=0).to(tl.int64)
    bits = _hash64((tl.minimum(i, j) * num_nodes + tl.maximum(i, j)) ^ k)
    u = ((bits.to(tl.uint64, bitcast=True)) >> 40).to(tl.float32) * (2.0**-24)
    at = view.to(tl.int64) * num_entries
    in_view = inside & (u < tl.load(keep + at + e, mask=inside, other=0.0))
    number = in_view.to(tl.int32)
    total = tl.sum(number, 0)
    place = tl.where(in_view, tl.cumsum(number, 0) - 1, total + tl.cumsum(1 - number, 0) - 1)
    tl.store(out_col + at + first + place, j.to(tl.int32), mask=inside)
    tl.store(weight + at + first + place, in_view.to(tl.float32), mask=inside)
    tl.store(count + view * tl.num_programs(0) + chunk, total)
    tl.atomic_add(degree + view.to(tl.int64) * num_nodes + i, total)


@triton.jit
def _normalise_kernel(start, row, col, weight, count, degree, num_nodes, num_entries, LENGTH: tl.constexpr):
    """Set weight = 1/√(d_i d_j) for the entries in the view."""
    chunk, view = tl.program_id(0), tl.program_id(1).to(tl.int64)
    i = tl.load(row + chunk).to(tl.int64)
    e = tl.arange(0, LENGTH)
    in_view = e < tl.load(count + view * tl.num_programs(0) + chunk)
    at = view * num_entries + tl.load(start + chunk) + e
    j = tl.load(col + at, mask=in_view, other=0)
    degree += view * num_nodes
    mine = tl.load(degree + i).to(tl.float32)
    theirs = tl.load(degree + j, mask=in_view, other=1).to(tl.float32)
    tl.store(weight + at, tl.rsqrt(mine) * tl.rsqrt(theirs), mask=in_view)


@on_device_of_arguments
def hash_stream(counter: Tensor, before: tuple[int, ...], epoch: Tensor, after: tuple[int, ...] = ()) -> Tensor:
    """Return hash64(counter ^ key), where key is folded from the integers ``before``, ``epoch`` and ``after``.

    Args:
        counter: the index of each draw, int64 of any shape.
        before: the integers of the stream before the epoch.
        epoch: the epoch, a tensor with one element on the device of ``counter``.
        after: the integers of the stream after the epoch, at most one.
    """
    counter = counter.to(torch.int64).contiguous()
    out = torch.empty_like(counter)
    n = counter.numel()
    key = _key_tensor(before, counter.device)
    word, *more = after or (0,)
    assert not more, "at most one integer after the epoch"
    _hash_kernel[(triton.cdiv(n, 1024),)](counter, out, key, epoch, n, word, len(after) > 0, BLOCK=1024)
    return out


_keys: dict[tuple[tuple[int, ...], torch.device], Tensor] = {}


def _key_tensor(words: tuple[int, ...], device: torch.device) -> Tensor:
    """Return the folded key as a cached tensor: Triton may recompile a kernel for each new integer argument."""
    if (words, device) not in _keys:
        _keys[words, device] = torch.tensor(fold(words), device=device)
    return _keys[words, device]


@on_device_of_arguments
def view_weights(
    chunks: RowChunks, col: Tensor, keep: Tensor, stream: tuple[int, ...], epoch: Tensor
) -> tuple[RowChunks, Tensor, Tensor]:
    """Return the entries of Â for each view of an epoch, with one sparsity pattern for all views.

    In each chunk the entries of the view come first, and the others follow with weight 0. Shapes are therefore static,
    and products skip the entries outside the view.

    Args:
        chunks: the row chunks of the pattern of Ã, with every edge that a view can have and all self-loops.
        col: the columns of the pattern, int32.
        keep: the probability that a view has an entry, ``[V, entries]``; above 1 for self-loops, which are always kept.
        stream: the seed and the purpose of the draw.
        epoch: the epoch, a tensor with one element on the device of ``keep``.

    Returns:
        The chunks with their counts, and the columns and the weights of the entries, ``[V, entries]``.
    """
    views, entries = keep.shape
    n = chunks.num_rows
    weight, out_col = torch.empty_like(keep), torch.empty_like(keep, dtype=torch.int32)
    count = torch.empty(views, chunks.row.numel(), dtype=torch.int32, device=keep.device)
    degree = torch.zeros(views, n, dtype=torch.int32, device=keep.device)
    grid = (chunks.row.numel(), views)
    key = _key_tensor(stream, keep.device)
    options = {"LENGTH": MAX_CHUNK, "num_warps": 1}
    _keep_kernel[grid](
        *(chunks.start, chunks.row, col, keep, key, epoch, out_col, weight, count, degree, n, entries), **options
    )
    _normalise_kernel[grid](chunks.start, chunks.row, out_col, weight, count, degree, n, entries, **options)
    return replace(chunks, count=count), out_col, weight
