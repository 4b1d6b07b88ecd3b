"""Counter-based randomness: a number is a hash of (seed, stream, counter), never of what was drawn before.

The same seed gives the same views, splits and generated graphs on CPU, on GPU and on any number of ranks, in any order,
and there is no generator state to checkpoint.
"""

import torch
from torch import Tensor

# splitmix64 (Steele, Lea & Flood 2014), written with signed integers because torch has no full uint64 arithmetic.
GAMMA = 0x9E3779B97F4A7C15 - 2**64


MULTIPLY_1 = 0xBF58476D1CE4E5B9 - 2**64


MULTIPLY_2 = 0x94D049BB133111EB - 2**64


def shift_right(x: Tensor, bits: int) -> Tensor:
    """Logical shift: torch's ``>>`` on int64 copies the sign bit."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def hash64(x: Tensor) -> Tensor:
    """The splitmix64 output function: a bijection of the 64-bit integers whose images look independent."""
    x = x + GAMMA
    x = (x ^ shift_right(x, 30)) * MULTIPLY_1
    x = (x ^ shift_right(x, 27)) * MULTIPLY_2
    return x ^ shift_right(x, 31)


def fold(words: tuple[int, ...]) -> int:
    """Fold the words of a stream's name (seed, purpose, ...) into one 64-bit key."""
    key = torch.zeros((), dtype=torch.int64)
    for word in words:
        key = hash64(key ^ word)
    return int(key)
