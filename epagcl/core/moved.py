"""Deprecated module paths. They still import, with a warning. See "Deprecations" in CONTRIBUTING.md."""

import importlib
import sys
import warnings
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.abc import Loader, MetaPathFinder
    from typing import Any
else:  # their import takes longer than that of this package, and a signal in that time prints a traceback
    Loader = MetaPathFinder = object

#: Documented module paths of version 0.1, with their current paths.
MOVED = {
    "epagcl.capture": "epagcl.training.capture",
    "epagcl.card": "epagcl.runs.card",
    "epagcl.comparison": "epagcl.study",
    "epagcl.config": "epagcl.core.config",
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
#: Old paths that are not deprecated: they are public names of the package.
PERMANENT = ("epagcl.errors", "epagcl.health", "epagcl.loggers", "epagcl.transforms", "epagcl.tuning")


def current_path(path: str) -> str | None:
    """Return the current path of a moved module or of a submodule of a moved package, else None.

    Examples:
        >>> current_path("epagcl.sparse"), current_path("epagcl.tuning.space"), current_path("epagcl.losses")
        ('epagcl.core.sparse', 'epagcl.study.tuning.space', None)
    """
    parent, _, name = path.rpartition(".")
    return MOVED.get(path) or (f"{MOVED[parent]}.{name}" if parent in MOVED else None)


class _MovedFinder(MetaPathFinder):
    """Finds moved modules by their old paths."""

    def find_spec(
        self, fullname: str, path: "Sequence[str] | None" = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        new_path = current_path(fullname)
        return None if new_path is None else spec_from_loader(fullname, _MovedLoader(new_path))


class _MovedLoader(Loader):
    """Loads the module at the new path under the old path."""

    def __init__(self, new_path: str):
        self.new_path = new_path

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        if spec.name not in PERMANENT:
            warnings.warn(f"{spec.name} is now {self.new_path}", DeprecationWarning, stacklevel=2)
        module = importlib.import_module(self.new_path)
        self._original_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._original_spec  # the import system has replaced it with the spec of the old path


def install() -> None:
    """Make the old paths importable. Repeated calls have no effect."""
    if not any(isinstance(finder, _MovedFinder) for finder in sys.meta_path):
        # The finder comes first. The standard finder would load a second copy of the modules of a moved package.
        sys.meta_path.insert(0, _MovedFinder())


def moved_names(module: str, names: dict[str, str]) -> "Callable[[str], Any]":
    """Return a ``__getattr__`` for a module whose names have moved. The old names still work, with a warning.

    Args:
        module: the module's ``__name__``.
        names: the moved or renamed names, each with its current path.

    Examples:
        >>> load_name = moved_names("epagcl.data", {"write_json": "epagcl.core.files.write_json"})
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     load_name("write_json").__module__
        'epagcl.core.files'
        >>> print(caught[0].message)
        epagcl.data.write_json is now epagcl.core.files.write_json
    """

    def __getattr__(name: str) -> "Any":
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(f"{module}.{name} is now {names[name]}", DeprecationWarning, stacklevel=2)
        current_module, _, current_name = names[name].rpartition(".")
        return getattr(importlib.import_module(current_module), current_name)

    return __getattr__
