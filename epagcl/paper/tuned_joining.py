"""Searches of the tuned track that a result lacks: computing them, and joining them with it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from epagcl.paper.artefact import Request, Result
from epagcl.paper.operators import GRAPHS
from epagcl.paper.tuned import LEFT_OUT, cells_of, job_of, scores_of, searches
from epagcl.paper.tuned_tables import FEWEST_OUTER, PROTOCOL, outer_of, stored_cells
from epagcl.runs.evaluation import PROPAGATED, RAW

#: A cell of the result: the runs of a row on some outer test sets of a graph.
Runs = dict[str, Any]
#: The graph and the row of a cell.
Place = tuple[str, str]


def with_missing(result: Result, request: Request, titles: Collection[str]) -> Result | None:
    """Return a result with the searches that it lacks, or None if there are no new ones.

    The tables have the outer test sets that all rows of a graph have, if there are at least two. What rows have on
    other test sets is kept as ``incomplete``.

    Args:
        result: the result.
        request: says which graphs and methods are wanted, and how to compute them.
        titles: the rows to compute. Stored records of other rows are used too.
    """
    stored = stored_cells(result)
    every = searches(request)
    done = _outer_sets_by_place(stored)
    lacking = [one for one in every if one.outer not in done.get((one.graph, one.title), set())]
    jobs = {search: job_of(request, search) for search in lacking}
    request.keep([job for one, job in jobs.items() if one.title in titles or one.row in (RAW, PROPAGATED)], LEFT_OUT)
    records = {search: request.store.read(job.key) for search, job in jobs.items()}
    new = [cell for search, record in records.items() for cell in cells_of(request, {search: record})]
    if not new:
        return None
    order = {name: number for number, name in enumerate(GRAPHS)}
    cells = sorted([*stored, *new], key=lambda cell: order.get(cell["graph"]["name"], len(order)))
    done = _outer_sets_by_place(cells)
    rows = {search.title for search in every}
    shared = {graph: _shared_sets(done, graph, rows) for graph, _ in done}
    finished = _joined([cell for cell in cells if _outer_sets(cell) <= shared[cell["graph"]["name"]]])
    datasets = list(dict.fromkeys(cell["graph"]["name"] for cell in finished))
    return {
        **result,
        "asked": {**result["asked"], "datasets": datasets},
        "absent": {graph: reason for graph, reason in result["absent"].items() if graph not in datasets},
        "cells": finished,
        "incomplete": [cell for cell in cells if not _outer_sets(cell) <= shared[cell["graph"]["name"]]],
    }


def _outer_sets(cell: Runs) -> set[int]:
    """Return the outer test sets that a cell has results of."""
    return set(map(outer_of, cell["protocols"][PROTOCOL]["seeds"]))


def _outer_sets_by_place(cells: Iterable[Runs]) -> dict[Place, set[int]]:
    """Return the outer test sets of each row on each graph."""
    found: dict[Place, set[int]] = {}
    for cell in cells:
        found.setdefault(_place(cell), set()).update(_outer_sets(cell))
    return found


def _shared_sets(done: Mapping[Place, set[int]], graph: str, rows: Collection[str]) -> set[int]:
    """Return the outer test sets of a graph that all rows have results of; none if they are too few."""
    shared = set.intersection(*(done.get((graph, row), set()) for row in rows))
    return shared if len(shared) >= FEWEST_OUTER else set()


def _place(cell: Runs) -> Place:
    return cell["graph"]["name"], cell["row"]


def _joined(cells: Iterable[Runs]) -> list[Runs]:
    """Return cells of which those of one row and graph are joined."""
    parts: dict[Place, list[Runs]] = {}
    for cell in cells:
        parts.setdefault(_place(cell), []).append(cell)
    return [own[0] if len(own) == 1 else _one_cell(own) for own in parts.values()]


def _one_cell(parts: Sequence[Runs]) -> Runs:
    """Return a cell with the outer test sets of its parts."""

    def scores(found: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        return scores_of(
            {k: run for one in found for k, run in zip(one["seeds"], one["accuracy"]["runs"], strict=True)}
        )

    return {
        **parts[-1],
        "hardware": sorted({device for part in parts for device in part["hardware"]}),
        "commits": sorted({commit for part in parts for commit in part["commits"]}),
        "searches": sorted((one for part in parts for one in part["searches"]), key=lambda search: search["outer"]),
        "protocols": {PROTOCOL: scores(part["protocols"][PROTOCOL] for part in parts)},
        "untrained": scores(part["untrained"] for part in parts) if parts[-1]["untrained"] is not None else None,
    }
