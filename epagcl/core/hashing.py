"""splitmix64, the hash behind every random draw (Steele, Lea & Flood 2014).

PyTorch has no full uint64 arithmetic, so the hash is written with signed integers.
"""

import torch
from torch import Tensor

GAMMA = 0x9E3779B97F4A7C15 - 2**64
MULTIPLY_1 = 0xBF58476D1CE4E5B9 - 2**64
MULTIPLY_2 = 0x94D049BB133111EB - 2**64


def shift_right(x: Tensor, bits: int) -> Tensor:
    """Return the logical right shift of int64 numbers. PyTorch's ``>>`` copies the sign bit.

    Examples:
        >>> shift_right(torch.tensor([-1]), 60)
        tensor([15])
    """
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def hash64(x: Tensor) -> Tensor:
    """Return the splitmix64 output of int64 numbers: a bijection whose values look independent.

    Examples:
        >>> hash64(torch.tensor([0, 1]))
        tensor([-2152535657050944081, -7995527694508729151])
    """
    x = x + GAMMA
    x = (x ^ shift_right(x, 30)) * MULTIPLY_1
    x = (x ^ shift_right(x, 27)) * MULTIPLY_2
    return x ^ shift_right(x, 31)


def fold(words: tuple[int, ...]) -> int:
    """Return one 64-bit key for the integers that identify a random stream (seed, purpose, ...).

    Examples:
        >>> fold((0,)) == int(hash64(torch.tensor(0)))
        True
    """
    key = torch.zeros((), dtype=torch.int64)
    for word in words:
        key = hash64(key ^ word)
    return int(key)
