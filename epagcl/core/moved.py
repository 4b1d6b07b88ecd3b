"""Module paths of earlier versions: they still import, and warn. See "Deprecations" in CONTRIBUTING.md."""

import importlib
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType
from typing import Any

#: Module paths of version 0.1 that were documented, and where each module is now.
MOVED = {
    "epagcl.capture": "epagcl.training.capture",
    "epagcl.card": "epagcl.runs.card",
    "epagcl.comparison": "epagcl.study",
    "epagcl.config": "epagcl.core.config",
    "epagcl.data.check": "epagcl.data.checking",
    "epagcl.data.npz": "epagcl.data.io.npz",
    "epagcl.data.writers": "epagcl.runs.export",
    "epagcl.encoder": "epagcl.nn",
    "epagcl.errors": "epagcl.core.errors",
    "epagcl.hardware": "epagcl.core.hardware",
    "epagcl.health": "epagcl.evaluation.health",
    "epagcl.loggers": "epagcl.integrations.loggers",
    "epagcl.pipeline": "epagcl.integrations.sklearn",
    "epagcl.randomness": "epagcl.core.randomness",
    "epagcl.recipes": "epagcl.methods.recipes",
    "epagcl.sparse": "epagcl.core.sparse",
    "epagcl.store": "epagcl.study.store",
    "epagcl.transforms": "epagcl.views.transforms",
    "epagcl.tuning": "epagcl.study.tuning",
    "epagcl.tuning.study": "epagcl.study.tuning.study",
}
#: Of these, paths that stay: their attributes are public names of the package.
PERMANENT = ("epagcl.errors", "epagcl.loggers", "epagcl.transforms")


class _MovedFinder(MetaPathFinder):
    """Finds a moved module under its old path."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in MOVED:
            return None
        return spec_from_loader(fullname, _MovedLoader(MOVED[fullname]))


class _MovedLoader(Loader):
    """Gives the old path the module of the new one."""

    def __init__(self, path: str):
        self.path = path

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        if spec.name not in PERMANENT:
            warnings.warn(f"{spec.name} is now {self.path}", DeprecationWarning, stacklevel=2)
        module = importlib.import_module(self.path)
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._own_spec  # the import system has replaced it by that of the old path


def install() -> None:
    """Make the old paths importable; further calls change nothing."""
    if not any(isinstance(finder, _MovedFinder) for finder in sys.meta_path):
        sys.meta_path.append(_MovedFinder())


def moved_names(module: str, names: dict[str, str]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a module whose names have moved: they still work, and warn.

    Args:
        module: the module's ``__name__``.
        names: each moved name with the module that has it now.
    """

    def __getattr__(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(f"{module}.{name} is now {names[name]}.{name}", DeprecationWarning, stacklevel=2)
        return getattr(importlib.import_module(names[name]), name)

    return __getattr__
