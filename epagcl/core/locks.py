"""Locks on open files, by what the operating system has: ``fcntl`` on Linux and macOS, ``msvcrt`` on Windows."""

import importlib
from typing import IO, Any


def try_lock(file: IO[Any]) -> bool:
    """Lock an open file if nobody else holds its lock. Return whether it is held now.

    The operating system releases the lock when the file is closed or the process ends. On a system without locks, the
    result is always True.

    Examples:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile("w") as first, open(first.name, "a") as second:
        ...     try_lock(first), try_lock(second)
        (True, False)
    """
    try:
        import fcntl
    except ImportError:
        return _try_lock_on_windows(file)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _try_lock_on_windows(file: IO[Any]) -> bool:
    """Lock the first byte, which need not exist; another handle cannot lock it too, not even of this process."""
    try:
        msvcrt: Any = importlib.import_module("msvcrt")
    except ImportError:
        return True
    try:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    except OSError:
        return False
    return True
