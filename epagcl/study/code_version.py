"""The version of the code that a result depends on, for the keys of stored results."""

import ast
import hashlib
import sys
from collections.abc import Callable, Iterator
from functools import cache
from inspect import getsource, getsourcefile
from pathlib import Path
from textwrap import dedent
from types import ModuleType

PACKAGE = "epagcl"
#: Modules that report, write or look up, and compute nothing: a change in them changes no number.
WITHOUT_INFLUENCE = {
    "epagcl",
    "epagcl.core.errors",
    "epagcl.core.files",
    "epagcl.core.lazy",
    "epagcl.core.log",
    "epagcl.core.moved",
    "epagcl.core.progress",
    "epagcl.core.version",
    "epagcl.methods.persistence",
    "epagcl.methods.registry",
    "epagcl.training.interrupts",
}


def code_version(*roots: type | Callable[..., object] | ModuleType) -> str:
    """Return twelve hexadecimal digits that change with the code behind a result, and with nothing else.

    A class counts with its module, those of its base classes, and everything these modules import from the package; a
    module likewise. A function counts with its own source only. Comments, docstrings, the messages of exceptions, log
    calls and warnings do not count.

    Args:
        roots: what the result is computed by.
    """
    modules: set[str] = set()
    digests: set[str] = set()
    for root in roots:
        if isinstance(root, ModuleType):
            modules.add(root.__name__)
        elif isinstance(root, type):
            for cls in root.__mro__:
                if cls.__module__.split(".")[0] == PACKAGE:
                    modules.add(cls.__module__)
                elif cls.__module__.split(".")[0] not in _LIBRARIES:  # a method of the user's own
                    digests.add(source_digest(Path(getsourcefile(cls) or "").read_text(encoding="utf-8")))
        else:
            digests.add(source_digest(dedent(getsource(root))))
    digests |= {digest for module in imported_modules(*sorted(modules)) for digest in _module_digests(module)}
    return hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()[:12]


_LIBRARIES = {"builtins", *sys.stdlib_module_names, "sklearn", "torch"}


def imported_modules(*roots: str) -> set[str]:
    """Return these modules of the package and all that they import from it, directly or not.

    Imports inside functions count. Imports for type checkers do not, nor modules :data:`WITHOUT_INFLUENCE`. A name
    imported from a package counts with the module that defines it, not with the whole package.
    """
    found: set[str] = set()
    queue = list(roots)
    while queue:
        module = queue.pop()
        if module not in found and module not in WITHOUT_INFLUENCE:
            found.add(module)
            queue += _imports(module)
    return found


def source_digest(source: str) -> str:
    """Return the SHA-256 of what a source computes: without comments, docstrings and messages."""
    tree = _WithoutMessages().visit(ast.parse(source))
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


@cache
def _module_digests(module: str) -> tuple[str, ...]:
    """The digests of a module and of the JSON files beside it, such as the tiles of the kernels."""
    path = _path(module)
    data = sorted(path.parent.glob("*.json"))
    files = [hashlib.sha256(file.read_bytes()).hexdigest() for file in data]
    return source_digest(path.read_text(encoding="utf-8")), *files


@cache
def _imports(module: str) -> tuple[str, ...]:
    origins = _import_origins(module)
    return tuple(sorted({origin for names in origins.values() for origin in names}))


@cache
def _import_origins(module: str) -> dict[str, tuple[str, ...]]:
    """Each name that a module imports from the package, with the module that defines it."""
    tree = ast.parse(_path(module).read_text(encoding="utf-8"))
    origins: dict[str, tuple[str, ...]] = {}
    for node in _executed(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.split(".")[0] == PACKAGE]
            origins |= {name: (name,) for name in names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE:
            for alias in node.names:
                origins[alias.asname or alias.name] = _origin(str(node.module), alias.name)
    return origins


def _origin(module: str, name: str) -> tuple[str, ...]:
    """Where a name comes from that is imported from a module: a submodule, another module, or that module."""
    if _path(f"{module}.{name}").is_file():
        return (f"{module}.{name}",)
    if _path(module).name == "__init__.py" and module not in WITHOUT_INFLUENCE:
        return _import_origins(module).get(name, (module,))
    return (module,)


def _executed(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those under ``if TYPE_CHECKING:``."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            yield from _executed(node)


def _path(module: str) -> Path:
    root = Path(__file__).resolve().parents[2]
    folder = root.joinpath(*module.split("."))
    return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")


class _WithoutMessages(ast.NodeTransformer):
    """Removes docstrings, what exceptions say, log calls and warnings."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        if isinstance(node.value, ast.Constant):  # a docstring, or a text that nobody reads
            return ast.Pass()
        if isinstance(node.value, ast.Call):
            name = ast.unparse(node.value.func)
            if name.startswith("log.") or name == "warnings.warn":
                return ast.Pass()
        return self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        return ast.Raise(exc=error, cause=None)
