"""Table 3: what each method costs before the first epoch and in one, in time, memory and products."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from epagcl.core.errors import InputError
from epagcl.core.hardware import resolve_device
from epagcl.core.sparse import SparseMatrix
from epagcl.data import check, load
from epagcl.data.catalogue.entries import find
from epagcl.data.graph import Graph
from epagcl.methods import method
from epagcl.methods.recipes import recipe
from epagcl.paper import costs, reported
from epagcl.paper.artefact import Artefact, Request, Result
from epagcl.paper.drawing import COLOURS, GREY, new_figure
from epagcl.paper.tables import Cell, Table, marked
from epagcl.runs.provenance import provenance
from epagcl.study.code_version import code_version

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch_geometric.data import Data

#: What is measured, as the paper's columns have it: key, words, format.
QUANTITIES = {
    "seconds_before": ("pre-processing, s", "{:.3g}"),
    "flops": ("FLOPs an epoch", "{:.2e}"),
    "seconds_per_epoch": ("s an epoch", "{:.2g}"),
    "gib": ("memory, GiB", "{:.2f}"),
}
WORDS = {
    "seconds_per_epoch": ("time of an epoch", " s"),
    "gib": ("memory", " GiB"),
    "flops": ("FLOPs of an epoch", ""),
    "seconds_before": ("pre-processing", " s"),
}
FLOOR = 1e-4  # seconds below which a time is not told apart from 0
COMPARABLE = 1.5  # factor up to which two burdens count as comparable


def encoder_pass(graph: dict[str, Any], hidden: int, dim: int) -> int:
    """FLOPs of Â(Â X W₁)W₂ on the graph as it is: 2(|X|h + (2E + N)h + N h d + (2E + N)d), |X| the entries of X."""
    n, links = graph["nodes"], 2 * graph["pairs"] + graph["nodes"]
    return 2 * (graph["feature_entries"] * hidden + links * hidden + n * hidden * dim + links * dim)


@dataclass(frozen=True)
class Subject:
    """A graph to measure on."""

    name: str
    data: "Data"
    graph: Graph
    note: str

    @classmethod
    def of(cls, name: str, root: Path | None) -> "Subject":
        """The named graph; where its features are absent, random ones of their width, which cost the same."""
        entry, note = find(name), ""
        try:
            data = load(name, root)
        except InputError:
            data = load(name, root, features=False)
            data.x = torch.randn(data.num_nodes, entry.features, generator=torch.Generator().manual_seed(0))
            note = "random features of the real width: their values are absent here, and change no cost"
        return cls(entry.name, data, Graph.from_data(check(data, quiet=True)), note)

    def describe(self) -> dict[str, Any]:
        """Sizes, for words."""
        x = self.graph.x
        return {
            "nodes": self.graph.num_nodes,
            "pairs": self.graph.pairs.shape[1],
            "features": self.graph.num_features,
            "feature_entries": x.value.numel() if isinstance(x, SparseMatrix) else x.numel(),
            "note": self.note,
        }


def measure(request: Request) -> Result:
    """Every method on every graph; single measurements are kept in the store, times and memory by hardware."""
    names = list(dict.fromkeys(name.lower().removesuffix("*") for name in request.methods))
    graphs, absent, cells = {}, {}, []
    device = resolve_device(request.device)
    made = provenance(request.device)
    for name in request.datasets:
        try:
            subject = Subject.of(name, request.root)
        except InputError:
            absent[find(name).name] = "data are absent"
            continue
        graphs[subject.name] = subject.describe()
        request.work.plan([1.0] * len(names))
        for key in names:
            request.work.say(f"{key} on {subject.name}")
            start = time.perf_counter()
            cells.append(_cell(request, subject, key, device, made))
            request.work.finish([1.0], time.perf_counter() - start)
    request.require([cell for cell in cells if cell["hardware"] or cell["flops"]])
    return {"cells": cells, "graphs": graphs, "absent": absent}


def _cell(request: Request, subject: Subject, key: str, device: torch.device, made: dict[str, Any]) -> dict[str, Any]:
    cls = method(key)
    known = {field.name for field in cls.setting_fields()}
    settings = {name: value for name, value in recipe(subject.name, key).items() if name != "source"}
    settings |= {name: value for name, value in request.settings.items() if name in known and name != "device"}
    same = {
        "graph": {"name": subject.name, "fingerprint": subject.graph.fingerprint},
        "method": key,
        "code": code_version(cls, costs),
    }
    every = cls(**settings).settings()
    where = made["hardware"]
    hardware = where["device"] if device.type == "cuda" else f"{where['cpu']}, {where['threads']} threads"
    # By hardware; what is counted is the same everywhere.
    timed = {"what": "burden", **same, "settings": _without(every, "device"), "hardware": hardware}
    counted = {"what": "flops", **same, "settings": _without(every, "device", "capture", "precision", "epochs")}
    if request.train:
        kept = {"date": made["date"], "commit": made["commit"]}
        store = request.store
        times = store.remember(timed, lambda: {**kept, **costs.burden(cls, settings, subject.data, device)})
        products = store.remember(counted, lambda: {"flops": costs.flops(cls, settings, subject.data)})
    else:  # whatever hardware has been measured, a GPU first
        found = request.store.similar(timed, free="hardware")
        times = min(found, key=lambda record: _on_cpu(record["key"]["hardware"]), default={})
        products = request.store.read(counted) or {}
    return {
        "graph": subject.name,
        "method": cls.title,
        "settings": every,
        "hardware": times["key"]["hardware"] if times else None,
        **_without(times, "key"),
        "flops": products.get("flops"),
    }


def _on_cpu(hardware: str) -> bool:
    return hardware.endswith(" threads")


def _without(settings: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key not in names}


def reported_cell(graph: str, title: str) -> dict[str, float | str]:
    """The paper's four figures by quantity, or OOM; empty where it has none."""
    figures = reported()["burden"]
    cell = dict(zip(figures["columns"], figures.get(title, []), strict=False)).get(graph)
    if cell is None:
        return {}
    if isinstance(cell, str):
        before = "OOM" if cell == "OOM" else cell.split(" pre-")[0]
        return {name: before if name == "seconds_before" else "OOM" for name in QUANTITIES}
    return dict(zip(QUANTITIES, cell, strict=True))


