"""The first screen of a report: whether the embedding is good, why, and the commands to run next."""

import shlex
from collections.abc import Sequence
from typing import Any, TypedDict

from epagcl.core.formatting import one_line
from epagcl.data.catalogue.entries import CATALOGUE
from epagcl.evaluation.health import KEPT, FindingDict

LEAST_GAP = 0.01  # a difference of accuracies below one point, or one standard deviation, is no difference
DOWN = {"good": "fair", "fair": "poor", "poor": "poor"}
#: The method that keeps a node's own features, and the one without training.
OWN_FEATURES, WITHOUT_TRAINING = "epagcl+", "propagated"


class Step(TypedDict):
    """A command to run next, and what for."""

    why: str
    command: str


class VerdictContent(TypedDict):
    """The answer of the first screen."""

    verdict: str
    headline: str
    reasons: list[str]
    next: list[Step]


def verdict_content(
    health: Sequence[FindingDict],
    scores: dict[str, Any] | None,
    method: str,
    graph: str,
    place: str | None = None,
    example: str | None = None,
) -> VerdictContent:
    """Return whether an embedding is good, in words, and what to do next.

    With scores of references, accuracy decides, and poor health lowers the verdict. Otherwise health decides.

    Args:
        health: findings without labels.
        scores: the rows of the table of scores; None without labels.
        method: title of the method, which is the name of its row.
        graph: name of the graph.
        place: the run folder or the file of the embedding, for the commands.
        example: id of a node, for the commands.

    Examples:
        >>> good = {"name": "uniformity", "value": -2.0, "shown": "−2.00", "verdict": "good", "words": ""}
        >>> rows = [{"name": "raw features", "accuracy": 0.64, "std": 0.01}, {"name": "DGI", "accuracy": 0.84}]
        >>> answer = verdict_content([good], {"rows": rows}, "DGI", "Cora")
        >>> answer["verdict"], answer["reasons"][0]
        ('good', 'Accuracy is 84.0%, 20.0 points above the best reference (raw features, 64.0%).')
    """
    worst = min((finding["verdict"] for finding in health), key=("poor", "fair", "good").index, default="good")
    bad = [finding["name"] for finding in health if finding["verdict"] == worst != "good"]
    own, best = _own_and_best(scores, method)
    reasons = [_score_words(own, best)] if own is not None else []
    reasons += _health_words(health)
    if own is not None and best is not None:
        verdict = _score_verdict(own, best)
        headline = _score_headline(verdict, best)
        if worst == "poor" and verdict != "poor":
            verdict = DOWN[verdict]
            headline = f"{headline} But see {' and '.join(bad)} below."
    else:
        verdict = worst
        headline = _health_headline(worst, bad)
        reasons.append(
            "Whether it serves your task, only labels of some nodes can tell."
            if own is None
            else "Accuracy alone says little: it was not compared with that of raw and propagated features."
        )
    repairs = _repairs(bad, best, method, graph, place) if verdict == "poor" else []
    steps = repairs + _uses(place, example)
    return {"verdict": verdict, "headline": headline, "reasons": reasons, "next": steps}


