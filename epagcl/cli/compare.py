"""``epagcl compare``: methods side by side."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from epagcl.cli.options import (
    AsJson,
    LoadedGraph,
    Quiet,
    Root,
    graph_of,
    interruptible,
    names_in,
    options_of,
    refuse_seed,
)
from epagcl.cli.progress import StudyProgress, busy, console_for
from epagcl.cli.rendering import show_comparison
from epagcl.core.errors import InputError


def compare(
    context: typer.Context,
    graphs: Annotated[list[str], typer.Argument(metavar="NAME|FILE...", help="Graphs with labels.")],
    methods: Annotated[
        str, typer.Option(help="Methods, separated by commas; gca* is GCA without feature masks. Default: all.")
    ] = "",
    seeds: Annotated[int, typer.Option(help="Number of seeds per method; seed k is scored on split k.")] = 5,
    protocols: Annotated[
        str, typer.Option(help="Protocols, separated by commas: strict, paper, public.")
    ] = "strict,paper",
    data: Root = None,
    out: Annotated[Path, typer.Option(help="Folder of results; results in it are not computed again.")] = Path(
        "runs/compare"
    ),
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train several methods on the same graphs and splits, and compare them with raw features and published results.

    Example: epagcl compare cora citeseer --methods epagcl,grace,gca --seeds 5
    """
    console = console_for(quiet)
    with busy(console, "starting"):
        from epagcl.evaluation.protocol import PROTOCOLS
        from epagcl.study.comparison import collect, fill
        from epagcl.study.design import cells, rows
        from epagcl.study.store import Store

    wanted = names_in(protocols)
    if not wanted or set(wanted) - set(PROTOCOLS):
        raise InputError(f"--protocols {protocols}: choose from {', '.join(PROTOCOLS)}")
    if seeds < 1:
        raise InputError("--seeds must be at least 1")
    refuse_seed(context, "--seeds")
    chosen = rows(names_in(methods))
    settings = options_of(context, *(row.method for row in chosen[2:] if row.method is not None))
    with busy(console, "reading the graphs"):
        loaded = [graph_of(graph, data) for graph in graphs]
    _check_graphs(loaded, wanted)
    cells_by_graph = {
        graph.name: cells(
            graph.data,
            graph.name,
            chosen,
            seeds=seeds,
            protocols=wanted,
            settings=settings,
            named=graph.recipe_name is not None,
        )
        for graph in loaded
    }
    store, work = Store(out), StudyProgress(console)
    with interruptible("finished results are kept; the same command continues"), work:
        fill([cell for row in cells_by_graph.values() for cell in row], store, work)
    results = {name: [collect(cell, store) for cell in row] for name, row in cells_by_graph.items()}
    if as_json:
        print(json.dumps(results, indent=2))
    elif not quiet:
        for name, row in results.items():
            show_comparison(name, [result for result in row if result is not None], wanted)


def _check_graphs(graphs: Sequence[LoadedGraph], protocols: Sequence[str]) -> None:
    """Raise unless all graphs have different names, labels, and splits for some protocol."""
    from epagcl.runs.evaluation import Plan, unfit_labels
    from epagcl.study.design import protocols_of

    if len({graph.name.lower() for graph in graphs}) < len(graphs):
        raise InputError("two graphs have the same name; rename one, or compare them separately")
    for name, data, _ in graphs:
        if data.y is None:
            raise InputError(f"{name}: no labels; the comparison needs them")
        if not protocols_of(data, protocols):
            raise InputError(f"{name}: no published split; give --protocols strict or paper")
        if reason := unfit_labels(data, Plan("strict")):
            raise InputError(f"{name}: {reason}")
