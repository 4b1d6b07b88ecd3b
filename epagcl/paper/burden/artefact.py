"""Table 3: the cost of each method before the first epoch and per epoch, in time, memory and FLOPs."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from epagcl.core.errors import InputError
from epagcl.core.hardware import resolve_device
from epagcl.core.log import log
from epagcl.core.sparse import SparseMatrix
from epagcl.data import check, load
from epagcl.data.catalogue.entries import find
from epagcl.data.graph import Graph
from epagcl.methods import method
from epagcl.methods.recipes import recipe
from epagcl.paper.artefact import Artefact, Request, Result
from epagcl.paper.burden import costs
from epagcl.paper.burden.reading import reading
from epagcl.paper.burden.tables import figures, is_cpu, tables
from epagcl.runs.record import provenance
from epagcl.study.code_version import code_version
from epagcl.study.shapes import Shape
from epagcl.study.store import holding

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from epagcl.report.metrics import Provenance
    from epagcl.study.store import Key
#: The shapes of the records of times and memory, and of FLOPs.
TIMES: Shape = (
    {"seconds_before": float, "seconds_per_epoch": float, "gib": (float, None)},
    {"out_of_memory": bool},
)
FLOPS: Shape = {"flops": float}


@dataclass(frozen=True)
class Subject:
    """A graph to measure on.

    Attributes:
        name: name of the graph.
        data: the graph as loaded.
        graph: the graph as methods use it.
        note: remark for the table, or "".
    """

    name: str
    data: "Data"
    graph: Graph
    note: str

    @classmethod
    def from_name(cls, name: str, root: Path | None) -> "Subject":
        """Load a named graph. Absent features are replaced by random ones of the same width, which cost the same."""
        entry, note = find(name), ""
        try:
            data = load(name, root)
        except InputError:
            data = load(name, root, features=False)
            data.x = torch.randn(data.num_nodes, entry.features, generator=torch.Generator().manual_seed(0))
            note = "random features of the real width: their values are absent here, and change no cost"
        return cls(entry.name, data, Graph.from_data(check(data, quiet=True)), note)

    def sizes(self) -> dict[str, Any]:
        """Return the sizes of the graph, as the result stores them."""
        x = self.graph.x
        return {
            "nodes": self.graph.num_nodes,
            "pairs": self.graph.pairs.shape[1],
            "features": self.graph.num_features,
            "feature_entries": x.value.numel() if isinstance(x, SparseMatrix) else x.numel(),
            "note": self.note,
        }


def measure(request: Request) -> Result:
    """Measure every method on every graph. Single measurements are stored, times and memory by hardware."""
    names = list(dict.fromkeys(name.lower().removesuffix("*") for name in request.methods))
    graphs, absent, cells = {}, {}, []
    for name in request.datasets:
        try:
            subject = Subject.from_name(name, request.root)
        except InputError:
            absent[find(name).name] = "data are absent"
            continue
        graphs[subject.name] = subject.sizes()
        cells += _cells(request, subject, names)
    request.require([cell for cell in cells if cell["hardware"] or cell["flops"]])
    return {"cells": cells, "graphs": graphs, "absent": absent}


def with_missing(result: Result, request: Request) -> Result | None:
    """Return a result with the times that it lacks on the graphs of a request, or None if there are no new ones."""
    lacking: dict[str, list[str]] = {}
    for cell in result["cells"]:
        if cell["hardware"] is None and (not request.datasets or cell["graph"] in request.datasets):
            lacking.setdefault(cell["graph"], []).append(cell["settings"]["name"])
    measured: dict[tuple[str, str], dict[str, Any]] = {}
    for graph, names in lacking.items():
        try:
            subject = Subject.from_name(graph, request.root)
        except InputError as error:
            log.warning("%s: skipped (%s)", graph, error)
            continue
        measured |= {(graph, cell["method"]): cell for cell in _cells(request, subject, names) if cell["hardware"]}
    cells = [measured.get((cell["graph"], cell["method"]), cell) for cell in result["cells"]]
    return {**result, "cells": cells} if measured else None


def _cells(request: Request, subject: Subject, names: Sequence[str]) -> list[dict[str, Any]]:
    """Measure some methods on a graph, or read their measurements from the store."""
    device, origin, cells = resolve_device(request.device), provenance(request.device), []
    request.work.plan([1.0] * len(names))
    for key in names:
        request.work.say(f"{key} on {subject.name}")
        start = time.perf_counter()
        cells.append(_cell(request, subject, key, device, origin))
        request.work.finish([1.0], time.perf_counter() - start)
    return cells


def _cell(request: Request, subject: Subject, key: str, device: torch.device, origin: "Provenance") -> dict[str, Any]:
    """Measure one method on one graph, or read its measurements from the store."""
    cls = method(key)
    accepted = {field.name for field in cls.setting_fields()}
    settings = {name: value for name, value in recipe(subject.name, key).items() if name != "source"}
    settings |= {name: value for name, value in request.settings.items() if name in accepted and name != "device"}
    common: Key = {
        "graph": {"name": subject.name, "fingerprint": subject.graph.fingerprint},
        "method": key,
        "code": code_version(cls, costs),
    }
    all_settings = cls(**settings).settings()
    machine = origin["hardware"]
    hardware = machine["device"] if device.type == "cuda" else f"{machine['cpu']}, {machine['threads']} threads"
    # Times and memory depend on the hardware, FLOPs do not.
    timing_key = {"what": "burden", **common, "settings": _without(all_settings, "device"), "hardware": hardware}
    counted_settings = _without(all_settings, "device", "capture", "precision", "epochs")
    flops_key = {"what": "flops", **common, "settings": counted_settings}
    timed, counted = holding(request.store, TIMES), holding(request.store, FLOPS)
    if request.train:
        stamp = {"date": origin["date"], "commit": origin["commit"]}
        times = timed.remember(timing_key, lambda: {**stamp, **costs.burden(cls, settings, subject.data, device)})
        products = counted.remember(flops_key, lambda: {"flops": costs.flops(cls, settings, subject.data)})
    else:  # measurements on any hardware, those of a GPU first
        stored = timed.similar(timing_key, free="hardware")
        times = min(stored, key=lambda record: is_cpu(record["key"]["hardware"]), default={})
        products = counted.read(flops_key) or {}
    return {
        "graph": subject.name,
        "method": cls.title,
        "settings": all_settings,
        "hardware": times["key"]["hardware"] if times else None,
        **_without(times, "key"),
        "flops": products.get("flops"),
    }


def _without(settings: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key not in names}


ARTEFACT = Artefact(
    name="burden",
    title="What training costs",
    datasets=("cora", "pubmed", "ogbn-arxiv"),
    methods=("dgi", "gmi", "mvgrl", "grace", "gca", "bgrl", "greet", "cca-ssg", "epagcl", "epagcl+"),
    runs=1,
    protocols=(),
    measure=measure,
    tables=tables,
    figures=figures,
    reading=reading,
)
