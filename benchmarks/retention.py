"""What embeddings keep of features and edges, compared with their accuracies: is the verdict right?"""

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

from scipy.stats import spearmanr

from epagcl.cli.rendering import short_names
from epagcl.core.errors import InputError
from epagcl.core.files import write_json
from epagcl.core.formatting import short_commit
from epagcl.data.catalogue import load
from epagcl.evaluation.retention import (
    KEPT_EDGES,
    KEPT_FEATURES,
    Recovery,
    Retention,
    judge_retention,
    measure_retention,
)
from epagcl.methods import method
from epagcl.methods.recipes import recipe
from epagcl.paper.tables import Table, markdown
from epagcl.runs.record import provenance
from epagcl.training.protocol import embedding_of

#: Methods whose untrained and trained models are measured. Their accuracies stand in ``results/comparison.json``.
METHODS = ("propagated", "epagcl", "grace", "cca-ssg", "dgi", "mvgrl", "epagcl+")
FAR = 10.0  # points behind raw or propagated features at which an embedding has failed
NEAR = 2.0  # points behind the best row of a graph within which an embedding is as good as any
VERDICTS = ("poor", "fair", "good")
VERDICT = "verdict: the worse of both"

Rows = list[dict[str, Any]]


def retention(graph: str, folder: Path, methods: tuple[str, ...] = METHODS, device: str = "auto") -> None:
    """Measure what all methods keep on one graph, untrained and trained, and write it after each model."""
    data = load(graph)
    folder.mkdir(parents=True, exist_ok=True)
    rows: Rows = []
    for name in methods:
        cls = method(name)
        for untrained in (True, False) if cls.trained else (False,):
            settings = recipe(graph, name) | ({"epochs": 0} if untrained else {})
            settings.pop("source", None)
            model = cls(**settings, device=device).fit(data)
            network, prepared = model.fitted_network, model._checked_graph(data, quiet=True)
            kept = measure_retention(lambda part, model=model, net=network: embedding_of(model, net, part), prepared)
            title = f"untrained {cls.title}" if untrained else cls.title
            rows.append({"row": title, "features": _values(kept, "features"), "edges": _values(kept, "edges")})
            print(f"{data.name}, {title}: {rows[-1]}", flush=True)
            write_json({**provenance(device), "graph": data.name, "rows": rows}, folder / f"{data.name}.json")


def merge(folder: Path, comparison: Path) -> dict[str, Any]:
    """Return the measures of all graphs, each with its accuracy in percent from a comparison."""
    results = json.loads(comparison.read_text(encoding="utf-8"))["results"]
    files = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    files = [file for file in files if file["graph"] in results]
    if not files:
        raise InputError(f"{folder}: no graph of {comparison.name} is measured; run this command without --merge")
    graphs = {}
    for file in files:
        accuracy = {
            cell["row"]: 100 * cell["protocols"]["strict"]["accuracy"]["mean"] for cell in results[file["graph"]]
        }
        rows = [{**row, "accuracy": accuracy[row["row"]]} for row in file["rows"] if row["row"] in accuracy]
        graphs[file["graph"]] = {"raw": accuracy["raw features"], "rows": rows}
    keys = ("date", "hardware", "versions", "commit")
    return {**{key: files[0][key] for key in keys}, "command": "python -m benchmarks retention", "graphs": graphs}


def agreement_table(result: dict[str, Any]) -> str:
    """Return two tables: verdicts of failed embeddings by graph, and the rank correlation of each measure."""
    return f"{verdict_table(result)}\n{correlation_table(result)}"


