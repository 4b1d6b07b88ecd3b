"""``epagcl compare``: methods side by side."""

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epagcl.cli.completion import complete_graphs, complete_methods, complete_protocols
from epagcl.cli.graph_input import GraphInput, takes_graph
from epagcl.cli.loaded_graph import LoadedGraph
from epagcl.cli.options import (
    AsJson,
    Quiet,
    interruptible,
    names_in,
    options_of,
    refuse_seed,
)
from epagcl.cli.progress import StudyProgress, busy, console_for
from epagcl.cli.rendering import show_comparison, show_overall
from epagcl.core.errors import InputError
from epagcl.core.formatting import counted
from epagcl.core.log import log

if TYPE_CHECKING:
    from epagcl.study.design import Cell
    from epagcl.study.store import Store
    from epagcl.study.summary import Results


@takes_graph("graph")
def compare(
    context: typer.Context,
    inputs: GraphInput,
    graphs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME|FILE]...", help="Graphs with labels.", autocompletion=complete_graphs),
    ] = None,
    methods: Annotated[
        str,
        typer.Option(
            help="Methods, separated by commas; gca* is GCA without feature masks. Default: all.",
            autocompletion=complete_methods,
        ),
    ] = "",
    seeds: Annotated[int, typer.Option(help="Number of seeds per method; seed k is scored on split k.")] = 5,
    protocols: Annotated[
        str,
        typer.Option(help="Protocols, separated by commas: strict, paper, public.", autocompletion=complete_protocols),
    ] = "strict,paper",
    out: Annotated[Path, typer.Option(help="Folder of results; results in it are not computed again.")] = Path(
        "runs/compare"
    ),
    stored: Annotated[bool, typer.Option("--stored", help="Show results in the folder only; train nothing.")] = False,
    save: Annotated[Path | None, typer.Option(help="Write all results and their ranking to this JSON file.")] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Draw the critical-difference diagram over the graphs: .svg or .png.")
    ] = None,
    untrained: Annotated[
        bool, typer.Option("--untrained", help="Include each method's own untrained encoder, in place of EPAGCL's.")
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train several methods on the same graphs and splits, and compare them with raw features and published results.

    With several graphs, a table over all of them follows, with mean ranks and their critical difference.

    Example: epagcl compare cora citeseer --methods epagcl,grace,gca --seeds 5
    """
    console = console_for(quiet)
    with busy(console, "starting"):
        from epagcl.evaluation.protocol import PROTOCOLS
        from epagcl.study.comparison import collect, fill
        from epagcl.study.design import cells, protocols_of, rows
        from epagcl.study.store import Store
        from epagcl.study.summary import ranking_protocol, summarise, write_comparison

    wanted = names_in(protocols)
    if not wanted or set(wanted) - set(PROTOCOLS):
        raise InputError(f"--protocols {protocols}: choose from {', '.join(PROTOCOLS)}")
    if seeds < 1:
        raise InputError("--seeds must be at least 1")
    refuse_seed(context, "--seeds")
    _check_outputs(out, save, figure, graphs or [], inputs)
    chosen = rows(names_in(methods), untrained=untrained)
    settings = options_of(context, *(row.method for row in chosen if row.method is not None and not row.reference))
    with busy(console, "reading the graphs"):
        loaded = _load(graphs or [], inputs)
    _check_graphs(loaded, wanted)
    wanted = [protocol for protocol in wanted if any(protocols_of(graph.data, [protocol]) for graph in loaded)]
    if figure is not None:
        _check_observations(figure, loaded, ranking_protocol(wanted))
    _check_writable(save, figure)
    cells_of = partial(cells, wanted=chosen, seeds=seeds, protocols=wanted, settings=settings)
    cells_by_graph = {name: cells_of(graph, name, named=not source) for name, graph, source in loaded}
    store, work = Store(out), StudyProgress(console)
    if stored:
        _report_missing(cells_by_graph, store)
    else:
        with interruptible("finished results are kept; the same command continues"), work:
            fill([cell for row in cells_by_graph.values() for cell in row], store, work)
    collected = {name: [collect(cell, store) for cell in row] for name, row in cells_by_graph.items()}
    finished = {name: [result for result in row if result is not None] for name, row in collected.items()}
    comparison = summarise(finished, command=_command(), seeds=seeds, protocols=wanted)
    if as_json:
        print(json.dumps(comparison, indent=2))
    elif not quiet:
        _show(finished, wanted)
    if save is not None:
        write_comparison(comparison, save)
    if figure is not None:
        _draw(finished, wanted, figure)


def _load(graphs: Sequence[str], inputs: GraphInput) -> list[LoadedGraph]:
    """Load named graphs and files, and the graph of the tables if there are any."""
    if graphs and inputs.edges is None and (extra := inputs.words()):
        raise InputError(f"{extra}: belongs to --edges; give them, or leave it out")
    others = [GraphInput(graph=graph, data=inputs.data).load() for graph in graphs]
    if inputs.is_given or not graphs:
        others.append(inputs.load())
    return others


def _check_outputs(
    out: Path, save: Path | None, figure: Path | None, graphs: Sequence[str], inputs: GraphInput
) -> None:
    """Raise, before any graph is read, if the names of the outputs are wrong, or the figure has too few graphs."""
    from epagcl.core.outputs import check_folder, check_kept
    from epagcl.study.diagram import SUFFIXES

    check_folder(out)
    if save is not None and save.suffix.lower() != ".json":
        raise InputError(f"--save {save}: must end in .json")
    if figure is not None and figure.suffix.lower() not in SUFFIXES:
        raise InputError(f"--figure {figure}: must end in {' or '.join(SUFFIXES)}")
    if figure is not None and len(graphs) + inputs.is_given < 2:
        raise InputError("--figure needs at least two graphs; it shows mean ranks over graphs")
    for file in (save, figure):
        check_kept(file, *graphs, *inputs.files.values())


def _check_writable(save: Path | None, figure: Path | None) -> None:
    """Raise, before anything is trained, if a file cannot be written. Folders are created."""
    from epagcl.core.outputs import check_writable

    for option, file in (("--save", save), ("--figure", figure)):
        if file is not None:
            try:
                check_writable(file)
            except InputError as error:
                raise InputError(f"{option} {error}") from None


def _check_observations(figure: Path, graphs: Sequence[LoadedGraph], protocol: str) -> None:
    """Raise, before anything is trained, if the graphs with splits for a protocol are fewer than two observations."""
    from epagcl.study.design import protocols_of
    from epagcl.study.ranking import observations

    ranked = [graph for graph in graphs if protocols_of(graph.data, [protocol])]
    found = observations([graph.name for graph in ranked], own=[graph.name for graph in ranked if graph.source])
    if len(found) >= 2:
        return
    reason = f"{next(iter(found))} have the same nodes and count as one graph"
    if len(ranked) == 1:
        reason = f"only {ranked[0].name} has splits of the protocol {protocol}, by which rows are ranked"
    raise InputError(f"--figure {figure}: {reason}; add a graph, or leave --figure out")


def _report_missing(cells_by_graph: "Mapping[str, Sequence[Cell]]", store: "Store") -> None:
    """Log how many runs are not stored. Raise if none is."""
    cells = [cell for row in cells_by_graph.values() for cell in row]
    runs, missing = sum(cell.seeds for cell in cells), sum(len(cell.missing(store)) for cell in cells)
    if missing == runs:
        absent = f"has none of these {counted(runs, 'run')}"
        raise InputError(f"--out {store.folder}: {absent}; leave out --stored to compute them")
    if missing:
        log.warning("%d of %d runs are not stored; without --stored they are computed", missing, runs)


def _draw(results: "Results", protocols: Sequence[str], figure: Path) -> None:
    """Write the critical-difference diagram."""
    from epagcl.study.diagram import save_diagram
    from epagcl.study.summary import ranking_of, ranking_protocol

    ranking = ranking_of(results, ranking_protocol(protocols))
    if ranking is None:
        needed = "ranks need two graphs, and two rows with results on all graphs"
        raise InputError(f"--figure {figure}: {needed}; compute the missing runs first")
    save_diagram(ranking, figure)


def _command() -> str:
    """Return this command without the options that do not change the results: places of files, and what is shown."""
    words, kept = iter(sys.argv[1:]), ["epagcl"]
    for word in words:
        flag, equals, _ = word.partition("=")
        if flag in ("--data", "--out", "--save", "--figure"):
            if not equals:
                next(words, None)  # the value
        elif word not in ("--stored", "--quiet", "-q", "--json"):
            kept.append(word)
    return shlex.join(kept)


def _show(results: "Results", protocols: Sequence[str]) -> None:
    """Print a table for each graph and, with several graphs, one over all."""
    from epagcl.study.summary import ranking_of, ranking_protocol

    measured = {name: row for name, row in results.items() if row}
    for name, row in measured.items():
        show_comparison(name, row, protocols)
    if len(measured) > 1:
        protocol = ranking_protocol(protocols)
        show_overall(results, ranking_of(results, protocol), protocol)


def _check_graphs(graphs: Sequence[LoadedGraph], protocols: Sequence[str]) -> None:
    """Raise unless all graphs have different names, labels, and splits for some protocol."""
    from epagcl.runs.evaluation import Plan, unfit_labels
    from epagcl.study.design import protocols_of

    if len({graph.name.lower() for graph in graphs}) < len(graphs):
        raise InputError("two graphs have the same name; rename one, or compare them separately")
    for name, data, _ in graphs:
        if data.y is None:
            raise InputError(
                f"{name}: no labels, by which methods are compared; give --labels, or --label for a column"
            )
        if not protocols_of(data, protocols):
            raise InputError(f"{name}: no published split; give --protocols strict or paper")
        if reason := unfit_labels(data, Plan("strict")):
            raise InputError(f"{name}: {reason}")
