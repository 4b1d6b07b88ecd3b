"""How long a run takes, estimated from the runs that are stored."""

from collections.abc import Iterable, Mapping
from statistics import fmean, median
from typing import Any

from epagcl.core.config import current_settings
from epagcl.study.comparison import CellResult
from epagcl.study.design import Cell, expected_cost


def estimate(
    cell: Cell, alike: Iterable[CellResult], stored: Iterable[CellResult], processes: int = 1
) -> tuple[float | None, str]:
    """Return the expected seconds of one seed, and the runs that this comes from.

    The seconds of runs on another graph are scaled by epochs × size of the graph.

    Args:
        cell: the cell of the seed.
        alike: stored results with the settings of the cell.
        stored: all stored results.
        processes: number of processes that share the GPU.
    """
    if not cell.models or not cell.models[0].epochs or not cell.models[0].trained:
        return 0.0, "no training"
    trained = _on_gpu(stored)
    own = [one for one in alike if one in trained]
    if own:
        return fmean(second for one in own for second in _seconds(one, processes)), "the same cell"
    method = cell.row.method
    groups = {
        "row": [one for one in trained if one["row"] == cell.title],
        "method": [one for one in trained if current_settings(one["settings"]).get("name") == method],
    }
    for kind, group in groups.items():
        if group:
            nearest = min(group, key=lambda one: abs(_size(one["graph"]) - _size(cell.about)))
            return _rate(nearest, processes) * cell.cost, f"the same {kind} on {nearest['graph']['name']}"
    if not trained:
        return None, "no stored run"
    return median(_rate(one, processes) for one in trained) * cell.cost, "other methods"


def _on_gpu(results: Iterable[CellResult]) -> list[CellResult]:
    """Return the results of trained models; without those from a CPU, unless there are no others."""
    trained = [one for one in results if _seconds(one)]
    return [one for one in trained if "cpu" not in one["hardware"]] or trained


def _seconds(result: CellResult, processes: int = 1) -> list[float]:
    """Return the seconds of each run as they would be if some processes shared the GPU.

    A run that shared it with more processes is taken to have waited for them. One that shared it with fewer may or may
    not have filled the GPU, and keeps its seconds. So do runs of which the number is unknown, unless others tell more.
    """
    training = result["training"]
    if training is None or not any(training["epochs"]):
        return []
    seconds = training["seconds"]
    shared = training.get("processes", [None] * len(seconds))
    known = [(second, by) for second, by in zip(seconds, shared, strict=True) if by]
    return [second * min(1, processes / by) for second, by in known] or list(seconds)


def _size(graph: Mapping[str, Any]) -> int:
    return int(graph["nodes"] + graph["edges"])


def _rate(result: CellResult, processes: int) -> float:
    """Return the seconds of a stored cell per unit of its expected cost."""
    epochs = fmean((result["training"] or {})["epochs"])
    cost = expected_cost(epochs, result["graph"]["nodes"], result["graph"]["edges"])
    return fmean(_seconds(result, processes)) / cost
