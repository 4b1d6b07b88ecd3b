"""``epagcl tune``: search of a method's settings."""

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from epagcl.cli.graph_input import GraphInput, takes_graph
from epagcl.cli.options import (
    AsJson,
    Config,
    MethodName,
    Quiet,
    WithLists,
    interruptible,
    method_of,
    options_of,
    resume_line,
    settings_of,
)
from epagcl.cli.progress import StudyProgress, busy, console_for
from epagcl.cli.rendering import show, table
from epagcl.core.errors import InputError
from epagcl.core.formatting import counted, duration, percent

if TYPE_CHECKING:
    from rich.table import Table

    from epagcl.study.tuning import Tuning
    from epagcl.study.tuning.result import FinalScores

BEST_TRIALS = 4  # columns of the table of trials


def _is_space_word(word: str) -> bool:
    return "=" in word or word == "default"


class TuneCommand(WithLists):
    """A command whose space may have several words: ``--space lr=1e-4:1e-2:log dim=128,256``."""

    list_options: ClassVar = {"--space": _is_space_word}


@takes_graph()
def tune(
    context: typer.Context,
    inputs: GraphInput,
    method: MethodName = None,
    config: Config = None,
    trials: Annotated[int, typer.Option(help="Number of trials.")] = 30,
    minutes: Annotated[
        float | None,
        typer.Option(help="Time limit. A trial that is running then is interrupted, unless none is complete yet."),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Models per trial, counting up from --seed.")] = 2,
    space: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUES...", help="low:high, low:high:log or a,b,c; `default` adds the default space."
        ),
    ] = None,
    protocol: Annotated[str, typer.Option(help="strict (random splits) or public (published split).")] = "strict",
    ratios: Annotated[str, typer.Option(help="Shares of labels for training and validation.")] = "0.1,0.1",
    test: Annotated[
        bool, typer.Option(help="At the end, compare the test accuracy of default and tuned settings.")
    ] = True,
    out: Annotated[Path | None, typer.Option(help="Folder of the study. Default: runs/<graph>-<method>-tune.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the study in that folder, or join running processes.")
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Search a method's settings by the accuracy on validation nodes; test labels are hidden from the search.

    Example: epagcl tune cora --trials 30 --minutes 20 --space default dim=128,256,512
    """
    console = console_for(quiet)
    with busy(console, "starting"):
        from epagcl.study.tuning.study import tune as search

    method = method_of(method, config, inputs.graph)
    fixed = options_of(context, method)
    with busy(console, "reading the graph"):
        loaded = inputs.load()
    start = settings_of(context, loaded.recipe_name, method, config)
    folder = out or _default_folder(loaded.name, method)
    options: dict[str, Any] = {"trials": trials, "minutes": minutes, "seeds": seeds, "test": test, "resume": resume}
    with interruptible(resume_line()), StudyProgress(console, "trials") as work:
        options |= {"space": space or None, "protocol": protocol, "ratios": _parsed_ratios(ratios)}
        options |= _search_settings(start, fixed)
        result = search(loaded.data, method, folder=folder, name=loaded.name, work=work, **options)
    if as_json:
        print(json.dumps({**result.to_dict(), "folder": str(folder)}, indent=2))
    elif not quiet:
        show_tuning(loaded.name, result, folder, _train_command(inputs, result.method.name, folder))


def _default_folder(graph: str, method: str) -> Path:
    from epagcl.methods import method as method_class

    return Path("runs") / f"{graph}-{method_class(method).name}-tune".lower()


def _search_settings(start: dict[str, Any], fixed: dict[str, Any]) -> dict[str, Any]:
    """Return the settings as arguments of the search, which has the seed as an argument of its own."""
    start, fixed = dict(start), dict(fixed)
    seed = start.pop("seed", 0)
    fixed.pop("seed", None)
    return {"seed": seed, "start": start, **fixed}


def show_tuning(name: str, result: "Tuning", folder: Path, use: str) -> None:
    """Print the best trials, default against tuned settings, and the command that uses them.

    Args:
        name: of the graph.
        result: of the search.
        folder: of the study.
        use: the command that trains with the best settings.
    """
    search = result.search
    counts = ", ".join(f"{count} {state}" for state, count in search["trials"].items() if count)
    items: list[str | Table] = [f"{name}, {result.method.title}: {counts} trials in {duration(search['seconds'])}"]
    items.append(_best_trials(result))
    if result.scores is not None:
        items += _score_items(result.scores)
    items.append(
        f"protocol {search['protocol']}, split {search['split']}, {counted(search['seeds'], 'model')} each, measured "
        "here; settings and epochs chosen on validation nodes, test labels hidden from the search"
    )
    items.append(f"written to {folder}: best.toml, trials.csv, metrics.json")
    show(*items)
    print(f"use them: {use}")  # never folded, so that it can be copied


def _score_items(scores: "FinalScores") -> "list[str | Table]":
    """Return the table of default against tuned settings, and the gain on test nodes."""
    accuracies = table("settings", ">validation", ">test")
    for name, row in (("default", scores["default"]), ("tuned", scores["tuned"])):
        accuracies.add_row(name, percent(row["validation"], digits=2), percent(row["test"], digits=2))
    pairs = zip(scores["tuned"]["test"]["runs"], scores["default"]["test"]["runs"], strict=True)
    gains = [100 * (tuned - default) for tuned, default in pairs]
    each = f" ({', '.join(f'{gain:+.2f}' for gain in gains)} of each seed)" if len(gains) > 1 else ""
    items: list[str | Table] = [
        accuracies,
        f"tuned against default on test nodes: {sum(gains) / len(gains):+.2f}{each}",
    ]
    if (reads := scores["test_reads"]) > 1:
        items.append(
            f"the test nodes have been read {reads} times in this study: the last figure is slightly optimistic"
        )
    return items


def _best_trials(result: "Tuning") -> "Table":
    """Return a table with a column for each of the best trials and a row for each setting."""
    complete = [row for row in result.trials if row["state"] == "complete"]
    best = sorted(complete, key=lambda row: (-(row["validation"] or 0.0), row["trial"]))[:BEST_TRIALS]
    importance = [">importance"] if result.importance else []
    trials = table("best trials", *importance, *(f">trial {row['trial']}" for row in best))
    blank = [""] * len(importance)
    trials.add_row("validation", *blank, *(f"{100 * (row['validation'] or 0.0):.2f}" for row in best))
    trials.add_row("epochs", *blank, *(str(row["epochs"]) for row in best))
    order = sorted(result.search["space"], key=lambda name: -result.importance.get(name, 0.0))
    for name in (name for name in order if name != "epochs"):
        weight = [f"{result.importance.get(name, 0.0):.2f}"] if importance else []
        trials.add_row(name, *weight, *(_short(row["settings"][name]) for row in best))
    return trials


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _parsed_ratios(text: str) -> tuple[float, float]:
    try:
        train, val = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--ratios {text}: two shares with a comma, such as 0.1,0.1") from None
    return train, val


def _train_command(inputs: GraphInput, method: str, folder: Path) -> str:
    """Return the command that trains with the best settings."""
    config = shlex.quote(str(folder / "best.toml"))
    return f"epagcl train {inputs.words()} --method {method} --config {config}"
