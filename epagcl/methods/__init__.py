"""All methods. ``epagcl.methods()`` lists their names, ``epagcl.method(name)`` returns a class."""

import sys
from types import ModuleType

from epagcl.methods.base import Method
from epagcl.methods.choice import Recommendation, recommend
from epagcl.methods.registry import load_model, method, names
from epagcl.methods.settings import method_settings, setting

__all__ = ["Method", "Recommendation", "load_model", "method", "method_settings", "names", "recommend", "setting"]


class _CallableModule(ModuleType):
    """The class of this package, which makes it callable: ``epagcl.methods()`` is part of the public interface."""

    def __call__(self) -> list[str]:
        """Return the names of all methods."""
        return names()


sys.modules[__name__].__class__ = _CallableModule
