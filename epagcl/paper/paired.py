"""EPAGCL and another method on paired runs: the runs that a result stores, and their test."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from epagcl.paper import drawing
from epagcl.study.paired_test import BETTER, UNDECIDED, WORSE, PairedTest, corrected, paired_test
from epagcl.study.statistics import DECIMALS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: What follows the accuracy of a row in a table, by the verdict of the row against another.
SIGNS = {BETTER: " ▲", WORSE: " ▼", UNDECIDED: ""}
#: The verdict of the other row.
REVERSED = {BETTER: WORSE, WORSE: BETTER, UNDECIDED: UNDECIDED}


class Comparison(TypedDict):
    """Two methods on a graph under a protocol: the common seeds, and the accuracies of both, between 0 and 1."""

    graph: str
    protocol: str
    method: str
    seeds: list[int]
    ours: list[float]
    theirs: list[float]


def compare(
    graph: str, protocol: str, title: str, ours: Mapping[int, float], theirs: Mapping[int, float]
) -> Comparison:
    """Pair runs by seed: model k of both methods is scored on split k."""
    seeds = sorted(set(ours) & set(theirs))
    return {
        "graph": graph,
        "protocol": protocol,
        "method": title,
        "seeds": seeds,
        "ours": [ours[seed] for seed in seeds],
        "theirs": [theirs[seed] for seed in seeds],
    }


def differences(comparison: Comparison) -> list[float]:
    """Return the differences in points, by seed."""
    values: list[float] = np.round(
        100 * (np.asarray(comparison["ours"]) - np.asarray(comparison["theirs"])), DECIMALS
    ).tolist()
    return values


def wins_ties_losses(comparison: Comparison) -> str:
    """Return the numbers of positive, zero and negative differences, such as ``12/1/7``."""
    d = differences(comparison)
    return "/".join(str(sum(np.sign(value) == sign for value in d)) for sign in (1, 0, -1))


def corrected_tests(family: Sequence[Comparison]) -> list[PairedTest]:
    """Test the comparisons of a table, with Holm's correction for their number."""
    return corrected([paired_test(differences(comparison)) for comparison in family])


def gains_figure(tests: Mapping[str, Sequence[PairedTest]], base: str) -> "Figure":
    """Return a figure with a line for each row: its difference to a base on each graph as a dot, and their mean.

    Args:
        tests: the tests of each row, one for each graph.
        base: what the rows are compared with.
    """
    figure, (axes,) = drawing.new_figure(1, 1, 8.0, 0.42 * len(tests) + 1.2)
    colours = {BETTER: drawing.COLOURS[2], WORSE: drawing.COLOURS[1], UNDECIDED: drawing.GREY}
    for place, own in enumerate(tests.values()):
        for word in (UNDECIDED, WORSE, BETTER):
            points = [test.mean for test in own if test.verdict == word]
            label = "" if place else word  # one entry of the legend for all rows
            axes.scatter(points, [place] * len(points), s=26, alpha=0.8, color=colours[word], zorder=3, label=label)
        axes.plot([fmean(test.mean for test in own)] * 2, [place - 0.3, place + 0.3], color="black", lw=2)
    axes.axvline(0, color="black", lw=0.8)
    axes.set_yticks(range(len(tests)), list(tests))
    axes.set_ylim(len(tests) - 0.5, -0.5)
    axes.set_xlabel(f"accuracy minus {base}, points; a dot is a graph, the line the mean", fontsize=9)
    axes.grid(axis="x", lw=0.3)
    drawing.legend(figure, axes, columns=3)
    return figure
