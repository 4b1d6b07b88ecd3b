"""``epagcl paper``: a subcommand for each table and figure of the paper. Heavy imports wait until one is called."""

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epagcl.cli.options import WithSettings, interruptible, options_of
from epagcl.cli.progress import Work, console_for
from epagcl.cli.rendering import show, table
from epagcl.core.errors import InputError
from epagcl.paper import ARTEFACTS, find_artefact

if TYPE_CHECKING:
    from epagcl.paper.artefact import Request

LISTS = ("--datasets", "--methods", "--protocol")

app = typer.Typer(help="The paper's tables and figures, measured anew beside what it reports.", rich_markup_mode=None)


class WithLists(WithSettings):
    """A command whose lists may be written with spaces or commas: ``--datasets cora citeseer``."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:
        """Join what follows a list's option."""
        joined: list[str] = []
        taking = False
        for word in args:
            if word.startswith("-"):
                taking = word in LISTS
                joined.append(word)
            elif taking and joined[-1] not in LISTS:
                joined[-1] += f",{word}"
            else:
                joined.append(word)
        return super().parse_args(ctx, joined)


Datasets = Annotated[str, typer.Option(metavar="NAME...", help="Named graphs; else those of the artefact.")]
Methods = Annotated[str, typer.Option(metavar="NAME...", help="Methods; * = no feature masks: grace 'gca*'.")]
Runs = Annotated[int, typer.Option(help="Seeds 0, 1, ...; 0: as many as the artefact has by default.")]
Protocol = Annotated[str, typer.Option(metavar="NAME...", help="Of strict, paper, public.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")]
Root = Annotated[Path | None, typer.Option("--data", help="Folder of named graphs; else EPAGCL_DATA, else the cache.")]
Out = Annotated[Path, typer.Option(help="Folder for tables and figures.")]
StoreFolder = Annotated[Path | None, typer.Option("--store", help="Folder of single runs; else OUT/store.")]
Stored = Annotated[bool, typer.Option("--stored", help="Train nothing: tables from what the store holds.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no tables.")]
AsJson = Annotated[bool, typer.Option("--json", help="The result as JSON on stdout.")]
OUT = Path("runs/paper")
SETTINGS_HELP = "Settings of the methods are options too: --epochs 20."
KEPT = "what is finished is kept; the same command goes on"


@app.callback(invoke_without_command=True)
def _list(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        shown = table("artefact", "in the paper", "what it shows")
        for name, (_, source, summary) in ARTEFACTS.items():
            shown.add_row(name, source, summary)
        show(shown, "epagcl paper all makes them all; epagcl paper ARTEFACT --help says what can be chosen")


def _add(name: str, source: str, summary: str) -> None:
    @app.command(name, cls=WithLists, epilog=SETTINGS_HELP)
    def command(
        context: typer.Context,
        datasets: Datasets = "",
        methods: Methods = "",
        runs: Runs = 0,
        protocol: Protocol = "",
        device: Device = "auto",
        data: Root = None,
        out: Out = OUT,
        store: StoreFolder = None,
        stored: Stored = False,
        quiet: Quiet = False,
        as_json: AsJson = False,
    ) -> None:
        chosen = {"datasets": datasets, "methods": methods, "protocols": protocol}
        request = request_of(name, context, chosen, runs, device, data, store or out / "store", stored, quiet)
        result = finish(name, request, out, shown=not (quiet or as_json))
        if as_json:
            print(json.dumps(result, indent=2, ensure_ascii=False))

    command.__doc__ = f"{source}: {summary}.\n\nExample: epagcl paper {name} --runs 5 --device cuda"


for _name, (_, _source, _summary) in ARTEFACTS.items():
    _add(_name, _source, _summary)


@app.command("all", cls=WithLists, epilog=SETTINGS_HELP)
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
    """Every artefact, with its own graphs and methods; start it several times to fill one store with several processes.

    Example: epagcl paper all --device cuda
    """
    from epagcl.study.comparison import fill
    from epagcl.study.store import Store

    folder = store or out / "store"
    requests = {name: request_of(name, context, {}, runs, device, data, folder, stored, quiet) for name in ARTEFACTS}
    if not stored:
        # All runs as one list, so that no process waits for another at the end of each artefact.
        cells = [cell for name, request in requests.items() for cell in find_artefact(name).cells(request)]
        work = next(iter(requests.values())).work
        with interruptible(KEPT), work:
            fill(cells, Store(folder), work)
    for name, request in requests.items():
        finish(name, request, out, shown=not quiet)


@app.command()
def page(
    results: Annotated[Path, typer.Option(help="Folder of the artefacts' JSON files.")] = Path("results/paper"),
    docs: Annotated[Path, typer.Option(help="Folder for results.md and its figures.")] = Path("docs"),
) -> None:
    """One Markdown page of all results, figures included, with a reading of what holds and what does not.

    Example: epagcl paper page --results runs/paper --docs runs/page
    """
    from epagcl.paper.page import write_page

    print(f"written: {write_page(results, docs)}")


def request_of(
    name: str,
    context: typer.Context,
    lists: dict[str, str],
    runs: int,
    device: str,
    root: Path | None,
    store: Path,
    stored: bool,
    quiet: bool,
) -> "Request":
    """What the words of the command line ask of an artefact; where they ask nothing, its own defaults."""
    from epagcl.core.hardware import resolve_device
    from epagcl.evaluation.protocol import PROTOCOLS
    from epagcl.paper.artefact import Request
    from epagcl.study.cells import rows
    from epagcl.study.store import Store

    made = find_artefact(name)
    # Each once, in the order given.
    asked = {key: tuple(dict.fromkeys(w.strip() for w in text.split(",") if w.strip())) for key, text in lists.items()}
    protocols = asked.get("protocols") or made.protocols
    if set(protocols) - set(PROTOCOLS):
        raise InputError(f"--protocol {' '.join(protocols)}: choose of {', '.join(PROTOCOLS)}")
    if runs < 0:
        raise InputError(f"--runs {runs}: at least 1")
    if any(flag == "--seed" for flag, _ in context.meta["settings"]):
        raise InputError("no option --seed; models have the seeds 0, 1, ... up to --runs")
    resolve_device(device)
    methods = asked.get("methods") or made.methods
    settings = options_of(context, *(row.method for row in rows(methods)[2:]))
    return Request(
        datasets=asked.get("datasets") or made.datasets,
        methods=methods,
        runs=runs or made.runs,
        protocols=protocols,
        settings={**settings, "device": device},
        root=root,
        store=Store(store),
        work=Work(None if quiet else console_for(quiet)),
        train=not stored,
    )


def finish(name: str, request: "Request", out: Path, *, shown: bool) -> dict[str, Any]:
    """Measure an artefact, write its files and show it."""
    from epagcl.cli.rendering import artefact_table

    made = find_artefact(name)
    with interruptible(KEPT), request.work:
        words = (word for word in sys.argv[1:] if word != "--stored")  # what fills it, not what reads it
        result = made.make(request, f"epagcl {' '.join(shlex.quote(word) for word in words)}")
    written = made.write(result, out)
    if shown:
        show(f"{made.title} ({ARTEFACTS[name][1]})")
        for one in made.tables(result):
            if not one.folded:
                show(one.title, artefact_table(one), one.note, "")
        show(*(f"- {words.replace('**', '').replace(chr(92), '')}" for words in made.reading(result)))
        show("written: " + ", ".join(str(path) for path in written))
    return result
