"""Seeds against splits: models of several seeds, each scored on the same splits, and the variance of both."""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from sklearn.base import clone

from epagcl.core.errors import TrainingError
from epagcl.core.hardware import resolve_device
from epagcl.data import splits
from epagcl.evaluation import linear
from epagcl.evaluation.linear import linear_evaluation
from epagcl.methods import method
from epagcl.paper.artefact import Request
from epagcl.runs.record import describe, provenance
from epagcl.study.code_version import code_version
from epagcl.study.design import Cell, Row, cells
from epagcl.study.jobs import Job
from epagcl.study.scoring import training_title
from epagcl.study.shapes import ORIGIN, Shape
from epagcl.study.store import Key, Record

#: Seeds of the models, and splits on which each of them is scored.
SEEDS, SPLITS = 8, 20
PROTOCOL = "strict"
#: The shape of the record of a run.
RECORD: Shape = {**ORIGIN, "accuracy": [float], "seconds": float}


@dataclass(frozen=True, eq=False)
class CrossedRun:
    """A model of one seed at the default settings, to be scored on the splits 0, 1, ....

    Attributes:
        cell: the method at its default settings on a graph.
        seed: the seed of the model.
        splits: number of splits.
    """

    cell: Cell
    seed: int
    splits: int

    @cached_property
    def key(self) -> Key:
        """Everything that the scores depend on."""
        return {
            "what": f"crossed-{self.cell.row.method}",
            "graph": {"name": self.cell.name, "fingerprint": self.cell.about["fingerprint"]},
            "settings": self.cell.resolved,
            "seed": self.seed,
            "splits": self.splits,
            "code": code_version(type(self.cell.models[0]), linear, splits, observe),
        }


def crossed_runs(request: Request, seeds: int = SEEDS, number: int = SPLITS) -> list[CrossedRun]:
    """Return the runs of all methods and graphs, one per seed."""
    rows = [Row(method(name).title, name) for name in request.methods]
    return [
        CrossedRun(cell, seed, number)
        for name, data in request.graphs.items()
        for cell in cells(data, name, rows, seeds=seeds, protocols=[PROTOCOL], settings=request.settings)
        for seed in range(seeds)
    ]


def observe(run: CrossedRun, request: Request) -> Record:
    """Train a model, and score its embedding on every split by the strict protocol."""
    device = resolve_device(request.device)
    data, model = run.cell.data, clone(run.cell.models[run.seed])
    with request.work.training(training_title(model, run.cell.name), model.epochs) as callback:
        z = model.fit(data, callback=callback).embed(data).to(device)
    scores = linear_evaluation(z, data.y, PROTOCOL, seed=list(range(run.splits)))
    return {
        **provenance(str(device)),
        "accuracy": scores.runs,
        "seconds": model.history_[-1]["seconds"] if model.history_ else 0.0,
    }


def measure_crossed(runs: list[CrossedRun], request: Request) -> list[dict[str, Any]]:
    """Return the runs of each method and graph: accuracies by seed and split, seconds and hardware.

    Runs whose training fails are left out.
    """
    jobs = [
        Job(
            training_title(run.cell.models[run.seed], run.cell.name),
            run.key,
            partial(observe, run, request),
            run.cell.cost,
            RECORD,
        )
        for run in runs
    ]
    records = request.records_of(jobs, left_out=(TrainingError, torch.OutOfMemoryError))
    tables: dict[tuple[str, str], dict[str, Any]] = {}
    for run, record in zip(runs, records, strict=True):
        if record is None:
            continue
        table = tables.setdefault(
            (run.cell.name, run.cell.title),
            {
                "graph": describe(run.cell.data, run.cell.name),
                "row": run.cell.title,
                "settings": run.cell.resolved,
                "splits": run.splits,
                "seeds": [],
                "accuracy": [],
                "seconds": [],
                "hardware": [],
            },
        )
        table["seeds"].append(run.seed)
        table["accuracy"].append(record["accuracy"])
        table["seconds"].append(record["seconds"])
        table["hardware"] = sorted({*table["hardware"], record["hardware"]["device"]})
    return list(tables.values())