def tables(result: Result) -> list[Table]:
    """Rows are methods; four columns for each graph, the paper's figure in brackets."""
    cells = {(cell["graph"], cell["method"]): cell for cell in result["cells"]}
    methods = list(dict.fromkeys(title for _, title in cells))
    columns, sides = ["method"], []
    for graph in result["graphs"]:
        for name, (words, _) in QUANTITIES.items():
            columns.append(f"{graph}: {words}")
            values = [cells[graph, title].get(name) for title in methods]
            sides.append(marked(values, [_text(cells[graph, title], name) for title in methods], smallest=True))
    rows: list[list[Cell | str]] = [[title, *(side[place] for side in sides)] for place, title in enumerate(methods)]
    return [Table("", "Pre-processing, FLOPs and time of an epoch, memory", columns, rows, _note(result))]


def _text(cell: dict[str, Any], name: str) -> str:
    form = QUANTITIES[name][1]
    value = cell.get(name)
    missing = "out of memory" if cell.get("out_of_memory") else "–"
    shown = missing if value is None else form.format(value)
    theirs = reported_cell(cell["graph"], cell["method"]).get(name)
    if theirs is None:
        return shown
    return f"{shown} ({theirs if isinstance(theirs, str) else form.format(theirs)})"


def _note(result: Result) -> str:
    kinds = {_on_cpu(cell["hardware"]) for cell in result["cells"] if cell["hardware"]}
    memory = {
        False: "most that tensors held on the GPU, graph, network and optimiser included",
        True: "resident memory that training added",
    }
    words = [
        f"Measured here on {_hardware(result)} with the recipes' settings; in brackets the paper (A100, 40 GB). "
        "–: not measured on this hardware; FLOPs need none, they are counted.",
        "Pre-processing: what the method prepares once, with what its first epoch makes for all; neither reading files "
        "nor compilation.",
        "FLOPs: multiplications and additions of all products of matrices, dense and sparse, forward and backward, as "
        "plain torch computes them (symmetric tiles); the paper does not say what it counts.",
        "Memory: " + ", ".join(memory[kind] for kind in sorted(kinds)) + ".",
        *(f"{name}: {graph['note']}." for name, graph in result["graphs"].items() if graph["note"]),
        *(f"{name}: {reason}." for name, reason in result["absent"].items()),
    ]
    return " ".join(words)


def _hardware(result: Result) -> str:
    return ", ".join(dict.fromkeys(cell["hardware"] for cell in result["cells"] if cell["hardware"])) or "nothing"


