"""``epagcl reproduce``: repeat a run and compare the results; and the option ``--deterministic``."""

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epagcl.cli.options import AsJson, Quiet, Root, interruptible
from epagcl.cli.progress import busy, console_for
from epagcl.cli.rendering import show

if TYPE_CHECKING:
    from epagcl.methods.base import Method
    from epagcl.runs.reproduction import Reproduction

Deterministic = Annotated[
    bool, typer.Option("--deterministic", help="Equal bits on a GPU too, somewhat slower; on a CPU they are anyway.")
]


def fixed_order(model: "Method", on: bool) -> contextlib.AbstractContextManager[None]:
    """Return the context of ``--deterministic`` on the device of a model; if not ``on``, one that changes nothing."""
    from epagcl.core.determinism import deterministic
    from epagcl.core.hardware import resolve_device

    return deterministic(resolve_device(model.device)) if on else contextlib.nullcontext()


def reproduce(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")],
    out: Annotated[Path | None, typer.Option(help="Folder to keep the repeated run in. Default: none.")] = None,
    root: Root = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Repeat a run from its record and compare embeddings, losses and scores.

    The exit code is 0 if the results are bit-equal or within the bounds of docs/trust.md, and 1 if they differ.

    Example: epagcl reproduce runs/cora-epagcl
    """
    console = console_for(quiet)
    with busy(console, "starting"):
        from epagcl.runs.reproduction import VERDICTS
        from epagcl.runs.reproduction import reproduce as repeat
    with interruptible("nothing was written"), busy(console, f"repeating {run}"):
        results = repeat(run, root=root, out=out)
    if as_json:
        print(json.dumps([result.to_dict() for result in results], indent=2))
    elif not quiet:
        for result in results:
            show(_words(result))
    if any(result.verdict == VERDICTS[-1] for result in results):
        raise typer.Exit(1)


def _words(result: "Reproduction") -> str:
    """Return a comparison as lines of text."""
    lines = [f"{result.folder}: {result.verdict}"]
    for row in result.differences:
        size = "" if not row.largest else f" (largest difference {row.largest:.2g}, {row.where}; bound {row.bound:g})"
        lines.append(f"  {row.what}: {row.verdict}{size}")
    if result.reasons:
        lines.append(f"  not as in the run: {'; '.join(result.reasons)}")
    return "\n".join(lines)
