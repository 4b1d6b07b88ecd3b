"""The model card of a run: the model, its training graph, its scores, how to use it, and its limits."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from epagcl.core.config import current_settings
from epagcl.core.errors import InputError
from epagcl.core.files import atomic_path
from epagcl.core.formatting import counted, percent
from epagcl.data.catalogue.entries import find
from epagcl.data.io.roles import NAMED
from epagcl.evaluation.health import FindingDict
from epagcl.methods import Method, method
from epagcl.report.metrics import GraphSummary, RelationSummary, RunMetrics, lost_to, untrained_note
from epagcl.runs.folder import GraphSource, RunConfig

COLUMNS: dict[Literal["accuracy", "macro_f1", "knn_accuracy"], str] = {
    "accuracy": "accuracy",
    "macro_f1": "macro-F1",
    "knn_accuracy": "nearest neighbours",
}
MOST_COLUMNS = 40  # rows of the table of feature columns
OWN = "this package: "  # how the reference of a method without a paper begins
EXECUTION_SETTINGS = ("device", "capture")  # not properties of the model; Provenance lists the hardware


def write_card(folder: Path, metrics: RunMetrics, config: RunConfig) -> Path:
    """Write ``README.md`` in the form of a Hugging Face model card. Return its path.

    Sections without data are left out.

    Args:
        folder: the run folder.
        metrics: the content of ``metrics.json``.
        config: the tables of ``config.toml``.
    """
    settings = current_settings(metrics["method"])
    cls = method(settings["name"])
    sections = {
        "Graph": _graph(metrics["graph"]),
        "Columns": _feature_columns(metrics["graph"]),
        "Settings": _settings(cls, settings),
        "Scores": _scores(cls, metrics),
        "Health": _health(metrics["health"]),
        "Use": _use(cls, metrics["graph"], config),
        "Limits": _limits(cls, metrics["graph"]),
        "Provenance": _provenance(cls, metrics),
    }
    title = f"# {cls.title} on {_cell(metrics['graph']['name'])}"
    parts = [_header(cls, "evaluation" in metrics), title, _summary(cls)]
    parts += [f"## {name}\n\n{text}" for name, text in sections.items() if text]
    with atomic_path(folder / "README.md") as temporary:
        temporary.write_text("\n\n".join(parts) + "\n", encoding="utf-8", errors="backslashreplace")
    return folder / "README.md"


def _header(cls: type[Method], evaluated: bool) -> str:
    """Return the metadata that model hubs read. It names no licence, which only the model's owner can choose."""
    learning = "supervised-learning" if cls.supervised else "self-supervised-learning"
    learning = learning if cls.trained else "training-free"
    tags = ["graph-neural-networks", "node-embeddings", learning, cls.name]
    lines = ["library_name: epagcl", "pipeline_tag: graph-ml", "tags:", *(f"- {tag}" for tag in tags)]
    if evaluated:
        lines += ["metrics:", "- accuracy", "- f1"]
    return "\n".join(["---", *lines, "---"])


def _summary(cls: type[Method]) -> str:
    output = "Node embeddings, learned without labels" if cls.trained else "Node embeddings, computed without training"
    output = "Class scores of nodes, learned from labels" if cls.supervised else output
    return f"{output}. {cls.summary()} {_origin(cls)}"


def _origin(cls: type[Method]) -> str:
    """Return the reference of a method. The method of this package has no paper of its own."""
    if not cls.paper.startswith(OWN):
        return f"Paper: {cls.paper}."
    return f"It has no paper of its own; it is {cls.paper.removeprefix(OWN)}."


def _graph(graph: GraphSummary) -> str:
    sizes = {key: graph[key] for key in ("nodes", "edges", "features", "classes")}
    rates = {"EPR per node": graph["epr_per_node"], "EPR per edge": graph["epr_per_edge"]}
    rows = [["name", graph["name"]]]
    rows += [[name, f"{size:,}"] for name, size in sizes.items() if size is not None]
    rows += [[name, f"{rate:.4f}"] for name, rate in rates.items() if rate is not None]
    rows += [[f"edges {_cell(each['name'])}", _relation(each)] for each in graph.get("relations", [])]
    text = _table(["", ""], rows)
    if graph["epr_per_node"] is not None:
        text += "\n\nEPR, the error passing rate, is the share of messages along edges that come from another class."
    return text


def _relation(relation: RelationSummary) -> str:
    rate = relation["epr_per_node"]
    return f"{relation['edges']:,}" + ("" if rate is None else f", EPR per node {rate:.4f}")


def _feature_columns(graph: GraphSummary) -> str:
    """Return the table of a graph's columns and what became of each; empty if the table was used as it is."""
    rows = [[each["name"], each["kind"], each["words"], each["features"]] for each in graph.get("columns", [])]
    shown, more = rows[:MOST_COLUMNS], len(rows) - MOST_COLUMNS
    if not rows:
        return ""
    table = _table(["column", "kind", "", "features"], shown)
    table += f"\n\n{counted(more, 'more column')} in `columns.json`." if more > 0 else ""
    return f"{table}\n\nThe model encodes the table of any other graph in the same way (`columns.json`)."


def _settings(cls: type[Method], settings: dict[str, Any]) -> str:
    rows = [
        [f"`{field.name}`", settings[field.name], field.default, field.metadata["meaning"]]
        for field in cls.setting_fields()
        if field.name not in EXECUTION_SETTINGS and field.name in settings and settings[field.name] != field.default
    ]
    if not rows:
        return "All settings have their default values."
    others = "All other settings have their default values; `config.toml` lists every one."
    return _table(["setting", "value", "default", "meaning"], rows) + f"\n\n{others}"


