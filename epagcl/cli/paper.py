"""``epagcl paper``: a subcommand for each table and figure of the paper."""

import json
import os
import shlex
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from epagcl.cli.completion import complete_graphs, complete_methods
from epagcl.cli.options import AsJson, Root, WithLists, interruptible, names_in, options_of, refuse_seed
from epagcl.cli.progress import StudyProgress, console_for
from epagcl.cli.rendering import artefact_table, show, table
from epagcl.core.errors import InputError
from epagcl.core.log import log
from epagcl.paper import ARTEFACTS, find_artefact

if TYPE_CHECKING:
    from epagcl.paper.artefact import Request, Result
    from epagcl.paper.plan import Plan
    from epagcl.study.summary import Comparison

app = typer.Typer(
    help="Reproduce the paper's tables and figures, and compare them with the reported numbers.", rich_markup_mode=None
)


def _any_word(word: str) -> bool:
    return True


class ArtefactCommand(WithLists):
    """A command whose lists may be written with spaces or commas: ``--datasets cora citeseer``."""

    list_options: ClassVar = dict.fromkeys(("--datasets", "--methods", "--protocol"), _any_word)


Datasets = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME...",
        help="Named graphs. Default: the graphs of this table or figure.",
        autocompletion=complete_graphs,
    ),
]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME...", help="Methods; 'gca*' is GCA without feature masks.", autocompletion=complete_methods
    ),
]
Runs = Annotated[int, typer.Option(help="Number of seeds, counted from seed 0; 0 means the default number.")]
Protocol = Annotated[list[str] | None, typer.Option(metavar="NAME...", help="Protocols: strict, paper, public.")]
Device = Annotated[str, typer.Option(help="Device: auto, cpu, cuda, cuda:1 or mps.")]
Out = Annotated[Path, typer.Option(help="Folder for tables and figures.")]
StoreFolder = Annotated[Path | None, typer.Option("--store", help="Folder of single runs. Default: OUT/store.")]
Stored = Annotated[bool, typer.Option("--stored", help="Train nothing; use only stored runs.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no tables.")]
OUT = Path("runs/paper")
SETTINGS_HELP = "Settings of the methods are options too: --epochs 20."
RESUME_HINT = "finished runs are kept; the same command continues"


@dataclass(frozen=True)
class Choices:
    """The options of a command. Empty lists and ``runs=0`` mean the defaults of the artefact.

    Attributes:
        runs: number of seeds.
        device: where to compute.
        root: folder of named graphs.
        store: folder of single runs.
        stored: whether to use only the runs in the store.
        quiet: whether to show no progress.
        datasets: names of graphs.
        methods: names of methods.
        protocols: names of protocols.
    """

    runs: int
    device: str
    root: Path | None
    store: Path
    stored: bool
    quiet: bool
    datasets: tuple[str, ...] = field(default=())
    methods: tuple[str, ...] = field(default=())
    protocols: tuple[str, ...] = field(default=())


