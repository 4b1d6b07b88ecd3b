"""What the machine has: devices, and Triton for kernels on them."""

import logging
from functools import cache
from importlib.util import find_spec

import torch

from epagcl.errors import InputError

log = logging.getLogger("epagcl")


def resolve_device(device: str) -> torch.device:
    """``auto`` is cuda where there is one, else cpu; mps, which has no sparse products, only if asked for."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if device == "auto":
        return torch.device("cuda" if available["cuda"] else "cpu")
    if not available.get(device.split(":")[0], False):
        raise InputError(f"device={device!r} is not available here; use auto or cpu")
    return torch.device(device)


def has_triton(device: torch.device) -> bool:
    """Whether Triton's kernels run there; where they do not, their twins in plain torch do."""
    return device.type == "cuda" and _triton_works(device)


@cache
def _triton_works(device: torch.device) -> bool:
    if find_spec("triton") is None or torch.cuda.get_device_capability(device) < (7, 5):
        return False
    from epagcl.kernels import hash_stream

    try:  # it compiles at first use, and wants a C compiler for that
        zero = torch.zeros(1, dtype=torch.int64, device=device)
        hash_stream(zero, (zero,), 0)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        log.warning("Triton does not work here (%s); plain torch is used, which is slower", reason)
        return False
    return True
