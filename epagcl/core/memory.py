"""Memory: what is available, what an array or a network needs, and what a process holds."""

import os
import platform
import re
import tokenize
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from epagcl.core.errors import InputError

#: Errors of an allocation that cannot succeed, as PyTorch and NumPy word them.
_TOO_LARGE = re.compile(
    r"allocate|out of memory|not enough memory|too (large|big)|overflow|maximum supported dimension", re.I
)

#: Errors of a full memory, as PyTorch words them.
_FULL = re.compile(r"can't allocate memory|allocate memory|out of memory|not enough memory|ALLOC_FAILED", re.I)

#: What NumPy raises if a file is not an array.
_UNREADABLE = (OSError, EOFError, ValueError, TypeError, KeyError, SyntaxError, MemoryError, OverflowError)

#: The loss keeps the tiles of similarities for its backward pass if they take at most this many bytes.
KEEP_BYTES = 128 * 2**20
#: glibc allocates blocks above this size anew each time: the kernel clears their pages, which takes longer than a pass.
FRESH_BYTES = 32 * 2**20
#: glibc keeps this much freed memory of smaller blocks, twice the size above, before it gives some back.
KEPT_FREE_BYTES = 2 * FRESH_BYTES


def available_memory(device: torch.device | str = "cpu") -> int | None:
    """Return the memory in bytes that a process can still use on a device; None if it is unknown.

    Examples:
        >>> available = available_memory()
        >>> available is None or available > 0
        True
    """
    if torch.device(device).type == "cuda":
        return int(torch.cuda.mem_get_info(torch.device(device))[0])
    limits: list[int | None] = []
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if len(line.split()) > 1}
        limits.append(sizes["MemAvailable"] + sizes.get("SwapFree", 0))
        limits += [_container_memory(), _limit_of_process()]
    except (OSError, KeyError, ValueError, IndexError):
        if hasattr(os, "sysconf"):
            limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min((limit for limit in limits if limit is not None), default=None)


def resident_memory(process: int | None = None) -> int | None:
    """Return the memory in bytes that a process holds now; None if it has ended, or on systems other than Linux.

    Args:
        process: its number; None: this process.

    Examples:
        >>> resident = resident_memory()
        >>> resident is None or resident > 2**20
        True
    """
    return _status("VmRSS", process)


def peak_resident_memory() -> int | None:
    """Return the most memory in bytes that this process has held; None on systems that do not report it.

    Examples:
        >>> peak = peak_resident_memory()
        >>> peak is None or peak > 2**20
        True
    """
    # On Linux, unlike ru_maxrss, this is not inherited from the process that started this one.
    if (peak := _status("VmHWM")) is not None:
        return peak
    try:
        import resource
    except ImportError:  # Windows
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if platform.system() == "Darwin" else most * 1024  # macOS reports bytes, others KiB


def _status(name: str, process: int | None = None) -> int | None:
    """Return a size of Linux' status of a process in bytes; None if there is none."""
    try:
        lines = Path("/proc", "self" if process is None else str(process), "status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), None)


def _container_memory() -> int | None:
    """Return what the limit of a Linux container leaves; None without a limit."""
    folder = Path("/sys/fs/cgroup")
    try:
        limit = (folder / "memory.max").read_text().strip()
        return None if limit == "max" else max(0, int(limit) - int((folder / "memory.current").read_text()))
    except (OSError, ValueError):
        return None


def _limit_of_process() -> int | None:
    """Return what the limit of this process on Linux (``ulimit -v``) leaves; None without a limit."""
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else max(0, limit - (_status("VmSize") or 0))


def check_memory(needed: int, what: str, fix: str, device: torch.device | str = "cpu") -> None:
    """Raise if something needs more memory than is available.

    Args:
        needed: bytes.
        what: what needs them, which begins the message.
        fix: how to need less.
        device: where the memory is needed.

    Examples:
        >>> check_memory(2**60, "x.npy: 10¹² rows", "check the file")
        Traceback (most recent call last):
        ...
        epagcl.core.errors.InputError: x.npy: 10¹² rows need 1,073,741,824.0 GiB of memory, and ...
    """
    available = available_memory(device)
    if available is not None and needed > available:
        sizes = f"{needed / 2**30:,.1f} GiB of memory, and {available / 2**30:,.1f} GiB are available"
        raise InputError(f"{what} need {sizes}; {fix}")


def network_bytes(build: Callable[[], nn.Module]) -> int | None:
    """Return the size of a network's parameters and buffers in bytes, without allocating them.

    Args:
        build: function that returns the network.

    Returns:
        The size, or None if the network cannot be built without memory.

    Examples:
        >>> network_bytes(lambda: nn.Linear(2**20, 2**20, bias=False)) == 2**42
        True
    """
    try:
        with torch.device("meta"):
            tensors = build().state_dict().values()
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    except Exception:  # a network may read its own values while it is built
        return None


def is_too_large(error: BaseException) -> bool:
    """Return whether an error says that an allocation is too large for this machine.

    Examples:
        >>> is_too_large(MemoryError()), is_too_large(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
        (True, False)
        >>> is_too_large(RuntimeError("numel: integer multiplication overflow"))
        True
    """
    return isinstance(error, MemoryError | OverflowError) or (
        isinstance(error, RuntimeError | TypeError) and bool(_TOO_LARGE.search(str(error)))
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that the memory is full.

    Examples:
        >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError("integer overflow"))
        (True, False)
    """
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and bool(_FULL.search(str(error)))
    )


def read_array(path: Path | str, fix: str = "write the file again") -> "np.ndarray[Any, Any]":
    """Return the array of an ``.npy`` file, never a pickle. The size that its header claims is checked first.

    Args:
        path: the file.
        fix: how to get a valid file, for the message.

    Raises:
        InputError: if the file is not such an array, is cut short, or needs more memory than is available.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.save(f"{folder}/z.npy", np.eye(2))
        ...     read_array(f"{folder}/z.npy").tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    try:
        with open(path, "rb") as file, warnings.catch_warnings(action="ignore"):  # files of Python 2
            version = np.lib.format.read_magic(file)
            header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = header(file)
            size = dtype.itemsize * int(np.prod([int(n) for n in shape], dtype=object))
            rest = os.fstat(file.fileno()).st_size - file.tell()
            if dtype.hasobject:
                raise InputError(f"{path}: holds Python objects, which are not read; {fix}")
            if size > rest:
                raise InputError(f"{path}: cut short ({size:,} bytes announced, {rest:,} there); {fix}")
            check_memory(size, f"{path}: its {size:,} bytes", fix)
            file.seek(0)
            return np.lib.format.read_array(file, allow_pickle=False)
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; {fix}") from None
    except (*_UNREADABLE, tokenize.TokenError) as error:
        raise InputError(f"{path}: cannot be read as an array ({error}); {fix}") from error
