"""The content of a report as plain numbers and text; :mod:`epagcl.report.page` draws it.

The run folder keeps the content of its run as ``report.json.gz``, so that reports of one or several runs can be written
again without the graph.
"""

import gzip
import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NotRequired, TypedDict, cast

import pandas as pd
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.config import RENAMED_SETTINGS, current_value
from epagcl.core.errors import InputError
from epagcl.core.files import atomic_path, reading
from epagcl.core.formatting import counted, duration
from epagcl.core.version import __version__
from epagcl.data.io.columns.encoding import columns_in_words
from epagcl.evaluation.health import FEWEST, NEIGHBOURS, FindingDict, judge_agreement, neighbour_agreement
from epagcl.evaluation.scores import class_scores
from epagcl.methods.base import Method
from epagcl.report.drivers import DriversContent, drivers
from epagcl.report.metrics import RunMetrics, lost_to, untrained_note
from epagcl.report.nodes import MapContent, Say, class_name, map_content, silent
from epagcl.report.structure import StructureContent, structure
from epagcl.report.verdict import VerdictContent, verdict_content
from epagcl.training.history import Row

CONTENT_FILE = "report.json.gz"


class SettingContent(TypedDict):
    """A setting of the method. ``changed``: it differs from its default."""

    name: str
    value: str
    meaning: str
    changed: bool


class RunContent(TypedDict):
    """The content of one run. Without an evaluation ``scores`` and ``classes`` are None.

    ``drivers`` is missing if the graph is too large, and ``verdict`` until :func:`report` adds it.
    """

    name: str
    method: str
    graph: str
    facts: list[list[str]]
    settings: list[SettingContent]
    health: list[FindingDict]
    scores: dict[str, Any] | None
    history: dict[str, list[float]]
    measures: dict[str, list[Any]]
    map: MapContent | None
    classes: dict[str, Any] | None
    structure: StructureContent
    drivers: NotRequired[DriversContent]
    verdict: NotRequired[VerdictContent]


class ReportContent(TypedDict):
    """The content of a report of one or several runs. ``agreement`` is None unless their nodes are the same."""

    title: str
    created: str
    version: str
    runs: list[RunContent]
    agreement: dict[str, Any] | None


def run_content(
    name: str,
    data: Data,
    method: Method,
    z: Tensor,
    metrics: RunMetrics,
    nodes: pd.DataFrame,
    *,
    kind: str = "auto",
    say: Say = silent,
) -> RunContent:
    """Return the content of one run.

    Args:
        name: name of the run.
        data: the graph.
        method: the trained model.
        z: its embedding.
        metrics: the content of ``metrics.json``.
        nodes: one row per node, with its ``id`` and columns to colour by.
        kind: kind of the map, one of :data:`epagcl.report.maps.KINDS`.
        say: called with the name of the step in progress.
    """
    history: list[Row] = getattr(method, "history_", [])
    map_ = map_content(z, nodes, kind, method.seed, say)
    say("effect of the views on the graph")
    content: RunContent = {
        "name": name,
        "method": type(method).title,
        "graph": metrics["graph"]["name"],
        "facts": _facts(method, metrics),
        "settings": _settings(method),
        "health": metrics["health"],
        "scores": _scores(type(method).title, metrics),
        "history": _curves(history),
        "measures": _measures(history),
        "map": map_,
        "classes": _classes(data, metrics),
        "structure": structure(data, method),
    }
    if map_ is not None and len(map_["ids"]) == data.num_nodes:
        say("what neighbours share")
        shared = drivers(data, map_["neighbours"], map_["k"])
        if shared is not None:
            content["drivers"] = shared
    return cast(RunContent, _finite(content))


def write_content(content: RunContent, folder: Path) -> None:
    """Write the content of a run to its folder."""
    with (
        atomic_path(folder / CONTENT_FILE) as temporary,
        # Halves of characters, as in names of files that are not UTF-8, become JSON's escapes.
        gzip.open(temporary, "wt", encoding="utf-8", errors="backslashreplace") as file,
    ):
        file.write(json.dumps(content, ensure_ascii=False))  # json.dump would encode in Python, several times slower


