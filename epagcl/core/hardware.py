"""What the machine has: devices, and Triton for kernels on them."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec

import torch

from epagcl.core.errors import InputError
from epagcl.core.log import log


def resolve_device(device: str) -> torch.device:
    """``auto`` is cuda where there is one, else cpu; mps, which has no sparse products, only if asked for."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if device == "auto":
        return torch.device("cuda" if available["cuda"] else "cpu")
    if not available.get(device.split(":")[0], False):
        raise InputError(f"device={device!r} is not available here; use auto or cpu")
    return torch.device(device)


_forced: bool | None = None


def has_triton(device: torch.device) -> bool:
    """Return whether Triton kernels run on the device; where they do not, plain PyTorch does the same."""
    return _forced if _forced is not None else device.type == "cuda" and _triton_works(device)


@contextmanager
def force_triton(on: bool) -> Iterator[None]:
    """Use Triton kernels everywhere, or nowhere, whatever the device: for tests and measurements."""
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

    try:  # it compiles at first use, and wants a C compiler for that
        zero = torch.zeros(1, dtype=torch.int64, device=device)
        hash_stream(zero, (zero,), 0)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        log.warning("Triton does not work here (%s); plain torch is used, which is slower", reason)
        return False
    return True
