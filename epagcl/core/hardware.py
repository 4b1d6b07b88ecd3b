"""The hardware: which device to use, and whether Triton kernels and fast bf16 products run on it."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from epagcl.core.errors import InputError
from epagcl.core.log import log

ALIGNED = 16  # numbers of a block
KERNEL_TYPES = (torch.float32, torch.float16)  # that the Triton kernels read and write; their sums are float32
_forced: bool | None = None  # set by force_triton
_forced_bf16: bool | None = None  # set by force_bf16
_cpu_preferred = False  # set by prefer_cpu
_lowering: ContextVar[bool] = ContextVar("_lowering", default=False)  # set by lowering


def resolve_device(device: str) -> torch.device:
    """Return the device with a given name. ``"auto"`` is CUDA if available, else the CPU.

    ``"auto"`` never selects MPS, since PyTorch has no sparse products there.

    Examples:
        >>> resolve_device("cpu")
        device(type='cpu')
    """
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if device == "auto":
        return torch.device("cuda" if available["cuda"] and not _cpu_preferred else "cpu")
    if not available.get(device.split(":")[0], False):
        raise InputError(f"device={device!r} is not available here; use auto or cpu")
    return torch.device(device)


@contextmanager
def prefer_cpu(on: bool = True) -> Iterator[None]:
    """Let ``"auto"`` be the CPU within this context, also where there is a GPU.

    Examples:
        >>> with prefer_cpu():
        ...     resolve_device("auto")
        device(type='cpu')
    """
    global _cpu_preferred
    before, _cpu_preferred = _cpu_preferred, on or _cpu_preferred
    try:
        yield
    finally:
        _cpu_preferred = before


def has_triton(device: torch.device) -> bool:
    """Return whether Triton kernels run on the device. If they do not, plain PyTorch computes the same result.

    Examples:
        >>> has_triton(torch.device("cpu"))
        False
    """
    return _forced if _forced is not None else device.type == "cuda" and _triton_works(device)


def aligned_width(width: int) -> int:
    """Return the next width at which a GPU reads rows of numbers in whole blocks: several times as fast as others.

    Examples:
        >>> aligned_width(745), aligned_width(512)
        (752, 512)
    """
    return -(-width // ALIGNED) * ALIGNED


def takes_kernels(x: Tensor) -> bool:
    """Return whether Triton kernels take a tensor: float32 or fp16, not empty, on a device where they run.

    Examples:
        >>> takes_kernels(torch.ones(3, dtype=torch.float64))
        False
    """
    return x.dtype in KERNEL_TYPES and x.numel() > 0 and has_triton(x.device)


@contextmanager
def lowering() -> Iterator[None]:
    """Let :func:`lowered` return fp16 within this context, where Triton kernels run.

    Examples:
        >>> with force_triton(True), lowering():
        ...     lowered(torch.ones(3)).dtype
        torch.float16
    """
    token = _lowering.set(True)
    try:
        yield
    finally:
        _lowering.reset(token)


def lowered(x: Tensor) -> Tensor:
    """Return the operand of a product that ``torch.autocast`` does not know, such as a sparse one.

    Within :func:`lowering` a float32 tensor becomes fp16. Autocast of the caller changes nothing.

    Examples:
        >>> lowered(torch.ones(3)).dtype
        torch.float32
    """
    return x.half() if _lowering.get() and x.dtype == torch.float32 and has_triton(x.device) else x


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Return a context in which ``torch.autocast`` rounds nothing on a device.

    Examples:
        >>> with torch.autocast("cpu", torch.bfloat16), without_autocast(torch.device("cpu")):
        ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
        torch.float32
    """
    return torch.autocast(device.type, enabled=False) if device.type in ("cpu", "cuda") else nullcontext()


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
    reason = triton_failure(device)
    if reason is not None and find_spec("triton") is not None and _is_recent(device):
        log.warning("Triton does not work here (%s); falling back to plain PyTorch, which is slower", reason)
    return reason is None


@cache
def triton_failure(device: torch.device) -> str | None:
    """Return why Triton kernels do not run on a device, in a few words; None if they do.

    Examples:
        >>> triton_failure(torch.device("cpu"))
        'the device is not a GPU of NVIDIA'
    """
    if device.type != "cuda":
        return "the device is not a GPU of NVIDIA"
    if find_spec("triton") is None:
        return "triton is not installed"
    if not _is_recent(device):
        return "the GPU is older than Turing (compute capability 7.5)"
    from epagcl.core.kernels.draws import hash_stream

    try:  # Triton compiles a kernel on first use, which needs a C compiler
        zero = torch.zeros(1, dtype=torch.int64, device=device)
        hash_stream(zero, (), zero)
    except Exception as error:
        return str(error).splitlines()[0] if str(error) else type(error).__name__
    return None


def _is_recent(device: torch.device) -> bool:
    """Return whether a GPU has the instructions that the kernels use."""
    return torch.cuda.get_device_capability(device) >= (7, 5)


def has_bf16(device: torch.device) -> bool:
    """Return whether the device is a CPU with bf16 instructions (AVX512-BF16 or AMX) that PyTorch's products use.

    There, products of bf16 matrices are more than twice as fast as float32 ones. On other CPUs they are slower.

    Examples:
        >>> has_bf16(torch.device("cuda"))  # where Triton's kernels use the tensor cores
        False
    """
    return device.type == "cpu" and (_forced_bf16 if _forced_bf16 is not None else _cpu_has_bf16())


@contextmanager
def force_bf16(on: bool) -> Iterator[None]:
    """Use bf16 products on every CPU, or on none, within this context. For tests and benchmarks.

    Examples:
        >>> with force_bf16(False):
        ...     has_bf16(torch.device("cpu"))
        False
    """
    global _forced_bf16
    before, _forced_bf16 = _forced_bf16, on
    try:
        yield
    finally:
        _forced_bf16 = before


def fused_sigmoid(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
    """Return σ(a bᵀ + bias) of bf16 matrices on a CPU, with the sums and σ in float32 and one rounding at the end.

    This is the operator that ``torch.compile`` uses for a linear layer and its activation.
    """
    return torch.ops.mkldnn._linear_pointwise(a, b, bias, "sigmoid", [], "")


@cache
def _cpu_has_bf16() -> bool:
    """Return whether the CPU has the instructions, and PyTorch the operators, which are not public."""
    try:
        checks = (getattr(torch.cpu, f"_is_{name}_supported", None) for name in ("avx512_bf16", "amx_tile"))
        if not any(check is not None and check() for check in checks) or not torch.backends.mkldnn.is_available():
            return False
        if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
            return False
        exponents = fused_sigmoid(
            torch.eye(32, dtype=torch.bfloat16),
            torch.eye(32, dtype=torch.bfloat16),
            torch.full((32,), -17, dtype=torch.bfloat16),
        ).log()
    except (AttributeError, RuntimeError, TypeError):
        return False
    return bool(((exponents - torch.eye(32) + 17).abs() < 0.1).all())
