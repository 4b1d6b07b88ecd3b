"""The text on the operators: whether their error passing rate predicts which operator wins."""

import numpy as np

from epagcl.core.formatting import listed
from epagcl.paper.artefact import Result
from epagcl.paper.operators.choice import CRITERIA, RAW, Choice, accuracies, choices, fixed, rank_correlation
from epagcl.study.ranking import by_observation
from epagcl.study.statistics import ALPHA, signed_rank

#: Points of accuracy that a choice may lose before its graph is named.
NOTABLE = 2.0
#: Share of graphs on which a rule that predicts chooses the best operator.
MOST = 2 / 3
#: Mean difference of the estimate from EPR / chance that counts as clear.
WIDE = 0.15


def reading(result: Result) -> list[str]:
    """Return whether EPR, its estimate and the gain predict the best operator, and how good the estimate is."""
    if not result["graphs"]:
        return ["None of the graphs could be loaded, so nothing was measured."]
    return [_epr_alone(result), _gain(result), _without_labels(result), _estimate(result), _structure(result)]


def _epr_alone(result: Result) -> str:
    made = choices(result, CRITERIA[0])
    losses = [choice.loss for choice in made.values()]
    wins = [name for name, choice in made.items() if choice.loss == 0]
    correlation = float(np.nanmean([choice.correlation for choice in made.values()]))
    text = (
        f"**The error passing rate alone {_verb(result, made)} which operator wins.** Raw "
        "features have an EPR of 0, since a node's own message is never wrong, so the lowest EPR always chooses them. "
        f"They are the best operator on {len(wins)} of {len(made)} graphs ({listed(wins)}) and lose "
        f"{np.mean(losses):.1f} points on average. Within a graph, the mean rank correlation of low EPR with accuracy "
        f"is {correlation:+.2f}."
    )
    chance = {name: graph["chance"] for name, graph in result["graphs"].items()}
    points = [
        (row["per_node"] / chance[name], accuracies(graph)[op] - accuracies(graph)[RAW])
        for name, graph in result["graphs"].items()
        for op, row in graph["operators"].items()
        if op != RAW
    ]
    across = rank_correlation(*map(list, zip(*points, strict=True)))
    return (
        f"{text} Across graphs, EPR says more: over all pairs of graph and operator, the rank correlation of EPR / "
        f"chance with what propagation adds to raw features is {across:+.2f}."
    )


def _verb(result: Result, made: dict[str, Choice]) -> str:
    """Return how well a rule predicts: by its choices on most graphs, or only better than one operator for all."""
    losses = [choice.loss for choice in made.values()]
    if sum(loss == 0 for loss in losses) >= MOST * len(losses):
        return "predicts"
    return "partly predicts" if np.mean(losses) < _best_fixed(result)[1] else "does not predict"


def _best_fixed(result: Result) -> tuple[str, float]:
    """Return the one operator for all graphs that loses least on average, and its mean loss."""
    names = next(iter(result["graphs"].values()))["operators"]
    losses = {operator: float(np.mean(list(fixed(result, operator).values()))) for operator in names}
    best = min(losses, key=losses.__getitem__)
    return best, losses[best]


def _gain(result: Result) -> str:
    made = choices(result, CRITERIA[2])
    operator, loss = _best_fixed(result)
    return (
        "EPR counts what is wrong in a message, not how many messages share the noise of the features. Both together "
        "are the gain (1 − r)² n: r is EPR / chance, and n the effective number of messages. "
        f"**The gain {_verb(result, made)} which operator wins**: {_summary(made)} "
        f"The best single operator for all graphs ({operator}), chosen on the same graphs, loses {loss:.1f} points on "
        f"average. {_against_fixed(result, made)}"
    )


def _against_fixed(result: Result, made: dict[str, Choice]) -> str:
    """Return a sentence on the test of a rule against the best single operator over the graphs."""
    operator, _ = _best_fixed(result)
    losses = fixed(result, operator)
    by_graph = {name: {"rule": -choice.loss, "fixed": -losses[name]} for name, choice in made.items()}
    observed = by_observation(by_graph, ["rule", "fixed"])
    p = signed_rank([one["rule"] - one["fixed"] for one in observed.values()])["two_sided"]
    verb = "decides" if p < ALPHA else "does not decide"
    return f"Wilcoxon's test over the graphs {verb} the difference to {operator} for all graphs (p = {p:.2g})."


def _without_labels(result: Result) -> str:
    made = choices(result, CRITERIA[3])
    propagated = choices(result, CRITERIA[3], propagated=True)
    losses = [choice.loss for choice in propagated.values()]
    wins = sum(loss == 0 for loss in losses)
    return (
        f"With the estimate in place of EPR, the gain needs no labels. **It {_verb(result, made)} which operator "
        f"wins**: {_summary(made)} {_against_fixed(result, made)} Among the operators that propagate, it chooses the "
        f"best on {wins} of {len(losses)} graphs and loses {np.mean(losses):.1f} points on average."
    )


def _summary(made: dict[str, Choice]) -> str:
    """Return the mean correlation, the wins and the losses of a rule."""
    losses = [choice.loss for choice in made.values()]
    wins = sum(loss == 0 for loss in losses)
    worst = [f"{name} ({choice.loss:.1f}, {choice.chosen})" for name, choice in made.items() if choice.loss >= NOTABLE]
    correlation = np.nanmean([choice.correlation for choice in made.values()])
    return (
        f"its mean rank correlation with accuracy is {correlation:+.2f}, "
        f"it chooses the best operator on {wins} of {len(made)} graphs, and it loses {np.mean(losses):.1f} points on "
        f"average{f', at least {NOTABLE:.0f} on {listed(worst)}' if worst else ''}."
    )


def _estimate(result: Result) -> str:
    rows = {
        name: [row for op, row in graph["operators"].items() if op != RAW] for name, graph in result["graphs"].items()
    }
    errors = {
        name: float(np.mean([row["estimate"] - row["relative"] for row in group])) for name, group in rows.items()
    }
    flat = [row for group in rows.values() for row in group]
    size = float(np.mean([abs(row["estimate"] - row["relative"]) for row in flat]))
    across = rank_correlation([row["estimate"] for row in flat], [row["relative"] for row in flat])
    text = (
        f"The label-free estimate differs from EPR / chance by {size:.2f} on average; the rank correlation over all "
        f"pairs of graph and operator is {across:+.2f}."
    )
    if high := [f"{name} ({error:+.2f})" for name, error in errors.items() if error >= WIDE]:
        text += f" It is clearly too high on {listed(high)}."
    if low := [f"{name} ({error:+.2f})" for name, error in errors.items() if error <= -WIDE]:
        text += f" It is clearly too low on {listed(low)}."
    return text


def _structure(result: Result) -> str:
    graphs = result["graphs"]
    added = {}
    for name, graph in graphs.items():
        by_name = accuracies(graph)
        added[name] = max(value for op, value in by_name.items() if op != RAW) - by_name[RAW]
    score = {name: graph["structure"] for name, graph in graphs.items()}
    correlation = rank_correlation([score[name] for name in graphs], [added[name] for name in graphs])
    helped = [name for name in graphs if added[name] > 0]
    rest = [f"{name} ({score[name]:.2f})" for name in graphs if added[name] <= 0]
    text = (
        f"Some propagation is better than none on {len(helped)} of {len(graphs)} graphs. The structure score, also "
        f"without labels, has a rank correlation of {correlation:+.2f} with what the best propagation adds."
    )
    if rest and helped:
        least = min(score[name] for name in helped)
        text += f" It is at least {least:.2f} where propagation helps. The other graphs: {listed(rest)}."
    return text
