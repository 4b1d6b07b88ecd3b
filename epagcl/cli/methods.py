"""``epagcl methods``: the methods and their settings."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epagcl.cli.completion import complete_methods
from epagcl.cli.options import DEFAULT_METHOD, AsJson, flag_of
from epagcl.cli.rendering import show, table

if TYPE_CHECKING:
    from epagcl.methods.base import Method


def methods(
    name: Annotated[
        str | None, typer.Argument(help="A method, to list its settings.", autocompletion=complete_methods)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the methods, or the settings of one.

    Example: epagcl methods epagcl+
    """
    from epagcl.methods import method, names

    if name is None:
        default_first = sorted(names(), key=lambda key: key != DEFAULT_METHOD)
        entries = _describe_methods([method(key) for key in default_first])
    else:
        entries = _describe_settings(method(name))
    if as_json:
        print(json.dumps(entries, indent=2))
        return
    listing = (
        table("name", "what it does", "needs", "paper") if name is None else table("setting", "default", "meaning")
    )
    for entry in entries:
        if name is None:
            mark = " (default)" if entry["name"] == DEFAULT_METHOD else ""
            listing.add_row(entry["name"] + mark, entry["summary"], entry["needs"], entry["paper"])
        else:
            listing.add_row(flag_of(entry["setting"]), str(entry["default"]), entry["meaning"])
    show(listing)


def _describe_methods(classes: "list[type[Method]]") -> list[dict[str, Any]]:
    return [
        {"name": cls.name.lower(), "summary": cls.summary(), "needs": cls.cost_note, "paper": cls.paper}
        for cls in classes
    ]


def _describe_settings(cls: "type[Method]") -> list[dict[str, Any]]:
    return [
        {
            "setting": field.name,
            "type": getattr(field.type, "__name__", str(field.type)),
            "default": field.default,
            **field.metadata,
        }
        for field in cls.setting_fields()
    ]
