"""Checks of plain arguments: whole numbers, seeds, tensors."""

import operator
from typing import Any

from torch import Tensor

from epagcl.core.errors import InputError

#: Whole numbers and seeds are below the first limit; seeds of functions that use scikit-learn below the second one.
INT64_LIMIT, UINT32_LIMIT = 2**63, 2**32


def check_whole(value: Any, name: str, least: int = 0, most: int = INT64_LIMIT - 1) -> int:
    """Return a whole number as an ``int``. Raise unless it lies in a range.

    Args:
        value: the number; 3.0 and NumPy's integers are whole numbers too.
        name: name of the argument.
        least: least value.
        most: largest value.

    Examples:
        >>> check_whole(3.0, "k", least=1)
        3
    """
    try:
        number = int(value) if isinstance(value, float) and value.is_integer() else operator.index(value)
    except TypeError:
        raise InputError(f"{name}={value!r}: give a whole number") from None
    if not least <= number <= most:
        limits = f"of at least {least}" if number < least else f"of at most {most}"
        raise InputError(f"{name}={value!r}: give a whole number {limits}")
    return number


def check_seed(seed: Any, most: int = INT64_LIMIT - 1) -> int:
    """Return a seed as an ``int``. Raise unless it is a whole number from 0 to ``most``.

    Examples:
        >>> check_seed(7)
        7
    """
    return check_whole(seed, "seed", most=most)


def check_tensor(value: Any, name: str) -> Tensor:
    """Return a tensor. Raise if the argument is of another type.

    Examples:
        >>> import torch
        >>> check_tensor(torch.ones(2), "y")
        tensor([1., 1.])
    """
    if not isinstance(value, Tensor):
        raise InputError(f"{name} is a {type(value).__name__}; give a tensor (torch.as_tensor)")
    return value
