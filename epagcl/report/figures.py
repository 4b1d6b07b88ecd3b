"""Figures of a run: its training curve, and the map of its embedding."""

from pathlib import Path

import numpy as np

from epagcl.core.files import atomic_path
from epagcl.report.content import Content
from epagcl.training.history import Row


def run_figures(folder: Path, history: list[Row], content: Content) -> None:
    """``training.png`` (loss and effective rank) and ``embedding.png`` (the report's map, by class where there are)."""
    from matplotlib.figure import Figure

    title = f"{content['method']} on {content['graph']}"
    # Figure without pyplot: no window system, no global state, safe in threads and notebooks.
    if history:
        figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        axes = figure.subplots()
        axes.plot([row["epoch"] for row in history], [row["loss"] for row in history], color="#2b6cb0")
        axes.set(xlabel="epoch", ylabel="loss", title=title)
        rank = axes.twinx()
        measured = content["measures"]
        rank.plot(measured["epoch"], measured["effective_rank"], color="#c05621", marker="o", markersize=3)
        rank.set_ylabel("effective rank", color="#c05621")
        rank.set_ylim(bottom=0)
        axes.yaxis.label.set_color("#2b6cb0")
        _save(figure, folder / "training.png")

    places = content["map"]
    if places is None:
        return
    figure = Figure(figsize=(5.2, 5.2), layout="constrained")
    axes = figure.subplots()
    x, y = np.array(places["x"]), np.array(places["y"])
    # Nodes in random order of drawing, so that no class covers another.
    order = np.random.default_rng(0).permutation(len(x))
    style = {"color": "#2b6cb0"}
    labels = next((column for column in places["columns"] if column["name"] == "label"), None)
    if labels is not None:
        values = np.array(labels["values"], dtype=float)[order]
        style = {"c": values, "cmap": "tab10" if len(labels["levels"]) <= 10 else "tab20"}
    axes.scatter(x[order], y[order], s=max(0.5, min(12.0, 30_000 / len(x))), lw=0, **style)
    axes.set(xticks=[], yticks=[], xlabel=places["kind"], title=title)
    _save(figure, folder / "embedding.png")


def _save(figure, path: Path) -> None:
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=150)
