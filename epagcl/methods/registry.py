"""All methods by name: those of this folder, and users' own subclasses of :class:`~epagcl.methods.Method`."""

import difflib
import importlib
import pkgutil
from typing import TYPE_CHECKING

from epagcl.core.errors import InputError

if TYPE_CHECKING:
    from epagcl.methods.base import Method


def _registry() -> dict[str, "type[Method]"]:
    """Every concrete method: those of this folder's files, and users' own subclasses of :class:`Method`."""
    from epagcl.methods.base import Method

    package = importlib.import_module("epagcl.methods")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    found, queue = {}, [Method]
    while queue:
        cls = queue.pop()
        queue += cls.__subclasses__()
        if "name" in vars(cls):
            found.setdefault(
                cls.name.lower(), cls
            )  # the newest first: a class that is defined again replaces the old one
    return dict(sorted(found.items()))


def names() -> list[str]:
    """Names of all methods."""
    return list(_registry())


def method(name: str) -> "type[Method]":
    """The class of a method, by name in any case."""
    registry = _registry()
    if name.lower() not in registry:
        close = difflib.get_close_matches(name.lower(), registry, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(registry)}"
        raise InputError(f"no method {name!r}; {hint}")
    return registry[name.lower()]
