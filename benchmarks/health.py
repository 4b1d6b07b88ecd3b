"""Label-free measures of trained, untrained and deliberately mistrained models, compared with their accuracies."""

import multiprocessing
import os
import time
from statistics import fmean
from typing import Any

import torch

GRAPHS = ("cora", "citeseer", "amazon-photo", "pubmed", "texas", "chameleon", "actor")
SEEDS = 3
#: Settings with which the training of EPAGCL fails: too short, too fast, nearly empty views, a nearly constant loss.
SPOILT = {
    "2 epochs": {"epochs": 2},
    "lr 0.1": {"lr": 0.1},
    "lr 1": {"lr": 1.0},
    "views without edges or features": {"p_drop_1": 0.95, "p_drop_2": 0.95, "p_mask_1": 0.95, "p_mask_2": 0.95},
    "temperature 50": {"temperature": 50.0},
}


def health(jobs: int = 1, seconds: float = 1e9) -> dict[str, Any]:
    """Measure every self-supervised method with its recipe, the untrained encoder, and mistrained EPAGCL.

    Args:
        jobs: number of parallel processes.
        seconds: time limit. Unfinished models are listed under ``missing``.
    """
    from epagcl.methods import method, names
    from epagcl.runs.record import provenance

    self_supervised = [name for name in names() if method(name).trained and not method(name).supervised]
    tasks = [(graph, "untrained", "epagcl", {"epochs": 0}) for graph in GRAPHS]
    tasks += [(graph, title, "epagcl", changes) for graph in GRAPHS for title, changes in SPOILT.items()]
    tasks += [(graph, method(name).title, name, {}) for graph in GRAPHS for name in self_supervised]
    slow = {"greet": 3, "mvgrl": 2, "bgrl": 2, "gmi": 1}
    tasks.sort(key=lambda task: (task[0] == "pubmed", slow.get(task[2], 0)))
    rows, end = [], time.monotonic() + seconds
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        pending = [(task, pool.apply_async(_observe, task)) for task in tasks]
        missing = []
        for task, result in pending:
            try:
                rows.append(result.get(max(0.1, end - time.monotonic())))
                print(f"{rows[-1]['graph']}, {rows[-1]['row']}: {rows[-1]}", flush=True)
            except multiprocessing.TimeoutError:
                missing.append([task[0], task[1]])
            except Exception as error:  # a failed training is a row too
                rows.append({"graph": task[0], "row": task[1], "failed": f"{type(error).__name__}: {error}"})
        pool.terminate()
    return {**provenance(), "seeds": SEEDS, "protocol": "strict", "rows": rows, "missing": missing}


def _observe(graph_name: str, row: str, name: str, changes: dict[str, Any]) -> dict[str, Any]:
    """Return accuracy and measures of the models of all seeds. The model of seed k is scored on split k."""
    from epagcl.data import load
    from epagcl.evaluation.health import neighbour_agreement
    from epagcl.evaluation.linear import linear_evaluation
    from epagcl.methods import method
    from epagcl.methods.inputs import input_graph
    from epagcl.methods.recipes import recipe
    from epagcl.training.history import MEASURES, measure

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    data = load(graph_name)
    settings = recipe(graph_name, name) | changes
    settings.pop("source", None)
    embeddings, measures = [], []
    for seed in range(SEEDS):
        model = method(name)(**{**settings, "seed": seed}).fit(data)
        embeddings.append(model.embed(data))
        graph = input_graph(model, data, next(model.network_.parameters()).device)
        measures.append(measure(model, model.network_, graph))
    accuracy = linear_evaluation(embeddings, data.y, "strict")
    raw = linear_evaluation(data.x, data.y, "strict", runs=SEEDS)
    agreement = neighbour_agreement(embeddings)
    return {
        "graph": graph_name,
        "row": row,
        "method": name,
        "changes": changes,
        "dim": embeddings[0].shape[1],
        "nodes": data.num_nodes,
        "accuracy": accuracy.runs,
        "raw": raw.runs,
        **{key: [values[key] for values in measures] for key in MEASURES},
        "agreement": fmean(agreement[a][b] for a in range(SEEDS) for b in range(a)),
    }


def summary(result: dict[str, Any]) -> dict[str, list[str]]:
    """Group the worst verdict of each row by how the model was trained and how much accuracy it lost."""
    from epagcl.evaluation.health import judge, judge_agreement

    rows = [row for row in result["rows"] if "failed" not in row]
    recipe = {row["graph"]: fmean(row["accuracy"]) for row in rows if row["method"] == "epagcl" and not row["changes"]}
    verdicts_by_kind: dict[str, list[str]] = {}
    for row in rows:
        means = {name: fmean(row[name]) for name in ("effective_rank", "alignment", "uniformity", "distance")}
        agreement = [[1.0, row["agreement"]], [row["agreement"], 1.0]]
        findings = [*judge(means, row["nodes"], row["dim"]), judge_agreement(agreement)]
        verdicts = {finding.verdict for finding in findings}
        worst = next(verdict for verdict in ("poor", "fair", "good") if verdict in verdicts)
        kind = "every method with its recipe"
        if row["row"] == "untrained":
            kind = "EPAGCL, not trained"
        elif row["changes"]:
            lost = recipe[row["graph"]] - fmean(row["accuracy"]) >= 0.05
            kind = (
                "EPAGCL, mistrained, accuracy 5 points or more below its recipe"
                if lost
                else "EPAGCL, mistrained, accuracy less than 5 points below its recipe"
            )
        verdicts_by_kind.setdefault(kind, []).append(worst)
    return verdicts_by_kind
