"""Searches of the tuned track that a result lacks: computing them, and joining them with it."""

from collections.abc import Collection, Sequence

from epagcl.paper.artefact import Request, Result
from epagcl.paper.study_size import GRAPHS
from epagcl.paper.tuned.artefact import LEFT_OUT, collected_cells, job_of, searches
from epagcl.paper.tuned.budget import PROTOCOL, starts_at_recipe
from epagcl.paper.tuned.cells import TunedCell, chosen_parts, comparable, outer_sets_by_place, place_of, stored_cells
from epagcl.runs.evaluation import PROPAGATED, RAW


def with_missing(result: Result, request: Request, titles: Collection[str]) -> Result | None:
    """Return a result with the searches that it lacks, or None if there are no new ones.

    An outer test set enters the tables when all rows of its graph have it. Until then, the runs are ``incomplete``. A
    search that did not start at today's recipe stays until a new one replaces it.

    Args:
        result: the result.
        request: says which graphs and methods are wanted, and how to compute them.
        titles: the rows to compute. Stored records of other rows are used too.
    """
    stored = stored_cells(result)
    every, done = searches(request), outer_sets_by_place(_at_recipe(stored))
    lacking = [one for one in every if one.outer not in done.get((one.graph, one.title), set())]
    jobs = {search: job_of(request, search) for search in lacking}
    request.records_of(
        [job for one, job in jobs.items() if one.title in titles or one.row in (RAW, PROPAGATED)], LEFT_OUT
    )
    new = collected_cells(request, {search: job.record(request.store) for search, job in jobs.items()})
    if not new:
        return None
    order = {name: number for number, name in enumerate(GRAPHS)}
    replaced = outer_sets_by_place(new)
    kept = chosen_parts(stored, lambda place, outer: outer not in replaced.get(place, set()))
    cells = sorted([*kept, *new], key=lambda cell: order.get(cell["graph"]["name"], len(order)))
    rows = {search.title for search in every}
    finished, incomplete = comparable(cells, lambda _: rows)
    datasets = list(dict.fromkeys(cell["graph"]["name"] for cell in finished))
    seeds = sorted({seed for cell in finished for seed in cell["protocols"][PROTOCOL]["seeds"]})
    return {
        **result,
        "asked": {**result["asked"], "datasets": datasets, "runs": len(seeds), "seeds": seeds},
        "absent": {graph: reason for graph, reason in result["absent"].items() if graph not in datasets},
        "cells": finished,
        "incomplete": incomplete,
    }


def _at_recipe(cells: Sequence[TunedCell]) -> list[TunedCell]:
    """Return the runs without those of searches that did not start at today's recipe."""
    stale = {
        (place_of(cell), search["outer"])
        for cell in cells
        for search in cell["searches"]
        if not starts_at_recipe(search, *place_of(cell))
    }
    return chosen_parts(cells, lambda place, outer: (place, outer) not in stale)
