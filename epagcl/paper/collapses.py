"""Collapsed runs: far below the others, or with an embedding that is nearly a line."""

from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from epagcl.paper.artefact import Result
from epagcl.paper.cell_scores import SUPERVISED, measured_graphs, runs_by_seed
from epagcl.paper.tables import escape_stars

COLLAPSE = 20  # points below the median at which a run counts as collapsed
LINE = 2.0  # effective rank below which an embedding is nearly a line


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


def low_rank_reading(cells: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a paragraph on the trained models whose embeddings are nearly lines, if there are any.

    Supervised methods are left out: their logits have few directions by design.

    Args:
        cells: cells of a result. Those of older records may lack effective ranks.
    """
    found: dict[str, list[str]] = {}
    for cell in cells:
        training = cell["training"] or {}
        ranks = [rank for rank in training.get("effective_rank", []) if rank is not None]
        low = sum(rank < LINE for rank in ranks)
        if low and any(training["epochs"]) and cell["row"] not in SUPERVISED:
            found.setdefault(escape_stars(cell["row"]), []).append(f"{cell['graph']['name']} {low} of {len(ranks)}")
    if not found:
        return []
    listed = "; ".join(f"{title}: {', '.join(counts)}" for title, counts in found.items())
    return [f"**Embeddings that are nearly a line**, with an effective rank below {LINE:g} after training: {listed}."]
