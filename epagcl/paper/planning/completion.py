"""Completing the study: compute the runs that the plan lists as missing, and join them with the stored results."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from epagcl.core.errors import InputError
from epagcl.core.files import write_json
from epagcl.core.progress import Progress, SilentProgress
from epagcl.paper import find_artefact, leakage, significance
from epagcl.paper.artefact import Request, Result, proper_name
from epagcl.paper.burden import artefact as burden_artefact
from epagcl.paper.planning.plan import COMPARISON, LEAKAGE, RUN_ARTEFACTS, MissingRuns, Plan, same_settings
from epagcl.paper.planning.unmeasured import BURDEN
from epagcl.paper.study_size import GRAPHS
from epagcl.paper.tuned import joining as tuned_joining
from epagcl.paper.tuned.budget import TUNED
from epagcl.paper.tuned.journals import pack_journals
from epagcl.runs.record import provenance
from epagcl.study.comparison import CellResult, collect, fill
from epagcl.study.design import Cell
from epagcl.study.design import rows as method_rows
from epagcl.study.joining import joined
from epagcl.study.store import Store
from epagcl.study.summary import Comparison, summarise, write_comparison

#: Artefacts that run jobs of their own instead of cells, with the function that adds missing jobs to a result.
JOBS = {TUNED: tuned_joining.with_missing, LEAKAGE: leakage.with_missing}


class Completed(NamedTuple):
    """The results that new runs have changed: artefacts by name, and the comparison, or None if it has not changed."""

    results: dict[str, Result]
    comparison: Comparison | None


def chosen(plan: Plan, device: str, rows: Collection[str] = (), seeds: int | None = None) -> list[MissingRuns]:
    """Return the missing runs of some rows, in the order of the plan.

    Args:
        plan: the plan.
        device: where the runs are to be computed.
        rows: titles of rows; empty for all.
        seeds: number of seeds per row and graph, counted from seed 0; None for all that the study needs.
    """
    known = {title.lower(): title for titles in plan.rows.values() for title in titles}
    for part in JOBS.keys() & plan.cells.keys():
        known |= {row.title.lower(): row.title for row in method_rows(find_artefact(part).methods) if not row.reference}
    unknown = [title for title in rows if title.lower() not in known]
    if known and unknown:  # without graphs there are no rows
        raise InputError(f"no row is titled {unknown[0]!r}; choose from {', '.join(known.values())}")
    rows = {title.lower() for title in rows}
    found = []
    for runs in plan.runs:
        wanted = [seed for seed in runs.seeds if seeds is None or seed < seeds]
        if not wanted or (rows and runs.row.lower() not in rows):
            continue
        if runs.cell is not None:
            count = runs.cell.seeds if seeds is None else min(runs.cell.seeds, seeds)
            settings = {**runs.cell.settings, "device": device}
            found.append(replace(runs, seeds=wanted, cell=replace(runs.cell, seeds=count, settings=settings)))
        elif set(runs.parts) & set(JOBS):
            found.append(runs if TUNED in runs.parts else replace(runs, seeds=wanted))  # a search has several seeds
    return found


def complete(
    results: Mapping[str, Result],
    comparison: Comparison | None,
    plan: Plan,
    missing: Sequence[MissingRuns],
    store: Store,
    *,
    device: str = "auto",
    root: Path | None = None,
    train: bool = True,
    burden: Collection[str] | None = None,
    work: Progress | None = None,
) -> Completed:
    """Compute missing runs, and return the results that they have changed.

    Several processes may share the store. Runs of older code are kept if their settings are today's. A run that one
    part of the study has also enters the other parts that need it. The tests of Appendix E use the runs of the table of
    accuracies.

    Args:
        results: results of the artefacts by name.
        comparison: the comparison over all graphs, if there is one.
        plan: the plan, made from these results.
        missing: as :func:`chosen` returns them.
        store: the store of single runs.
        device: where searches, and models scored during training, are computed. Other runs have their own device.
        root: folder of the named graphs; None for the default folder.
        train: whether missing runs are computed. Otherwise only stored runs are used.
        burden: names of graphs on which the times that Table 3 lacks are measured, empty for all; None: none are.
            Nothing else may run on the machine.
        work: receives the progress.
    """
    jobs = {part: [runs for runs in missing if runs.cell is None and part in runs.parts] for part in JOBS}
    missing = [runs for runs in missing if runs.cell is not None]
    cells = [runs.cell for runs in missing if runs.cell is not None]
    if train:
        fill(cells, store, work)
    stored = {name: result["cells"] for name, result in results.items() if name in RUN_ARTEFACTS}
    if comparison is not None:
        stored[COMPARISON] = [cell for row in comparison["results"].values() for cell in row]
    new = {part: _from_other_parts(part, own, stored) for part, own in plan.cells.items()}
    for runs, cell in zip(missing, cells, strict=True):
        if (result := collect(cell, store)) is not None:
            for part in runs.parts:
                new[part].append((cell, result))
    changed = {
        name: _with_runs(name, result, entering, plan.rows[name])
        for name, result in results.items()
        if new.get(name) and (entering := _entering(result, new[name], plan.cells[name]))
    }
    options: dict[str, Any] = {"settings": {"device": device}, "work": work or SilentProgress()}
    request = Request((), (), 1, (), store, root=root, train=train, **options)
    for part, wanted in jobs.items():
        if wanted and part in results and (made := _with_jobs(part, results[part], wanted, request)) is not None:
            changed[part] = {**made, **provenance(device)}
    if burden is not None and BURDEN in results:
        graphs = tuple(proper_name(name) for name in burden)
        made = burden_artefact.with_missing(results[BURDEN], replace(request, datasets=graphs))
        if made is not None:
            changed[BURDEN] = {**made, "command": _command(made["command"], BURDEN)}  # cells have their own origin
    if "significance" in results and "accuracy" in results:
        made = significance.of_accuracies(results["significance"], changed.get("accuracy", results["accuracy"]))
        if made is not None:
            changed["significance"] = {**made, "command": _command(made["command"], "accuracy"), **provenance()}
    if comparison is None or not new.get(COMPARISON):
        return Completed(changed, None)
    joined_cells = _joined(stored[COMPARISON], new[COMPARISON], comparison["protocols"])
    return Completed(changed, _with_cells(comparison, ordered(joined_cells, GRAPHS, plan.rows[COMPARISON])))


def _with_jobs(part: str, result: Result, wanted: Sequence[MissingRuns], request: Request) -> Result | None:
    """Return the result of an artefact with its missing jobs, or None if nothing is new.

    Args:
        part: the artefact, one of :data:`JOBS`.
        result: its result.
        wanted: the missing jobs.
        request: the store and the options of the computation.
    """
    artefact, graphs = find_artefact(part), tuple(dict.fromkeys(runs.graph for runs in wanted))
    runs = 1 + max(max(runs.seeds) for runs in wanted)
    request = replace(request, datasets=graphs, methods=artefact.methods, runs=runs, protocols=artefact.protocols)
    made = JOBS[part](result, request, {runs.row for runs in wanted})
    return None if made is None else {**made, "command": _command(result["command"], part)}


def _with_cells(comparison: Comparison, cells: Sequence[CellResult]) -> Comparison:
    """Return the comparison with these cells in place of its own."""
    by_graph: dict[str, list[CellResult]] = {}
    for cell in cells:
        by_graph.setdefault(cell["graph"]["name"], []).append(cell)
    seeds = max(len(cell["seeds"]) for row in by_graph.values() for cell in row)
    command = _command(comparison["command"], COMPARISON)
    return summarise(by_graph, command=command, seeds=seeds, protocols=comparison["protocols"])


def write_completed(completed: Completed, folder: Path, store: Store) -> list[Path]:
    """Write changed results to their folder, and the comparison and the journals of searches beside it.

    Args:
        completed: the results.
        folder: folder of the results of artefacts.
        store: the store in which the runs were computed, for the journals.

    Returns:
        the paths that were written.
    """
    tuned = completed.results.get(TUNED)
    # Journals first: after an interruption, the next call finds the result as it was, and packs them again.
    journals = pack_journals(tuned, store, folder.parent / "tuning") if tuned is not None else []
    paths = [folder / f"{name}.json" for name in completed.results]
    for path, result in zip(paths, completed.results.values(), strict=True):
        write_json(result, path)
    if completed.comparison is not None:
        paths.append(folder.parent / "comparison.json")
        write_comparison(completed.comparison, paths[-1])
    return paths + journals


def _from_other_parts(
    part: str, cells: Sequence[Cell], stored: Mapping[str, Sequence[CellResult]]
) -> list[tuple[Cell, CellResult]]:
    """Return the cells of a part for which other parts have runs that it lacks, with all these runs."""
    own = {(one["graph"]["name"], one["row"]): one for one in stored.get(part, ())}
    others: dict[tuple[str, str], list[CellResult]] = {}
    for one in (one for name, results in stored.items() if name != part for one in results):
        others.setdefault((one["graph"]["name"], one["row"]), []).append(one)
    found = []
    for cell in cells:
        place = (cell.name, cell.title)
        runs = own[place] if place in own and same_settings(cell, own[place]) else None
        before = _runs_of(runs, cell)
        for other in others.get(place, ()):
            if same_settings(cell, other) and _runs_of(other, cell) - _runs_of(runs, cell):
                runs = joined(other, runs) if runs else other  # the part's own scores take precedence
        if runs is not None and _runs_of(runs, cell) != before:
            found.append((cell, runs))
    return found


def _runs_of(result: CellResult | None, cell: Cell) -> set[tuple[str, int]]:
    """Return (protocol, seed) of the scores that a result has, for the protocols of a cell."""
    scores = result["protocols"] if result else {}
    return {(name, seed) for name in cell.protocols if name in scores for seed in scores[name]["seeds"]}


def _entering(
    result: Result, new: Sequence[tuple[Cell, CellResult]], cells: Sequence[Cell]
) -> list[tuple[Cell, CellResult]]:
    """Return the new runs that enter a result.

    A graph that the result does not have enters as soon as all rows that are planned on this graph have runs.
    """
    present = {cell["graph"]["name"] for cell in result["cells"]}
    has_runs = {(cell.name, cell.title) for cell, _ in new}
    waiting = {cell.name for cell in cells if cell.name not in present and (cell.name, cell.title) not in has_runs}
    return [(cell, found) for cell, found in new if cell.name not in waiting]


def _with_runs(
    name: str,
    result: Result,
    new: Sequence[tuple[Cell, CellResult]],
    rows: Sequence[str],
) -> Result:
    """Return an artefact's result with new runs, and with the graphs and seeds that it then has."""
    graphs = find_artefact(name).datasets
    cells = ordered(_joined(result["cells"], new, result["asked"]["protocols"]), graphs, rows)
    seeds = max(len(cell["seeds"]) for cell in cells)
    known = {name.lower() for name in (*(cell["graph"]["name"] for cell in cells), *result["absent"])}
    asked = {
        **result["asked"],
        "datasets": [graph for graph in graphs if graph.lower() in known],
        "runs": seeds,
        "seeds": list(range(seeds)),
    }
    return {**result, "command": _command(result["command"], name), **provenance(), "asked": asked, "cells": cells}


