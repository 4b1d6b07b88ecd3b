"""The network of a method before training: initial weights of the seed, if there is memory for them."""

from typing import TYPE_CHECKING

from torch import nn

from epagcl.core.errors import InputError
from epagcl.core.hardware import resolve_device
from epagcl.core.memory import available_memory, check_memory, is_too_large, network_bytes
from epagcl.core.seeding import seeded

if TYPE_CHECKING:
    from epagcl.methods.base import Method

#: Training keeps weights, gradients and the two moments of Adam.
COPIES = 4
#: No network here has more matrices of its largest width.
MATRICES = 20


def initial_network(model: "Method") -> nn.Module:
    """Return the untrained network of a model with the weights of its seed.

    They are drawn on the CPU, so that a seed gives the same weights on every device. Neither other threads nor the
    state of torch's global generator matter, and the latter is not changed.

    Args:
        model: a model with ``num_features_``.

    Raises:
        InputError: if the network needs more memory than is available.
    """
    words = f"{type(model).title}: the weights for {model.num_features_:,} feature columns"
    fix = "use smaller settings, such as dim and hidden, or fewer columns"
    if _may_be_large(model):
        with seeded(model.seed):
            needed = network_bytes(lambda: model.build(model.num_features_))
        if needed is not None:
            check_memory((COPIES if model.trained else 1) * needed, words, fix, resolve_device(model.device))
    try:
        with seeded(model.seed):
            return model.build(model.num_features_)
    except (RuntimeError, MemoryError, OverflowError, TypeError) as error:
        if not is_too_large(error):
            raise
        raise InputError(f"{words} do not fit into memory; {fix}") from error


def _may_be_large(model: "Method") -> bool:
    """Return whether a network of the model's widths could fill the memory. The exact size takes time to compute."""
    counts = {"seed", "epochs", "patience"}
    widths = [value for name, value in model.get_params().items() if isinstance(value, int) and name not in counts]
    largest = max(widths, default=1)
    available = available_memory(resolve_device(model.device))
    return available is None or MATRICES * COPIES * 4 * largest * (model.num_features_ + largest) > available