def verdict_table(result: dict[str, Any]) -> str:
    """Return a table of the embeddings that are far behind raw or propagated features, and of their verdicts."""
    names = list(result["graphs"])
    rows, failed, others, best = [], [], [], []
    for name, short in zip(names, short_names(names), strict=True):
        graph = result["graphs"][name]
        reference = _reference(graph)
        top = max([reference, *(row["accuracy"] for row in graph["rows"])])
        worse = [_verdict(row) for row in graph["rows"] if row["accuracy"] <= reference - FAR]
        failed += worse
        others += [_verdict(row) for row in graph["rows"] if row["accuracy"] > reference - FAR]
        best += [_verdict(row) for row in graph["rows"] if row["accuracy"] >= top - NEAR]
        counts = [str(worse.count(verdict)) if worse else "–" for verdict in VERDICTS]
        rows.append([short, str(len(graph["rows"])), str(len(worse)), *counts])
    note = (
        f"Failed: embeddings at least {FAR:g} points of test accuracy behind raw or propagated features. "
        f"{_share(failed, 'poor')} of them are called poor, and {_share(failed, 'good')} good. Of the others, "
        f"{_share(others, 'poor')} are called poor; of those within {NEAR:g} points of the best row of their graph, "
        f"{_share(best, 'poor')}. Measured on {result['hardware']['device']}, "
        f"{result['date'][:10]}, commit {short_commit(result['commit'])}; accuracies from `results/comparison.json`."
    )
    heads = ["graph", "embeddings", "failed", *(f"called {verdict}" for verdict in VERDICTS)]
    return markdown(Table("", "Verdicts of embeddings that lose to their input", heads, rows, note))


def correlation_table(result: dict[str, Any]) -> str:
    """Return a table of Spearman's correlation of each measure with accuracy, within graphs."""
    by_measure: dict[str, list[float]] = {}
    for graph in result["graphs"].values():
        for name, rho in _correlations(graph["rows"]):
            by_measure.setdefault(name, []).append(rho)
    rows = [
        [name, *(f"{value:.2f}".replace("-", "−") for value in (fmean(rhos), min(rhos), max(rhos))), str(len(rhos))]
        for name, rhos in by_measure.items()
    ]
    note = (
        "Spearman's correlation with the test accuracy relative to the best row of the same graph, over the models of "
        "a graph, trained and untrained. The verdict is that of kept features and kept edges, and counts as 0 (poor) "
        "to 2 (good). Graphs on which a measure is left out, or the same for all models, are not counted."
    )
    return markdown(
        Table("", "What is kept, and accuracy", ["measure", "mean ρ", "lowest", "highest", "graphs"], rows, note)
    )


def _correlations(rows: Rows) -> Iterator[tuple[str, float]]:
    """Yield the rank correlation of each measure of a graph's models with their accuracies."""
    values: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        measured = {finding.name: finding.value for finding in judge_retention(_retention(row))}
        measured[VERDICT] = VERDICTS.index(_verdict(row))
        for name, value in measured.items():
            values.setdefault(name, []).append((value, row["accuracy"]))
    for name in sorted(values, key=[KEPT_FEATURES, KEPT_EDGES, VERDICT].index):
        measure, accuracy = zip(*values[name], strict=True)
        if len(set(measure)) > 1 and len(set(accuracy)) > 1:
            yield name, float(spearmanr(measure, accuracy).statistic)


def _reference(graph: dict[str, Any]) -> float:
    """Return the accuracy of the better of raw and propagated features."""
    propagated = [row["accuracy"] for row in graph["rows"] if row["row"] == "propagated"]
    return max([graph["raw"], *propagated])


def _share(verdicts: list[str], verdict: str) -> str:
    """Return how many of the verdicts are a given one."""
    return f"{verdicts.count(verdict)} of {len(verdicts)}" if verdicts else "none"


def _values(kept: Retention, measure: str) -> list[float | None]:
    """Return a measure of the embedding, of raw and of propagated features."""
    return [getattr(part, measure) for part in (kept.embedding, kept.raw, kept.propagated)]


def _retention(row: dict[str, Any]) -> Retention:
    return Retention(*(Recovery(*parts) for parts in zip(row["features"], row["edges"], strict=True)))


def _verdict(row: dict[str, Any]) -> str:
    """Return the worse verdict of kept features and kept edges; good if both are left out."""
    verdicts = {finding.verdict for finding in judge_retention(_retention(row))}
    return next((verdict for verdict in VERDICTS if verdict in verdicts), "good")
