"""``epagcl paper``: a subcommand for each table and figure of the paper."""

import json
import shlex
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
from epagcl.paper import ARTEFACTS, find_artefact

if TYPE_CHECKING:
    from epagcl.paper.artefact import Request

app = typer.Typer(
    help="Reproduce the paper's tables and figures, and compare them with the reported numbers.", rich_markup_mode=None
)


def any_word(word: str) -> bool:
    """Accept every word as an element of a list."""
    return True


class ArtefactCommand(WithLists):
    """A command whose lists may be written with spaces or commas: ``--datasets cora citeseer``."""

    list_options: ClassVar = dict.fromkeys(("--datasets", "--methods", "--protocol"), any_word)


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
class MeasureOptions:
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
        lists = {"datasets": names_of(datasets), "methods": names_of(methods), "protocols": names_of(protocol)}
        choices = MeasureOptions(runs, device, data, store or out / "store", stored, quiet, **lists)
        work = study_progress(quiet)
        request = request_of(name, context, choices, work)
        result = make_and_write(name, request, work, out, verbose=not (quiet or as_json))
        if as_json:
            print(json.dumps(result, indent=2, ensure_ascii=False))

    entry = ARTEFACTS[name]
    command.__doc__ = f"{entry.source}: {entry.summary}.\n\nExample: epagcl paper {name} --datasets cora citeseer"


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

    choices = MeasureOptions(runs, device, data, store or out / "store", stored, quiet)
    progress = {name: study_progress(quiet) for name in ARTEFACTS}
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
    from epagcl.paper.page.assembly import write_page

    print(f"written: {write_page(results, docs)}")


def request_of(name: str, context: typer.Context, choices: MeasureOptions, work: StudyProgress) -> "Request":
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


def names_of(words: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names in the words of a list option, each once, in order."""
    return tuple(dict.fromkeys(name for word in words or () for name in names_in(word)))


def study_progress(quiet: bool) -> StudyProgress:
    """Return what shows the progress of a study."""
    return StudyProgress(None if quiet else console_for(quiet))