def read_content(folder: Path) -> RunContent:
    """Return the content that :func:`write_content` wrote. Settings get their current names and values."""
    if not (folder / CONTENT_FILE).is_file():
        if (folder / "metrics.json").is_file():
            raise InputError(f"{folder}: has no report, since its graph was read from disk; train with --subgraphs off")
        raise InputError(f"{folder}: no {CONTENT_FILE}; give the folder of a finished run")
    with reading(folder / CONTENT_FILE, "train the run again"):
        with gzip.open(folder / CONTENT_FILE, "rt", encoding="utf-8") as file:
            content: RunContent = json.load(file)
        for setting in content["settings"]:
            setting["name"] = RENAMED_SETTINGS.get(setting["name"], setting["name"])
            setting["value"] = current_value(setting["name"], setting["value"])
        _check_content(content)
    return content


def _check_content(content: RunContent) -> None:
    """Raise if the content lacks a part, or if a part that this package reads again has another form."""
    if missing := RunContent.__required_keys__ - content.keys():
        raise ValueError(f"no {sorted(missing)[0]}")
    if not all(isinstance(content[key], str) for key in ("name", "method", "graph")):
        raise ValueError("no names of the run, its method and its graph")
    map_ = content["map"]
    if map_ is not None:
        sizes = {len(map_[key]) for key in ("x", "y", "ids")} | {len(column["values"]) for column in map_["columns"]}
        if len(sizes) > 1 or any(not isinstance(column["name"], str) for column in map_["columns"]):
            raise ValueError("the columns of its map have different lengths")


def report(
    runs: Sequence[RunContent],
    embeddings: Sequence[Tensor] = (),
    title: str | None = None,
    places: Sequence[str | None] = (),
) -> ReportContent:
    """Return the content of a report of one or several runs.

    Args:
        runs: the content of each run.
        embeddings: the embeddings of several runs on the same nodes, to compare their nearest neighbours.
        title: title of the page; by default from the method and the graph.
        places: the run folder or the file of each embedding, for the commands on the page.
    """
    first = runs[0]
    names = [run["name"] for run in runs]
    if len(set(names)) < len(names):
        runs = [run | {"name": f"{run['name']} ({k})"} for k, run in enumerate(runs, 1)]
    padded = [*places, *[None] * len(runs)][: len(runs)]
    runs = [run | {"verdict": _verdict(run, place)} for run, place in zip(runs, padded, strict=True)]
    default = f"{first['method']} on {first['graph']}" if len(runs) == 1 else f"{len(runs)} runs"
    return {
        "title": title or default,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": __version__,
        "runs": list(runs),
        "agreement": _agreement(runs, embeddings),
    }


def _verdict(run: RunContent, place: str | None) -> VerdictContent:
    ids = run["map"]["ids"] if run["map"] is not None else []
    example = str(ids[0]) if ids else None
    return verdict_content(run["health"], run["scores"], run["method"], run["graph"], place, example)


def _agreement(runs: Sequence[RunContent], embeddings: Sequence[Tensor]) -> dict[str, Any] | None:
    """Return the agreement of the runs' nearest-neighbour sets, with a verdict if they differ only in the seed."""
    sizes = {len(z) for z in embeddings}
    if len(embeddings) < 2 or len(sizes) > 1 or min(sizes) < FEWEST:
        return None
    matrix = neighbour_agreement(embeddings)
    agreement = {"k": NEIGHBOURS, "runs": [run["name"] for run in runs], "matrix": matrix}
    if all(_identity(run) == _identity(runs[0]) for run in runs):
        return agreement | asdict(judge_agreement(matrix))
    words = f"Share of a node's {NEIGHBOURS} nearest neighbours that two runs with different settings have in common."
    return agreement | {"verdict": None, "words": words}


def _identity(run: RunContent) -> tuple[str, dict[str, str]]:
    """Return the method of a run and its settings without the seed."""
    return run["method"], {
        setting["name"]: setting["value"] for setting in run["settings"] if setting["name"] != "seed"
    }


def _curves(history: list[Row]) -> dict[str, list[float]]:
    """Return the losses by epoch; empty if the model was not trained."""
    if not history:
        return {}
    rows = [cast(dict[str, float], row) for row in history]
    return {key: [row[key] for row in rows] for key in ("epoch", "loss", "validation_loss") if key in rows[0]}


