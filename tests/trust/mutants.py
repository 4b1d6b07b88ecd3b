"""Mutants of a module: its source with one operator, number, condition or statement changed."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).parents[2]
_COMPARE = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_BINARY = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.MatMult: ast.Mult,
}  # fmt: skip
_NAMES = {"min": "max", "max": "min", "amin": "amax", "amax": "amin", "argmax": "argmin", "mean": "sum", "sum": "mean"}
_NAMES |= {"any": "all", "all": "any", "exp": "log", "log": "exp", "ceil": "floor", "floor": "ceil"}


@dataclass(frozen=True)
class Mutant:
    """A changed module.

    Attributes:
        path: the module, relative to the repository.
        place: number of the changed node; None for the unchanged module.
        choice: number of the change of this node.
    """

    path: str
    place: int | None = None
    choice: int = 0

    @cached_property
    def change(self) -> tuple[str, str]:
        """The whole changed source, and the change in words."""
        tree = ast.parse((ROOT / self.path).read_text(encoding="utf-8"))
        if self.place is None:
            return ast.unparse(tree), "unchanged"
        node = next(islice(_places(tree), self.place, None))
        before = ast.unparse(node)
        _changes(node)[self.choice]()
        words = f"{self.path}:{node.lineno}: {_short(before)} → {_short(ast.unparse(node))}"
        return ast.unparse(ast.fix_missing_locations(tree)), words

    @property
    def line(self) -> str:
        """The line of the source that is changed, without indentation."""
        number = int(self.change[1].split(":")[1])
        return (ROOT / self.path).read_text(encoding="utf-8").splitlines()[number - 1].strip()

    def __str__(self) -> str:
        return self.change[1]


def _short(text: str) -> str:
    return text.split("\n")[0][:120]


def mutants_of(path: Path) -> list[Mutant]:
    """Return all mutants of a module. Texts, annotations, messages, logging and Triton kernels are not changed.

    Args:
        path: the module.
    """
    name = path.relative_to(ROOT).as_posix()
    places = enumerate(_places(ast.parse(path.read_text(encoding="utf-8"))))
    return [Mutant(name, number, choice) for number, node in places for choice in range(len(_changes(node)))]


def _places(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that can be changed, in the order of the source."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Raise | ast.Import | ast.ImportFrom | ast.Assert | ast.JoinedStr):
            continue
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            if any("triton" in ast.unparse(decorator) for decorator in node.decorator_list):
                continue
            for part in (*getattr(getattr(node, "args", None), "kw_defaults", []), *_defaults(node)):
                if part is not None:
                    yield from _inside(part)
            for statement in node.body:
                yield from _inside(statement)
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                yield from _inside(node.value)
        elif isinstance(node, ast.Call) and _is_quiet(node):
            continue
        elif isinstance(node, ast.keyword) and node.arg == "strict":
            continue  # an assertion on two lengths
        else:
            yield from _inside(node)


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Raise | ast.Import | ast.ImportFrom | ast.Assert | ast.JoinedStr):
        return
    if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AnnAssign | ast.Module):
        yield from _places(ast.Module(body=[node], type_ignores=[]))
        return
    if isinstance(node, ast.Expr) and (isinstance(node.value, ast.Constant) or _is_quiet(node.value)):
        return
    if _changes(node):
        yield node
    yield from _places(node)


def _defaults(node: ast.AST) -> list[ast.expr]:
    return node.args.defaults if isinstance(node, ast.FunctionDef) else []


def _is_quiet(node: ast.AST) -> bool:
    """Return whether a call only speaks to the user, or only names types."""
    words = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    return words.startswith(("log.", "warnings.")) or words in ("cast", "TypeVar", "setting", "say", "attach")


def _changes(node: ast.AST) -> list[Callable[[], object]]:
    """Return functions that change a node in place."""

    def put(**fields: object) -> Callable[[], object]:
        return lambda: [setattr(node, name, value) for name, value in fields.items()]

    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _COMPARE:
            return [put(ops=[_COMPARE[type(operator)]()])]
        case ast.BinOp(op=operator) if type(operator) in _BINARY and "|" not in _annotation(node):
            return [put(op=_BINARY[type(operator)]())]
        case ast.AugAssign(op=operator) if type(operator) in _BINARY:
            return [put(op=_BINARY[type(operator)]())]
        case ast.BoolOp(op=operator):
            return [put(op=ast.And() if isinstance(operator, ast.Or) else ast.Or())]
        case ast.UnaryOp(op=ast.USub()):
            return [put(op=ast.UAdd())]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return [put(operand=ast.UnaryOp(ast.Not(), operand))]
        case ast.Constant(value=bool(value)):
            return [put(value=not value)]
        case ast.Constant(value=int() | float() as value):
            return [put(value=value + 1)]
        case ast.If(test=test) | ast.IfExp(test=test):
            return [put(test=ast.UnaryOp(ast.Not(), test))]
        case ast.Call(func=ast.Attribute(attr=name)) if name in _NAMES:
            return [lambda: setattr(node.func, "attr", _NAMES[name])]
        case ast.Call(func=ast.Name(id=name)) if name in _NAMES and name not in ("exp", "log", "mean"):
            return [lambda: setattr(node.func, "id", _NAMES[name])]
        case ast.Expr(value=ast.Call()):
            return [lambda: setattr(node, "value", ast.Constant(None))]
    return []


def _annotation(node: ast.BinOp) -> str:
    """Return the text of a union of types, and nothing of any other expression."""
    text = ast.unparse(node)
    return text if isinstance(node.op, ast.BitOr) and ("None" in text or "Tensor" in text) else ""
