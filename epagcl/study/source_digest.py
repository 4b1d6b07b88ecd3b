"""Digests of Python sources that change with the computation, and not with its description."""

import ast
import hashlib
from typing import Any

#: Modules whose import computes nothing.
TYPING_MODULES = frozenset({"__future__", "collections.abc", "logging", "typing", "warnings"})
#: Class attributes of a method that describe it to people.
DESCRIPTIONS = frozenset({"title", "paper", "cost_note"})
LOG_METHODS = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log"})


def source_digest(source: str | ast.AST, ignored_modules: frozenset[str] = frozenset()) -> str:
    """Return the SHA-256 of the computation in a source.

    Not part of the computation: comments, docstrings, log calls, warnings, progress reports, the messages of
    exceptions and assertions, the help texts of settings, the descriptions of methods, type annotations of variables
    and functions, and imports for type checkers. Annotations of class attributes count, because they give settings
    their types, as does ``tl.constexpr``, which gives kernels theirs.

    Args:
        source: the text of a source, or its syntax tree, which is changed.
        ignored_modules: modules whose imports do not count.

    Examples:
        >>> source_digest("x = 1  # one") == source_digest("x: int = 1")
        True
        >>> source_digest("raise ValueError('no x')") == source_digest("raise ValueError('x is missing')")
        True
        >>> source_digest("x = 1") == source_digest("x = 2")
        False
    """
    tree = ast.parse(source) if isinstance(source, str) else source
    computation = _ComputationOnly(TYPING_MODULES | ignored_modules).visit(tree)
    return hashlib.sha256(repr(_structure(computation)).encode()).hexdigest()


def is_type_checking(node: ast.AST) -> bool:
    """Return whether a statement is ``if TYPE_CHECKING:``.

    Examples:
        >>> is_type_checking(ast.parse("if TYPE_CHECKING: import torch").body[0])
        True
    """
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _structure(node: Any) -> Any:
    """Return a syntax tree as nested tuples. Unlike ``ast.dump``, it is the same for all versions of Python."""
    if isinstance(node, ast.AST):
        fields = [(name, _structure(value)) for name, value in ast.iter_fields(node)]
        return type(node).__name__, [field for field in fields if field[1] not in (None, [])]
    return [_structure(item) for item in node] if isinstance(node, list) else node


class _ComputationOnly(ast.NodeTransformer):
    """Removes the nodes of a syntax tree that compute nothing. The bodies of statements may end up empty."""

    def __init__(self, ignored_modules: frozenset[str]):
        self.ignored_modules = ignored_modules
        self.in_class_body = False

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        if isinstance(node.value, ast.Constant):  # a docstring
            return None
        if isinstance(node.value, ast.Call) and _is_message(node.value.func):
            return None
        return self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        return ast.Raise(exc=error, cause=None)

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        return self.generic_visit(ast.Assert(test=node.test, msg=None))

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        if is_type_checking(node):
            otherwise = ast.Module(body=node.orelse, type_ignores=[])
            self.generic_visit(otherwise)
            return otherwise.body
        return self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> ast.AST | None:
        names = [alias for alias in node.names if alias.name not in self.ignored_modules]
        return ast.Import(names=names) if names else None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        return None if node.module in self.ignored_modules else node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._visit_body(node, in_class_body=True)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self._visit_body(node, in_class_body=False)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        node.returns = None
        return self._visit_body(node, in_class_body=False)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        if node.annotation is not None and "constexpr" not in ast.unparse(node.annotation):
            node.annotation = None
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        names = {target.id for target in node.targets if isinstance(target, ast.Name)}
        if self.in_class_body and names and names <= DESCRIPTIONS:
            return None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if self.in_class_body:
            return self.generic_visit(node)
        if node.value is None:
            return None
        return self.generic_visit(ast.Assign(targets=[node.target], value=node.value))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id == "setting":
            node.args[1:2] = [ast.Constant("")] * len(node.args[1:2])
            node.keywords = [keyword for keyword in node.keywords if keyword.arg != "meaning"]
        return self.generic_visit(node)

    def _visit_body(self, node: ast.AST, *, in_class_body: bool) -> ast.AST:
        outer, self.in_class_body = self.in_class_body, in_class_body
        self.generic_visit(node)
        self.in_class_body = outer
        return node


def _is_message(function: ast.expr) -> bool:
    """Return whether a call writes to the log, warns, or reports progress."""
    *owner, name = ast.unparse(function).split(".")
    return (owner == ["log"] and name in LOG_METHODS) or (owner == ["warnings"] and name == "warn") or name == "say"
