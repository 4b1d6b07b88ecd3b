"""The critical-difference diagram of a ranking (Demšar 2006), as text and as a figure."""

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from epagcl.core.errors import InputError
from epagcl.core.files import atomic_path
from epagcl.study.ranking import Ranking

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: What the bars of the figure mean.
BARS = "a bar joins rows that do not differ significantly, and rows without a common bar need not differ"
#: Formats of the figure.
SUFFIXES = (".svg", ".png")
#: Colours with enough contrast on white and on dark pages. The background is transparent.
INK, BAR = "#767d86", "#2f81c7"
#: Inches of the figure: the length of the axis, the height of a label, and the mean width of a character.
AXIS, LABEL, CHARACTER = 4.4, 0.22, 0.085


def as_text(ranking: Ranking, width: int = 48) -> str:
    """Return the diagram as lines of text: a row's mean rank as a mark on an axis, and a bar for each group.

    Args:
        ranking: of at least two rows.
        width: of the axis, in characters.

    Examples:
        >>> from epagcl.study.ranking import rank
        >>> print(as_text(rank({"a": {"x": 3, "y": 2}, "b": {"x": 1, "y": 0}}), width=11))
        CD  ├─────────→  1.39
            1         2
        a   ●            1.00  ┃
        b   ──────────●  2.00  ┃
    """
    rows, last = ranking.mean_ranks, len(ranking.mean_ranks)
    digits = max(len(f"{value:.2f}") for value in (*rows.values(), ranking.critical_difference))
    margin = max(map(len, (*rows, "CD"))) + 2
    place = {title: round((width - 1) * (value - 1) / (last - 1)) for title, value in rows.items()}
    ruler = max(2, round((width - 1) * ranking.critical_difference / (last - 1)) + 1)
    # A difference that is longer than the axis ends in an arrow.
    ruler_text = f"├{'─' * (ruler - 2)}┤" if ruler <= width else f"├{'─' * (width - 2)}→"
    axis = [" "] * width
    for tick in _ticks(last):
        at = min(round((width - 1) * (tick - 1) / (last - 1)), width - len(str(tick)))
        axis[at : at + len(str(tick))] = str(tick)
    lines = [
        f"{'CD':<{margin}}{ruler_text:<{width}}  {ranking.critical_difference:{digits}.2f}",
        " " * margin + "".join(axis),
    ]
    levels = _levels(ranking)
    for title, value in rows.items():
        bars = "".join("┃" if any(title in group for group in level) else " " for level in levels)
        lines.append(f"{title:<{margin}}{'─' * place[title] + '●':<{width}}  {value:{digits}.2f}  {bars}")
    return "\n".join(line.rstrip() for line in lines)


