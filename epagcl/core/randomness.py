"""Counter-based random draws: each number is a hash of (seed, stream, counter), independent of earlier draws.

A seed gives the same views, splits and generated graphs on the CPU, on a GPU and on any number of ranks, in any order.
There is no generator state to checkpoint.
"""

from enum import IntEnum

import torch
from torch import Tensor

from epagcl.core.hardware import has_triton
from epagcl.core.hashing import fold, hash64, shift_right


class Stream(IntEnum):
    """The purpose of a draw. Each purpose has its own stream, so draws for different purposes are independent."""

    EDGES = 1
    FEATURES = 2
    BATCHES = 3
    CANDIDATES = 4
    SPLIT = 5
    CLASSIFIER = 6
    GENERATOR = 7
    NEGATIVES = 8
    DROPOUT = 9
    GATE = 10
    HEALTH = 11
    STRUCTURE = 12
    PROJECTION = 13
    SUBGRAPHS = 14


#: One of the integers that identify a random stream. Only the epoch may be a tensor, with one element. Its value can
#: then change between replays of a CUDA graph.
Word = int | Tensor


def _random_bits(counter: Tensor, stream: tuple[Word, ...]) -> Tensor:
    """Return 64 random bits for each counter."""
    position = next((i for i, word in enumerate(stream) if isinstance(word, Tensor)), len(stream))
    before = tuple(int(word) for word in stream[:position])
    if position == len(stream):
        return hash64(counter ^ fold(before))
    epoch, after = stream[position], tuple(int(word) for word in stream[position + 1 :])
    assert isinstance(epoch, Tensor)
    if has_triton(counter.device):
        from epagcl.core.kernels.draws import hash_stream

        return hash_stream(counter, before, epoch, after)
    key = epoch ^ fold(before)
    for word in after:
        key = hash64(key) ^ word
    return hash64(counter ^ hash64(key))


def uniform(counter: Tensor, *stream: Word) -> Tensor:
    """Return u(counter) in [0, 1) as float32 multiples of 2⁻²⁴, so that ``u < p`` is the same on every device.

    Args:
        counter: the index of each draw, int64 of any shape, such as a node, a column or a pair ``i·N + j``.
        stream: the integers that identify the random stream: seed, purpose (:class:`Stream`), then epoch and view as
            needed. The epoch may be a tensor on the device of ``counter``.

    Examples:
        >>> uniform(torch.arange(3), 0, Stream.EDGES)
        tensor([0.2691, 0.2747, 0.3669])
    """
    return shift_right(_random_bits(counter, stream), 40).float() * 2.0**-24


def uniform64(counter: Tensor, *stream: Word) -> Tensor:
    """Return :func:`uniform` draws as float64 multiples of 2⁻⁵³, to sample from heavy-tailed distributions.

    Examples:
        >>> uniform64(torch.arange(2), 0, Stream.GENERATOR)
        tensor([0.3063, 0.1453], dtype=torch.float64)
    """
    return shift_right(_random_bits(counter, stream), 11).double() * 2.0**-53


def permutation(n: int, *stream: Word, device: torch.device | str = "cpu") -> Tensor:
    """Return a random permutation of 0..n−1.

    The numbers are sorted by the upper half of their hash, which is faster than by the whole hash if n is large. In a
    tie the smaller number comes first.

    Examples:
        >>> permutation(8, 0, Stream.SPLIT)
        tensor([7, 1, 0, 3, 4, 6, 2, 5])
    """
    counter = torch.arange(n, device=device)
    return torch.argsort((_random_bits(counter, stream) >> 32).int(), stable=True)


def other_nodes(n: int, count: int, *stream: Word, device: torch.device | str = "cpu") -> Tensor:
    """Return ``count`` random permutations of 0..n−1 without fixed points, ``[count, n]``.

    Entry i of each permutation is uniform over the other nodes. It is the node s positions after i in a random order π,
    with a random shift s ≥ 1 for each permutation. The gradient of indexing rows by a permutation needs no sums.

    Examples:
        >>> other_nodes(4, 2, 0, Stream.NEGATIVES)
        tensor([[1, 2, 3, 0],
                [3, 0, 1, 2]])
    """
    order = permutation(n, *stream, device=device)
    counter = torch.arange(n, device=device)
    position = torch.empty_like(order).index_copy_(0, order, counter)
    shift = 1 + (uniform64(torch.arange(n, n + count, device=device), *stream) * (n - 1)).long()
    return order[(position + shift[:, None]) % n]


def dropout(x: Tensor, p: float, *stream: Word) -> Tensor:
    """Return x with each entry set to 0 with probability p and the others divided by 1 − p.

    Examples:
        >>> dropout(torch.ones(6), 0.5, 0, Stream.DROPOUT)
        tensor([0., 2., 2., 0., 2., 0.])
    """
    if p == 0:
        return x
    counter = torch.arange(x.numel(), device=x.device).view(x.shape)
    return x * ((uniform(counter, *stream) >= p) / (1 - p))
