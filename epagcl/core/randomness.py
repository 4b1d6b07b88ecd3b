"""Counter-based randomness: a number is a hash of (seed, stream, counter), never of what was drawn before.

The same seed gives the same views, splits and generated graphs on CPU, on GPU and on any number of ranks, in any order,
and there is no generator state to checkpoint.
"""

from enum import IntEnum

import torch
from torch import Tensor

from epagcl.core.hardware import has_triton
from epagcl.core.hashing import fold, hash64, shift_right


class Stream(IntEnum):
    """What a draw is for. Each purpose is a stream of its own, so that no two of them share their numbers."""

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


#: A word of a stream's name; a tensor of one number (the epoch) may change between replays of a CUDA graph.
Word = int | Tensor


def _bits(counter: Tensor, stream: tuple[Word, ...]) -> Tensor:
    """64 random bits for each counter."""
    tensors = [place for place, word in enumerate(stream) if isinstance(word, Tensor)]
    if not tensors:
        return hash64(counter ^ fold(stream))
    if has_triton(counter.device):
        from epagcl.core.kernels.draws import hash_stream

        return hash_stream(counter, stream, tensors[0])
    key = stream[tensors[0]] ^ fold(stream[: tensors[0]])
    for word in stream[tensors[0] + 1 :]:
        key = hash64(key) ^ word
    return hash64(counter ^ hash64(key))


def uniform(counter: Tensor, *stream: Word) -> Tensor:
    """u(counter) in [0, 1): float32 multiples of 2⁻²⁴, so that ``u < p`` falls alike on every device.

    Args:
        counter: int64 of any shape: what is drawn for (a node, a column, a pair as ``i·N + j``).
        stream: integers that name the draw: seed, purpose (:class:`Stream`), then epoch and view as needed. The epoch
            may be a tensor on the counter's device.
    """
    return shift_right(_bits(counter, stream), 40).float() * 2.0**-24


def uniform64(counter: Tensor, *stream: Word) -> Tensor:
    """As :func:`uniform`, float64 multiples of 2⁻⁵³: for inverse distribution functions with long tails."""
    return shift_right(_bits(counter, stream), 11).double() * 2.0**-53


def permutation(n: int, *stream: Word, device: torch.device | str = "cpu") -> Tensor:
    """A random order of 0..n−1: the nodes sorted by their hash (a bijection, so there are no ties)."""
    counter = torch.arange(n, device=device)
    return torch.argsort(_bits(counter, stream))


def other_nodes(n: int, count: int, *stream: Word, device: torch.device | str = "cpu") -> Tensor:
    """``count`` permutations of 0..n−1 without a fixed point, ``[count, n]``: for each i uniform on the others.

    With a random order π and random shifts s ≥ 1: the node s places behind i in π. As indices of rows each is a
    permutation, so that gathering by it has a gradient without sums.
    """
    order = permutation(n, *stream, device=device)
    counter = torch.arange(n, device=device)
    place = torch.empty_like(order).index_copy_(0, order, counter)
    shift = 1 + (uniform64(torch.arange(n, n + count, device=device), *stream) * (n - 1)).long()
    return order[(place + shift[:, None]) % n]


def dropout(x: Tensor, p: float, *stream: Word) -> Tensor:
    """x with each number set to 0 with probability p, the others divided by 1 − p."""
    if p == 0:
        return x
    counter = torch.arange(x.numel(), device=x.device).view(x.shape)
    return x * ((uniform(counter, *stream) >= p) / (1 - p))