def _own_and_best(scores: dict[str, Any] | None, method: str) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Return the row of the method and the most accurate reference; None for what there is not."""
    rows = [row for row in (scores or {}).get("rows", []) if row.get("accuracy") is not None]
    own = next((row for row in rows if row["name"] == method), None)
    references = [row for row in rows if row is not own]
    return own, max(references, key=lambda row: float(row["accuracy"]), default=None) if own is not None else None


def _score_verdict(own: dict[str, Any], best: dict[str, Any]) -> str:
    gap = own["accuracy"] - best["accuracy"]
    margin = max(LEAST_GAP, own.get("std") or 0.0)
    return "good" if gap > margin else "fair" if gap >= -margin else "poor"


def _score_words(own: dict[str, Any], best: dict[str, Any] | None) -> str:
    words = f"Accuracy is {100 * own['accuracy']:.1f}%"
    if best is None:
        return f"{words}."
    gap = 100 * (own["accuracy"] - best["accuracy"])
    side = "above" if gap >= 0 else "below"
    return f"{words}, {abs(gap):.1f} points {side} the best reference ({best['name']}, {100 * best['accuracy']:.1f}%)."


def _score_headline(verdict: str, best: dict[str, Any]) -> str:
    return {
        "good": "Good: it beats every reference on the labels.",
        "fair": f"Usable, but no better than the reference “{best['name']}”.",
        "poor": f"Poor: the reference “{best['name']}” is better.",
    }[verdict]


def _health_headline(verdict: str, bad: Sequence[str]) -> str:
    names = " and ".join(bad)
    if verdict == "poor" and all(name.startswith(KEPT) for name in bad):
        return "Poor: it says less about the nodes than the features it comes from."
    return {
        "good": "Good, as far as can be told without labels.",
        "fair": f"Probably usable: {names} {'is' if len(bad) == 1 else 'are'} not in the usual range.",
        "poor": f"Poor: {names} {'shows' if len(bad) == 1 else 'show'} that something went wrong.",
    }[verdict]


def _health_words(health: Sequence[FindingDict]) -> list[str]:
    if not health:
        return []
    doubtful = [finding for finding in health if finding["verdict"] != "good"]
    if not doubtful:
        return [f"All {len(health)} measures without labels are in their usual range."]
    return [
        f"{finding['name'].capitalize()} is {finding['verdict']} ({finding['shown']}): {finding['words']}"
        for finding in doubtful
    ]


def _repairs(bad: Sequence[str], best: dict[str, Any] | None, method: str, graph: str, place: str | None) -> list[Step]:
    """Return what to try if the embedding is poor."""
    name = method.lower()
    trained = name != WITHOUT_TRAINING
    changes: list[tuple[str, str, bool]] = []  # why, the method, and whether to train it more slowly
    if trained and bad and not all(measure.startswith(KEPT) for measure in bad):
        changes.append(("Train more carefully.", name, True))
    if name != OWN_FEATURES:
        changes.append(("Try the method that keeps a node's own features.", OWN_FEATURES, False))
    if trained and best is not None and best["name"] == WITHOUT_TRAINING:
        changes.append(("Use the reference, which needs no training.", WITHOUT_TRAINING, False))
    if place is None:  # in a notebook, with the graph data
        return [
            {"why": why, "command": f"epagcl.method({other!r})({'lr=0.0001' if slow else ''}).fit(data)"}
            for why, other, slow in changes
        ]
    named = graph.lower() in CATALOGUE
    source = shlex.quote(graph.lower()) if named else "--edges EDGES --features FEATURES"
    yours = "" if named else " Put your files in place of EDGES and FEATURES."
    return [
        {
            "why": f"{why}{yours}",
            "command": f"epagcl train {source} --method {shlex.quote(other)}" + (" --lr 0.0001" if slow else ""),
        }
        for why, other, slow in changes
    ]


def _uses(place: str | None, example: str | None) -> list[Step]:
    """Return what people do with embeddings."""
    if place is None:  # in a notebook, with the embedding z
        return [
            {"why": "Look up what is near each node.", "command": "epagcl.nearest_neighbours(z, k=10)"},
            {"why": "Find groups of nodes, and whether they are stable.", "command": "epagcl.cluster(z)"},
            {
                "why": "Predict all classes from a few labels (-1: unknown), and see how many labels you need.",
                "command": "epagcl.classify(z, labels)",
            },
        ]
    where = "Z" if one_line(place) != place else shlex.quote(place)
    node = "ID" if example is None or one_line(example) != example else shlex.quote(example)
    return [
        {"why": "Look up what is near a node that you know.", "command": f"epagcl neighbours {where} --of {node}"},
        {"why": "Find groups of nodes, and whether they are stable.", "command": f"epagcl cluster {where}"},
        {
            "why": "Predict all classes from a few labels, and see how many labels you need.",
            "command": f"epagcl classify {where} --labels LABELS.csv",
        },
    ]
