"""The version of the code behind a result, for the keys of stored results.

A stored result may be used again as long as the code that computed it is the same. The version of a result therefore
changes with everything that can change its numbers: the method and the evaluation with all modules they import. It does
not change with readers of files, reports, the command line or other methods, nor with messages and documentation.
"""

import ast
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from textwrap import dedent
from types import FunctionType, ModuleType

from epagcl.core.errors import InputError
from epagcl.study.source_digest import is_type_checking, source_digest

PACKAGE = "epagcl"
#: The folder that holds the package.
ROOT = Path(__file__).resolve().parents[2]
#: Modules that report, write or look up, and compute no number.
WITHOUT_INFLUENCE = frozenset(
    {
        "epagcl",
        "epagcl.core.errors",
        "epagcl.core.files",
        "epagcl.core.formatting",
        "epagcl.core.lazy",
        "epagcl.core.log",
        "epagcl.core.moved",
        "epagcl.core.progress",
        "epagcl.core.version",
        "epagcl.methods.persistence",
        "epagcl.methods.registry",
        "epagcl.training.interrupts",
    }
)
#: Packages whose classes count with their name only.
_LIBRARIES = frozenset({*sys.stdlib_module_names, "sklearn", "torch"})


def code_version(*sources: type | Callable[..., object] | ModuleType, root: Path = ROOT) -> str:
    """Return twelve hexadecimal digits that change with the code behind a result, and with nothing else.

    A class counts with its module, the modules of its base classes, and all modules of the package that these import. A
    module counts with all modules that it imports. A function counts with its own source only.
    :func:`~epagcl.study.source_digest.source_digest` describes which parts of a source count.

    Args:
        sources: the classes, modules and functions that compute the result.
        root: the folder that holds the package.

    Examples:
        >>> from epagcl.methods.dgi import DGI
        >>> from epagcl.methods.epagcl import EPAGCL
        >>> len(code_version(EPAGCL)), code_version(EPAGCL) == code_version(DGI)
        (12, False)
    """
    modules: set[str] = set()
    digests: set[str] = set()
    for source in sources:
        if isinstance(source, ModuleType):
            modules.add(source.__name__)
        elif not isinstance(source, type):
            digests.add(_function_digest(source, root))
        else:
            for cls in source.__mro__:
                top_level = cls.__module__.split(".")[0]
                if top_level == PACKAGE:
                    modules.add(cls.__module__)
                elif top_level not in _LIBRARIES:  # a method defined outside the package
                    text = _source_of_class(cls)
                    digests.add(_text_digest(text))
                    modules |= {origin for _, origin in _text_origins(text, root)}
    for module in imported_modules(*modules, root=root):
        digests |= _module_digests(module, root)
    return hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()[:12]


def imported_modules(*modules: str, root: Path = ROOT) -> set[str]:
    """Return these modules of the package and all that they import from it, directly or indirectly.

    Imports inside functions count. Imports for type checkers do not count, nor do the modules
    :data:`WITHOUT_INFLUENCE`. A name imported from a package counts with the module that defines it, not with the whole
    package.

    Args:
        modules: full names of modules.
        root: the folder that holds the package.

    Examples:
        >>> sorted(imported_modules("epagcl.core.adjacency"))[:2]
        ['epagcl.core.adjacency', 'epagcl.core.hardware']
    """
    reached: set[str] = set()
    queue = list(modules)
    while queue:
        module = queue.pop()
        if module not in reached and module not in WITHOUT_INFLUENCE:
            reached.add(module)
            queue += [origin for _, origin in _import_origins(module, root)]
    return reached


@cache
def _module_digests(module: str, root: Path) -> frozenset[str]:
    """Return the digests of a module and of the JSON files beside it, such as the tiles of the kernels."""
    path = _path(module, root)
    data = (hashlib.sha256(file.read_bytes()).hexdigest() for file in path.parent.glob("*.json"))
    return frozenset({_text_digest(path.read_text(encoding="utf-8")), *data})


@cache
def _text_digest(text: str) -> str:
    return source_digest(text, WITHOUT_INFLUENCE)


@cache
def _function_digest(function: Callable[..., object], root: Path) -> str:
    """Return the digest of a function. Functions of the package are looked up below ``root``."""
    if isinstance(function, FunctionType) and function.__module__.split(".")[0] == PACKAGE:
        text = _path(function.__module__, root).read_text(encoding="utf-8")
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef) and node.name == function.__name__:
                return _text_digest(ast.unparse(node))
    return _text_digest(dedent(inspect.getsource(function)))


def _source_of_class(cls: type) -> str:
    """Return the text of the file that defines a class."""
    try:
        return Path(inspect.getsourcefile(cls) or "").read_text(encoding="utf-8")
    except (OSError, TypeError):
        raise InputError(f"{cls.__name__}: its source cannot be read; define it in a file to store its runs") from None


@cache
def _import_origins(module: str, root: Path) -> tuple[tuple[str, str], ...]:
    text = _path(module, root).read_text(encoding="utf-8")
    return _text_origins(text, root, type_checking=module == PACKAGE)  # the block of the package lists its public names


@cache
def _text_origins(text: str, root: Path, type_checking: bool = False) -> tuple[tuple[str, str], ...]:
    """Return each name that a source imports from the package, with the module that defines it.

    A name can occur several times, because functions have imports of their own.
    """
    tree = ast.parse(text)
    nodes = list(ast.walk(tree) if type_checking else _executed(tree))
    origins: list[tuple[str, str]] = []
    aliases: set[str] = set()  # of the package itself: epagcl.info_nce is used without an import of its own
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == PACKAGE:
                    aliases.add(alias.asname or alias.name)
                elif alias.name.split(".")[0] == PACKAGE:
                    origins.append((alias.name, alias.name))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE:
            origins += [
                (alias.asname or alias.name, _origin(str(node.module), alias.name, root)) for alias in node.names
            ]
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            origins.append((ast.unparse(node), _origin(PACKAGE, node.attr, root)))
    return tuple(origins)


def _origin(module: str, name: str, root: Path) -> str:
    """Return the module that defines a name imported from ``module``: a submodule, another module, or ``module``."""
    if _path(f"{module}.{name}", root).is_file():
        return f"{module}.{name}"
    if _path(module, root).name == "__init__.py":
        return dict(_import_origins(module, root)).get(name, module)
    return module


def _executed(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes except those under ``if TYPE_CHECKING:``."""
    for node in ast.iter_child_nodes(tree):
        if not is_type_checking(node):
            yield node
            yield from _executed(node)


def _path(module: str, root: Path) -> Path:
    folder = root.joinpath(*module.split("."))
    return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
