"""What a report says of a run, as plain numbers and words; :mod:`epagcl.report.page` draws it.

A run's part is a dict that its folder keeps as ``report.json.gz``, so that reports of one or several runs can be made
again without the graph.
"""

import gzip
import json
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.core.files import atomic_path
from epagcl.core.version import __version__
from epagcl.evaluation.health import FEWEST, NEIGHBOURS, judge_agreement, nearest, neighbour_agreement, sample
from epagcl.evaluation.scores import class_scores
from epagcl.methods.base import Method
from epagcl.report.maps import TITLES, choose_kind, flat_map
from epagcl.report.structure import structure

FILE = "report.json.gz"
MOST = 100_000  # points of a map
LEVELS = 200  # a column of text with more values than this is no grouping: it is shown, not coloured by
EXACT = 2**53  # JavaScript rounds whole numbers beyond
FEATURES = 20  # named feature columns that a map takes over
OWN = ("label", "degree", "cluster")  # columns of every map; a user's come next, features last
PLACES = ("map_x", "map_y")  # columns of nodes.csv

#: A run's part of a report, or a whole report.
Content = dict[str, Any]
Say = Callable[[str], None]


def silent(words: str) -> None:
    """Say nothing."""


def run_content(
    name: str,
    data: Data,
    method: Method,
    z: Tensor,
    metrics: dict[str, Any],
    nodes: pd.DataFrame,
    *,
    kind: str = "auto",
    say: Say = silent,
) -> Content:
    """A run's part of a report.

    Args:
        name: of the run.
        data: the graph.
        method: the trained model.
        z: its embedding.
        metrics: what ``metrics.json`` holds, with ``health``.
        nodes: a row for each node: ``id``, and columns to colour by.
        kind: of the map, see :data:`epagcl.report.maps.KINDS`.
        say: told what is being done.
    """
    history = getattr(method, "history_", [])
    content = {
        "name": name,
        "method": type(method).title,
        "graph": metrics["graph"]["name"],
        "facts": _facts(method, metrics),
        "settings": _settings(method),
        "health": metrics["health"],
        "scores": _scores(type(method).title, metrics),
        "history": {
            key: [row[key] for row in history]
            for key in ("epoch", "loss", "validation_loss")
            if key in (history or [{}])[0]
        },
        "measures": _measures(history),
        "map": map_content(z, nodes, kind, method.seed, say),
        "classes": _classes(data, metrics),
    }
    say("what the views do to the graph")
    return _finite(content | {"structure": structure(data, method)})


def node_table(data: Data, z: Tensor, seed: int = 0) -> pd.DataFrame:
    """A row for each node: id, label where there are any, degree, cluster, and the named features if they are few."""
    from sklearn.cluster import KMeans, MiniBatchKMeans
    from sklearn.exceptions import ConvergenceWarning

    count = data.num_nodes
    ids = data.get("node_ids")
    columns: dict[str, Any] = {"id": np.arange(count) if ids is None else ids}
    classes = 8
    if data.y is not None:
        names = data.get("label_names")
        y = data.y.cpu().numpy()
        columns["label"] = [None if k < 0 else str(k) if names is None else names[k] for k in y]
        classes = max(2, len(set(y[y >= 0].tolist())))
    columns["degree"] = torch.bincount(data.edge_index[0].cpu(), minlength=count).numpy()
    rows = torch.nn.functional.normalize(z.detach().float().cpu(), dim=1).numpy()
    kind = KMeans if count <= 20_000 else MiniBatchKMeans
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):  # equal rows make fewer clusters
        found = kind(min(classes, count), n_init=3, random_state=seed % 2**32).fit_predict(rows)
    # By size, so that cluster 1 is the largest.
    order = np.argsort(np.argsort(-np.bincount(found, minlength=classes), kind="stable"), kind="stable")
    columns["cluster"] = order[found] + 1
    names = data.get("feature_names")
    if names is not None and len(names) <= FEATURES and data.x.layout == torch.strided:
        taken = {*columns, *PLACES}
        columns |= {str(name): data.x[:, k].cpu().numpy() for k, name in enumerate(names) if str(name) not in taken}
    return pd.DataFrame(columns)


