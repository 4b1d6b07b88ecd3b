"""Time of an epoch and accuracy with fp16 and with float32 activations on a GPU, on paired runs of each method."""

import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch
from sklearn.base import clone

from benchmarks.gpu import reset_memory, timed_epochs
from epagcl.core.errors import InputError
from epagcl.core.formatting import short_commit
from epagcl.data import check, load
from epagcl.methods import method
from epagcl.methods.inputs import input_graph
from epagcl.runs.record import provenance
from epagcl.study.comparison import collect, fill, shares_by_seed
from epagcl.study.design import Cell, cells, rows
from epagcl.study.paired_test import paired_test
from epagcl.study.store import Store
from epagcl.study.workers import run_workers
from epagcl.training.precision import has_half_activations

#: The activations that are compared.
ACTIVATIONS = ("fp16", "float32")


class Task(NamedTuple):
    """A method on a graph, with the settings of its recipe except for the number of epochs.

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
    Task("bgrl", "amazon-photo", 4, 2000),
    Task("bgrl", "pubmed", 4),
    Task("epagcl+", "pubmed", 3),
    Task("epagcl", "amazon-photo", 6),
    Task("epagcl+", "amazon-photo", 6),
    Task("bgrl", "actor", 6),
    Task("epagcl+", "actor", 6),
    Task("epagcl", "actor", 6),
)


def half(folder: Path, processes: int, minutes: float) -> dict[str, Any]:
    """Train the tasks with both kinds of activations, and return validation accuracies and the time of an epoch.

    Args:
        folder: store of the runs; an interrupted benchmark continues.
        processes: number of processes that train on the GPU at the same time. Epochs are timed without others.
        minutes: stop training after this time. Tasks with fewer than two paired runs are then left out.
    """
    if not torch.cuda.is_available():
        raise InputError("benchmarks half: no CUDA device here; run it on a machine with an NVIDIA GPU")
    command = [sys.executable, "-m", "benchmarks", "half", "--folder", str(folder), "--train"]
    if run_workers(command, processes, folder / "logs", 60 * minutes):
        raise InputError(f"a process failed; {folder / 'logs'} has its output")
    results = [row for task in TASKS if (row := _row(task, Store(folder))) is not None]
    if not results:
        raise InputError("benchmarks half: no task has two paired runs yet; give more minutes")
    return {
        **provenance("cuda"),
        "command": "python -m benchmarks half",
        "protocol": "strict, accuracy on the validation nodes of the split of each seed; settings of the recipes but "
        "for the number of epochs, defaults without a recipe; ms: median of blocks of epochs, without other processes",
        "rows": results,
    }


def train(folder: Path) -> None:
    """Train what the store lacks; several processes may share it."""
    fill([cell for task in TASKS for cell in task_cells(task).values()], Store(folder))


def task_cells(task: Task) -> dict[str, Cell]:
    """Return the cell of each kind of activations."""
    data = load(task.graph)
    [row] = [row for row in rows([task.method]) if not row.reference]
    cls = method(task.method)
    settings = {"device": "cuda"} | ({} if task.epochs is None else {"epochs": task.epochs})
    allowed = {name: {"half_activations": name == "fp16"} for name in ACTIVATIONS}
    wanted = [replace(row, kind=type(name.title() + cls.__name__, (cls,), own)) for name, own in allowed.items()]
    made = cells(data, str(data.name), wanted, seeds=task.seeds, protocols=["strict"], settings=settings)
    return dict(zip(ACTIVATIONS, made, strict=True))


def _row(task: Task, store: Store) -> dict[str, Any] | None:
    """Return the accuracies and times of a task, or None if it has fewer than two paired runs."""
    found = task_cells(task)
    results = {name: collect(cell, store) for name, cell in found.items()}
    runs = {name: shares_by_seed(r["protocols"]["strict"], "validation") for name, r in results.items() if r}
    seeds = sorted(set.intersection(*map(set, runs.values()))) if len(runs) == len(ACTIVATIONS) else []
    if len(seeds) < 2:
        return None
    accuracy = {name: [runs[name][seed] for seed in seeds] for name in ACTIVATIONS}
    first = found["fp16"]
    return {
        "method": first.title,
        "graph": first.name,
        "epochs": first.models[0].epochs,
        "seeds": seeds,
        "accuracy": accuracy,
        "ms": {name: _epoch_ms(cell, half=name == "fp16") for name, cell in found.items()},
    }


def _epoch_ms(cell: Cell, *, half: bool) -> float:
    """Return the milliseconds of an epoch of the first model of a cell, whose activations must be fp16 if ``half``."""
    reset_memory()
    model = clone(cell.models[0])
    epochs = model.epochs
    model.set_params(epochs=0).fit(cell.data)  # builds the network
    model.set_params(epochs=epochs)
    graph = input_graph(model, check(cell.data, quiet=True), torch.device("cuda"))
    assert has_half_activations(model, graph) == half
    return float(timed_epochs(model, model.network_, graph, cell.name)["ms"])


def _differences(row: dict[str, Any]) -> list[float]:
    """Return the accuracy with fp16 activations minus that with float32 activations, in points, seed by seed."""
    return [100 * (a - b) for a, b in zip(*(row["accuracy"][name] for name in ACTIVATIONS), strict=True)]


def table(result: dict[str, Any]) -> str:
    """Return the times and accuracies as a Markdown table."""
    lines = [
        "| method | graph | epoch, float32 | epoch, fp16 | runs | accuracy, float32 | fp16 − float32 |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for row in result["rows"]:
        test = paired_test(_differences(row))
        lines.append(
            f"| {row['method']} | {row['graph']} | {row['ms']['float32']:.2f} ms | {row['ms']['fp16']:.2f} ms "
            f"| {test.n} | {100 * fmean(row['accuracy']['float32']):.1f} | {test} |"
        )
    note = (
        "Accuracies in percent on validation nodes. Differences in points on the same seeds and splits, with 95% "
        f"intervals, corrected for overlapping splits. Measured on {result['hardware']['device']}, torch "
        f"{result['versions']['torch']}, {result['date'][:10]}, commit {short_commit(result['commit'])}."
    )
    return "\n".join([*lines, "", *textwrap.wrap(note, 120), ""])
