"""Collapsed runs, which are far below the others and make intervals wide."""

from statistics import median

from epagcl.paper.artefact import Result
from epagcl.paper.cell_scores import measured_graphs, runs_by_seed
from epagcl.paper.tables import escape_stars

COLLAPSE = 20  # points below the median at which a run counts as collapsed


def collapsed(result: Result, protocol: str, graph: str, *, best: bool = False) -> dict[str, int]:
    """Return the number of collapsed runs of each row that has any.

    Args:
        result: a result that consists of cells.
        protocol: the protocol of the accuracies.
        graph: name of the graph.
        best: whether runs are compared with the median of the best row. The row's own median would hide that most of
            its runs collapse, but rows of different methods may differ by as much.
    """
    runs = runs_by_seed(result, protocol, graph)
    medians = {title: median(own.values()) for title, own in runs.items()}
    highest = max(medians.values(), default=0.0)
    counts = {
        title: sum(run < (highest if best else medians[title]) - COLLAPSE for run in own.values())
        for title, own in runs.items()
    }
    return {title: count for title, count in counts.items() if count}


def collapsed_reading(result: Result, protocol: str, *, best: bool = False) -> list[str]:
    """Return a paragraph on the collapsed runs, if there are any. The arguments are those of :func:`collapsed`."""
    found = []
    for graph in measured_graphs(result):
        runs, counts = runs_by_seed(result, protocol, graph), collapsed(result, protocol, graph, best=best)
        rows = ", ".join(f"{escape_stars(title)} ({count} of {len(runs[title])})" for title, count in counts.items())
        found += [f"{graph}: {rows}."] if rows else []
    if not found:
        return []
    return [
        f"**Some runs collapse**: they are more than {COLLAPSE} points below the median of "
        f"{'the best row' if best else 'their row'}, and make intervals wide. {' '.join(found)}"
    ]
