"""``epagcl tune``: the command, and what it shows. Heavy imports wait until it is called."""

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epagcl.cli.options import (
    AsJson,
    Config,
    Edges,
    Features,
    Graph,
    Labels,
    MethodName,
    Nodes,
    Quiet,
    Root,
    WithSettings,
    graph_of,
    interruptible,
    options_of,
    resume_line,
    settings_of,
)
from epagcl.cli.progress import Work, busy, console_for
from epagcl.cli.rendering import show, table
from epagcl.core.errors import InputError

if TYPE_CHECKING:
    from epagcl.study.tuning.study import Tuning

SHOWN = 4  # of the best trials


class WithSpace(WithSettings):
    """A command whose space may be written with spaces: ``--space lr=1e-4:1e-2:log dim=128,256``."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:
        """Say --space before each of its words."""
        words: list[str] = []
        taking = False
        for word in args:
            if taking and not word.startswith("-") and ("=" in word or word == "default"):
                words += [] if words[-1] == "--space" else ["--space"]
            else:
                taking = word == "--space"
            words.append(word)
        return super().parse_args(ctx, words)


def tune(
    context: typer.Context,
    graph: Graph = None,
    edges: Edges = None,
    features: Features = None,
    labels: Labels = None,
    nodes: Nodes = None,
    data: Root = None,
    method: MethodName = "epagcl",
    config: Config = None,
    trials: Annotated[int, typer.Option(help="How many settings to try.")] = 30,
    minutes: Annotated[float | None, typer.Option(help="Begin no trial after so long.")] = None,
    seeds: Annotated[int, typer.Option(help="Models per trial, counting up from --seed.")] = 2,
    space: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUES...", help="low:high, low:high:log or a,b,c; `default` adds the default."),
    ] = None,
    protocol: Annotated[str, typer.Option(help="strict: random splits; public: the published one.")] = "strict",
    ratios: Annotated[str, typer.Option(help="Shares of labels for training and validation.")] = "0.1,0.1",
    test: Annotated[bool, typer.Option(help="Close by reading the test accuracy, default against tuned.")] = True,
    out: Annotated[Path | None, typer.Option(help="Folder; else runs/<graph>-<method>-tune.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the study in that folder, or join it.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Search a method's settings by the accuracy on validation nodes; test labels are hidden from the search.

    Example: epagcl tune cora --trials 30 --minutes 20 --space default dim=128,256,512
    """
    console = console_for(quiet)
    with busy(console, "starting"):
        from epagcl.methods import method as method_class
        from epagcl.study.tuning.study import tune as search

    fixed = options_of(context, method)
    with busy(console, "reading the graph"):
        name, graph_data, source = graph_of(graph, data, edges=edges, features=features, labels=labels, nodes=nodes)
    start = settings_of(context, None if source else name, method, config)
    seed = start.pop("seed", 0)
    fixed.pop("seed", None)
    folder = out or Path("runs") / f"{name}-{method_class(method).name}-tune".lower()
    with interruptible(resume_line()), Work(console, "trials") as work:
        result = search(
            graph_data,
            method,
            trials=trials,
            minutes=minutes,
            seeds=seeds,
            seed=seed,
            space=space or None,
            start=start,
            protocol=protocol,
            ratios=_shares(ratios),
            test=test,
            folder=folder,
            resume=resume,
            name=name,
            work=work,
            **fixed,
        )
    if as_json:
        print(json.dumps({**result.to_dict(), "folder": str(folder)}, indent=2))
    elif not quiet:
        train = f"epagcl train {_graph_words(graph, edges, features, labels, nodes)} --method {result.method.name}"
        show_tuning(name, result, folder, f"{train} --config {shlex.quote(str(folder / 'best.toml'))}")


def show_tuning(name: str, result: "Tuning", folder: Path, use: str) -> None:
    """The best trials beside the start, then default against tuned, then what to do with them."""
    counts = result.search["trials"]
    said = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    items: list[Any] = [f"{name}, {result.method.title}: {said} trials in {result.search['seconds'] / 60:.1f} min"]
    items.append(_best_trials(result))
    if result.scores is not None:
        compared = table("settings", ">validation", ">test")
        for row in ("default", "tuned"):
            compared.add_row(row, *(_percent(result.scores[row][part]) for part in ("validation", "test")))
        runs = [result.scores[row]["test"]["runs"] for row in ("tuned", "default")]
        gains = [100 * (tuned - default) for tuned, default in zip(*runs, strict=True)]
        each = f" ({', '.join(f'{gain:+.2f}' for gain in gains)} of each seed)" if len(gains) > 1 else ""
        items += [compared, f"tuned against default on test nodes: {sum(gains) / len(gains):+.2f}{each}"]
        if (reads := result.scores["test_reads"]) > 1:
            items.append(
                f"the test nodes have been read {reads} times in this study: the last figure flatters a little"
            )
    search = result.search
    models = f"{search['seeds']} model{'s' if search['seeds'] > 1 else ''} each"
    items.append(
        f"protocol {search['protocol']}, split {search['split']}, {models}, measured here; "
        "settings and epochs chosen on validation nodes, test labels hidden from the search"
    )
    items.append(f"written to {folder}: best.toml, trials.csv, metrics.json")
    show(*items)
    print(f"use them: {use}")  # on one line, to be copied


def _best_trials(result: "Tuning") -> Any:
    """A column for each of the best trials, a row for each setting."""
    complete = [row for row in result.trials if row["state"] == "complete"]
    best = sorted(complete, key=lambda row: (-row["validation"], row["trial"]))[:SHOWN]
    columns = [">importance"] if result.importance else []
    shown = table("best trials", *columns, *(f">trial {row['trial']}" for row in best))
    blank = [""] * len(columns)
    shown.add_row("validation", *blank, *(f"{100 * row['validation']:.2f}" for row in best))
    shown.add_row("epochs", *blank, *(str(row["epochs"]) for row in best))
    order = sorted(result.search["space"], key=lambda name: -result.importance.get(name, 0.0))
    for name in (name for name in order if name != "epochs"):
        weight = [f"{result.importance.get(name, 0.0):.2f}"] if columns else []
        shown.add_row(name, *weight, *(_number(row["settings"][name]) for row in best))
    return shown


def _percent(scores: dict[str, Any]) -> str:
    spread = f" ± {100 * scores['std']:.2f}" if len(scores["runs"]) > 1 else ""
    return f"{100 * scores['mean']:.2f}{spread}"


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _shares(text: str) -> tuple[float, float]:
    try:
        train, val = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--ratios {text}: two shares with a comma, such as 0.1,0.1") from None
    return train, val


def _graph_words(graph: str | None, *files: Path | None) -> str:
    names = ("--edges", "--features", "--labels", "--nodes")
    given = [word for name, file in zip(names, files, strict=True) if file is not None for word in (name, str(file))]
    return shlex.join([*([graph] if graph else []), *given])
