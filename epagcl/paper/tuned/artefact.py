"""Whole methods, each tuned with the same budget: the same trials, epochs, width and seeds for every method and graph.

A graph has some outer test sets, :func:`~epagcl.paper.tuned.budget.outer_sets`. For each, every method is searched on
the other nodes, and the best settings are then trained again with new seeds and scored. No search reads a label of its
test set.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from epagcl.core.errors import InputError, TrainingError
from epagcl.core.hardware import resolve_device
from epagcl.core.progress import InnerProgress
from epagcl.data import splits as split_module
from epagcl.evaluation import linear
from epagcl.evaluation.linear import linear_evaluation
from epagcl.methods import method
from epagcl.methods.base import Method
from epagcl.methods.propagated import Propagated
from epagcl.paper.artefact import Artefact, Request, Result
from epagcl.paper.study_size import GRAPHS, MANY
from epagcl.paper.tuned.budget import (
    EPOCHS,
    METHODS,
    PROTOCOL,
    SEEDS,
    TRIALS,
    WIDTH,
    budget,
    outer_sets,
    space_around,
    start_of,
)
from epagcl.paper.tuned.cells import comparable, scores_of
from epagcl.paper.tuned.reading import reading
from epagcl.paper.tuned.tables import figures, tables
from epagcl.runs.evaluation import PROPAGATED, RAW
from epagcl.runs.record import describe, provenance
from epagcl.study import tuning
from epagcl.study.code_version import code_version
from epagcl.study.design import UNSTORED, fingerprint
from epagcl.study.diagram import BARS
from epagcl.study.jobs import Job
from epagcl.study.shapes import ORIGIN, Shape
from epagcl.study.tuning.criterion import STRICT_RATIOS, splits_with_one_test
from epagcl.study.tuning.study import tune
from epagcl.study.workers import number_of_workers

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from epagcl.data.splits import Split
    from epagcl.study.store import Record, Store

#: Errors of a search that do not stop the others.
LEFT_OUT = (InputError, TrainingError, torch.OutOfMemoryError)
#: What a result keeps of a search; records of earlier versions lack the number of processes that shared the GPU.
SEARCHED = ("settings", "trials", "processes")
#: The shape of the record of a reference.
REFERENCE: Shape = {**ORIGIN, "commit": (str, None), "accuracy": [float]}
#: The shape of the record of a search.
SEARCH: Shape = {
    **ORIGIN,
    "commit": (str, None),
    **{key: [float] for key in ("accuracy", "untrained")},
    "settings": {"epochs": int},
    "trials": [{"validation": (float, None), "epochs?": (int, None), "settings?": dict}],
}


class Search(NamedTuple):
    """A row on an outer test set of a graph.

    Attributes:
        graph: name of the graph.
        row: name of the method, or title of a reference, which needs no search.
        outer: number of the test set.
    """

    graph: str
    row: str
    outer: int

    @property
    def title(self) -> str:
        """The title of the row."""
        return self.row if self.row in (RAW, PROPAGATED) else method(self.row).title


def measure(request: Request) -> Result:
    """Search, train and score every method on every outer test set of every graph, and score the references."""
    wanted = searches(request)
    records = request.records_of([job_of(request, search) for search in wanted], LEFT_OUT)
    cells = collected_cells(request, dict(zip(wanted, records, strict=True)))
    request.require(cells)
    # A method that failed on all test sets of a graph is not one of its rows.
    rows = {graph: {cell["row"] for cell in cells if cell["graph"]["name"] == graph} for graph in request.graphs}
    finished, incomplete = comparable(cells, rows.__getitem__)
    return {"cells": finished, "incomplete": incomplete, "absent": request.absent}


def searches(request: Request) -> list[Search]:
    """Return all searches of a request."""
    rows = (RAW, PROPAGATED, *request.methods)
    return [Search(graph, row, outer) for graph in request.graphs for row in rows for outer in outer_sets(graph)]


def collected_cells(request: Request, records: "Mapping[Search, Record | None]") -> list[dict[str, Any]]:
    """Return the results of each row and graph over its outer test sets, in the form of the other artefacts' cells."""
    found: dict[tuple[str, str], list[Record]] = {}
    for search, record in records.items():
        if record is not None:
            found.setdefault((search.graph, search.row), []).append(record)
    return [_cell(request.graphs[name], name, row, own) for (name, row), own in found.items()]


def job_of(request: Request, search: Search) -> Job:
    """Return the computation of a search."""
    data = request.graphs[search.graph]
    trainings = 0 if search.row in (RAW, PROPAGATED) else TRIALS + 2 * SEEDS
    cost = float((trainings * EPOCHS + 50) * (data.num_nodes + 5000))
    place = search.graph, data, search.row, search.outer
    title = f"{search.row} on {search.graph}, outer split {search.outer}"
    shape = SEARCH if trainings else REFERENCE
    return Job(title, _key(request, *place), partial(observe, request, *place), cost, shape)


