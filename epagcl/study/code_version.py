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
#: Modules that report, write or look up, and compute no number. Settings stand in the key themselves.
WITHOUT_INFLUENCE = frozenset(
    {
        "epagcl",
        "epagcl.core.config",
        "epagcl.core.errors",
        "epagcl.core.files",
        "epagcl.core.formatting",
        "epagcl.core.html",
        "epagcl.core.lazy",
        "epagcl.core.locks",
        "epagcl.core.log",
        "epagcl.core.memory",
        "epagcl.core.moved",
        "epagcl.core.progress",
        "epagcl.core.termination",
        "epagcl.core.version",
        "epagcl.data.identity",
        "epagcl.methods.notebook",
        "epagcl.methods.persistence",
        "epagcl.methods.registry",
        "epagcl.methods.settings",
        "epagcl.training.bar",
        "epagcl.training.checkpoint",
        "epagcl.training.interrupts",
    }
)
#: Packages whose classes count with their name only.
_LIBRARIES = frozenset({*sys.stdlib_module_names, "sklearn", "torch"})
#: Folders of installed libraries, whose files do not belong together.
_INSTALLED = frozenset({"site-packages", "dist-packages"})


def code_version(*sources: type | Callable[..., object] | ModuleType, root: Path = ROOT) -> str:
    """Return twelve hexadecimal digits that change with the code behind a result, and with nothing else.

    A class counts with its module, the modules of its base classes, and all modules of the package that these import. A
    module counts with all modules that it imports. A function counts with its own source only. A class defined outside
    the package counts with its file, the files beside it that this file imports, directly or indirectly, and all
    modules of the package that these import. Files beside it are those in its folder, in folders below, or in the
    Python package that contains it. Installed libraries do not count, except for the files of base classes.
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
                    is_own = top_level == source.__module__.split(".")[0]
                    for file in _files_of_class(cls, is_own):
                        text = file.read_text(encoding="utf-8")
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
        ['epagcl.core.adjacency', 'epagcl.core.determinism']
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


def _files_of_class(cls: type, is_own: bool) -> set[Path]:
    """Return the file that defines a class, and the files beside it that it imports. Raise if it cannot be read.

    Args:
        cls: a method defined outside the package, or one of its base classes.
        is_own: whether the class belongs to the library of the method. A base class of another installed library counts
            with its own file only.
    """
    try:
        file = Path(inspect.getsourcefile(cls) or "").resolve()
        file.open("rb").close()
    except (OSError, TypeError):
        raise InputError(f"{cls.__name__}: its source cannot be read; define it in a file to store its runs") from None
    return _files_beside(file) if is_own or not _INSTALLED & set(file.parts) else {file}


def _files_beside(file: Path) -> set[Path]:
    """Return a file outside the package and the files beside it that it imports, directly or indirectly."""
    reached: set[Path] = set()
    queue = [file]
    while queue:
        file = queue.pop()
        if file not in reached:
            reached.add(file)
            for level, module in _imports_outside(file.read_text(encoding="utf-8")):
                queue += _imported_files(file.parent, level, module)
    return reached


@cache
def _imports_outside(text: str) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Return the imports of a source except those of the package: the number of leading dots, and the names.

    ``from a import b`` gives ``a.b``, because b may be a module.
    """
    imports: list[tuple[int, tuple[str, ...]]] = []
    for node in _executed(ast.parse(text)):
        if isinstance(node, ast.Import):
            imports += [(0, tuple(alias.name.split("."))) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parent = node.module.split(".") if node.module else []
            imports += [(node.level, (*parent, alias.name)) for alias in node.names]
    return tuple((level, module) for level, module in imports if level or module[0] != PACKAGE)


def _imported_files(folder: Path, level: int, module: tuple[str, ...]) -> list[Path]:
    """Return the files that an import in a source of ``folder`` executes, if they lie beside the source."""
    enclosing = [folder, *folder.parents]
    if level:
        bases = enclosing[level - 1 : level]
    else:
        bases = [package.parent for package in enclosing if package.name == module[0]]
        bases += [] if folder.name in _INSTALLED else [folder]
    candidates = [base / "__init__.py" for base in bases if level]
    for base in bases:
        for depth, name in enumerate(module):
            parent = base.joinpath(*module[:depth])
            candidates += [parent / name / "__init__.py", parent / f"{name}.py"]
    return [file for file in candidates if file.is_file()]


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
        elif isinstance(node, ast.ImportFrom) and not node.level and str(node.module).split(".")[0] == PACKAGE:
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
