"""All methods. ``epagcl.methods()`` lists their names, ``epagcl.method(name)`` returns a class."""

import sys
from types import ModuleType

from epagcl.methods.base import Method
from epagcl.methods.persistence import load_model
from epagcl.methods.registry import method, names
from epagcl.methods.settings import method_settings, setting

__all__ = ["Method", "load_model", "method", "method_settings", "names", "setting"]


class _CallableModule(ModuleType):
    """``epagcl.methods`` is this package and, as the public contract has it, a function: calling it lists the names."""

    def __call__(self) -> list[str]:
        return names()


sys.modules[__name__].__class__ = _CallableModule