def map_content(z: Tensor, nodes: pd.DataFrame, kind: str, seed: int, say: Say = silent) -> Content | None:
    """The map: places, ids, columns and nearest neighbours of all nodes, or of a sample of very many."""
    kind = choose_kind(kind, min(len(z), MOST))
    if kind == "none":
        return None
    shown = sample(len(z), MOST)
    say(f"map: {TITLES[kind]} of {len(shown):,} nodes")
    places = flat_map(z[shown.to(z.device)], kind, seed)
    say("nearest neighbours")
    near, cosine = nearest(z[shown.to(z.device)])
    nodes = nodes.iloc[shown.numpy()]
    few = "" if len(shown) == len(z) else f" (a sample of {len(z):,})"
    places = places - places.mean(0)
    places = places / max(float(np.abs(places).max()), 1e-12)
    return {
        "kind": TITLES[kind],
        "note": f"{TITLES[kind]} of {len(shown):,} nodes{few}; near each other means similar, by cosine. "
        "Distances between groups mean little.",
        "nodes": len(z),
        "x": np.round(places[:, 0].astype(float), 4).tolist(),
        "y": np.round(places[:, 1].astype(float), 4).tolist(),
        "ids": nodes["id"].tolist(),
        "columns": [column_content(nodes[name]) for name in nodes.columns if name != "id"],
        "k": near.shape[1],
        "neighbours": near.flatten().tolist(),
        "similarity": [round(value, 3) for value in cosine.flatten().tolist()],
    }


def column_content(column: pd.Series) -> Content:
    """A column to colour by: numbers as they are, anything else as levels; labels and clusters are levels always."""
    name = str(column.name)
    numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    exact = not pd.api.types.is_integer_dtype(column) or not (column.abs() > EXACT).any()
    if numeric and exact and name not in ("label", "cluster"):
        values = [None if pd.isna(value) or not math.isfinite(value) else value for value in column.tolist()]
        known = [value for value in values if value is not None]
        wide = bool(known) and min(known) >= 0 and max(known) > 50 * max(float(np.median(known)), 1)
        return {"name": name, "kind": "number", "log": name == "degree" or wide, "values": values}
    codes, levels = pd.factorize(column, sort=numeric)
    texts = [str(level) for level in levels]
    if name == "label" and all(text.isdigit() for text in texts):  # 10 after 9, not after 1
        order = sorted(range(len(texts)), key=lambda k: int(texts[k]))
        codes = np.where(codes < 0, -1, np.argsort(order)[codes])
        texts = [texts[k] for k in order]
    few = len(texts) <= LEVELS or name in OWN
    return {"name": name, "kind": "category", "levels": texts, "values": codes.tolist(), "colour": few}


def write_content(content: Content, folder: Path) -> None:
    """Into the run's folder."""
    with atomic_path(folder / FILE) as temporary, gzip.open(temporary, "wt", encoding="utf-8") as file:
        json.dump(content, file, ensure_ascii=False)


def read_content(folder: Path) -> Content:
    """From a run's folder."""
    if not (folder / FILE).is_file():
        raise InputError(f"{folder}: no {FILE}; give a folder that `epagcl train` finished")
    try:
        with gzip.open(folder / FILE, "rt", encoding="utf-8") as file:
            return json.load(file)
    except (OSError, EOFError, ValueError):
        raise InputError(f"{folder / FILE}: not whole; run `epagcl train` again with --overwrite") from None


def report(runs: Sequence[Content], embeddings: Sequence[Tensor] = (), title: str | None = None) -> Content:
    """A whole report of one run or several; with embeddings of several runs on the same nodes, how far they agree."""
    first = runs[0]
    names = [run["name"] for run in runs]
    if len(set(names)) < len(names):
        runs = [run | {"name": f"{run['name']} ({k})"} for k, run in enumerate(runs, 1)]
    words = title or (f"{first['method']} on {first['graph']}" if len(runs) == 1 else f"{len(runs)} runs")
    return {
        "title": words,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": __version__,
        "runs": list(runs),
        "agreement": _agreement(runs, embeddings),
    }


