"""The precision of the network in training: fp16 activations or TF32 products on a GPU, bf16 products on some CPUs."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.overrides import TorchFunctionMode

from epagcl.core.hardware import has_bf16, has_triton, lowering
from epagcl.core.norms import inverse_norms
from epagcl.data.graph import Graph
from epagcl.training.protocol import Trainable

MIN_WIDTH = 32  # narrower matrices gain nothing
#: The loss is multiplied by this number where activations are fp16: the gradient of a node, near 1/N, would underflow.
#: Sums over all nodes hardly ever overflow.
LOSS_SCALE = 4096.0
#: PyTorch's settings that allow sums in fp16; the second is of torch 2.7.
FP16_SUMS = ("allow_fp16_reduced_precision_reduction", "allow_fp16_accumulation")
GROWTH_INTERVAL = 2**30  # steps after which the scale of the loss would grow: never
MIN_NODES = 5_000  # of a graph with fp16 activations, whose accuracies were compared on larger graphs only
#: The median length of the feature rows must not be below this, and no row longer, so that products of features and
#: weights, and their gradients, fit into fp16. Products are shorter than their rows by a factor of 10 to 100.
SHORTEST, LONGEST = 2.0**-6, 2.0**8


def has_half_activations(method: Trainable, graph: Graph) -> bool:
    """Return whether a training keeps activations in fp16, which halves the memory traffic of the network.

    This takes a method that allows it, training on a whole graph on one GPU with Triton, without early stopping by
    small differences of the loss, a graph that is not small, and features in a suitable range.
    """
    if not method.half_activations or method.precision not in ("auto", "fp16") or method.patience:
        return False
    if graph.part is not None or graph.origin is not None or not has_triton(graph.device):
        return False
    if graph.num_nodes < MIN_NODES:
        return False
    inverse = inverse_norms(graph.x)
    inverse = inverse[inverse > 0]  # without rows of zeros
    return inverse.numel() > 0 and 1 / inverse.median().item() >= SHORTEST and 1 / inverse.min().item() <= LONGEST


@contextmanager
def half_activations(device: torch.device) -> Iterator[None]:
    """Compute activations in fp16 within this context, by ``torch.autocast`` and by the kernels of this package."""
    # A CUDA graph must not contain copies of weights that were made before it.
    with torch.autocast(device.type, torch.float16, cache_enabled=False), lowering():
        yield


def loss_scaler(device: torch.device) -> torch.amp.GradScaler:
    """Return the scaler of the loss for fp16 activations.

    It skips a step whose gradients overflow, and halves the scale. No number is read from the device.
    """
    return torch.amp.GradScaler(device.type, init_scale=LOSS_SCALE, growth_interval=GROWTH_INTERVAL)


def skipped_steps(scaler: torch.amp.GradScaler) -> int:
    """Return how many steps a scaler has skipped, or a large number if the scale is 0; waits for the device.

    Examples:
        >>> skipped_steps(loss_scaler(torch.device("cpu")))
        0
    """
    return round(math.log2(LOSS_SCALE / max(scaler.get_scale(), 2.0**-150)))


@contextmanager
def matmul_precision(precision: str, device: torch.device) -> Iterator[None]:
    """Run the network's dense products in the precision that the setting ``precision`` stands for on this device.

    On a GPU with Triton this is TF32, which has the mantissa of fp16. On a CPU with bf16 instructions, operands are
    bf16 if ``precision`` is bf16 or auto. Elsewhere, and if ``precision`` is fp32, products run in float32. Sparse
    products always do, unless activations are fp16 (:func:`half_activations`).
    """
    if device.type == "cuda":
        with _cuda_precision("highest" if precision == "fp32" or not has_triton(device) else "high"):
            yield
    elif precision in ("bf16", "auto") and has_bf16(device):
        with Bf16Products():
            yield
    else:
        yield


@contextmanager
def _cuda_precision(name: str) -> Iterator[None]:
    """Set PyTorch's precision of float32 products, and restore the user's setting at the end.

    Products of fp16 operands have float32 sums throughout.
    """
    matmul = torch.backends.cuda.matmul
    newer = getattr(matmul, "fp32_precision", None)  # torch 2.9 has a second way to set it
    try:
        before = torch.get_float32_matmul_precision()
    except RuntimeError:  # the user has set it the newer way
        before = None
    torch.set_float32_matmul_precision(name)
    reductions = [name for name in FP16_SUMS if hasattr(matmul, name)]
    allowed = {name: getattr(matmul, name) for name in reductions}
    for name in reductions:
        setattr(matmul, name, False)
    try:
        yield
    finally:
        for name, value in allowed.items():
            setattr(matmul, name, value)
        if before is not None:
            torch.set_float32_matmul_precision(before)
        if newer is not None:
            matmul.fp32_precision = newer


class Bf16Products(TorchFunctionMode):
    """Compute dense products of float32 matrices with bf16 operands, forward and backward, within this context.

    PyTorch's own setting, ``torch.set_float32_matmul_precision("medium")``, changes nothing on CPUs that have
    AVX512-BF16 but not AMX. ``torch.autocast`` would also change the types of the activations, and there are no sparse
    products in bf16. Here every tensor that a layer sees stays float32.

    Only products of two factors with gradients are replaced. Products with constants, such as the input features, stay
    exact: rounding could remove what distinguishes features with a large offset. Losses with their own backward pass
    choose their own precision, since they would round similarities before an exponential.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Replace the products that are wide enough; call all other functions as they are."""
        if func in _REPLACED and not kwargs and torch.is_grad_enabled():
            result = _REPLACED[func](*args)
            if result is not None:
                return result
        return func(*args, **(kwargs or {}))


def _matmul(a: Any, b: Any) -> Tensor | None:
    """Return a b, or None if bf16 does not apply."""
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)):  # Tensor @ SparseMatrix, for example
        return None
    if not (a.requires_grad and b.requires_grad):
        return None
    if a.dim() not in (2, 3) or a.shape[:-2] != b.shape[:-2] or b.dim() != a.dim():
        return None
    if not all(t.dtype == torch.float32 and t.layout == torch.strided and t.device.type == "cpu" for t in (a, b)):
        return None
    return _Product.apply(a, b) if min(*a.shape[-2:], *b.shape[-2:]) >= MIN_WIDTH else None


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
    product = _matmul(x, weight.mT) if weight.dim() == 2 else None
    return product if product is None or bias is None else product + bias


def _add_product(summand: Tensor, a: Tensor, b: Tensor) -> Tensor | None:
    product = _matmul(a, b)
    return None if product is None else summand + product


_REPLACED: dict[Callable[..., Any], Callable[..., Tensor | None]] = {
    **dict.fromkeys((torch.matmul, torch.mm, torch.bmm, Tensor.matmul, Tensor.mm, Tensor.bmm), _matmul),
    Tensor.__matmul__: _matmul,
    F.linear: _linear,
    torch.addmm: _add_product,
    torch.baddbmm: _add_product,
}


class _Product(torch.autograd.Function):
    """a b with bf16 operands and float32 sums. The result, and each gradient, is rounded to bf16 once."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        a, b = a.bfloat16(), b.bfloat16()
        ctx.save_for_backward(a, b)
        return (a @ b).float()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        a, b = ctx.saved_tensors
        grad = grad.bfloat16()
        needs_a, needs_b = ctx.needs_input_grad
        return (grad @ b.mT).float() if needs_a else None, (a.mT @ grad).float() if needs_b else None
