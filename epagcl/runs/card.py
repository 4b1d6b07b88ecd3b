"""The model card of a run: what the model is, what it was trained on, how good it is, and what it is not for."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from epagcl.data.catalogue.entries import find
from epagcl.core.formatting import counted
from epagcl.core.errors import InputError
from epagcl.core.files import atomic_path
from epagcl.methods import Method, method

SCORES = {"accuracy": "accuracy", "macro_f1": "macro-F1", "knn_accuracy": "nearest neighbours"}
PLACES = ("device", "capture")  # where and how a model was trained; the hardware says that


def write_card(folder: Path, metrics: dict[str, Any], config: dict[str, Any]) -> Path:
    """Write ``README.md`` in the form of a Hugging Face model card; nothing stands in it but what is known of the run.

    Args:
        folder: the run's.
        metrics: what ``metrics.json`` holds.
        config: the tables of ``config.toml``.
    """
    cls = method(metrics["method"]["name"])
    sections = {
        "Graph": _graph(metrics["graph"]),
        "Settings": _settings(cls, metrics["method"]),
        "Scores": _scores(cls, metrics),
        "Health": _health(metrics.get("health", [])),
        "Use": _use(cls, metrics, config),
        "Limits": _limits(cls, metrics["graph"]),
        "Provenance": _provenance(metrics),
    }
    title = f"# {cls.title} on {_cell(metrics['graph']['name'])}"
    parts = [_header(cls, metrics), title, _what(cls)]
    parts += [f"## {name}\n\n{text}" for name, text in sections.items() if text]
    with atomic_path(folder / "README.md") as temporary:
        temporary.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return folder / "README.md"


def _header(cls: type[Method], metrics: dict[str, Any]) -> str:
    """The metadata that model hubs read; a licence is the owner's to choose."""
    learned = "supervised-learning" if cls.supervised else "self-supervised-learning"
    tags = ["graph-neural-networks", "node-embeddings", learned, cls.name]
    lines = ["library_name: epagcl", "pipeline_tag: graph-ml", "tags:", *(f"- {tag}" for tag in tags)]
    if "evaluation" in metrics:
        lines += ["metrics:", "- accuracy", "- f1"]
    return "\n".join(["---", *lines, "---"])


def _what(cls: type[Method]) -> str:
    made = "class scores of nodes, learned from labels" if cls.supervised else "node embeddings, learned without labels"
    return f"{made.capitalize()}. {cls.summary()} The method is that of {cls.paper}."


def _graph(graph: dict[str, Any]) -> str:
    rows = [["name", graph["name"]]]
    rows += [[key, f"{graph[key]:,}"] for key in ("nodes", "edges", "features", "classes") if graph[key] is not None]
    rates = {"epr_per_node": "EPR per node", "epr_per_edge": "EPR per edge"}
    rows += [[words, f"{graph[key]:.4f}"] for key, words in rates.items() if graph[key] is not None]
    text = _table(["", ""], rows)
    if graph["epr_per_node"] is not None:
        text += "\n\nEPR, the error passing rate, is the share of messages along edges that come from another class."
    return text


def _settings(cls: type[Method], settings: dict[str, Any]) -> str:
    rows = [
        [f"`{field.name}`", settings[field.name], field.default, field.metadata["meaning"]]
        for field in cls.setting_fields()
        if field.name not in PLACES and field.name in settings and settings[field.name] != field.default
    ]
    if not rows:
        return "All settings are the defaults."
    others = "All others are the defaults; `config.toml` has every one."
    return _table(["setting", "here", "default", "meaning"], rows) + f"\n\n{others}"


def _scores(cls: type[Method], metrics: dict[str, Any]) -> str:
    if "evaluation" not in metrics:
        return "The model was not evaluated."
    own = metrics["evaluation"]
    columns = [key for key in SCORES if key in own]
    rows = [
        [name, *(_spread(result[key]) if key in result else "" for key in columns)]
        for name, result in {**metrics.get("references", {}), cls.title: own}.items()
    ]
    seeds = f" (seeds {', '.join(map(str, own['split_seeds']))})" if own["split_seeds"] else ""
    runs = len(own["accuracy"]["runs"])
    text = _table(["", *(SCORES[key] for key in columns)], rows)
    classifier = "the model's own predictions" if cls.supervised else "a linear classifier on the embedding"
    text += f"\n\nTest scores in percent, of {classifier}: protocol {own['protocol']}, splits {own['split']}{seeds}, "
    text += f"mean ± standard deviation over {runs} runs." if runs > 1 else "one run."
    if "clustering" in own:
        parts = [f"{key.upper()} {value:.3f}" for key, value in own["clustering"].items()]
        text += f" Clusters of k-means against the classes: {', '.join(parts)}."
    return text


