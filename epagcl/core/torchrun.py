"""What ``torchrun`` tells a process through its environment. Nothing is imported for it."""

import os


def launched_ranks() -> int:
    """Return the number of processes that ``torchrun`` has started; 1 without it.

    Examples:
        >>> launched_ranks()
        1
    """
    return _number("WORLD_SIZE", 1) if "RANK" in os.environ else 1


def launched_rank() -> int:
    """Return the number of this process among them, from 0.

    Examples:
        >>> launched_rank()
        0
    """
    return _number("RANK", 0) if launched_ranks() > 1 else 0


def local_rank() -> int:
    """Return the number of this process among those of its machine, from 0.

    Examples:
        >>> local_rank()
        0
    """
    return _number("LOCAL_RANK", 0) if launched_ranks() > 1 else 0


def restarts() -> int:
    """Return how often ``torchrun`` has started the processes again after a rank failed.

    Examples:
        >>> restarts()
        0
    """
    return _number("TORCHELASTIC_RESTART_COUNT", 0) if launched_ranks() > 1 else 0


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else default
