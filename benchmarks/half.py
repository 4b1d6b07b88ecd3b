"""Time of an epoch and accuracy with fp16 and with float32 activations on a GPU, on paired runs of each method."""

import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

import torch

from benchmarks.gpu import reset_memory, timed_epochs
from epagcl.core.errors import InputError
from epagcl.data import check, load
from epagcl.methods import method
from epagcl.methods.inputs import input_graph
from epagcl.runs.record import provenance
from epagcl.study.comparison import collect, fill
from epagcl.study.design import Cell, cells, rows
from epagcl.study.store import Store
from epagcl.study.workers import run_workers

#: The precisions: activations in fp16, and TF32 products of float32 activations.
PRECISIONS = ("auto", "tf32")


class Task(NamedTuple):
    """A method on a graph, with the settings of its recipe except for these.

    Attributes:
        method: name of the method.
        graph: name of the graph.
        seeds: number of paired runs.
        epochs: number of epochs; None: those of the recipe.
    """

    method: str
    graph: str
    seeds: int
    epochs: int | None = None


TASKS = (
    Task("bgrl", "amazon-photo", 5),
    Task("bgrl", "coauthor-cs", 3, 2000),
    Task("epagcl", "pubmed", 3),
    Task("bgrl", "pubmed", 10),
    Task("epagcl+", "pubmed", 10),
    Task("epagcl+", "coauthor-cs", 5),
    Task("grace", "amazon-photo", 3),
    Task("epagcl", "amazon-photo", 5),
    Task("epagcl+", "amazon-photo", 10),
    *(Task(name, graph, 10) for name in ("bgrl", "epagcl", "epagcl+") for graph in ("cora", "citeseer", "chameleon")),
    Task("gca", "cora", 10),
)


def half(folder: Path, processes: int) -> dict[str, Any]:
    """Train the tasks with both precisions, and return validation accuracies and the time of an epoch.

    Args:
        folder: store of the runs; an interrupted benchmark continues.
        processes: number of processes that train on the GPU at the same time. Epochs are timed without others.
    """
    if not torch.cuda.is_available():
        raise InputError("benchmarks half: no CUDA device here; run it on a machine with an NVIDIA GPU")
    command = [sys.executable, "-m", "benchmarks", "half", "--folder", str(folder), "--train"]
    if run_workers(command, processes, folder / "logs"):
        raise InputError(f"a process failed; {folder / 'logs'} has its output")
    results = [_row(task, Store(folder)) for task in TASKS]
    return {
        **provenance("cuda"),
        "command": "python -m benchmarks half",
        "protocol": "strict, accuracy on the validation nodes of the split of each seed; settings of the recipes, "
        "defaults without one; ms: median of blocks of epochs, without other processes",
        "rows": results,
        "summary": summary(results),
    }


def train(folder: Path) -> None:
    """Train what the store lacks; several processes may share it."""
    fill([cell for task in TASKS for cell in task_cells(task)], Store(folder))


def task_cells(task: Task) -> list[Cell]:
    """Return a cell for each precision."""
    wanted = [row for row in rows([task.method]) if not row.reference]
    data = load(task.graph)
    name = str(data.name)
    settings = {"device": "cuda"} | ({} if task.epochs is None else {"epochs": task.epochs})
    options: dict[str, Any] = {"seeds": task.seeds, "protocols": ["strict"]}
    return [
        cell
        for precision in PRECISIONS
        for cell in cells(data, name, wanted, **options, settings={**settings, "precision": precision})
    ]


def _row(task: Task, store: Store) -> dict[str, Any]:
    found = dict(zip(PRECISIONS, task_cells(task), strict=True))
    accuracy = {}
    for precision, cell in found.items():
        result = collect(cell, store)
        assert result is not None, "all runs are stored"
        accuracy[precision] = result["protocols"]["strict"]["validation"]["runs"]
    milliseconds = {precision: _epoch_ms(cell) for precision, cell in found.items()}
    first = found["auto"]
    return {
        "method": first.title,
        "graph": first.name,
        "epochs": first.models[0].epochs,
        "accuracy": accuracy,
        "difference": fmean(_differences(accuracy)),
        "ms": milliseconds,
    }


def _epoch_ms(cell: Cell) -> float:
    """Return the milliseconds of an epoch of the first model of a cell."""
    reset_memory()
    settings = cell.models[0].settings()
    settings.pop("name", None)
    epochs = settings["epochs"]
    model = method(str(cell.row.method))(**{**settings, "epochs": 0}).fit(cell.data)  # builds the network
    model.set_params(epochs=epochs)
    graph = input_graph(model, check(cell.data, quiet=True), torch.device("cuda"))
    return float(timed_epochs(model, model.network_, graph, cell.name)["ms"])


def _differences(accuracy: dict[str, list[float]]) -> Iterator[float]:
    """Yield the accuracy with fp16 activations minus that with float32 activations, seed by seed."""
    return (a - b for a, b in zip(*(accuracy[precision] for precision in PRECISIONS), strict=True))


def summary(results: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return for each method the mean difference over its graphs, its standard error, and the standard deviation.

    Two trainings that differ in the last bits drift apart, so single differences are as large as between two seeds.
    Each graph counts the same.
    """
    found = {}
    for name in dict.fromkeys(row["method"] for row in results):
        own = [list(_differences(row["accuracy"])) for row in results if row["method"] == name]
        variances = [stdev(values) ** 2 / len(values) for values in own]
        found[name] = {
            "graphs": len(own),
            "runs": sum(map(len, own)),
            "mean_difference": fmean(map(fmean, own)),
            "standard_error": sum(variances) ** 0.5 / len(own),
        }
    return found


def table(result: dict[str, Any]) -> str:
    """Return the times and accuracies as a Markdown table."""
    lines = [
        "| method | graph | ms an epoch, float32 | fp16 | runs | accuracy, float32 | fp16 − float32 |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for row in result["rows"]:
        accuracy, differences = row["accuracy"], [100 * d for d in _differences(row["accuracy"])]
        error = stdev(differences) / len(differences) ** 0.5
        lines.append(
            f"| {row['method']} | {row['graph']} | {row['ms']['tf32']:.2f} | {row['ms']['auto']:.2f} "
            f"| {len(differences)} | {100 * fmean(accuracy['tf32']):.1f} | {fmean(differences):+.2f} ± {error:.2f} |"
        )
    return "\n".join(lines)