def _health(findings: Iterable[dict[str, Any]]) -> str:
    rows = [[finding[key] for key in ("name", "shown", "verdict", "words")] for finding in findings]
    return rows and _table(["measure", "value", "verdict", "what it means"], rows)


def _use(cls: type[Method], metrics: dict[str, Any], config: dict[str, Any]) -> str:
    folder = f"seed-{metrics['seeds'][0]}" if "seeds" in metrics else "."
    lines = [
        "import epagcl",
        "",
        f'model = epagcl.load_model("{folder}")  # seen from the folder of this file',
        _loading(metrics["graph"], config.get("data", {})),
        "y = model.predict(data)" if cls.supervised else "z = model.embed(data)  # float32, one row per node",
    ]
    code = "\n".join(["```python", *lines, "```"])
    kept = "class scores" if cls.supervised else "embeddings"
    return f"{code}\n\nThe {kept} of this graph lie beside the model: `embeddings.npy`, ids in `embeddings.ids.txt`."


def _loading(graph: dict[str, Any], source: dict[str, Any]) -> str:
    """The line that gives the graph of a run again, where that is known."""
    if "file" in source:
        return f"data = epagcl.read_graph({_quoted(source['file'])})"
    if "edges" in source:
        parts = [f"{key}={_quoted(source[key])}" for key in ("edges", "features", "nodes") if key in source]
        return f"data = epagcl.read_graph({', '.join(parts)})"
    try:
        entry = find(graph["name"])
    except InputError:
        entry = None
    if entry is not None and entry.nodes == graph["nodes"]:
        return f"data = epagcl.load({_quoted(entry.name)})"
    return f"# data: the graph, a torch_geometric.data.Data with {counted(graph['features'], 'feature column')}"


def _quoted(path: str) -> str:
    """The name of a file; where it lay is nobody else's business."""
    return json.dumps(Path(path).name, ensure_ascii=False)


def _limits(cls: type[Method], graph: dict[str, Any]) -> str:
    seen = "and the labels of its training and validation nodes" if cls.supervised else "and none of its labels"
    columns = counted(graph["features"], "feature column")
    lines = [
        f"Training has seen all nodes and edges of this one graph, {seen}. How good the model is on another graph has "
        "to be measured there.",
        f"Another graph needs the same {columns}, prepared in the same way. Where both tables name them they are "
        "matched by name; else they must have the same order, and only their number is checked.",
        "The result repeats what edges and features say, about people too. No audit of fairness or of privacy was "
        "made; make one before it has a part in decisions about people.",
    ]
    if not cls.supervised:
        lines.append("Distances mean something within one model; embeddings of two models or seeds cannot be compared.")
    return "\n".join(f"- {line}" for line in lines)


def _provenance(metrics: dict[str, Any]) -> str:
    hardware = metrics["hardware"]
    training = {key: value if isinstance(value, list) else [value] for key, value in metrics["training"].items()}
    seeds = metrics.get("seeds", [metrics["method"]["seed"]])
    versions = [f"{name} {number}" for name, number in metrics["versions"].items() if number is not None]
    where = "CPU" if hardware["device"] == "cpu" else hardware["device"]
    rows = [
        ["date", metrics["date"]],
        ["hardware", f"{where} ({hardware['cpu']}, {counted(hardware['threads'], 'thread')})"],
        ["versions", ", ".join(versions)],
        ["commit", metrics["commit"]],
        ["seed" if len(seeds) == 1 else "seeds", ", ".join(map(str, seeds))],
        ["epochs", _listed(training["epochs"], "{:,}")],
        ["final loss", _listed(training["final_loss"], "{:.4f}")],
        ["seconds of training", _listed(training["seconds"], "{:.3g}")],
    ]
    return _table(["", ""], [row for row in rows if row[1]])


def _listed(values: list, form: str) -> str:
    return ", ".join(form.format(value) for value in values if value is not None)


def _spread(score: dict[str, Any]) -> str:
    mean = f"{100 * score['mean']:.2f}"
    return f"{mean} ± {100 * score['std']:.2f}" if len(score["runs"]) > 1 else mean


def _table(head: list[str], rows: list[list[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(value: object) -> str:
    """A value as it may stand in a table: one line, no column of its own."""
    return " ".join(str(value).split()).replace("|", "\\|")
