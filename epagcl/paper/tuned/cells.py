"""The cells of the tuned track: the runs of a row on the outer test sets of a graph."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from epagcl.core.formatting import counted
from epagcl.evaluation.scores import spread
from epagcl.methods import method
from epagcl.paper.artefact import Result
from epagcl.paper.tuned.budget import FEWEST_OUTER, METHODS, PROTOCOL, outer_of, outer_sets, starts_at_recipe
from epagcl.study.comparison import shares_by_seed

#: A cell in the form of the other artefacts' cells, with its searches.
TunedCell = dict[str, Any]
#: The graph and the row of a cell.
Place = tuple[str, str]


def scores_of(runs: Mapping[int, float]) -> dict[str, Any]:
    """Return the scores of runs, given by number, in the form of the other artefacts' cells.

    Examples:
        >>> scores_of({5: 0.5, 0: 0.7})["split"], scores_of({5: 0.5, 0: 0.7})["seeds"]
        ('random 10/10/80, 2 outer test sets', [0, 5])
    """
    runs = dict(sorted(runs.items()))
    split = f"random 10/10/80, {counted(len({outer_of(number) for number in runs}), 'outer test set')}"
    return {"protocol": PROTOCOL, "split": split, "seeds": list(runs), "accuracy": spread(list(runs.values()))}


def outer_sets_by_place(cells: Iterable[TunedCell]) -> dict[Place, set[int]]:
    """Return the outer test sets on which each row has runs, by graph and row."""
    found: dict[Place, set[int]] = {}
    for cell in cells:
        found.setdefault(place_of(cell), set()).update(_outer_sets(cell))
    return found


def comparable(
    cells: Sequence[TunedCell], rows: Callable[[str], Collection[str]]
) -> tuple[list[TunedCell], list[TunedCell]]:
    """Return the runs on the outer test sets that all rows of a graph have, and the other runs.

    Means over different test sets cannot be compared. A graph with fewer than two common ones has none.

    Args:
        cells: the cells; a row may have several on a graph, with different test sets.
        rows: returns the titles of the rows of a graph.
    """
    done = outer_sets_by_place(cells)
    shared = {}
    for graph in dict.fromkeys(graph for graph, _ in done):
        common = set.intersection(*(done.get((graph, row), set()) for row in rows(graph)))
        shared[graph] = common if len(common) >= FEWEST_OUTER else set()

    def is_shared(place: Place, outer: int) -> bool:
        return outer in shared[place[0]]

    return chosen_parts(cells, is_shared), chosen_parts(cells, lambda place, outer: not is_shared(place, outer))


def chosen_parts(cells: Iterable[TunedCell], wanted: Callable[[Place, int], bool]) -> list[TunedCell]:
    """Return the runs of the cells on some outer test sets.

    Args:
        cells: the cells.
        wanted: says whether the runs of a place on an outer test set are returned.
    """
    parts = (part for cell in cells for part in _by_outer_set(cell))
    return _joined(part for part in parts if all(wanted(place_of(part), outer) for outer in _outer_sets(part)))


def stored_cells(result: Result | None) -> list[dict[str, Any]]:
    """Return all cells of a result, including those of outer test sets that not all rows have yet."""
    return [*result["cells"], *result.get("incomplete", [])] if result else []


def missing_searches(result: Result | None, graph: str) -> dict[str, list[int]]:
    """Return the outer splits on which the methods of the track have not been searched, by title.

    A search that did not start at today's recipe is repeated.
    """
    done = {
        (cell["row"], search["outer"])
        for cell in stored_cells(result)
        if cell["graph"]["name"] == graph
        for search in cell["searches"]
        if starts_at_recipe(search, graph, cell["row"])
    }
    lacking = {
        title: [outer for outer in outer_sets(graph) if (title, outer) not in done]
        for title in (method(name).title for name in METHODS)
    }
    return {title: outer for title, outer in lacking.items() if outer}


def place_of(cell: TunedCell) -> Place:
    """Return the graph and the row of a cell."""
    return cell["graph"]["name"], cell["row"]


def _outer_sets(cell: TunedCell) -> set[int]:
    return set(map(outer_of, cell["protocols"][PROTOCOL]["seeds"]))


def _by_outer_set(cell: TunedCell) -> list[TunedCell]:
    """Return a cell as one cell for each of its outer test sets."""

    def part(outer: int) -> TunedCell:
        def scores(found: Mapping[str, Any]) -> dict[str, Any]:
            return scores_of(
                {number: run for number, run in shares_by_seed(found).items() if outer_of(number) == outer}
            )

        return {
            **cell,
            "searches": [search for search in cell["searches"] if search["outer"] == outer],
            "protocols": {PROTOCOL: scores(cell["protocols"][PROTOCOL])},
            "untrained": scores(cell["untrained"]) if cell["untrained"] is not None else None,
        }

    return [part(outer) for outer in sorted(_outer_sets(cell))]


def _joined(parts: Iterable[TunedCell]) -> list[TunedCell]:
    """Return one cell for each row of each graph."""
    by_place: dict[Place, list[TunedCell]] = {}
    for part in parts:
        by_place.setdefault(place_of(part), []).append(part)
    return [_one_cell(own) for own in by_place.values()]


def _one_cell(parts: Sequence[TunedCell]) -> TunedCell:
    """Return a cell with the outer test sets of its parts."""

    def scores(found: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        return scores_of({number: run for one in found for number, run in shares_by_seed(one).items()})

    return {
        **parts[-1],
        "hardware": sorted({device for part in parts for device in part["hardware"]}),
        "commits": sorted({commit for part in parts for commit in part["commits"]}),
        "searches": sorted((one for part in parts for one in part["searches"]), key=lambda search: search["outer"]),
        "protocols": {PROTOCOL: scores(part["protocols"][PROTOCOL] for part in parts)},
        "untrained": scores(part["untrained"] for part in parts) if parts[-1]["untrained"] is not None else None,
    }