def _command(first: str, part: str) -> str:
    """Return the commands that compute a result: the one that began it, and the one that completed it."""
    begun, completed = first.split(" && ")[0], f"epagcl paper complete --parts {part}"
    return completed if begun == completed else f"{begun} && {completed}"


def ordered(cells: Sequence[CellResult], graphs: Sequence[str], rows: Sequence[str]) -> list[CellResult]:
    """Sort cells by graph and row in the given orders; others follow in their present order.

    Examples:
        >>> cells = [{"graph": {"name": "Cora"}, "row": row} for row in ("GRACE", "mine", "DGI")]
        >>> [cell["row"] for cell in ordered(cells, ["cora"], ["DGI", "GRACE"])]
        ['DGI', 'GRACE', 'mine']
    """
    graph_places = {name.lower(): place for place, name in enumerate(graphs)}
    row_places = {title: place for place, title in enumerate(rows)}

    def place(cell: CellResult) -> tuple[int, int]:
        graph = graph_places.get(cell["graph"]["name"].lower(), len(graphs))
        return graph, row_places.get(cell["row"], len(rows))

    return sorted(cells, key=place)


def _joined(
    stored: Sequence[CellResult], new: Sequence[tuple[Cell, CellResult]], protocols: Collection[str]
) -> list[CellResult]:
    """Return stored and new results. Stored results with other settings than today's are replaced."""
    by_place = {(cell["graph"]["name"], cell["row"]): cell for cell in stored}
    for cell, result in new:
        scores = {name: value for name, value in result["protocols"].items() if name in protocols}
        result = {**result, "protocols": scores}
        old = by_place.get((cell.name, cell.title))
        by_place[cell.name, cell.title] = joined(old, result) if old and same_settings(cell, old) else result
    return list(by_place.values())
