"""Validation accuracy on a CPU after training in float32 and in bf16, with the same seeds and splits."""

import time
from collections.abc import Iterator
from statistics import fmean, stdev
from typing import Any, NamedTuple

from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.core.hardware import has_bf16, resolve_device
from epagcl.data import load
from epagcl.evaluation.linear import linear_evaluation
from epagcl.methods import method
from epagcl.runs.record import provenance

PRECISIONS = ("fp32", "bf16")


class Task(NamedTuple):
    """A training to compare: the method's default settings except for these."""

    graph: str
    epochs: int
    seeds: int
    batch_size: int = 0
    method: str = "epagcl"


#: All pairs are negatives on the small graphs. The large ones are trained briefly and in batches.
TASKS = (
    Task("texas", 60, 10),
    Task("cornell", 60, 10),
    Task("wisconsin", 60, 10),
    Task("cora", 40, 2),
    Task("chameleon", 30, 2),
    *(Task(graph, 30, 2, 0, "epagcl+") for graph in ("texas", "cora", "chameleon")),
    *(Task("texas", 40, 2, 0, name) for name in ("grace", "dgi", "bgrl", "cca-ssg", "mvgrl")),
    Task("citeseer", 20, 1),
    Task("actor", 10, 1, 256),
    *(Task("cora", 10, 1, 0, name) for name in ("dgi", "bgrl", "cca-ssg")),
    Task("squirrel", 10, 1, 256),
    Task("amazon-photo", 8, 1, 256),
    Task("flickr", 5, 1, 256),
    Task("pubmed", 3, 1, 256),
)
SPLITS = 10  # of each embedding, since the validation sets of small graphs are small


def precision(seconds: float = 600.0) -> dict[str, Any]:
    """Train with both precisions, compare validation accuracies, and stop before the first task after the time limit.

    Args:
        seconds: time limit.
    """
    if not has_bf16(resolve_device("cpu")):
        raise InputError("this CPU has no bf16 instructions (avx512_bf16 or amx); run it on one that has")
    end = time.monotonic() + seconds
    rows, missing = [], []
    for task in TASKS:
        if time.monotonic() > end:
            missing.append(task._asdict())
            continue
        rows.append(compare(load(task.graph), task))
        print(f"{task.graph}, {task.method}: {rows[-1]['difference']:+.4f}", flush=True)
    return {
        **provenance("cpu"),
        "command": "python -m benchmarks precision",
        "protocol": "strict, accuracy on the validation nodes",
        "splits": SPLITS,
        "rows": rows,
        "missing": missing,
        "summary": summary(rows),
    }


def compare(data: Data, task: Task) -> dict[str, Any]:
    """Return the accuracies of each precision: one per seed, the mean over the same splits."""
    batches = {"batch_size": task.batch_size} if task.batch_size else {}
    accuracy: dict[str, list[float]] = {name: [] for name in PRECISIONS}
    seconds = dict.fromkeys(PRECISIONS, 0.0)
    for seed in range(task.seeds):
        for name in PRECISIONS:
            start = time.process_time()
            model = method(task.method)(epochs=task.epochs, seed=seed, precision=name, device="cpu", **batches)
            z = model.fit(data).embed(data)
            seconds[name] += time.process_time() - start
            chosen = linear_evaluation(z, data.y, "strict", runs=SPLITS).chosen
            accuracy[name].append(fmean(choice["validation_accuracy"] for choice in chosen))
    return {
        **task._asdict(),
        "accuracy": accuracy,
        "difference": fmean(_differences(accuracy)),
        "processor_seconds": seconds,
    }


def _differences(accuracy: dict[str, list[float]]) -> Iterator[float]:
    fp32, bf16 = (accuracy[name] for name in PRECISIONS)
    return (b - a for a, b in zip(fp32, bf16, strict=True))


def summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return the mean of bf16 − fp32 over all trainings, its standard error, and the spread between seeds.

    Two trainings that differ in the last bits drift apart, so single differences are as large as between two seeds.
    What a lower precision would cost is a mean different from 0.
    """
    differences = [difference for row in rows for difference in _differences(row["accuracy"])]
    spreads = [stdev(row["accuracy"]["fp32"]) for row in rows if len(row["accuracy"]["fp32"]) > 1]
    return {
        "trainings": len(differences),
        "mean_difference": fmean(differences),
        "standard_error": stdev(differences) / len(differences) ** 0.5 if len(differences) > 1 else 0.0,
        "largest_difference_of_a_row": max((abs(row["difference"]) for row in rows), default=0.0),
        "standard_deviation_between_seeds": fmean(spreads) if spreads else 0.0,
    }
