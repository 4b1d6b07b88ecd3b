"""``epagcl paper plan`` and ``epagcl paper complete``: what the study lacks, and computing it."""

import json
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from epagcl.cli.options import AsJson, Root, WithLists, interruptible
from epagcl.cli.paper import (
    OUT,
    RESUME_HINT,
    Datasets,
    Device,
    Quiet,
    Stored,
    any_word,
    names_of,
    study_progress,
)
from epagcl.cli.rendering import show, table
from epagcl.core.errors import InputError
from epagcl.core.formatting import counted
from epagcl.core.log import log

if TYPE_CHECKING:
    from epagcl.paper.artefact import Result
    from epagcl.paper.planning.plan import Plan
    from epagcl.study.summary import Comparison

#: Locked while `epagcl paper complete` changes the results in a folder.
LOCK = ".lock"
ResultsFolder = Annotated[Path, typer.Option(help="Folder of the measured results (JSON).")]
Parts = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME...", help="Parts of the study: artefacts that train, comparison, and burden."),
]


class StudyCommand(WithLists):
    """A command whose graphs and parts may be written with spaces or commas. Titles of rows contain spaces."""

    list_options: ClassVar = dict.fromkeys(("--datasets", "--parts"), any_word)


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
    *_, found = _planned(results, datasets, parts, data, fresh, processes)
    if as_json:
        print(json.dumps(found.to_dict(), indent=2, ensure_ascii=False))
        return
    absent = [f"{graph}: {reason}" for graph, reason in found.absent.items()]
    notes = [*(f"epagcl paper {name} lacks {', '.join(own)}" for name, own in found.unmeasured.items()), *absent]
    if not found.runs:
        words = "no run is missing" if found.unmeasured else "nothing is missing"
        show(f"{words} on the graphs that are here" if absent else words, *notes)
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
    state = "in all" if fresh else "is missing" if count == 1 else "are missing"
    total = f"{counted(count, 'run')} of {counted(len(found.runs), 'cell')} {state}"
    show(listing, f"{total}: about {hours:.1f} hours with {shared}", *notes)


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
    fresh: Annotated[
        bool, typer.Option("--fresh", help="With --compute-only: all runs of some --parts, as if the results had none.")
    ] = False,
    device: Device = "auto",
    data: Root = None,
    store: Annotated[Path, typer.Option(help="Folder of single runs.")] = OUT / "store",
    stored: Stored = False,
    quiet: Quiet = False,
) -> None:
    """Compute the runs that `epagcl paper plan` lists, and add them to the results.

    Commands on several machines can share a store; all but one of them use --compute-only. Times of Table 3 are
    measured with --parts burden, in one process and on a machine without other work.

    Example: epagcl paper complete --datasets squirrel actor --device cuda --processes 16
    """
    from epagcl.core.hardware import resolve_device
    from epagcl.paper.planning.completion import chosen, write_completed
    from epagcl.paper.planning.completion import complete as complete_study
    from epagcl.paper.planning.plan import COMPARISON, RUN_ARTEFACTS
    from epagcl.paper.planning.unmeasured import BURDEN
    from epagcl.study.store import Store
    from epagcl.study.workers import number_of_workers

    if seeds is not None and seeds < 1:
        raise InputError(f"--seeds {seeds}: at least 1")
    if processes < 1:
        raise InputError(f"--processes {processes}: at least 1")
    if minutes is not None and not minutes > 0:
        raise InputError(f"--minutes {minutes:g}: must be positive")
    of_runs, wanted = (*RUN_ARTEFACTS, COMPARISON), names_of(parts)
    if fresh and not compute_only:
        raise InputError("--fresh: give --compute-only too, which fills a store and leaves the results as they are")
    if fresh and not (wanted and set(wanted) <= set(of_runs)):
        given = " ".join(part for part in wanted if part not in of_runs) or "is missing"
        raise InputError(f"--parts {given}: with --fresh, choose from {', '.join(of_runs)}, which consist of runs")
    burden = BURDEN in wanted
    if burden and (processes > 1 or minutes is not None):
        raise InputError("--parts burden: times need a machine without other work; omit --processes and --minutes")
    resolve_device(device)
    with _changing(results, compute_only):
        sharing = max(processes, number_of_workers())
        measured, comparison, found = _planned(results, datasets, parts, data, fresh, sharing)
        work = study_progress(quiet)
        missing, failed = chosen(found, device, rows or (), seeds), 0
        if missing and not stored and (processes > 1 or minutes is not None):
            options = {"--results": results, "--seeds": seeds, "--device": device, "--data": data, "--store": store}
            lists = {"--datasets": names_of(datasets), "--parts": names_of(parts), "--rows": rows or ()}
            words = [word for name, value in options.items() if value is not None for word in (name, str(value))]
            words += [word for name, values in lists.items() for value in values for word in (name, value)]
            with interruptible(RESUME_HINT):
                words += [*["--fresh"] * fresh, *["--quiet"] * quiet]
                failed = _compute_in_processes(words, processes, minutes, store / "logs")
            stored = True
        with interruptible(RESUME_HINT), work:
            completed = complete_study(
                *(measured, comparison, found, missing, Store(store)),
                device=device,
                root=data,
                train=not stored,
                burden=names_of(datasets) if burden else None,
                work=work,
            )
        if not compute_only:
            changed = write_completed(completed, results, Store(store))
            show(f"changed: {', '.join(map(str, changed))}" if changed else "nothing has changed")
    if failed:
        raise typer.Exit(1)


@contextmanager
def _changing(results: Path, compute_only: bool) -> Iterator[None]:
    """Keep another `epagcl paper complete` from changing the results, which would lose the changes of one of them."""
    from epagcl.core.files import locked

    if compute_only or not results.is_dir():
        yield
        return
    with locked(results / LOCK) as held:
        if not held:
            raise InputError(
                f"{results}: another `epagcl paper complete` changes these results; wait for it, or give --compute-only"
            )
        yield


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
    processes: int = 1,
) -> "tuple[dict[str, Result], Comparison | None, Plan]":
    """Read the results and the comparison beside them, and plan what they lack."""
    from epagcl.paper.page.assembly import naming_damaged, read_comparison_beside, read_results
    from epagcl.paper.planning.plan import PARTS
    from epagcl.paper.planning.plan import plan as plan_study
    from epagcl.paper.planning.unmeasured import BURDEN

    wanted, known = names_of(parts), (*PARTS, BURDEN)
    if unknown := [part for part in wanted if part not in known]:
        raise InputError(f"--parts {' '.join(unknown)}: choose from {', '.join(known)}")
    measured, comparison = read_results(folder), read_comparison_beside(folder)
    options: dict[str, Any] = {"graphs": names_of(datasets), "fresh": fresh, "processes": processes}
    with naming_damaged(folder, measured, comparison):
        found = plan_study(measured, comparison, root, wanted or PARTS, **options)
    return measured, comparison, found
