"""Counter-based randomness: a number is a hash of (seed, stream, counter), never of what was drawn before.

The same seed gives the same views, splits and generated graphs on CPU, on GPU and on any number of ranks, in any order,
and there is no generator state to checkpoint.
"""

from enum import IntEnum

import torch
from torch import Tensor


class Stream(IntEnum):
    """What a draw is for. Each purpose is a stream of its own, so that no two of them share their numbers."""

    EDGES = 1
    FEATURES = 2
    BATCHES = 3
    CANDIDATES = 4
    SPLIT = 5
    CLASSIFIER = 6
    GENERATOR = 7


# splitmix64 (Steele, Lea & Flood 2014), written with signed integers because torch has no full uint64 arithmetic.
_GAMMA = 0x9E3779B97F4A7C15 - 2**64
_MULTIPLY_1 = 0xBF58476D1CE4E5B9 - 2**64
_MULTIPLY_2 = 0x94D049BB133111EB - 2**64


def _shift_right(x: Tensor, bits: int) -> Tensor:
    """Logical shift: torch's ``>>`` on int64 copies the sign bit."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def hash64(x: Tensor) -> Tensor:
    """The splitmix64 output function: a bijection of the 64-bit integers whose images look independent."""
    x = x + _GAMMA
    x = (x ^ _shift_right(x, 30)) * _MULTIPLY_1
    x = (x ^ _shift_right(x, 27)) * _MULTIPLY_2
    return x ^ _shift_right(x, 31)


def _key(stream: tuple[int, ...], device: torch.device) -> Tensor:
    """Fold the words of a stream's name (seed, epoch, view, ...) into one 64-bit key."""
    key = torch.zeros((), dtype=torch.int64, device=device)
    for word in stream:
        key = hash64(key ^ word)
    return key


def uniform(counter: Tensor, *stream: int) -> Tensor:
    """u(counter) in [0, 1): float32 multiples of 2⁻²⁴, so that ``u < p`` falls alike on every device.

    Args:
        counter: int64 of any shape: what is drawn for (a node, a column, a pair as ``i·N + j``).
        stream: integers that name the draw: seed, purpose (:class:`Stream`), then epoch and view as needed.
    """
    return _shift_right(hash64(counter ^ _key(stream, counter.device)), 40).float() * 2.0**-24


def uniform64(counter: Tensor, *stream: int) -> Tensor:
    """As :func:`uniform`, float64 multiples of 2⁻⁵³: for inverse distribution functions with long tails."""
    return _shift_right(hash64(counter ^ _key(stream, counter.device)), 11).double() * 2.0**-53


def permutation(n: int, *stream: int, device: torch.device | str = "cpu") -> Tensor:
    """A random order of 0..n−1: the nodes sorted by their hash (a bijection, so there are no ties)."""
    counter = torch.arange(n, device=device)
    return torch.argsort(hash64(counter ^ _key(stream, counter.device)))
