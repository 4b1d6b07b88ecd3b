"""``epagcl doctor``: whether the installation works."""

import json

import typer

from epagcl.cli.options import AsJson, Root
from epagcl.cli.progress import busy, console_for
from epagcl.cli.rendering import show, table


def doctor(data: Root = None, as_json: AsJson = False) -> None:
    """Check versions, devices, kernels, memory and folders, and say how to mend what is missing or wrong.

    The exit code is 1 if something is broken that training needs. Missing extras do not count.

    Example: epagcl doctor
    """
    with busy(console_for(), "looking"):
        from epagcl.integrations.doctor import doctor as examine

        diagnosis = examine(data)
    if as_json:
        print(json.dumps(diagnosis.to_dict(), indent=2, ensure_ascii=False))
    else:
        from rich.markup import escape

        listing = table("state", "what", "found", "fix")
        for check in diagnosis.checks:
            listing.add_row(*(escape(text) for text in (check.status, check.topic, check.found, check.fix)))
        show(listing, "everything that training needs works" if diagnosis.healthy else "not all that is needed works")
    if not diagnosis.healthy:
        raise typer.Exit(1)