def _measures(history: list[Row]) -> dict[str, list[Any]]:
    """Return the label-free measures by epoch. Alignment is relative to the distance between nodes."""
    rows = [cast(dict[str, Any], row) for row in history if row.get("effective_rank") is not None]
    measures = {key: [row.get(key) for row in rows] for key in ("epoch", "effective_rank", "uniformity")}
    return measures | {"alignment": [row["alignment"] / max(row["distance"], 1e-9) for row in rows]}


def _facts(method: Method, metrics: RunMetrics) -> list[list[str]]:
    graph, training = metrics["graph"], metrics["training"]
    sizes = f"{graph['nodes']:,} nodes, {graph['edges']:,} edges, {graph['features']:,} features"
    if graph["classes"]:
        sizes += f", {graph['classes']} class{'es' * (graph['classes'] > 1)}"
    facts = [["Graph", f"{graph['name']}: {sizes}"], ["Method", f"{type(method).title}: {type(method).summary()}"]]
    if "relations" in graph:
        words = [f"{each['name']} ({each['edges']:,})" for each in graph["relations"]]
        treatment = "" if type(method).uses_relations else f"; {type(method).title} merges them"
        facts.append(["Relations", ", ".join(words) + treatment])
    if "columns" in graph:
        facts.append(["Feature columns", columns_in_words(graph["columns"])])
    if graph["classes"] and "evaluation" not in metrics:
        facts.append(["Scores", "none; the labels could not be evaluated"])
    if training["epochs"]:
        device = metrics["hardware"]["device"]
        facts.append(["Trained", f"{training['epochs']:,} epochs in {duration(training['seconds'])} on {device}"])
        facts.append(["Final loss", f"{training['final_loss']:.4f}"])
    if not type(method).trained:
        facts.append(
            ["Trained", f"not at all, as the method has no training; computed on {metrics['hardware']['device']}"]
        )
    if training["peak_memory_gib"] is not None:
        facts.append(["Peak memory", f"{training['peak_memory_gib']:.2f} GiB"])
    versions = metrics["versions"]
    facts.append(["Versions", f"epagcl {versions['epagcl']}, torch {versions['torch']}, Python {versions['python']}"])
    facts.append(["Date", metrics["date"].replace("T", " ").replace("+00:00", " UTC")])
    return facts


def _settings(method: Method) -> list[SettingContent]:
    values = method.get_params()
    return [
        {
            "name": field.name,
            "value": str(values[field.name]),
            "meaning": field.metadata["meaning"],
            "changed": values[field.name] != field.default,
        }
        for field in method.setting_fields()
    ]


def _scores(title: str, metrics: RunMetrics) -> dict[str, Any] | None:
    if "evaluation" not in metrics:
        return None
    scores = metrics["evaluation"]
    runs = len(scores["accuracy"]["runs"])
    rows = {**metrics.get("references", {}), title: scores}
    notes = (untrained_note(title, rows), lost_to(title, scores, metrics.get("references", {})))
    return {
        "protocol": f"{scores['protocol']} protocol, {counted(runs, 'run')}, splits {scores['split']}"
        + "".join(f". {note[0].upper()}{note[1:]}" for note in notes if note)
        + ("." if any(notes) else ""),
        "runs": runs,
        "rows": [
            {
                "name": name,
                "accuracy": row["accuracy"]["mean"],
                "std": row["accuracy"]["std"] if runs > 1 else None,
                "macro_f1": row["macro_f1"]["mean"],
                "knn": row["knn_accuracy"]["mean"] if "knn_accuracy" in row else None,
                "nmi": row["clustering"]["nmi"] if "clustering" in row else None,
            }
            for name, row in rows.items()
        ],
    }


def _classes(data: Data, metrics: RunMetrics) -> dict[str, Any] | None:
    """Return the confusion matrix with the precision, recall and F1 of each class."""
    if "evaluation" not in metrics:
        return None
    scores = metrics["evaluation"]
    names = data.get("label_names")
    by_class = {name: values.tolist() for name, values in class_scores(scores["confusion"]).items()}
    splits = counted(len(scores["accuracy"]["runs"]), "split")
    classifier = "linear classifier" if scores["chosen"] else "the method's own predictions"
    return {
        "names": [class_name(names, k) for k in scores["classes"]],
        "confusion": scores["confusion"],
        **by_class,
        "note": f"{classifier}, test nodes of {splits}",
    }


def _finite(value: Any) -> Any:
    """Replace NaN and infinities by None, since JSON has no such numbers."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return value
