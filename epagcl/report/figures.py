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
MISSING_COLOUR = "#9aa1aa"
MOST_LEVELS = 20  # in a legend


def run_figures(folder: Path, history: Sequence[Row], content: RunContent) -> None:
    """Write ``training.png`` if the model was trained and ``embedding.png`` if the content has a map."""
    title = plain_text(f"{content['method']} on {content['graph']}")
    if history:
        _save(_training_figure(history, content["measures"], title), folder / "training.png")
    if content["map"] is not None:
        _save(map_figure(content["map"], title), folder / "embedding.png")


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


def map_figure(map_: MapContent, title: str, *, legend: bool = False) -> "Figure":
    """Return the report's map, coloured by its column of labels, if any.

    Args:
        map_: the map.
        title: title of the figure.
        legend: show what the colours mean.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2, 5.2), layout="constrained")
    axes = figure.subplots()
    x, y = np.array(map_["x"]), np.array(map_["y"])
    # Drawn in random order, so that no class covers another.
    order = np.random.default_rng(0).permutation(len(x))
    style: dict[str, Any] = {"color": LOSS_COLOUR}
    column = next((one for one in map_["columns"] if one["name"] in ("label", "value")), None)
    levels: list[str] = []
    if column is not None and column["kind"] == "category":
        levels = column["levels"]
        style = {"c": _with_gaps(column["values"])[order], "cmap": "tab10" if len(levels) <= 10 else "tab20"}
    elif column is not None:
        style = {"c": np.array(column["values"], dtype=float)[order], "cmap": "viridis"}
    size = max(0.5, min(12.0, 30_000 / len(x)))
    points = axes.scatter(x[order], y[order], s=size, lw=0, plotnonfinite=True, **style)
    axes.set(xticks=[], yticks=[], xlabel=map_["kind"], title=title)
    if legend and column is not None:
        _explain_colours(figure, points, levels)
    return figure


def _with_gaps(values: list[int]) -> "np.ndarray[Any, Any]":
    """Return positions of levels as numbers, with NaN in place of -1."""
    numbers = np.array(values, dtype=float)
    return np.where(numbers < 0, np.nan, numbers)


def _explain_colours(figure: "Figure", points: Any, levels: Sequence[str]) -> None:
    """Add a legend of some levels, or a scale of numbers; many levels get neither."""
    from matplotlib.lines import Line2D

    axes = figure.axes[0]
    points.set_cmap(points.cmap.with_extremes(bad=MISSING_COLOUR))
    if not levels:
        figure.colorbar(points, ax=axes, shrink=0.6)
    elif len(levels) <= MOST_LEVELS:
        handles = [
            Line2D([], [], marker="o", ls="", color=points.cmap(points.norm(k)), label=plain_text(level, 40))
            for k, level in enumerate(levels)
        ]
        axes.legend(handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)


def plain_text(words: str, longest: int = 100) -> str:
    """Return text in one line that Matplotlib does not read as a formula, nor leaves out of a legend.

    Examples:
        >>> print(plain_text("$x$"))
        \\$x\\$
    """
    text = one_line(words, longest).replace("$", r"\$")
    return f"\u200b{text}" if text.startswith("_") else text


def _save(figure: "Figure", path: Path) -> None:
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=150)
