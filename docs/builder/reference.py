"""The generated parts of the reference as Markdown: methods with their settings, commands with their options.

When the site is built, each mark ``<!-- generated: NAME -->`` of a page is replaced by the output of a function. So the
reference always matches the code, and no generated text is committed.
"""

import dataclasses
import html
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent
MARK = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)
# Pages in the root of the repository, and their pages on the site.
ROOT_PAGES = {"../README.md": "index.md", "../CONTRIBUTING.md": "contributing.md", "../CHANGELOG.md": "changes.md"}

CONTENTS = {
    "First steps": ("install", "getting-started", "own-graphs", "report", "notebooks", "using-embeddings", "faq"),
    "User guide": ("how-it-works", "which-method", "methods", "evaluation", "tuning", "speed", "scaling", "trust"),
    "The paper": ("paper", "results"),
    "Development": ("interoperability", "extending", "contributing", "changes"),
    "Reference": ("cli", "api/index"),
}


def contents() -> str:
    """Return the tables of contents, one for each group of pages."""
    parts = []
    for caption, pages in CONTENTS.items():
        parts += ["```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```", ""]
    return "\n".join(parts)


def api() -> str:
    """Return the table of contents of the Python reference."""
    pages = ("estimators", "data", "epr", "views", "losses", "training", "evaluation", "tasks", "tuning", "runs")
    return "\n".join(["```{toctree}", ":hidden:", "", *pages, "```"])


def settings() -> str:
    """Return a table of the settings that all methods share."""
    from epagcl.methods import Method

    return _settings_table(dataclasses.fields(Method), "setting")


def methods() -> str:
    """Return a section for every method: documentation, cost, paper, and a table of its own settings."""
    from epagcl import __all__ as public
    from epagcl.methods import Method, method, names

    shared = {field.name: field.default for field in dataclasses.fields(Method)}
    parts = []
    for name in sorted(names(), key=lambda name: (method(name).supervised, not name.startswith("epagcl"), name)):
        cls = method(name)
        if not cls.__module__.startswith("epagcl."):
            continue  # not a method of the package
        home = "epagcl" if cls.__name__ in public else cls.__module__
        own = [f for f in cls.setting_fields() if f.name not in shared or f.default != shared[f.name]]
        parts += [
            f"## {cls.title}",
            "",
            f"`--method {name}`. Needs {_escaped(cls.cost_note)}. *{_escaped(cls.paper)}*",
            "",
            "```{eval-rst}",
            f".. autoclass:: {home}.{cls.__name__}",
            "```",
            "",
            _settings_table(own, "setting, if it differs from the shared ones"),
        ]
    return "\n".join(parts)


def commands() -> str:
    """Return a section for every command of ``epagcl``: help text, examples, arguments and options."""
    import typer.main

    from epagcl.cli.app import app

    root = typer.main.get_command(app)
    parts = []
    for name, command in root.commands.items():
        if getattr(command, "hidden", False):
            continue
        parts += [f"## epagcl {name}", ""]
        if hasattr(command, "commands"):
            parts += [_prose(command.help), ""]
            for names, group in _grouped(command.commands.items()):
                parts += _group(name, names, group)
        else:
            parts += _command(f"epagcl {name}", command)
    return "\n".join(parts)


def _grouped(commands: Iterable[tuple[str, Any]]) -> list[tuple[list[str], list[Any]]]:
    """Group consecutive commands with the same arguments, so that these are listed once."""
    groups: list[tuple[list[str], list[Any]]] = []
    for name, command in commands:
        if groups and _records(groups[-1][1][0]) == _records(command):
            groups[-1][0].append(name)
            groups[-1][1].append(command)
        else:
            groups.append(([name], [command]))
    return groups


def _group(parent: str, names: list[str], commands: list[Any]) -> list[str]:
    if len(names) == 1:
        return [f"### epagcl {parent} {names[0]}", "", *_command(f"epagcl {parent} {names[0]}", commands[0])]
    lines = [f"### epagcl {parent} {', '.join(names)}", "", "| command | description |", "|---|---|"]
    for name, command in zip(names, commands, strict=True):
        lines.append(f"| `epagcl {parent} {name}` | {_cell(_help(command)[0])} |")
    return [*lines, "", *_command(f"epagcl {parent}", commands[0], summary=False)]


def _command(path: str, command: Any, *, summary: bool = True) -> list[str]:
    text, examples = _help(command)
    lines = [_prose(text), ""] if summary else []
    if examples:
        lines += ["```sh", *examples, "```", ""]
    if records := _records(command):
        lines += ["| argument or option | meaning |", "|---|---|"]
        lines += [f"| `{_code_cell(option)}` | {_cell(meaning)} |" for option, meaning in records]
    if command.epilog:
        lines += ["", _prose(command.epilog)]
    return [*lines, ""]


def _help(command: Any) -> tuple[str, list[str]]:
    """Return the help text of a command without its examples, and the examples."""
    lines = (command.help or "").split("\n")
    examples = [line.split("Example:", 1)[1].strip() for line in lines if line.strip().startswith("Example:")]
    return "\n".join(line for line in lines if not line.strip().startswith("Example:")).strip(), examples


def _records(command: Any) -> list[tuple[str, str]]:
    context = command.make_context(command.name, [], resilient_parsing=True)
    records = (parameter.get_help_record(context) for parameter in command.params)
    return [record for record in records if record is not None]


def _settings_table(fields: Iterable[dataclasses.Field], title: str) -> str:
    lines = [f"| {title} | type | default | meaning |", "|---|---|---|---|"]
    for field in fields:
        choices = field.metadata["choices"]
        type_name = " ".join(f"`{choice}`" for choice in choices) if choices else field.type.__name__
        lines.append(f"| `{field.name}` | {type_name} | `{field.default}` | {_cell(field.metadata['meaning'])} |")
    return "\n".join([*lines, ""])


def _escaped(text: str) -> str:
    """Escape text for Markdown. Text in backticks stays code."""
    chunks = re.split(r"(`[^`]*`)", text)
    return "".join(
        piece if piece.startswith("`") else re.sub(r"([*_\[\]])", r"\\\1", html.escape(piece, quote=False))
        for piece in chunks
    )


def _prose(text: str) -> str:
    return _escaped(text or "")


def _cell(text: str) -> str:
    return _escaped(" ".join(text.split())).replace("|", r"\|")


def _code_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


GENERATORS = {"api": api, "contents": contents, "settings": settings, "methods": methods, "commands": commands}


def expanded(text: str) -> str:
    """Return a page with its generated parts, and with links to root pages changed to their pages on the site."""
    text = MARK.sub(lambda mark: GENERATORS[mark[1]](), text)
    return re.sub(r"\]\((\.\./[A-Z]+\.md)", lambda link: f"]({ROOT_PAGES.get(link[1], link[1])}", text)
