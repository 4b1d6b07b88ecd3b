"""The tables and figures of the operators."""

from typing import TYPE_CHECKING, Any

import numpy as np

from epagcl.core.formatting import percent
from epagcl.evaluation.scores import spread
from epagcl.paper.artefact import Result
from epagcl.paper.drawing import COLOURS, GREY, legend, new_figure
from epagcl.paper.operators.choice import CRITERIA, RAW, accuracies, choices, fixed
from epagcl.paper.tables import Table, marked

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def tables(result: Result) -> list[Table]:
    """Return the accuracies, how well each rule chooses, and the EPRs."""
    return [_accuracy_table(result), _choice_table(result), _rate_table(result)] if result["graphs"] else []


def _accuracy_table(result: Result) -> Table:
    names = operators_of(result)
    rows = []
    for name, graph in result["graphs"].items():
        by_name = accuracies(graph)
        texts = [percent(spread(graph["operators"][operator]["accuracy"])) for operator in names]
        count = len(graph["operators"][RAW]["accuracy"])
        rows.append([name, *marked([by_name[operator] for operator in names], texts), str(count)])
    note = (
        "Strict protocol: test accuracy in % on random 10/10/80 splits, measured here. Rows of X have unit length; "
        "the propagated features are reduced to 256 principal components. There is no training."
    )
    return Table("", "Accuracy of each operator", ["graph", *names, "splits"], rows, note)


def _choice_table(result: Result) -> Table:
    rows = []
    for propagated in (False, True):
        for criterion in CRITERIA:
            made = list(choices(result, criterion, propagated).values())
            correlation = np.nanmean([choice.correlation for choice in made])
            words = f"{criterion.words}{', without X' if propagated else ''}"
            rows.append([words, f"{correlation:+.2f}", *_loss_cells([choice.loss for choice in made])])
    for operator in operators_of(result):
        rows.append([f"always {operator}", "–", *_loss_cells(list(fixed(result, operator).values()))])
    columns = ["rule", "rank correlation", "best chosen", "mean loss", "largest loss"]
    note = (
        "Rank correlation: Spearman's, between the values of the rule and the accuracies of the operators of a graph, "
        "mean over graphs. Loss: points of accuracy behind the best operator that the rule may choose. Without X: a "
        "choice among the operators that propagate. r is EPR / chance, n the effective number of messages."
    )
    return Table("choice", "How well a rule chooses the operator of a graph", columns, rows, note)


def _loss_cells(losses: list[float]) -> list[str]:
    wins = sum(loss == 0 for loss in losses)
    return [f"{wins} of {len(losses)}", f"{np.mean(losses):.1f}", f"{max(losses):.1f}"]


def _rate_table(result: Result) -> Table:
    columns = ["graph", "structure score", "operator", "EPR per node", "EPR per edge", "EPR / chance"]
    columns += ["estimate, no labels", "effective messages", "gain", "estimated gain", "accuracy"]
    rows = []
    for name, graph in result["graphs"].items():
        by_name = accuracies(graph)
        for operator, row in graph["operators"].items():
            values = [row[field] for field in ("per_node", "per_edge", "relative", "estimate")]
            gains = [row[field] for field in ("messages", "gain", "estimated_gain")]
            numbers = [*(f"{value:.3f}" for value in values), *(f"{value:.2f}" for value in gains)]
            rows.append([name, f"{graph['structure']:.3f}", operator, *numbers, f"{by_name[operator]:.1f}"])
    note = (
        "EPR with a node's own message included. Chance: the EPR of messages from random nodes. Gain: (1 − EPR / "
        "chance)² times the effective number of messages, with labels and without."
    )
    return Table("rates", "Error passing rates of operators", columns, rows, note, folded=True)


def operators_of(result: Result) -> list[str]:
    """Return the names of the operators, which are the same on every graph."""
    return list(next(iter(result["graphs"].values()))["operators"])


def figures(result: Result) -> "dict[str, Figure]":
    """Draw accuracy against EPR and against the gain, one line per graph; and the estimate against the true EPR."""
    return {"": _accuracy_figure(result), "estimate": _estimate_figure(result)} if result["graphs"] else {}


def _styles(result: Result) -> dict[str, dict[str, Any]]:
    """Return the style of each graph: solid lines where edges mostly stay within a class, dashed lines elsewhere."""
    noisy = [name for name, graph in result["graphs"].items() if _noise(graph) >= 0.5]
    calm = [name for name in result["graphs"] if name not in noisy]
    looks: dict[str, dict[str, Any]] = {}
    for names, line, marker in ((calm, "-", "o"), (noisy, "--", "s")):
        for place, name in enumerate(names):
            looks[name] = {"color": COLOURS[place % len(COLOURS)], "linestyle": line, "marker": marker}
    return looks


def _noise(graph: dict[str, Any]) -> float:
    """Return the mean relative EPR of the operators that propagate."""
    return float(np.mean([row["relative"] for name, row in graph["operators"].items() if name != RAW]))


def _accuracy_figure(result: Result) -> "Figure":
    figure, panels = new_figure(1, 3, 12.5, 5.2, sharey=True)
    labels = {"per_node": "EPR per node", "gain": "gain (1 − r)² n", "estimated_gain": "estimated gain, no labels"}
    for axes, (field, label) in zip(panels, labels.items(), strict=True):
        for name, style in _styles(result).items():
            graph = result["graphs"][name]
            by_name = accuracies(graph)
            points = sorted((row[field], by_name[op] - by_name[RAW]) for op, row in graph["operators"].items())
            axes.plot(*zip(*points, strict=True), label=name, markersize=4, linewidth=1.2, **style)
        axes.axhline(0, color=GREY, linewidth=1)
        axes.set_xlabel(label)
        if field != "per_node":
            axes.set_xscale("log", base=2)
            axes.axvline(1, color=GREY, linestyle=":", linewidth=1)
    panels[0].set_ylabel("accuracy − accuracy of raw features, points")
    legend(figure, panels[0], 5)
    return figure


def _estimate_figure(result: Result) -> "Figure":
    figure, (axes,) = new_figure(1, 1, 6.4, 6.4)
    for name, style in _styles(result).items():
        rows = [row for op, row in result["graphs"][name]["operators"].items() if op != RAW]
        x, y = ([row[field] for row in rows] for field in ("relative", "estimate"))
        axes.scatter(x, y, label=name, color=style["color"], marker=style["marker"], s=26)
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.05)
    axes.set_xlabel("EPR / chance, with labels")
    axes.set_ylabel("estimate without labels")
    legend(figure, axes, 3)
    return figure
