"""A run: train, embed, evaluate, and leave a folder that says what was done and what came out."""

import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Any
import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from epagcl.core.version import __version__
from epagcl.core.config import read_config, write_config
from epagcl.data.checking import check
from epagcl.data.graph import Graph
from epagcl.data.splits import Split, geom_splits, public_splits, random_split
from epagcl.runs.export import check_ids, write_embeddings
from epagcl.epr.rate import error_passing_rate
from epagcl.core.errors import InputError
from epagcl.evaluation.clusters import clustering
from epagcl.evaluation.knn import knn_accuracy
from epagcl.evaluation.linear import linear_evaluation
from epagcl.evaluation.scores import prediction_evaluation, spread
from epagcl.core.files import write_json
from epagcl.core.hardware import resolve_device
from epagcl.evaluation.health import FEWEST, judge_agreement, neighbour_agreement
from epagcl.methods.base import Method
from epagcl.training.history import Callback, write_history
from epagcl.runs.folder import CHECKPOINT, begin_run
from epagcl.runs.evaluation import Plan, evaluate, references, split_of
from epagcl.runs.provenance import describe, peak_memory_gib, provenance


def run(
    data: Data,
    method: Method,
    folder: Path,
    *,
    name: str = "graph",
    plan: Plan | None = None,
    source: dict[str, Any] | None = None,
    callback: Callback | None = None,
    map_kind: str = "auto",
    say: Callable[[str], None] = lambda words: None,
) -> dict[str, Any]:
    """Train one model and write its run folder; a run that was begun there goes on, a finished one is read.

    ``config.toml`` (resolved configuration), ``metrics.json``, ``history.csv``, ``embeddings.npy`` with its ids,
    ``model.safetensors``, ``report.html`` with its data and figures, ``nodes.csv`` (a row per node: label, degree,
    cluster, place on the map) and the model card ``README.md``; during training also a checkpoint.

    Args:
        data: the graph; evaluated if it has labels.
        method: the method with its settings.
        folder: where to write; see :func:`claim`.
        name: what the graph is called.
        plan: how to evaluate; None: not at all.
        source: where the graph came from, for the configuration.
        callback: called with each epoch's history row.
        map_kind: of the report's map: auto, tsne, umap, pca or none.
        say: told what is being done after training.

    Returns:
        What ``metrics.json`` holds.
    """
    from epagcl.runs.card import write_card
    from epagcl.report.files import write_run_report

    folder = Path(folder)
    check_ids(data.get("node_ids"))
    fingerprint = Graph.from_data(check(data, quiet=True)).fingerprint
    sections = {"data": {"name": name, "fingerprint": fingerprint, **(source or {})}}
    if plan is not None:
        sections["evaluation"] = vars(plan)
    begin_run(folder, method, sections)
    if (folder / "metrics.json").exists():  # the last file that a run writes
        return json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    checkpoint = folder / CHECKPOINT
    start = time.monotonic()
    protocol = "strict" if plan is None else plan.protocol
    labelled = method.supervised and data.y is not None
    split = {"split": split_of(data, protocol, method.seed)} if labelled else {}
    method.fit(data, checkpoint=checkpoint, resume=True, callback=callback, **split)
    say("embedding")
    z = method.embed(data)
    metrics = trained_metrics(data, method, name)
    # What training gave is safe before anything else can go wrong.
    write_history(method.history_, folder / "history.csv")
    write_embeddings(z, data.get("node_ids"), folder / "embeddings.npy")
    method.save(folder, **sections)
    if plan is not None and data.y is not None:
        say("evaluation")
        if method.supervised:
            scores = prediction_evaluation(method.predict(data), data.y, *split.values(), protocol, method.seed)
            metrics["evaluation"] = scores.to_dict()
        else:
            metrics["evaluation"] = evaluate(z, data, plan, seed=method.seed, device=method.device)
        if plan.references:
            metrics["references"] = references(data, method, plan, list(split.values()) or None)
    metrics["total_seconds"] = time.monotonic() - start

    write_run_report(folder, data, method, z, metrics, kind=map_kind, say=say)
    write_card(folder, metrics, read_config(folder / "config.toml"))
    write_json(metrics, folder / "metrics.json")
    checkpoint.unlink(missing_ok=True)
    return metrics


