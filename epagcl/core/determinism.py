"""Results that are equal bit by bit on a GPU: which operations are allowed, and what is refused."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from epagcl.core.errors import InputError, install_command
from epagcl.core.hardware import has_triton
from epagcl.core.log import log

#: The variable of the environment that gives cuBLAS a fixed workspace, and its value.
CUBLAS_VARIABLE, CUBLAS_VALUE = "CUBLAS_WORKSPACE_CONFIG", ":4096:8"
#: The values with which cuBLAS is deterministic.
_CUBLAS_VALUES = (CUBLAS_VALUE, ":16:8")


@contextmanager
def deterministic(device: torch.device | str) -> Iterator[None]:
    """Use deterministic operations only within this context, so that the same seed gives the same bits.

    On a CPU this changes nothing: the same seed and number of threads give the same bits anyway. On a GPU, PyTorch
    replaces operations that add numbers in the order of their arrival, and raises if it has no replacement. The own
    kernels of this package add floating-point numbers in a fixed order, and their tile sizes are not chosen by time.

    Args:
        device: the device of the computation.

    Raises:
        InputError: if the GPU has no Triton, since cuSPARSE promises no fixed order, or if CUDA was used before with
            a workspace of cuBLAS that is not fixed.

    Examples:
        >>> with deterministic("cpu"):
        ...     torch.are_deterministic_algorithms_enabled()
        False
    """
    device = torch.device(device)
    if device.type != "cuda":
        if device.type == "mps":
            raise InputError("deterministic=True: PyTorch does not promise equal bits on mps; use device=cpu")
        log.info("on a CPU, the same seed and number of threads give the same bits; --deterministic changes nothing")
        yield
        return
    _fix_workspace()
    if not has_triton(device):
        fix = f"{install_command('gpu')}, or use device=cpu"
        raise InputError(f"deterministic=True: on a GPU this needs Triton; {fix}")
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    memory: Any = torch.utils.deterministic
    filled = memory.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    memory.fill_uninitialized_memory = False  # no kernel reads what it has not written
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        memory.fill_uninitialized_memory = filled


def is_deterministic() -> bool:
    """Return whether only deterministic operations are used, by :func:`deterministic` or by PyTorch's own switch.

    Examples:
        >>> is_deterministic()
        False
    """
    return torch.are_deterministic_algorithms_enabled()


def _fix_workspace() -> None:
    """Give cuBLAS a fixed workspace, which it reads when CUDA is first used."""
    if os.environ.get(CUBLAS_VARIABLE) in _CUBLAS_VALUES:
        return
    if torch.cuda.is_initialized():
        raise InputError(
            f"deterministic=True: CUDA is in use already; set {CUBLAS_VARIABLE}={CUBLAS_VALUE} in the environment "
            "before Python starts"
        )
    os.environ[CUBLAS_VARIABLE] = CUBLAS_VALUE
