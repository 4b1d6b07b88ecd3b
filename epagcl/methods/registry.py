"""All methods by name: the methods of this package, and users' subclasses of :class:`~epagcl.methods.Method`."""

import difflib
import importlib
import pkgutil
from pathlib import Path
from typing import TYPE_CHECKING

from epagcl.core.errors import InputError

if TYPE_CHECKING:
    from epagcl.methods.base import Method


def names() -> list[str]:
    """Return the names of all methods.

    Examples:
        >>> "epagcl" in names()
        True
    """
    return list(_registry())


def method(name: str) -> "type[Method]":
    """Return the class of a method. Case does not matter.

    Examples:
        >>> method("grace").title
        'GRACE'
    """
    registry = _registry()
    if name.lower() not in registry:
        close = difflib.get_close_matches(name.lower(), registry, n=1)
        hint = f"did you mean {close[0]}?" if close else f"choose one of {', '.join(registry)}"
        raise InputError(f"no method {name!r}; {hint}")
    return registry[name.lower()]


def _registry() -> "dict[str, type[Method]]":
    """Return every class with a ``name``. Modules of this package are imported, so that their classes exist."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        importlib.import_module(f"{__package__}.{module.name}")
    from epagcl.methods.base import Method  # base imports persistence, which imports this module

    classes: dict[str, type[Method]] = {}
    queue = Method.__subclasses__()
    while queue:
        cls = queue.pop()  # the newest first, so that a class that is defined again replaces the earlier one
        queue += cls.__subclasses__()
        if "name" in vars(cls):
            classes.setdefault(cls.name.lower(), cls)
    return dict(sorted(classes.items()))