def save_diagram(ranking: Ranking, path: str | Path) -> None:
    """Write the diagram as SVG or PNG, by the suffix of the path.

    Args:
        ranking: of at least two rows.
        path: the file.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> from epagcl.study.ranking import rank
        >>> with TemporaryDirectory() as folder:
        ...     save_diagram(rank({"a": {"x": 3, "y": 2}, "b": {"x": 1, "y": 0}}), f"{folder}/ranks.svg")
        ...     "critical difference" in Path(folder, "ranks.svg").read_text()
        True
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{path}: a figure is written as {' or '.join(SUFFIXES)}; change the suffix")
    import matplotlib

    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"Date": None} if path.suffix.lower() == ".svg" else {}
    # Text stays text, so that SVGs are small and searchable. The salt makes their ids reproducible.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "epagcl"}), atomic_path(path) as temporary:
        diagram(ranking).savefig(temporary, dpi=150, transparent=True, metadata=metadata)


def diagram(ranking: Ranking) -> "Figure":
    """Return the diagram as a figure: an axis of mean ranks, labelled leaders, and a bar for each group.

    The better half of the rows is labelled on the left, the other half on the right. The bars come from tests of each
    pair, which decide more than Nemenyi's critical difference, the ruler above the axis.

    Examples:
        >>> from epagcl.study.ranking import rank
        >>> diagram(rank({"a": {"x": 3, "y": 2}, "b": {"x": 1, "y": 0}})).axes[0].texts[0].get_text()
        "Nemenyi's critical difference 1.39"
    """
    from matplotlib.figure import Figure

    titles, levels = list(ranking.mean_ranks), _levels(ranking)
    half = ceil(len(titles) / 2)
    first_label = 1.0 + 0.5 * len(levels)  # below the axis, in heights of a label
    bottom = first_label + half
    margin = CHARACTER * (max(map(len, titles)) + 10)
    figure = Figure(figsize=(AXIS + 2 * margin, LABEL * (bottom + 3)))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-margin / AXIS, 1 + margin / AXIS), ylim=(bottom, -3))
    axes.axis("off")
    _draw_axis(axes, ranking)
    for number, title in enumerate(titles):
        # Leaders do not cross: the outermost rows of each half have the highest labels.
        on_left = number < half
        height = first_label + (number if on_left else len(titles) - 1 - number)
        _draw_leader(axes, title, ranking, height, on_left=on_left)
    for number, level in enumerate(levels):
        for group in level:
            ends = [_position(ranking, group[0]) - 0.008, _position(ranking, group[-1]) + 0.008]
            axes.plot(ends, [0.55 + 0.5 * number] * 2, color=BAR, linewidth=3.5, solid_capstyle="round")
    return figure


def _draw_axis(axes: "Axes", ranking: Ranking) -> None:
    last = len(ranking.mean_ranks)
    axes.plot([0, 1], [0, 0], color=INK, linewidth=1.2)
    length = ranking.critical_difference / (last - 1)
    axes.plot([0, min(length, 1)], [-1.6, -1.6], color=INK, linewidth=1.2)
    for end in (0, length):
        if end <= 1:  # otherwise the ruler is longer than the axis and has no end
            axes.plot([end, end], [-1.75, -1.45], color=INK, linewidth=1.2)
    words = f"Nemenyi's critical difference {ranking.critical_difference:.2f}"
    axes.text(0, -1.95, words, color=INK, va="bottom", fontsize=9)
    for tick in _ticks(last):
        x = (tick - 1) / (last - 1)
        axes.plot([x, x], [0, -0.2], color=INK, linewidth=1.2)
        axes.text(x, -0.35, str(tick), color=INK, ha="center", va="bottom", fontsize=9)


def _draw_leader(axes: "Axes", title: str, ranking: Ranking, height: float, *, on_left: bool) -> None:
    x, edge = _position(ranking, title), -0.02 if on_left else 1.02
    axes.plot([x, x, edge], [0, height, height], color=INK, linewidth=0.9)
    rank = f"{ranking.mean_ranks[title]:.2f}"
    label, side = (f"{title}  {rank}", "right") if on_left else (f"{rank}  {title}", "left")
    axes.text(edge + (-0.01 if on_left else 0.01), height, label, color=INK, va="center", ha=side, fontsize=10)


def _position(ranking: Ranking, title: str) -> float:
    """Return the place of a row on the axis, between 0 and 1."""
    return (ranking.mean_ranks[title] - 1) / (len(ranking.mean_ranks) - 1)


def _ticks(last: int) -> Sequence[int]:
    """Return the labelled ranks: all, or every second if there are many."""
    return range(1, last + 1, 1 if last <= 12 else 2)


def _levels(ranking: Ranking) -> list[list[tuple[str, ...]]]:
    """Return the groups by level. Groups of a level have a row between them, so that their bars do not touch."""
    place = {title: number for number, title in enumerate(ranking.mean_ranks)}
    levels: list[list[tuple[str, ...]]] = []
    for group in ranking.groups:
        level = next((level for level in levels if place[level[-1][-1]] + 1 < place[group[0]]), None)
        if level is None:
            levels.append([group])
        else:
            level.append(group)
    return levels
