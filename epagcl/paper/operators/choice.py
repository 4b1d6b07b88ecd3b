"""Rules that choose the operator of a graph by its error passing rate, and what they lose."""

from typing import Any, NamedTuple

import numpy as np

from epagcl.paper.artefact import Result

#: The name of the raw features among the operators.
RAW = "X"


class Criterion(NamedTuple):
    """A rule that chooses an operator: its words, the field that it ranks by, and the sign of better values."""

    words: str
    field: str
    sign: int


CRITERIA = (
    Criterion("lowest EPR", "per_node", -1),
    Criterion("lowest estimated EPR, no labels", "estimate", -1),
    Criterion("highest gain (1 − r)² n", "gain", 1),
    Criterion("highest estimated gain, no labels", "estimated_gain", 1),
)


def accuracies(graph: dict[str, Any]) -> dict[str, float]:
    """Return the mean accuracy of each operator on a graph, in percent."""
    return {name: 100 * float(np.mean(row["accuracy"])) for name, row in graph["operators"].items()}


class Choice(NamedTuple):
    """How well a rule chooses the operator of a graph.

    Attributes:
        correlation: Spearman's correlation of the rule's values with the accuracies; NaN for a fixed operator.
        chosen: the operator that the rule chooses.
        loss: points of accuracy behind the best operator.
    """

    correlation: float
    chosen: str
    loss: float


def choose(graph: dict[str, Any], criterion: Criterion, names: list[str]) -> Choice:
    """Return the choice of a criterion among some operators of a graph."""
    by_name = accuracies(graph)
    value = [criterion.sign * graph["operators"][name][criterion.field] for name in names]
    accuracy = [by_name[name] for name in names]
    chosen = names[int(np.argmax(value))]
    return Choice(rank_correlation(value, accuracy), chosen, max(accuracy) - by_name[chosen])


def choices(result: Result, criterion: Criterion, propagated: bool = False) -> dict[str, Choice]:
    """Return the choice of a criterion on each graph, among all operators or without raw features."""
    return {
        name: choose(graph, criterion, [op for op in graph["operators"] if not (propagated and op == RAW)])
        for name, graph in result["graphs"].items()
    }


def fixed(result: Result, operator: str) -> dict[str, float]:
    """Return the points of accuracy that one operator loses against the best on each graph."""
    by_graph = {name: accuracies(graph) for name, graph in result["graphs"].items()}
    return {name: max(values.values()) - values[operator] for name, values in by_graph.items()}


def rank_correlation(a: list[float], b: list[float]) -> float:
    """Return Spearman's correlation, with mean ranks for ties; NaN if one side is constant.

    Examples:
        >>> rank_correlation([1, 2, 3], [10, 30, 20])
        0.5
    """
    from scipy.stats import rankdata

    x, y = (rankdata(values) - (len(values) + 1) / 2 for values in (a, b))
    size = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / size if size > 0 else float("nan")
