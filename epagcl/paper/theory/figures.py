"""Figures of the theory artefact: the EPR of views, contradictions of Theorem 3.3, and predictions of Theorem 3.5."""

from typing import TYPE_CHECKING, Any

import numpy as np

from epagcl.paper.artefact import Result
from epagcl.paper.drawing import COLOURS, GREY, label_rows, new_figure
from epagcl.paper.theory.tables import AUGMENTATIONS, KINDS, READINGS, family_title, wilson
from epagcl.paper.theory.theorems import RATES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def figures(result: Result) -> "dict[str, Figure]":
    """Draw the EPR of views, the shares of contradictions, and predicted against exact changes."""
    drawn = {"theorem-3-3": _theorem_3_3_figure(result)}
    if result["graphs"]:
        drawn = {"views": _views_figure(result), **drawn, "theorem-3-5": _theorem_3_5_figure(result)}
    return drawn


def _shade_rows(axes: "Axes", names: list[str]) -> None:
    """Label the rows, and shade every second one."""
    label_rows(axes, names, fontsize=9)
    for place in range(0, len(names), 2):
        axes.axhspan(place - 0.5, place + 0.5, color="#f4f4f4", zorder=0, linewidth=0)


def _offset(series: int, count: int) -> float:
    """Return the vertical offset of one of ``count`` series within a row."""
    return 0.7 * ((series + 0.5) / count - 0.5)


def _views_figure(result: Result) -> "Figure":
    names = list(result["graphs"])
    figure, panels = new_figure(1, 2, 10, 1.7 + 0.5 * len(names), sharex=True, sharey=True)
    for axes, rate in zip(panels, RATES, strict=True):
        for k, (key, label) in enumerate(AUGMENTATIONS.items()):
            cells = [result["graphs"][name]["views"]["rates"][str(rate)][key]["edge"] for name in names]
            x, std = (100 * np.array(part) for part in zip(*cells, strict=True))
            y = np.arange(len(names)) + _offset(k, len(AUGMENTATIONS))
            style: dict[str, Any] = {"color": COLOURS[k] if key != "oracle_drop" else "black", "marker": "osDo^v*"[k]}
            axes.errorbar(x, y, xerr=std, linestyle="", markersize=5, elinewidth=1, label=label, **style)
        axes.axvline(0, color=GREY, linewidth=1)
        axes.set_xscale("symlog", linthresh=1)
        axes.set_xlim(-50, 50)
        axes.set_xticks([-10, -1, 0, 1, 10], ["−10", "−1", "0", "+1", "+10"])
        axes.set_title(f"{rate:g}·|E| edges changed", fontsize=10)
        axes.set_xlabel("change of EPR per edge, in 0.01: mean ± std over views", fontsize=9)
        _shade_rows(axes, names)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=7, frameon=False, fontsize=9)
    figure.supxlabel(_number_of_views(result), fontsize=8)
    return figure


def _number_of_views(result: Result) -> str:
    """Return the usual number of views, and the graphs with another number."""
    views = {name: graph["views"]["views"] for name, graph in result["graphs"].items()}
    usual = max(views.values())
    others = "".join(f", {name}: {count}" for name, count in views.items() if count != usual)
    return f"views of each graph: {usual}{others}"


def _theorem_3_3_figure(result: Result) -> "Figure":
    families, graphs = result["random_graphs"], result["graphs"]
    left, right = (
        {
            f"add {where} {words}, {under_root}": [counts[form][where] for counts in added]
            for form, under_root in READINGS.items()
            for where, words in (("within", "a class"), ("between", "classes"))
        }
        for added in (
            [row["added"] for row in families],
            [graph["theorem_3_3"]["added"] for graph in graphs.values()],
        )
    )
    height = 2.1 + 0.42 * max(len(families), len(graphs))
    figure, panels = new_figure(1, 2, 10.5, height, sharex=True)
    titles = [family_title(row) for row in families]
    for axes, series, names in ((panels[0], left, titles), (panels[1], right, list(graphs))):
        for k, (label, counts) in enumerate(series.items()):
            places = [place for place, (total, *_) in enumerate(counts) if total]
            x = np.array([counts[place][1] / counts[place][0] for place in places])
            ends = np.array([wilson(counts[place][1], counts[place][0]) for place in places]).reshape(-1, 2).T
            y = np.array(places) + _offset(k, len(series))
            style: dict[str, Any] = {"color": COLOURS[k % 2], "marker": "osD^"[k // 2]}
            error = 100 * np.abs(ends - x)
            axes.errorbar(100 * x, y, xerr=error, linestyle="", markersize=5, elinewidth=1, label=label, **style)
        _shade_rows(axes, names)
        axes.set_xscale("symlog", linthresh=0.1)
        axes.set_xlim(-0.01, 100)
        axes.set_xticks([0, 0.1, 1, 10, 100], ["0", "0.1", "1", "10", "100"])
        axes.set_xlabel("changes against Theorem 3.3, % (Wilson 95%)", fontsize=9)
        axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1.05), ncols=2, frameon=False, fontsize=8)
    panels[0].set_title("random graphs that meet its conditions", fontsize=10)
    met = sum(graph["theorem_3_3"]["conditions"]["holds"] for graph in graphs.values())
    panels[1].set_title(f"named graphs ({met} of {len(graphs)} meet them)", fontsize=10)
    return figure


def _theorem_3_5_figure(result: Result) -> "Figure":
    graphs = result["graphs"]
    columns = min(5, len(graphs))
    rows = -(-len(graphs) // columns)
    figure, panels = new_figure(rows, columns, max(2.2 * columns, 4.5), 2.2 * rows + 0.9, sharex=True, sharey=True)
    for axes, (name, graph) in zip(panels, graphs.items(), strict=False):
        axes.axline((0, 0), (1, 1), color=GREY, linewidth=0.8, zorder=1)
        for k, (kind, words) in enumerate(KINDS.items()):
            # Changes shrink with the size of the graph. Multiplied by |E|, they are comparable.
            x, y = np.array(graph["theorem_3_5"][kind]["points"]).T * graph["edges"]
            axes.scatter(x, y, s=9, color=COLOURS[k], alpha=0.6, linewidths=0, label=words, zorder=2)
        axes.set_title(name, fontsize=9)
        axes.set_xscale("symlog", linthresh=0.01)
        axes.set_yscale("symlog", linthresh=0.01)
        ticks = [-1, -0.01, 0.01, 1]
        axes.set_xticks(ticks, ["−1", "−.01", ".01", "1"], fontsize=8)
        axes.set_yticks(ticks, ["−1", "−.01", ".01", "1"], fontsize=8)
        axes.tick_params(labelbottom=True)  # also for panels above an empty one
        axes.set_aspect("equal")
    for axes in panels[len(graphs) :]:
        axes.set_axis_off()
    figure.supxlabel("exact change of EPR × |E| (a point: one pair)", fontsize=9)
    figure.supylabel("predicted by Theorem 3.5 × |E|", fontsize=9)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=9, markerscale=2.5)
    return figure
