"""The cells of the tuned track: the runs of a row on the outer test sets of a graph."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from epagcl.core.formatting import counted
from epagcl.evaluation.scores import spread
from epagcl.paper.tuned_tables import FEWEST_OUTER, PROTOCOL, outer_of

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


def place_of(cell: TunedCell) -> Place:
    """Return the graph and the row of a cell."""
    return cell["graph"]["name"], cell["row"]


def _outer_sets(cell: TunedCell) -> set[int]:
    return set(map(outer_of, cell["protocols"][PROTOCOL]["seeds"]))


def _runs(scores: Mapping[str, Any]) -> dict[int, float]:
    """Return the accuracy of each run by its number."""
    return dict(zip(scores["seeds"], scores["accuracy"]["runs"], strict=True))


def _by_outer_set(cell: TunedCell) -> list[TunedCell]:
    """Return a cell as one cell for each of its outer test sets."""

    def part(outer: int) -> TunedCell:
        def scores(found: Mapping[str, Any]) -> dict[str, Any]:
            return scores_of({number: run for number, run in _runs(found).items() if outer_of(number) == outer})

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
        return scores_of({number: run for one in found for number, run in _runs(one).items()})

    return {
        **parts[-1],
        "hardware": sorted({device for part in parts for device in part["hardware"]}),
        "commits": sorted({commit for part in parts for commit in part["commits"]}),
        "searches": sorted((one for part in parts for one in part["searches"]), key=lambda search: search["outer"]),
        "protocols": {PROTOCOL: scores(part["protocols"][PROTOCOL] for part in parts)},
        "untrained": scores(part["untrained"] for part in parts) if parts[-1]["untrained"] is not None else None,
    }
