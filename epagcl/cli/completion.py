"""Shell completion: names of methods, graphs and settings, read from the source so that PyTorch is not imported."""

import ast
import importlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import typer

import epagcl

_SOURCE = Path(epagcl.__file__).parent


def complete_methods(incomplete: str) -> list[str]:
    """Return the names of methods that begin with a text; of a list with commas, its last name is completed.

    Examples:
        >>> complete_methods("gr"), complete_methods("epagcl+,gr")
        (['grace', 'greet'], ['epagcl+,grace', 'epagcl+,greet'])
    """
    return _in_list(incomplete, method_names())


def complete_graphs(incomplete: str) -> list[str]:
    """Return the named graphs that begin with a text, in lower case.

    Examples:
        >>> complete_graphs("ci")
        ['citeseer']
    """
    return [name for name in graph_names() if name.startswith(incomplete.lower())]


def complete_one_of(*choices: str) -> Callable[[str], list[str]]:
    """Return a function that completes one of some words, also in a list with commas.

    Examples:
        >>> complete_one_of("strict", "paper", "public")("strict,p")
        ['strict,paper', 'strict,public']
    """

    def complete(incomplete: str) -> list[str]:
        return _in_list(incomplete, choices)

    return complete


complete_maps = complete_one_of("auto", "tsne", "umap", "pca", "none")
complete_protocols = complete_one_of("strict", "paper", "public")


def with_settings(items: list[Any], incomplete: str) -> list[Any]:
    """Return the completions of a command together with the settings of methods as options.

    Args:
        items: completions of the command's own options.
        incomplete: the beginning of a word.
    """
    # Typer builds on click, either the package or (since 0.2x) its own copy.
    click = typer.BadParameter.__module__.rpartition(".")[0]
    item = importlib.import_module(f"{click}.shell_completion").CompletionItem
    flags = (f"--{name.replace('_', '-')}" for name in setting_names())
    return items + [item(flag) for flag in flags if incomplete.startswith("-") and flag.startswith(incomplete)]


@cache
def method_names() -> tuple[str, ...]:
    """Return the names of the methods of this package.

    Examples:
        >>> "epagcl+" in method_names()
        True
    """
    return tuple(
        sorted(
            str(statement.value.value)
            for statement in _class_statements()
            if isinstance(statement, ast.Assign)
            and ast.unparse(statement.targets[0]) == "name"
            and isinstance(statement.value, ast.Constant)
        )
    )


@cache
def setting_names() -> tuple[str, ...]:
    """Return the names of all settings of methods.

    Examples:
        >>> "p_add" in setting_names()
        True
    """
    return tuple(
        sorted(
            {
                ast.unparse(statement.target)
                for statement in _class_statements()
                if isinstance(statement, ast.AnnAssign)
                and isinstance(statement.value, ast.Call)
                and ast.unparse(statement.value.func) == "setting"
            }
        )
    )


@cache
def graph_names() -> tuple[str, ...]:
    """Return the names of the named graphs, in lower case.

    Examples:
        >>> graph_names()[:3]
        ('cora', 'citeseer', 'pubmed')
    """
    tree = ast.parse((_SOURCE / "data/catalogue/entries.py").read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "Entry"]
    names = (call.args[0] for call in sorted(calls, key=lambda call: call.lineno))
    return tuple(str(name.value).lower() for name in names if isinstance(name, ast.Constant))


def _class_statements() -> Iterator[ast.stmt]:
    """Yield the statements of all classes of the methods."""
    for path in sorted((_SOURCE / "methods").glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                yield from node.body


def _in_list(incomplete: str, names: tuple[str, ...]) -> list[str]:
    """Complete the last name of a list with commas by names that the list does not have yet."""
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",") if comma else []
    return [before + comma + name for name in names if name.startswith(last.lower()) and name not in taken]