def figures(result: Result) -> "dict[str, Figure]":
    """A row of panels for each graph, a panel for each quantity: ours, and the paper's beside it."""
    graphs = list(result["graphs"]) or [""]
    methods = list(dict.fromkeys(cell["method"] for cell in result["cells"]))
    height = 0.9 + len(graphs) * (0.75 + 0.22 * max(len(methods), 1))
    figure, panels = new_figure(len(graphs), len(QUANTITIES), 12, height, sharex="col", sharey=True)
    for place, axes in enumerate(panels):
        graph, name = graphs[place // len(QUANTITIES)], list(QUANTITIES)[place % len(QUANTITIES)]
        cells = [cell for cell in result["cells"] if cell["graph"] == graph]
        axes.set_xscale("log")
        axes.set_xlabel(QUANTITIES[name][0], fontsize=9)
        axes.grid(axis="x", alpha=0.3)
        axes.tick_params(labelsize=9, labelbottom=True)
        axes.tick_params(axis="x", which="minor", labelbottom=False)
        axes.tick_params(axis="y", length=0)
        for cell in cells:
            _points(axes, cell, name, methods.index(cell["method"]))
        if place % len(QUANTITIES) == 0:
            axes.set_ylabel(graph, fontsize=11)
        axes.set_yticks(range(len(methods)), methods)
        axes.set_ylim(max(len(methods), 1) - 0.5, -0.5)
    _legend(figure, panels[0], result)
    return {"": figure}


def _points(axes: "Axes", cell: dict[str, Any], name: str, y: int) -> None:
    ours, theirs = cell.get(name), reported_cell(cell["graph"], cell["method"]).get(name)
    if ours is not None:
        axes.plot(max(ours, FLOOR) if name.startswith("seconds") else ours, y, "o", color=COLOURS[0], markersize=6)
    if isinstance(theirs, str) and theirs.endswith(" h"):
        theirs = 3600 * float(theirs.removesuffix(" h"))
    if isinstance(theirs, float):
        axes.plot(theirs, y, "D", color=COLOURS[1], markersize=5, markerfacecolor="white")
    # At the right edge, whatever the scale: out of memory.
    for missing, colour, x in (
        (cell.get("out_of_memory") and ours is None, COLOURS[0], 0.94),
        (theirs == "OOM", COLOURS[1], 0.985),
    ):
        if missing:
            axes.plot(x, y, "x", color=colour, markersize=6, transform=axes.get_yaxis_transform(), clip_on=False)


def _legend(figure: "Figure", axes: "Axes", result: Result) -> None:
    axes.plot([], [], "o", color=COLOURS[0], label=f"measured here ({_hardware(result)})")
    axes.plot([], [], "D", color=COLOURS[1], markerfacecolor="white", label="the paper (A100, 40 GB)")
    axes.plot([], [], "x", color=GREY, label="out of memory (in its colour)")
    axes.plot([], [], " ", label="no dot: not measured on this hardware")
    figure.legend(loc="outside lower center", ncols=4, fontsize=9, frameon=False)


def reading(result: Result) -> list[str]:
    """Who needs most before training, EPAGCL beside GCA, what ran out of memory, and what the paper's FLOPs are."""
    cells = {(cell["graph"], cell["method"]): cell for cell in result["cells"]}
    parts = [
        f"Times here are of {_hardware(result)}, the paper's of an A100 with 40 GB, and both the code and the settings "
        "of the baselines differ: they are not comparable one to one."
    ]
    for graph in result["graphs"]:
        here = {title: cell for (name, title), cell in cells.items() if name == graph}
        parts += [words for words in (_most_before(graph, here), _beside_gca(graph, here)) if words]
    parts += [words for words in (_memory(cells), _on_flops(result, cells)) if words]
    return parts


def _most_before(graph: str, here: dict[str, dict]) -> str:
    times = {title: cell["seconds_before"] for title, cell in here.items() if "seconds_before" in cell}
    if len(times) < 2:
        return ""
    first, second = sorted(times, key=times.__getitem__, reverse=True)[:2]
    ours = f"; EPAGCL takes {times['EPAGCL']:.3g} s" if "EPAGCL" in times and "EPAGCL" not in (first, second) else ""
    words = f"{first} needs most pre-processing ({times[first]:.3g} s), then {second} ({times[second]:.3g} s)"
    return f"{graph}: {words}{ours}."


def _beside_gca(graph: str, here: dict[str, dict]) -> str:
    """Ratios, and for each quantity whether it is comparable; no verdict on networks of different widths."""
    if not all("gib" in here.get(title, {}) for title in ("EPAGCL", "GCA")):
        return ""
    ours, gca = here["EPAGCL"], here["GCA"]
    theirs = [reported_cell(graph, title) for title in ("EPAGCL", "GCA")]
    ratios, shown = {}, []
    for name, (words, unit) in WORDS.items():
        if ours[name] and gca[name]:
            ratios[words] = ours[name] / gca[name]
            pair = " against ".join(QUANTITIES[name][1].format(cell[name]) + unit for cell in (ours, gca))
            told = [cell.get(name) for cell in theirs]
            paper = f"; the paper: {told[0] / told[1]:.2f}" if all(isinstance(one, float) for one in told) else ""
            shown.append(f"{ratios[words]:.2f} times the {words} ({pair}{paper})")
    widths = [tuple(cell["settings"][name] for name in ("hidden", "dim")) for cell in (ours, gca)]
    kept = [words for words, ratio in ratios.items() if ratio <= COMPARABLE]
    more = [words for words in ratios if words not in kept]
    verdict = "; ".join(
        f"{what} {COMPARABLE:g} times as much: {', '.join(names)}"
        for what, names in (("at most", kept), ("more than", more))
        if names
    )
    if widths[0] != widths[1]:
        verdict = f"no verdict, as the recipes' widths differ: {_by(widths[0])} against {_by(widths[1])}"
    return f"{graph}: beside GCA, EPAGCL has {', '.join(shown)}. {verdict[:1].upper()}{verdict[1:]}."


def _by(widths: tuple[int, int]) -> str:
    return "/".join(map(str, widths))


def _memory(cells: dict[tuple[str, str], dict]) -> str:
    refuted, confirmed, new = [], [], []
    for (graph, title), cell in cells.items():
        theirs, ours = reported_cell(graph, title).get("gib") == "OOM", bool(cell.get("out_of_memory"))
        if ours or (theirs and cell.get("gib") is not None):
            (confirmed if theirs and ours else refuted if theirs else new).append((graph, title, cell))
    words = [
        f"{title} runs on {graph}, where the paper ran out of memory: {cell['gib']:.1f} GiB, "
        f"{cell['seconds_per_epoch']:.2g} s an epoch after {cell['seconds_before']:.3g} s of pre-processing."
        for graph, title, cell in refuted
    ]
    words += [f"{title} runs out of memory on {graph} here too." for graph, title, _ in confirmed]
    words += [f"{title} runs out of memory on {graph} here." for graph, title, _ in new]
    return " ".join(words)


def _on_flops(result: Result, cells: dict[tuple[str, str], dict]) -> str:
    """What the paper's FLOPs can be, computed: those of the few modules that a profiler knows."""
    words, as_head, as_activations = [], [], []
    for name, graph in result["graphs"].items():
        theirs, cell = reported_cell(name, "EPAGCL").get("flops"), cells.get((name, "EPAGCL"))
        if not isinstance(theirs, float) or cell is None:
            continue
        widths = cell["settings"]["hidden"], cell["settings"]["dim"]
        alone = encoder_pass(graph, *widths)
        dense = encoder_pass(graph | {"feature_entries": graph["nodes"] * graph["features"]}, *widths)
        words.append(
            f"{name}: the paper has {theirs:.2e} FLOPs an epoch; one pass of the encoder over the graph, without "
            f"gradient or loss, takes {alone:.2e}{'' if dense == alone else f' ({dense:.2e} with dense features)'}."
        )
        as_head.append(_near(theirs, graph["nodes"] * (2 * 256 * 256 + 3 * 256)))
        mvgrl = reported_cell(name, "MVGRL").get("flops")
        as_activations += [_near(mvgrl, graph["nodes"] * 4 * 512)] if isinstance(mvgrl, float) else []
    if words and all(as_head):
        words.append(
            "The paper's figure is N·(2·256² + 3·256): the multiply-adds of the projection head's two layers on one "
            "view and one operation for each number that an activation gives. That is what a profiler of torch.nn "
            "modules would see; the GCN layers, the loss, the other view and the gradient are not in it."
        )
    if as_activations and all(as_activations):
        words.append("Its figure for MVGRL is N·4·512: activations alone, no product at all.")
    return " ".join(words)


def _near(a: float, b: float) -> bool:
    return abs(a / b - 1) < 0.005


ARTEFACT = Artefact(
    name="burden",
    title="What training costs",
    datasets=("cora", "pubmed", "ogbn-arxiv"),
    methods=("dgi", "gmi", "mvgrl", "grace", "gca", "bgrl", "greet", "cca-ssg", "epagcl"),
    runs=1,
    protocols=(),
    measure=measure,
    tables=tables,
    figures=figures,
    reading=reading,
)
