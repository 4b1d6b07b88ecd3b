"""What the machine has: devices, and Triton for kernels on them."""

from functools import cache
from importlib.util import find_spec

import torch

from epagcl.errors import InputError


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
    return device.type == "cuda" and _triton_installed() and torch.cuda.get_device_capability(device) >= (7, 5)


@cache
def _triton_installed() -> bool:
    return find_spec("triton") is not None