def _agreement(runs: Sequence[Content], embeddings: Sequence[Tensor]) -> Content | None:
    """How far runs on the same nodes agree on who is near whom; a verdict only where nothing but the seed differs."""
    sizes = {len(z) for z in embeddings}
    if len(embeddings) < 2 or len(sizes) > 1 or min(sizes) < FEWEST:
        return None
    matrix = neighbour_agreement(embeddings)
    found = {"k": NEIGHBOURS, "runs": [run["name"] for run in runs], "matrix": matrix}
    settings = [[run["method"], [one for one in run["settings"] if one["name"] != "seed"]] for run in runs]
    if all(each == settings[0] for each in settings):
        return found | asdict(judge_agreement(matrix))
    words = f"How many of a node's {NEIGHBOURS} nearest neighbours another run, with other settings, gives it too."
    return found | {"verdict": None, "words": words}


def _measures(history: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The health by epoch; alignment as the verdicts take it, a share of the distance between nodes."""
    rows = [row for row in history if row.get("effective_rank") is not None]
    found = {key: [row.get(key) for row in rows] for key in ("epoch", "effective_rank", "uniformity")}
    return found | {"alignment": [row["alignment"] / max(row["distance"], 1e-9) for row in rows]}


def _facts(method: Method, metrics: dict[str, Any]) -> list[list[str]]:
    graph, training = metrics["graph"], metrics["training"]
    sizes = f"{graph['nodes']:,} nodes, {graph['edges']:,} edges, {graph['features']:,} features"
    if graph["classes"]:
        sizes += f", {graph['classes']} class{'es' * (graph['classes'] > 1)}"
    facts = [["Graph", f"{graph['name']}: {sizes}"], ["Method", f"{type(method).title}: {type(method).summary()}"]]
    if graph["classes"] and "evaluation" not in metrics:
        facts.append(["Scores", "none: the labels do not allow an evaluation"])
    if training["epochs"]:
        where = metrics["hardware"]["device"]
        facts.append(["Trained", f"{training['epochs']:,} epochs in {_duration(training['seconds'])} on {where}"])
        facts.append(["Final loss", f"{training['final_loss']:.4f}"])
    if training["peak_memory_gib"] is not None:
        facts.append(["Peak memory", f"{training['peak_memory_gib']:.2f} GiB"])
    versions = metrics["versions"]
    facts.append(["Versions", f"epagcl {versions['epagcl']}, torch {versions['torch']}, Python {versions['python']}"])
    facts.append(["Date", metrics["date"].replace("T", " ").replace("+00:00", " UTC")])
    return facts


def _duration(seconds: float) -> str:
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole, minutes = round(seconds), round(seconds / 60)
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{minutes // 60} h {minutes % 60} min"


def _settings(method: Method) -> list[dict[str, Any]]:
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


def _scores(title: str, metrics: dict[str, Any]) -> Content | None:
    if "evaluation" not in metrics:
        return None
    scores = metrics["evaluation"]
    runs = len(scores["accuracy"]["runs"])
    rows = {**metrics.get("references", {}), title: scores}
    return {
        "protocol": f"{scores['protocol']} protocol, {runs} run{'s' * (runs > 1)}, splits {scores['split']}",
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


def _classes(data: Data, metrics: dict[str, Any]) -> Content | None:
    if "evaluation" not in metrics:
        return None
    scores = metrics["evaluation"]
    names = data.get("label_names")
    by_class = {name: values.tolist() for name, values in class_scores(scores["confusion"]).items()}
    runs = len(scores["accuracy"]["runs"])
    what = "the method's own predictions" if not scores["chosen"] else "linear classifier"
    return {
        "names": [str(k) if names is None else str(names[k]) for k in scores["classes"]],
        "confusion": scores["confusion"],
        **by_class,
        "note": f"{what}, test nodes of {runs} split{'s' * (runs > 1)}",
    }


def _finite(value: Any) -> Any:
    """Without NaN and infinities, which JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return value
