"""``epagcl methods``: the methods and their settings."""

import json
from typing import Annotated

import typer
import typer.core

from epagcl.cli.options import (
    AsJson,
    flag_of,
)
from epagcl.cli.rendering import show, table


def methods(
    name: Annotated[str | None, typer.Argument(help="A method, to list its settings.")] = None,
    as_json: AsJson = False,
) -> None:
    """The methods, or the settings of one.

    Example: epagcl methods epagcl
    """
    from epagcl.methods import method, names

    if name is None:
        rows = [
            {"name": key, "summary": method(key).summary(), "needs": method(key).needs, "paper": method(key).paper}
            for key in names()
        ]
        shown = table("name", "what it does", "needs", "paper")
        for row in rows:
            shown.add_row(*row.values())
    else:
        rows = [
            {"setting": field.name, "type": field.type.__name__, "default": field.default, **field.metadata}
            for field in method(name).setting_fields()
        ]
        shown = table("setting", "default", "meaning")
        for row in rows:
            shown.add_row(flag_of(row["setting"]), str(row["default"]), row["meaning"])
    if as_json:
        print(json.dumps(rows, indent=2))
    else:
        show(shown)
