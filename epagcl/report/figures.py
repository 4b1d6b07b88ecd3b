"""The figures of a run as PNG files: the training curve and the map of the embedding."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from epagcl.core.files import atomic_path
from epagcl.core.formatting import one_line
from epagcl.report.content import RunContent
from epagcl.report.nodes import MapContent
from epagcl.training.history import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOSS_COLOUR = "#2b6cb0"
RANK_COLOUR = "#c05621"


def run_figures(folder: Path, history: Sequence[Row], content: RunContent) -> None:
    """Write ``training.png`` if the model was trained and ``embedding.png`` if the content has a map."""
    title = one_line(f"{content['method']} on {content['graph']}", 100).replace("$", r"\$")  # no formula
    if history:
        _save(_training_figure(history, content["measures"], title), folder / "training.png")
    if content["map"] is not None:
        _save(_map_figure(content["map"], title), folder / "embedding.png")


def _training_figure(history: Sequence[Row], measures: dict[str, list[Any]], title: str) -> "Figure":
    """Return the loss and the effective rank by epoch."""
    # Figure without pyplot: no window system, no global state, safe in threads and notebooks.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.plot([row["epoch"] for row in history], [row["loss"] for row in history], color=LOSS_COLOUR)
    axes.set(xlabel="epoch", ylabel="loss", title=title)
    rank = axes.twinx()
    rank.plot(measures["epoch"], measures["effective_rank"], color=RANK_COLOUR, marker="o", markersize=3)
    rank.set_ylabel("effective rank", color=RANK_COLOUR)
    rank.set_ylim(bottom=0)
    axes.yaxis.label.set_color(LOSS_COLOUR)
    return figure


def _map_figure(map_: MapContent, title: str) -> "Figure":
    """Return the report's map, coloured by class if the graph has labels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2, 5.2), layout="constrained")
    axes = figure.subplots()
    x, y = np.array(map_["x"]), np.array(map_["y"])
    # Drawn in random order, so that no class covers another.
    order = np.random.default_rng(0).permutation(len(x))
    style: dict[str, Any] = {"color": LOSS_COLOUR}
    categories = (column for column in map_["columns"] if column["kind"] == "category")
    labels = next((column for column in categories if column["name"] == "label"), None)
    if labels is not None:
        values = np.array(labels["values"], dtype=float)[order]
        style = {"c": values, "cmap": "tab10" if len(labels["levels"]) <= 10 else "tab20"}
    axes.scatter(x[order], y[order], s=max(0.5, min(12.0, 30_000 / len(x))), lw=0, **style)
    axes.set(xticks=[], yticks=[], xlabel=map_["kind"], title=title)
    return figure


def _save(figure: "Figure", path: Path) -> None:
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=150)
