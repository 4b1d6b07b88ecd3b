"""Searches of the tuned track that a result lacks: computing them, and joining them with it."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from epagcl.evaluation.scores import spread
from epagcl.paper.artefact import Request, Result
from epagcl.paper.operators import GRAPHS
from epagcl.paper.tuned import LEFT_OUT, cells_of, job_of, searches
from epagcl.paper.tuned_tables import OUTER, PROTOCOL, SEEDS, stored_cells
from epagcl.runs.evaluation import PROPAGATED, RAW


def with_missing(result: Result, request: Request, titles: Collection[str]) -> Result | None:
    """Return a result with the searches that it lacks, or None if there are no new ones.

    A graph enters the tables as soon as all its searches are done. Until then, they are kept as ``incomplete``.

    Args:
        result: the result.
        request: says which graphs and methods are wanted, and how to compute them.
        titles: the rows to compute. Stored records of other rows are used too.
    """
    stored = {(cell["graph"]["name"], cell["row"]): cell for cell in stored_cells(result)}
    every = searches(request)
    lacking = [one for one in every if one.outer not in _outer_sets(stored.get((one.graph, one.title)))]
    jobs = {search: job_of(request, search) for search in lacking}
    request.keep([job for one, job in jobs.items() if one.title in titles or one.row in (RAW, PROPAGATED)], LEFT_OUT)
    records = {search: request.store.read(job.key) for search, job in jobs.items()}
    new = {(cell["graph"]["name"], cell["row"]): cell for cell in cells_of(request, records)}
    if not new:
        return None
    joined = stored | {place: _joined(stored.get(place), cell) for place, cell in new.items()}
    order = {name: place for place, name in enumerate(GRAPHS)}
    cells = sorted(joined.values(), key=lambda cell: order.get(cell["graph"]["name"], len(order)))
    rows = {search.title for search in every}
    finished = [cell for cell in cells if _is_complete(joined, cell["graph"]["name"], rows)]
    datasets = list(dict.fromkeys(cell["graph"]["name"] for cell in finished))
    return {
        **result,
        "asked": {**result["asked"], "datasets": datasets},
        "absent": {graph: reason for graph, reason in result["absent"].items() if graph not in datasets},
        "cells": finished,
        "incomplete": [cell for cell in cells if cell not in finished],
    }


def _is_complete(cells: Mapping[tuple[str, str], Mapping[str, Any]], graph: str, rows: Collection[str]) -> bool:
    """Return whether all rows have results of all outer test sets of a graph."""
    return all(len(_outer_sets(cells.get((graph, row)))) == len(OUTER) for row in rows)


def _outer_sets(cell: Mapping[str, Any] | None) -> set[int]:
    """Return the outer test sets that a cell has results of."""
    return {OUTER[seed // SEEDS] for seed in cell["protocols"][PROTOCOL]["seeds"]} if cell else set()


def _joined(old: Mapping[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    """Return a cell with the outer test sets of both."""
    if old is None:
        return new

    def scores(part: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> dict[str, Any]:
        runs = {
            seed: run
            for one in (part(old), part(new))
            for seed, run in zip(one["seeds"], one["accuracy"]["runs"], strict=True)
        }
        runs = dict(sorted(runs.items()))
        return {**part(new), "seeds": list(runs), "accuracy": spread(list(runs.values()))}

    return {
        **new,
        "hardware": sorted({*old["hardware"], *new["hardware"]}),
        "commits": sorted({*old["commits"], *new["commits"]}),
        "searches": sorted([*old["searches"], *new["searches"]], key=lambda search: search["outer"]),
        "protocols": {PROTOCOL: scores(lambda cell: cell["protocols"][PROTOCOL])},
        "untrained": scores(lambda cell: cell["untrained"]) if new["untrained"] is not None else None,
    }
