"""What the paper reports, and what others have published for its baselines."""

import tomllib
from importlib import resources
from typing import Any


def reported() -> dict[str, Any]:
    """The paper's figures, one table per artefact; ``reported.toml`` explains each."""
    return tomllib.loads((resources.files(__name__) / "reported.toml").read_text(encoding="utf-8"))


def published(graph: str, title: str) -> dict[str, list[float]]:
    """Accuracies of a method on a graph in percent, ``[mean, std]`` or ``[mean]``, by where they were published.

    ``paper``: the paper's own tables (random 10/10/80 splits); ``random`` and ``public``: elsewhere, by kind of split
    (``published.toml`` says where).
    """
    figures: dict[str, list[float]] = {}
    accuracy, heterophily = reported()["accuracy"], reported()["heterophily"]
    for table in (accuracy, heterophily):
        cells = dict(zip(table["columns"], table.get(title, []), strict=False))
        if graph in cells and cells[graph] != "OOM":
            figures["paper"] = cells[graph] if isinstance(cells[graph], list) else [cells[graph]]
    elsewhere = tomllib.loads((resources.files(__name__) / "published.toml").read_text(encoding="utf-8"))
    for kind, graphs in elsewhere.items():
        if title in graphs.get(graph, {}):
            figures[kind] = graphs[graph][title]
    return figures
