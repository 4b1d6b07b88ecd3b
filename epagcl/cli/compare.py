"""``epagcl compare``: methods side by side."""

import json
from pathlib import Path
from typing import Annotated

import typer
import typer.core

from epagcl.cli.options import (
    AsJson,
    Quiet,
    Root,
    graph_of,
    interruptible,
    options_of,
)
from epagcl.cli.progress import Work, busy, console_for
from epagcl.cli.rendering import show_comparison
from epagcl.core.errors import InputError


def compare(
    context: typer.Context,
    graphs: Annotated[list[str], typer.Argument(metavar="NAME|FILE...", help="Graphs with labels.")],
    methods: Annotated[str, typer.Option(help="With commas; * = no feature masks: grace,gca*. Else all.")] = "",
    seeds: Annotated[int, typer.Option(help="Models of each method; seed k is scored on split k.")] = 5,
    protocols: Annotated[str, typer.Option(help="Of strict, paper, public, with commas.")] = "strict,paper",
    data: Root = None,
    out: Annotated[Path, typer.Option(help="Folder of results; what is there already is not trained again.")] = Path(
        "runs/compare"
    ),
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train several methods on the same graphs and splits, and print them beside raw features and published figures.

    Example: epagcl compare cora citeseer --methods epagcl,grace,gca --seeds 5
    """
    console = console_for(quiet)
    with busy(console, "starting"):
        from epagcl.evaluation.protocol import PROTOCOLS
        from epagcl.runs.evaluation import Plan, unfit_labels
        from epagcl.study.cells import cells, protocols_of, rows
        from epagcl.study.comparison import collect, fill
        from epagcl.study.store import Store

    wanted = [protocol.strip() for protocol in protocols.split(",") if protocol.strip()]
    if not wanted or set(wanted) - set(PROTOCOLS):
        raise InputError(f"--protocols {protocols}: choose of {', '.join(PROTOCOLS)}")
    if seeds < 1:
        raise InputError("--seeds must be at least 1")
    if any(flag == "--seed" for flag, _ in context.meta["settings"]):
        raise InputError("no option --seed; models have the seeds 0, 1, ... up to --seeds")
    chosen = rows([name.strip() for name in methods.split(",") if name.strip()])
    settings = options_of(context, *(row.method for row in chosen[2:]))
    with busy(console, "reading the graphs"):
        loaded = [graph_of(graph, data) for graph in graphs]
    if len({name.lower() for name, _, _ in loaded}) < len(loaded):
        raise InputError("two graphs of one name; their results would mix: rename one, or compare them apart")
    for name, graph_data, _ in loaded:
        if graph_data.y is None:
            raise InputError(f"{name}: no labels to compare by")
        if not protocols_of(graph_data, wanted):
            raise InputError(f"{name}: no published split; give --protocols strict or paper")
        if reason := unfit_labels(graph_data, Plan("strict")):
            raise InputError(f"{name}: {reason}")
    options = {"seeds": seeds, "protocols": wanted, "settings": settings}
    made = {name: cells(graph_data, name, chosen, named=not source, **options) for name, graph_data, source in loaded}
    store, work = Store(out), Work(console)
    with interruptible("what is finished is kept; the same command goes on"), work:
        fill([cell for row in made.values() for cell in row], store, work)
    results = {name: [collect(cell, store) for cell in row] for name, row in made.items()}
    if as_json:
        print(json.dumps(results, indent=2))
    elif not quiet:
        for name, found in results.items():
            show_comparison(name, found, wanted)
