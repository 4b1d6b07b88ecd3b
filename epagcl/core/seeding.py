"""Random numbers of code that draws from torch's global generator, redirected to a generator of its own."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class _OwnGenerator(TorchDispatchMode):
    """Gives each random operation of this thread a generator, unless the caller gave it one."""

    def __init__(self, seed: int):
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded in func.tags and kwargs.get("generator") is None and _on_cpu(args, kwargs):
            operation = _with_generator(func)
            if operation is not None:
                return operation(*args, **{**kwargs, "generator": self.generator})
        return func(*args, **kwargs)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw random numbers on the CPU from a generator with this seed, and leave the global one alone.

    The numbers are those that follow ``torch.manual_seed(seed)``. Only this thread is affected, so that threads with
    different seeds do not disturb each other.

    Args:
        seed: the seed.

    Examples:
        >>> import torch.nn as nn
        >>> with seeded(0):
        ...     weight = nn.Linear(2, 2).weight
        >>> _ = torch.manual_seed(0)
        >>> bool((nn.Linear(2, 2).weight == weight).all())
        True
    """
    with _OwnGenerator(seed):
        yield


def _on_cpu(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    devices = [argument.device for argument in args if isinstance(argument, torch.Tensor)]
    return {torch.device(device).type for device in (*devices, kwargs.get("device") or "cpu")} == {"cpu"}


def _with_generator(operation: Any) -> Callable[..., Any] | None:
    """Return the form of an operation that takes a generator: itself, or an overload as of ``torch.randn(n)``."""
    overloads = [getattr(operation.overloadpacket, name) for name in operation.overloadpacket.overloads()]
    for one in (operation, *overloads):
        takes = any(argument.name == "generator" for argument in one._schema.arguments)
        if takes and _positional(one) == _positional(operation):
            return one
    return None


def _positional(operation: Any) -> list[str]:
    return [argument.name for argument in operation._schema.arguments if not argument.kwarg_only]
