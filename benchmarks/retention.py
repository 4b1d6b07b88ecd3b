"""What embeddings keep of features and edges, compared with their accuracies: is the label-free verdict right?"""

import json
from pathlib import Path
from statistics import fmean
from typing import Any

from scipy.stats import spearmanr

from epagcl.cli.rendering import short_names
from epagcl.core.files import write_json
from epagcl.data.catalogue import load
from epagcl.evaluation.retention import Recovery, Retention, judge_retention, measure_retention
from epagcl.methods import method
from epagcl.methods.recipes import recipe
from epagcl.paper.tables import Table, markdown
from epagcl.runs.record import provenance
from epagcl.training.protocol import embedding_of

#: Methods whose untrained and trained models are measured. Their accuracies stand in ``results/comparison.json``.
METHODS = ("propagated", "epagcl", "grace", "cca-ssg", "dgi", "mvgrl", "epagcl+")
LOST = 5.0  # points below raw features at which an embedding has failed


def retention(graph: str, folder: Path, methods: tuple[str, ...] = METHODS, device: str = "auto") -> None:
    """Measure the retention of all methods on one graph, untrained and trained, and write it after each model."""
    data = load(graph)
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
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
    """Return a table of the rank correlation of kept features with accuracy, and of the verdicts of failed models."""
    names = list(result["graphs"])
    rows, every, failed, called = [], [], [], []
    for name, short in zip(names, short_names(names), strict=True):
        graph = result["graphs"][name]
        verdicts = {row["row"]: _verdict(row) for row in graph["rows"]}
        worse = [row["row"] for row in graph["rows"] if row["accuracy"] < graph["raw"] - LOST]
        features, accuracy = zip(*((row["features"][0], row["accuracy"]) for row in graph["rows"]), strict=True)
        rho = float(spearmanr(features, accuracy).statistic)
        every.append(rho)
        failed += [verdicts[row] for row in worse]
        called += [verdict for row, verdict in verdicts.items() if row not in worse]
        poor = sum(verdicts[row] == "poor" for row in worse)
        rows.append([short, f"{rho:.2f}".replace("-", "−"), str(len(worse)), str(poor) if worse else "–"])
    models = max(len(graph["rows"]) for graph in result["graphs"].values())
    note = (
        f"ρ: Spearman's correlation of the kept features with the accuracy of up to {models} "
        f"trained and untrained models, mean {fmean(every):.2f}. Failed: models at least {LOST:g} points below raw "
        f"features; {failed.count('poor')} of {len(failed)} are called poor, and {failed.count('good')} good. Of the "
        f"{len(called)} others, {called.count('poor')} are called poor. Measured on {result['hardware']['device']}, "
        f"{result['date'][:10]}, commit {result['commit'][:7]}; accuracies from `results/comparison.json`."
    )
    return markdown(Table("", "Kept features and accuracy", ["graph", "ρ", "failed", "called poor"], rows, note))


def _values(kept: Retention, measure: str) -> list[float | None]:
    """Return a measure of the embedding, of raw and of propagated features."""
    return [getattr(part, measure) for part in (kept.embedding, kept.raw, kept.propagated)]


def _verdict(row: dict[str, Any]) -> str:
    """Return the worst verdict of a model; good without any finding."""
    parts = (Recovery(features, edges) for features, edges in zip(row["features"], row["edges"], strict=True))
    verdicts = {finding.verdict for finding in judge_retention(Retention(*parts))}
    return next((verdict for verdict in ("poor", "fair") if verdict in verdicts), "good")