def _key(request: Request, name: str, data: "Data", row: str, outer: int) -> dict[str, Any]:
    classes = [] if row == RAW else [method(row)]
    start, fixed = ({}, {}) if row in (RAW, PROPAGATED) else search_settings(request, name, classes[0])
    return {
        "what": f"tuned-{row}",
        "graph": {"name": name, "fingerprint": fingerprint(data)},
        "outer": outer,
        "start": start,
        "fixed": {setting: value for setting, value in fixed.items() if setting not in UNSTORED},
        "budget": {"trials": TRIALS, "seeds": SEEDS, "space": space_around(start), "epochs": EPOCHS, "width": WIDTH},
        "code": code_version(*classes, linear, split_module, tuning, observe, budget),
    }


def search_settings(request: Request, graph: str, cls: type[Method]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings of the first trial, which are those of the recipe, and those that no trial changes."""
    fixed = {**budget(cls.name), "device": request.device}
    fixed |= {name: value for name, value in request.settings.items() if name in cls().get_params()}
    return {name: value for name, value in start_of(graph, cls).items() if name not in fixed}, fixed


def observe(request: Request, name: str, data: "Data", row: str, outer: int) -> "Record":
    """Search the settings of a method without one outer test set, and score models of new seeds on it."""
    device = resolve_device(request.device)
    nodes = splits_with_one_test(data, PROTOCOL, STRICT_RATIOS, outer, SEEDS)
    about = provenance(request.device)
    if row == RAW:
        return {**about, "accuracy": _scores([data.x.to(device)] * SEEDS, data.y, nodes)}
    cls = method(row)
    if cls is Propagated:
        models = [cls(seed=seed, device=request.device) for seed in _seeds(outer)]
        return {**about, "accuracy": _embed_and_score(models, data, nodes, device)}
    start, fixed = search_settings(request, name, cls)
    folder = _journal_folder(request.store, _key(request, name, data, row, outer))
    found = tune(
        data,
        cls.name,
        trials=TRIALS,
        seeds=1,
        seed=outer,
        space=space_around(start),
        start=start,
        test=False,
        folder=folder,
        resume=folder.exists(),
        name=name,
        work=InnerProgress(request.work),
        **fixed,
    )
    untrained = [cls(**{**start, **fixed, "epochs": 0, "seed": seed}) for seed in _seeds(outer)]
    return {
        **about,
        "accuracy": _embed_and_score([found.estimator(seed=seed) for seed in _seeds(outer)], data, nodes, device),
        "untrained": _embed_and_score(untrained, data, nodes, device),
        "settings": {key: value for key, value in found.best.items() if key not in UNSTORED},
        "trials": [
            {key: trial[key] for key in ("state", "validation", "epochs", "seconds", "settings")}
            for trial in found.trials
        ],
        "processes": number_of_workers(),
    }


def _seeds(outer: int) -> list[int]:
    """Return the seeds of the final models, which no search has used."""
    return [1000 * (outer + 1) + k for k in range(SEEDS)]


def _journal_folder(store: "Store", key: dict[str, Any]) -> Path:
    """Return the folder of a search. Its name ends with the digest of the key, so that no other search continues it."""
    record = store.path(key)
    return store.folder / "tuning" / key["graph"]["name"] / f"{record.parent.name}--{key['outer']}--{record.stem[:8]}"


def _embed_and_score(models: list[Method], data: "Data", nodes: "list[Split]", device: torch.device) -> list[float]:
    return _scores([model.fit_embed(data).to(device) for model in models], data.y, nodes)


def _scores(embeddings: list[Tensor], y: Tensor, nodes: "list[Split]") -> list[float]:
    return list(linear_evaluation(embeddings, y, splits=nodes).runs)


def _cell(data: "Data", name: str, row: str, records: "list[Record]") -> dict[str, Any]:
    return {
        "row": Search(name, row, 0).title,
        "graph": describe(data, name),
        "hardware": sorted({record["hardware"]["device"] for record in records}),
        "commits": sorted({record["commit"] or "unknown" for record in records}),
        "searches": [
            {"outer": record["key"]["outer"], **{name: record[name] for name in SEARCHED if name in record}}
            for record in records
            if "trials" in record
        ],
        "protocols": {PROTOCOL: _protocol(records, "accuracy")},
        "untrained": _protocol(records, "untrained") if "untrained" in records[0] else None,
    }


def _protocol(records: "list[Record]", part: str) -> Mapping[str, Any]:
    runs = {
        place: accuracy
        for record in records
        for place, accuracy in enumerate(record[part], start=SEEDS * record["key"]["outer"])
    }
    return scores_of(runs)


ARTEFACT = Artefact(
    name="tuned",
    title="Whole methods with one budget",
    datasets=GRAPHS,
    methods=METHODS,
    runs=MANY,
    protocols=(PROTOCOL,),
    measure=measure,
    tables=tables,
    figures=figures,
    reading=reading,
    captions={
        "": "Each tuned method minus its own untrained encoder, which has the settings of the recipe",
        "ranks": f"Mean ranks of the tuned methods and the references; {BARS}",
    },
)
