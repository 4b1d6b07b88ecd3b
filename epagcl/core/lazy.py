"""Public names that are imported on first use, from the one list that type checkers read."""

import ast
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` for a package's ``__init__.py``.

    The names are those imported in its ``if TYPE_CHECKING:`` block. Python never runs that block, so nothing is
    imported before a name is used: ``epagcl --help`` does not load PyTorch.

    Args:
        package: the package's ``__name__``.
        file: the package's ``__file__``.
    """
    origins = _type_checking_imports(Path(file))

    def __getattr__(name: str) -> Any:
        if name not in origins:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, attribute = origins[name]
        if module == package:  # a submodule itself
            return importlib.import_module(f"{package}.{attribute}")
        try:
            return getattr(importlib.import_module(module), attribute)
        except AttributeError:  # a submodule that its package has not imported
            return importlib.import_module(f"{module}.{attribute}")

    return __getattr__, lambda: sorted({"__version__", *origins}), sorted(origins)


def _type_checking_imports(file: Path) -> dict[str, tuple[str, str]]:
    """Each name imported under ``if TYPE_CHECKING:`` with the module and the attribute it comes from."""
    origins: dict[str, tuple[str, str]] = {}
    for statement in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            for node in statement.body:
                if isinstance(node, ast.ImportFrom) and node.module is not None:
                    origins |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
    return origins
