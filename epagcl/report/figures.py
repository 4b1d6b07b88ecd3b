"""Figures of a run: its training curve, and a flat picture of the embedding."""

from pathlib import Path

import torch
from torch import Tensor

from epagcl.files import atomic_path
from epagcl.training import Row


def run_figures(folder: Path, history: list[Row], z: Tensor, y: Tensor | None, title: str) -> None:
    """``training.png`` (loss and effective rank) and ``embedding.png`` (two principal components, by class)."""
    from matplotlib.figure import Figure

    # Figure without pyplot: no window system, no global state, safe in threads and notebooks.
    if history:
        figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        axes = figure.subplots()
        axes.plot([row["epoch"] for row in history], [row["loss"] for row in history], color="#2b6cb0")
        axes.set(xlabel="epoch", ylabel="loss", title=title)
        rank = axes.twinx()
        measured = [row for row in history if row["effective_rank"] is not None]
        rank.plot(
            [row["epoch"] for row in measured],
            [row["effective_rank"] for row in measured],
            color="#c05621",
            marker="o",
            markersize=3,
        )
        rank.set_ylabel("effective rank", color="#c05621")
        rank.set_ylim(bottom=0)
        axes.yaxis.label.set_color("#2b6cb0")
        _save(figure, folder / "training.png")

    figure = Figure(figsize=(5.2, 5.2), layout="constrained")
    axes = figure.subplots()
    points = principal_components(z.cpu(), 2)
    # Nodes in random order of drawing, so that no class covers another.
    order = torch.randperm(len(points), generator=torch.Generator().manual_seed(0))
    size = max(0.5, min(12.0, 30_000 / len(points)))
    style = {"color": "#2b6cb0"}
    if y is not None:
        style = {"c": y.cpu()[order], "cmap": "tab10" if y.max() < 10 else "tab20"}
    axes.scatter(*points[order].T, s=size, lw=0, **style)
    axes.set(xticks=[], yticks=[], xlabel="first principal component", ylabel="second", title=title)
    _save(figure, folder / "embedding.png")


def principal_components(z: Tensor, count: int) -> Tensor:
    """Unit rows of ``z``, centred, along their ``count`` directions of largest variance."""
    rows = torch.nn.functional.normalize(z, dim=1)
    rows = rows - rows.mean(0)
    rows = torch.nn.functional.pad(rows, (0, max(0, count - rows.shape[1])))
    _, vectors = torch.linalg.eigh(rows.T @ rows)
    return rows @ vectors[:, -count:].flip(1)


def _save(figure, path: Path) -> None:
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=150)