def _scores(cls: type[Method], metrics: RunMetrics) -> str:
    if "evaluation" not in metrics:
        return "The model was not evaluated."
    scores = metrics["evaluation"]
    columns = [key for key in COLUMNS if key in scores]
    rows = [
        [name, *(percent(result[key], 2) if key in result else "" for key in columns)]
        for name, result in {**metrics.get("references", {}), cls.title: scores}.items()
    ]
    seeds = f" (seeds {', '.join(map(str, scores['split_seeds']))})" if scores["split_seeds"] else ""
    runs = len(scores["accuracy"]["runs"])
    text = _table(["", *(COLUMNS[key] for key in columns)], rows)
    classifier = "the model's own predictions" if cls.supervised else "a linear classifier on the embedding"
    text += f"\n\nTest scores in percent, of {classifier}: protocol {scores['protocol']}, "
    text += f"splits {scores['split']}{seeds}, "
    text += f"mean ± standard deviation over {runs} runs." if runs > 1 else "one run."
    if note := untrained_note(cls.title, metrics.get("references", {})):
        text += f" {note[0].upper()}{note[1:]}."
    if lost := lost_to(cls.title, scores, metrics.get("references", {})):
        text += f" {lost[0].upper()}{lost[1:]}."
    if "clustering" in scores:
        parts = [f"{key.upper()} {value:.3f}" for key, value in scores["clustering"].items()]
        text += f" Clusters of k-means compared with the classes: {', '.join(parts)}."
    return text


def _health(findings: Sequence[FindingDict]) -> str:
    rows = [[finding["name"], finding["shown"], finding["verdict"], finding["words"]] for finding in findings]
    return _table(["measure", "value", "verdict", "meaning"], rows) if rows else ""


def _use(cls: type[Method], graph: GraphSummary, config: RunConfig) -> str:
    lines = [
        "import epagcl",
        "",
        'model = epagcl.load_model(".")  # the folder of this file',
        _loading(graph, config.get("data", {})),
        "y = model.predict(data)" if cls.supervised else "z = model.embed(data)  # float32, one row per node",
    ]
    code = "\n".join(["```python", *lines, "```"])
    output = "class scores" if cls.supervised else "embeddings"
    return f"{code}\n\nThe {output} of this graph are in `embeddings.npy`, the node ids in `embeddings.ids.txt`."


def _loading(graph: GraphSummary, source: GraphSource) -> str:
    """Return the line of code that loads the graph of a run, or a comment that describes the graph."""
    if "file" in source or "edges" in source:
        parts = [_quoted(source["file"])] if "file" in source else []
        parts += [f"{key}={_quoted(source[key])}" for key in ("edges", "features", "nodes") if key in source]
        parts += [f"{key}={json.dumps(value)}" for key, value in source.items() if key in NAMED]
        parts += ["bipartite=True"] if source.get("bipartite") else []
        return f"data = epagcl.read_graph({', '.join(parts)})"
    try:
        entry = find(graph["name"])
    except InputError:
        entry = None
    if entry is not None and entry.nodes == graph["nodes"]:
        return f"data = epagcl.load({_quoted(entry.name)})"
    return f"# data: the graph, a torch_geometric.data.Data with {counted(graph['features'], 'feature column')}"


def _quoted(path: str) -> str:
    """Return the name of a file in quotes. Cards are published, so its folder is left out."""
    return json.dumps(Path(path).name, ensure_ascii=False)


def _limits(cls: type[Method], graph: GraphSummary) -> str:
    labels = "and the labels of its training and validation nodes" if cls.supervised else "and none of its labels"
    columns = counted(graph["features"], "feature column")
    prepared = f"the same {columns}, prepared in the same way. Columns are"
    if "columns" in graph:
        prepared = "a table with the same columns, which the model encodes as in training. They are"
    lines = [
        f"The model was {'trained' if cls.trained else 'computed'} on all nodes and edges of this one graph, {labels}. "
        "Its quality on another graph has to be measured there.",
        f"Another graph needs {prepared} matched by name if both graphs "
        "name them; otherwise they must be in the same order, and only their number is checked.",
        "The output reflects the edges and features of the graph, also where these describe people. Fairness and "
        "privacy were not audited; audit them before the output is used in decisions about people.",
    ]
    if not cls.supervised:
        lines.append(
            "Distances are meaningful within one model. Embeddings of two models or seeds have different axes; "
            "`epagcl.align` rotates the ones into the axes of the others."
        )
    return "\n".join(f"- {line}" for line in lines)


def _provenance(cls: type[Method], metrics: RunMetrics) -> str:
    hardware = metrics["hardware"]
    training = metrics["training"]
    versions = [f"{name} {number}" for name, number in metrics["versions"].items() if number is not None]
    device = "CPU" if hardware["device"] == "cpu" else hardware["device"]
    rows: list[list[str | None]] = [
        ["date", metrics["date"]],
        ["hardware", f"{device} ({hardware['cpu']}, {counted(hardware['threads'], 'thread')})"],
        ["versions", ", ".join(versions)],
        ["commit", metrics["commit"]],
        ["seed", str(metrics["method"]["seed"])],
    ]
    if cls.trained:
        rows += [
            ["epochs", f"{training['epochs']:,}"],
            ["final loss", None if training["final_loss"] is None else f"{training['final_loss']:.4f}"],
            ["training time in seconds", f"{training['seconds']:.3g}"],
        ]
    return _table(["", ""], [row for row in rows if row[1]])


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(value: object) -> str:
    """Return a value as a cell of a Markdown table: one line, with the column separator escaped."""
    return " ".join(str(value).split()).replace("|", "\\|")
