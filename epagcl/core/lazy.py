"""Lazy imports: public names are imported on first use. Type checkers read the same list of names."""

import importlib
from functools import cache

TYPE_CHECKING = False  # typing is large, and the program handles no signal until this package is imported
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def attach(package: str, file: str) -> "tuple[Callable[[str], Any], Callable[[], list[str]]]":
    """Return ``__getattr__`` and ``__dir__`` for a package's ``__init__.py``. They also give ``__all__``.

    The public names are the names that the file imports in its ``if TYPE_CHECKING:`` block. Python does not run that
    block, so a name is imported on first use. For example, ``epagcl --help`` does not import PyTorch.

    Args:
        package: the package's ``__name__``.
        file: the package's ``__file__``.

    Examples:
        >>> import epagcl
        >>> load_name, list_names = attach("epagcl", epagcl.__file__)
        >>> load_name("info_nce").__module__
        'epagcl.losses.infonce.loss'
        >>> "info_nce" in load_name("__all__")
        True
    """

    def __getattr__(name: str) -> "Any":
        origins = _type_checking_imports(file)
        if name == "__all__":
            return sorted(origins)
        if name not in origins:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, attribute = origins[name]
        if module == package:  # the name is a submodule of the package
            return importlib.import_module(f"{package}.{attribute}")
        parent = importlib.import_module(module)
        try:
            return getattr(parent, attribute)
        except AttributeError:  # a submodule that its package does not import
            return importlib.import_module(f"{module}.{attribute}")

    return __getattr__, lambda: sorted({"__version__", *_type_checking_imports(file)})


@cache
def _type_checking_imports(file: str) -> dict[str, tuple[str, str]]:
    """Return the names imported under ``if TYPE_CHECKING:``, each with its module and its attribute there."""
    import ast
    from pathlib import Path

    origins: dict[str, tuple[str, str]] = {}
    for statement in ast.parse(Path(file).read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            for node in statement.body:
                if isinstance(node, ast.ImportFrom) and node.module is not None:
                    origins |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
    return origins
