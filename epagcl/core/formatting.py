"""Numbers as text: means with their standard deviation, counts with their noun."""

from collections.abc import Mapping
from typing import Any


def mean_and_std(mean: float, std: float | None = None, digits: int = 1) -> str:
    """Return ``"84.6 ± 1.0"``, or ``"84.6"`` without a standard deviation.

    Examples:
        >>> mean_and_std(84.55, 1.04)
        '84.5 ± 1.0'
        >>> mean_and_std(84.55, digits=2)
        '84.55'
    """
    return f"{mean:.{digits}f}" if std is None else f"{mean:.{digits}f} ± {std:.{digits}f}"


def percent(spread: Mapping[str, Any], digits: int = 1) -> str:
    """Return the mean of several runs in percent, with the standard deviation unless there is only one run.

    Args:
        spread: ``mean``, ``std`` and ``runs`` between 0 and 1, as :func:`epagcl.evaluation.spread` returns them.
        digits: the number of digits after the decimal point.

    Examples:
        >>> percent({"mean": 0.8455, "std": 0.0104, "runs": [0.83, 0.86]}, digits=2)
        '84.55 ± 1.04'
        >>> percent({"mean": 0.8455, "std": 0.0, "runs": [0.8455]})
        '84.5'
    """
    std = 100 * spread["std"] if len(spread["runs"]) > 1 else None
    return mean_and_std(100 * spread["mean"], std, digits)


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless the count is 1.

    Examples:
        >>> counted(1, "node"), counted(2708, "node")
        ('1 node', '2,708 nodes')
    """
    return f"{count:,} {noun}{'s' * (count != 1)}"
