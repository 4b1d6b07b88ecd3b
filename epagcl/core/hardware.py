"""The hardware: which device to use, and whether Triton kernels run on it."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec

import torch

from epagcl.core.errors import InputError
from epagcl.core.log import log

_forced: bool | None = None  # set by force_triton


def resolve_device(device: str) -> torch.device:
    """Return the device with a given name. ``"auto"`` is CUDA if available, else the CPU.

    ``"auto"`` never selects MPS, since PyTorch has no sparse products there.

    Examples:
        >>> resolve_device("cpu")
        device(type='cpu')
    """
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if device == "auto":
        return torch.device("cuda" if available["cuda"] else "cpu")
    if not available.get(device.split(":")[0], False):
        raise InputError(f"device={device!r} is not available here; use auto or cpu")
    return torch.device(device)


def has_triton(device: torch.device) -> bool:
    """Return whether Triton kernels run on the device. If they do not, plain PyTorch computes the same result.

    Examples:
        >>> has_triton(torch.device("cpu"))
        False
    """
    return _forced if _forced is not None else device.type == "cuda" and _triton_works(device)


@contextmanager
def force_triton(on: bool) -> Iterator[None]:
    """Use Triton kernels on every device, or on none, within this context. For tests and benchmarks.

    Examples:
        >>> with force_triton(True):
        ...     has_triton(torch.device("cpu"))
        True
    """
    global _forced
    before, _forced = _forced, on
    try:
        yield
    finally:
        _forced = before


@cache
def _triton_works(device: torch.device) -> bool:
    if find_spec("triton") is None or torch.cuda.get_device_capability(device) < (7, 5):
        return False
    from epagcl.core.kernels.draws import hash_stream

    try:  # Triton compiles a kernel on first use, which needs a C compiler
        zero = torch.zeros(1, dtype=torch.int64, device=device)
        hash_stream(zero, (), zero)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        log.warning("Triton does not work here (%s); falling back to plain PyTorch, which is slower", reason)
        return False
    return True