@app.callback(invoke_without_command=True)
def _list(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        listing = table("artefact", "in the paper", "what it shows")
        for name, entry in ARTEFACTS.items():
            listing.add_row(name, entry.source, entry.summary)
        show(listing, "epagcl paper all makes them all; epagcl paper ARTEFACT --help lists the options")


def _add_command(name: str) -> None:
    """Add the subcommand of an artefact."""

    @app.command(name, cls=ArtefactCommand, epilog=SETTINGS_HELP)
    def command(
        context: typer.Context,
        datasets: Datasets = None,
        methods: Methods = None,
        runs: Runs = 0,
        protocol: Protocol = None,
        device: Device = "auto",
        data: Root = None,
        out: Out = OUT,
        store: StoreFolder = None,
        stored: Stored = False,
        quiet: Quiet = False,
        as_json: AsJson = False,
    ) -> None:
        lists = {"datasets": _names(datasets), "methods": _names(methods), "protocols": _names(protocol)}
        choices = Choices(runs, device, data, store or out / "store", stored, quiet, **lists)
        work = _progress(quiet)
        request = request_of(name, context, choices, work)
        result = make_and_write(name, request, work, out, verbose=not (quiet or as_json))
        if as_json:
            print(json.dumps(result, indent=2, ensure_ascii=False))

    entry = ARTEFACTS[name]
    command.__doc__ = f"{entry.source}: {entry.summary}.\n\nExample: epagcl paper {name} --runs 5 --device cuda"


for _name in ARTEFACTS:
    _add_command(_name)


@app.command("all", cls=ArtefactCommand, epilog=SETTINGS_HELP)
def every(
    context: typer.Context,
    runs: Runs = 0,
    device: Device = "auto",
    data: Root = None,
    out: Out = OUT,
    store: StoreFolder = None,
    stored: Stored = False,
    quiet: Quiet = False,
) -> None:
    """Measure every table and figure with its default graphs and methods. Several processes can share one store.

    Example: epagcl paper all --device cuda
    """
    from epagcl.study.comparison import fill
    from epagcl.study.store import Store

    choices = Choices(runs, device, data, store or out / "store", stored, quiet)
    progress = {name: _progress(quiet) for name in ARTEFACTS}
    requests = {name: request_of(name, context, choices, progress[name]) for name in ARTEFACTS}
    if not stored:
        # All runs as one list, so that no process waits for another at the end of each artefact.
        cells = [cell for name, request in requests.items() for cell in find_artefact(name).cells(request)]
        work = next(iter(progress.values()))
        with interruptible(RESUME_HINT), work:
            fill(cells, Store(choices.store), work)
    for name, request in requests.items():
        make_and_write(name, request, progress[name], out, verbose=not quiet)


@app.command()
def page(
    results: Annotated[Path, typer.Option(help="Folder of the measured results (JSON).")] = Path("results/paper"),
    docs: Annotated[Path, typer.Option(help="Folder for results.md and its figures.")] = Path("docs"),
) -> None:
    """Write one Markdown page of all results and figures, and state which claims of the paper hold.

    Example: epagcl paper page --results runs/paper --docs runs/page
    """
    from epagcl.paper.page import write_page

    print(f"written: {write_page(results, docs)}")


ResultsFolder = Annotated[Path, typer.Option(help="Folder of the measured results (JSON).")]
Parts = Annotated[
    list[str] | None, typer.Option(metavar="NAME...", help="Parts of the study: artefacts that train, and comparison.")
]


class StudyCommand(WithLists):
    """A command whose graphs and parts may be written with spaces or commas. Titles of rows contain spaces."""

    list_options: ClassVar = dict.fromkeys(("--datasets", "--parts"), _any_word)


@app.command(cls=StudyCommand)
def plan(
    results: ResultsFolder = Path("results/paper"),
    datasets: Datasets = None,
    parts: Parts = None,
    processes: Annotated[int, typer.Option(help="Number of processes that will share the work.")] = 1,
    fresh: Annotated[bool, typer.Option("--fresh", help="List all runs, as if none were stored.")] = False,
    data: Root = None,
    as_json: AsJson = False,
) -> None:
    """List the runs that the study lacks, with their estimated time, ordered by what they decide. Nothing is trained.

    The comparison over all graphs is read from comparison.json beside the folder of results.

    Example: epagcl paper plan --processes 14
    """
    if processes < 1:
        raise InputError(f"--processes {processes}: at least 1")
    *_, found = _planned(results, datasets, parts, data, fresh)
    if as_json:
        print(json.dumps(found.to_dict(), indent=2, ensure_ascii=False))
        return
    absent = [f"{graph}: {reason}" for graph, reason in found.absent.items()]
    if not found.runs:
        show("nothing is missing on the graphs that are here" if absent else "nothing is missing", *absent)
        return
    listing = table("decides", "needed for", "graph", "row", ">seeds", ">s a seed", ">minutes", "estimated from")
    for runs in found.runs:
        seconds = "–" if runs.seconds is None else f"{runs.seconds:.1f}"
        seeds = f"{len(runs.seeds)} of {runs.wanted}"
        where = (runs.decides, ", ".join(runs.parts), runs.graph, runs.row)
        listing.add_row(*where, seeds, seconds, f"{runs.total / 60:.1f}", runs.basis)
    count = sum(len(runs.seeds) for runs in found.runs)
    hours = found.seconds / processes / 3600
    shared = "one process" if processes == 1 else f"{processes} processes"
    total = f"{count} runs of {len(found.runs)} cells {'in all' if fresh else 'are missing'}"
    show(listing, f"{total}: about {hours:.1f} hours with {shared}", *absent)


@app.command(cls=StudyCommand)
def complete(
    results: ResultsFolder = Path("results/paper"),
    datasets: Datasets = None,
    parts: Parts = None,
    rows: Annotated[list[str] | None, typer.Option(metavar="TITLE", help="Row of the tables; may be repeated.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Seeds per row and graph. Default: all that are missing.")] = None,
    processes: Annotated[int, typer.Option(help="Number of processes that share the work on this machine.")] = 1,
    minutes: Annotated[
        float | None, typer.Option(help="Stop after this many minutes, and add what is finished to the results.")
    ] = None,
    compute_only: Annotated[
        bool, typer.Option("--compute-only", help="Fill the store, and leave the results as they are.")
    ] = False,
    device: Device = "auto",
    data: Root = None,
    store: Annotated[Path, typer.Option(help="Folder of single runs.")] = OUT / "store",
    stored: Stored = False,
    quiet: Quiet = False,
) -> None:
    """Compute the runs that `epagcl paper plan` lists, and add them to the results.

    Commands on several machines can share a store; all but one of them use --compute-only.

    Example: epagcl paper complete --datasets squirrel actor --device cuda --processes 16
    """
    from epagcl.core.hardware import resolve_device
    from epagcl.paper.completion import chosen, write_completed
    from epagcl.paper.completion import complete as complete_study
    from epagcl.study.store import Store

    if seeds is not None and seeds < 1:
        raise InputError(f"--seeds {seeds}: at least 1")
    if processes < 1:
        raise InputError(f"--processes {processes}: at least 1")
    if minutes is not None and not minutes > 0:
        raise InputError(f"--minutes {minutes:g}: must be positive")
    resolve_device(device)
    measured, comparison, found = _planned(results, datasets, parts, data)
    work = _progress(quiet)
    missing, failed = chosen(found, device, rows or (), seeds), 0
    if missing and not stored and (processes > 1 or minutes is not None):
        options = {"--results": results, "--seeds": seeds, "--device": device, "--data": data, "--store": store}
        lists = {"--datasets": _names(datasets), "--parts": _names(parts), "--rows": rows or ()}
        words = [word for name, value in options.items() if value is not None for word in (name, str(value))]
        words += [word for name, values in lists.items() for value in values for word in (name, value)]
        with interruptible(RESUME_HINT):
            failed = _compute_in_processes([*words, *["--quiet"] * quiet], processes, minutes, store / "logs")
        stored = True
    with interruptible(RESUME_HINT), work:
        completed = complete_study(
            *(measured, comparison, found, missing, Store(store)),
            device=device,
            root=data,
            train=not stored,
            work=work,
        )
    if not compute_only:
        changed = write_completed(completed, results, Store(store))
        show(f"changed: {', '.join(map(str, changed))}" if changed else "nothing has changed")
    if failed:
        raise typer.Exit(1)


def _compute_in_processes(options: Sequence[str], processes: int, minutes: float | None, logs: Path) -> int:
    """Fill the store by several processes, until nothing is missing or the time is over; return how many failed."""
    from epagcl.study.workers import run_workers

    command = [sys.executable, "-m", "epagcl", "paper", "complete", *options, "--compute-only"]
    own_logs = logs / f"{socket.gethostname()}-{os.getpid()}"  # several machines may share the store
    failed = run_workers(command, processes, own_logs, None if minutes is None else 60 * minutes)
    if failed:
        log.warning("%d of %d processes failed; their runs are still missing", failed, processes)
    return failed


def _planned(
    folder: Path,
    datasets: Sequence[str] | None,
    parts: Sequence[str] | None,
    root: Path | None,
    fresh: bool = False,
) -> "tuple[dict[str, Result], Comparison | None, Plan]":
    """Read the results and the comparison beside them, and plan what they lack."""
    from epagcl.paper.page import read_comparison_beside, read_results
    from epagcl.paper.plan import PARTS
    from epagcl.paper.plan import plan as plan_study

    wanted = _names(parts)
    if unknown := [part for part in wanted if part not in PARTS]:
        raise InputError(f"--parts {' '.join(unknown)}: choose from {', '.join(PARTS)}")
    measured, comparison = read_results(folder), read_comparison_beside(folder)
    return measured, comparison, plan_study(measured, comparison, root, wanted or PARTS, _names(datasets), fresh)


def request_of(name: str, context: typer.Context, choices: Choices, work: StudyProgress) -> "Request":
    """Return the request to an artefact. Raise if an option is wrong.

    Args:
        name: of the artefact.
        context: holds the settings on the command line.
        choices: the other options.
        work: receives the progress.
    """
    from epagcl.core.hardware import resolve_device
    from epagcl.evaluation.protocol import PROTOCOLS
    from epagcl.paper.artefact import Request
    from epagcl.study.design import rows
    from epagcl.study.store import Store

    artefact = find_artefact(name)
    protocols = choices.protocols or artefact.protocols
    if set(protocols) - set(PROTOCOLS):
        raise InputError(f"--protocol {' '.join(protocols)}: choose from {', '.join(PROTOCOLS)}")
    if choices.runs < 0:
        raise InputError(f"--runs {choices.runs}: at least 1")
    refuse_seed(context, "--runs")
    resolve_device(choices.device)
    methods = choices.methods or artefact.methods
    settings = options_of(
        context, *(row.method for row in rows(methods) if row.method is not None and not row.reference)
    )
    return Request(
        datasets=choices.datasets or artefact.datasets,
        methods=methods,
        runs=choices.runs or artefact.runs,
        protocols=protocols,
        settings={**settings, "device": choices.device},
        root=choices.root,
        store=Store(choices.store),
        work=work,
        train=not choices.stored,
    )


def make_and_write(name: str, request: "Request", work: StudyProgress, out: Path, *, verbose: bool) -> dict[str, Any]:
    """Measure an artefact, write its files and, if ``verbose``, print it. Return the result."""
    artefact = find_artefact(name)
    with interruptible(RESUME_HINT), work:
        words = (word for word in sys.argv[1:] if word != "--stored")  # the command that fills the store
        result = artefact.make(request, f"epagcl {' '.join(shlex.quote(word) for word in words)}")
    files = artefact.write(result, out)
    if verbose:
        show(f"{artefact.title} ({ARTEFACTS[name].source})")
        for one in artefact.tables(result):
            if not one.folded:
                show(one.title, artefact_table(one), one.note, "")
        show(*(f"- {paragraph.replace('**', '').replace(chr(92), '')}" for paragraph in artefact.reading(result)))
        show("written: " + ", ".join(str(path) for path in files))
    return result


def _names(words: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names in the words of a list option, each once, in order."""
    return tuple(dict.fromkeys(name for word in words or () for name in names_in(word)))


def _progress(quiet: bool) -> StudyProgress:
    return StudyProgress(None if quiet else console_for(quiet))