def trained_metrics(data: Data, method: Method, name: str) -> dict[str, Any]:
    """What there is to say of a trained model before its embedding is scored."""
    history = getattr(method, "history_", [])
    seconds = history[-1]["seconds"] if history else 0.0
    return {
        **provenance(method.device),
        "graph": describe(data, name),
        "method": method.settings(),
        "training": {
            "final_loss": history[-1]["loss"] if history else None,
            "effective_rank": history[-1]["effective_rank"] if history else None,
            "seconds": seconds,
            "epochs": len(history),
            "seconds_per_epoch": seconds / max(len(history), 1),
            "peak_memory_gib": peak_memory_gib(method.device),
        },
        # Class scores of a supervised method have few directions by right.
        "health": [] if method.supervised else [asdict(finding) for finding in method.health(data)],
    }


def run_seeds(
    data: Data,
    methods: Sequence[Method],
    folder: Path,
    *,
    plan: Plan | None,
    progress: Sequence[AbstractContextManager[Callback]] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Several seeds of one method: a run folder each, and their scores together in ``folder/metrics.json``.

    Seed k is scored on split k, so that the spread is that of training and split together. The folder has a report of
    all seeds too, and says how far they agree on nearest neighbours. ``progress`` has a context for each seed that
    gives the callback of its training, with its ``say``; ``options`` are those of :func:`run`.
    """
    from epagcl.report.files import have_plotly, write_comparison

    folder = Path(folder)
    single = None if plan is None else Plan(plan.protocol, 1, references=plan.references)
    results = []
    for method, context in zip(methods, progress or [nullcontext()] * len(methods), strict=True):
        with context as line:
            shown = {} if line is None else {"callback": line, "say": line.say}
            seed_folder = folder / f"seed-{method.seed}"
            results.append(run(data, method, seed_folder, plan=single, **shown, **options))
    own = ("evaluation", "references", "training", "health")
    metrics = {key: value for key, value in results[0].items() if key not in own}
    metrics["seeds"] = [method.seed for method in methods]
    metrics["training"] = {key: [result["training"][key] for result in results] for key in results[0]["training"]}
    if "evaluation" in results[0]:
        metrics["evaluation"] = merge([result["evaluation"] for result in results])
    if "references" in results[0]:
        metrics["references"] = {
            row: merge([result["references"][row] for result in results]) for row in results[0]["references"]
        }
    if results[0]["health"]:
        grades = ("poor", "fair", "good")
        by_measure = zip(*(result["health"] for result in results), strict=True)
        metrics["health"] = [min(found, key=lambda one: grades.index(one["verdict"])) for found in by_measure]
        if len(methods) > 1 and data.num_nodes >= FEWEST:
            arrays = [np.load(folder / f"seed-{method.seed}" / "embeddings.npy") for method in methods]
            matrix = neighbour_agreement([torch.from_numpy(array) for array in arrays])
            metrics["health"].append(asdict(judge_agreement(matrix)))
    if have_plotly():
        write_comparison(
            [folder], title=f"{type(methods[0]).title} on {metrics['graph']['name']}, {len(methods)} seeds"
        )
    write_config(
        folder / "config.toml", {**read_config(seed_folder / "config.toml"), "seeds": {"seeds": metrics["seeds"]}}
    )
    write_json(metrics, folder / "metrics.json")
    return metrics


def merge(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The scores of several seeds as one, their runs side by side."""
    merged = {key: results[0][key] for key in ("protocol", "split", "classes")}
    merged["confusion"] = torch.tensor([result["confusion"] for result in results]).sum(0).tolist()
    merged["split_seeds"] = [seed for result in results for seed in result["split_seeds"]]
    for key in ("accuracy", "macro_f1", "knn_accuracy"):
        if key in results[0]:
            merged[key] = spread([value for result in results for value in result[key]["runs"]])
    if "clustering" in results[0]:
        merged["clustering"] = {
            key: fmean(result["clustering"][key] for result in results) for key in results[0]["clustering"]
        }
    return merged

