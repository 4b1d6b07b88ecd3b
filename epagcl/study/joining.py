"""Joining the results of a cell that were computed at different times, seed by seed."""

from typing import Any

from epagcl.evaluation.scores import spread
from epagcl.study.comparison import CellResult, ProtocolScores


def joined(old: CellResult, new: CellResult) -> CellResult:
    """Return the results of two computations of a cell with the same settings. New scores of a seed replace old ones.

    Examples:
        >>> scores = lambda seed: {"strict": {
        ...     "protocol": "strict", "split": "random", "seeds": [seed],
        ...     "accuracy": spread([0.5 + seed / 10]), "macro_f1": spread([0.5])}}
        >>> about = {"hardware": ["cpu"], "dates": ["2025-01-01"], "commits": ["a"], "training": None}
        >>> first, second = ({"seeds": [seed], "protocols": scores(seed), **about} for seed in (0, 1))
        >>> both = joined(first, second)
        >>> both["seeds"], both["protocols"]["strict"]["accuracy"]["runs"]
        ([0, 1], [0.5, 0.6])
    """
    protocols = {
        protocol: _joined_scores(old["protocols"].get(protocol), new["protocols"].get(protocol))
        for protocol in dict.fromkeys((*old["protocols"], *new["protocols"]))
    }
    return {
        **new,
        "seeds": sorted({*old["seeds"], *new["seeds"]}),
        "hardware": sorted({*old["hardware"], *new["hardware"]}),
        "dates": sorted({*old["dates"], *new["dates"]}),
        "commits": sorted({*old["commits"], *new["commits"]}),
        "training": _joined_training(old, new),
        "protocols": protocols,
    }


def _joined_scores(old: ProtocolScores | None, new: ProtocolScores | None) -> ProtocolScores:
    if old is None or new is None:
        return old or new  # type: ignore[return-value]  # one of them is there
    accuracy = _by_seed(old, "accuracy") | _by_seed(new, "accuracy")
    macro_f1 = _by_seed(old, "macro_f1") | _by_seed(new, "macro_f1")
    seeds = sorted(accuracy)
    both: ProtocolScores = {
        "protocol": new["protocol"],
        "split": new["split"],
        "seeds": seeds,
        "accuracy": spread([accuracy[seed] for seed in seeds]),
        "macro_f1": spread([macro_f1[seed] for seed in seeds]),
    }
    if "validation" in old and "validation" in new:  # results of earlier versions lack it
        validation = _by_seed(old, "validation") | _by_seed(new, "validation")
        both["validation"] = spread([validation[seed] for seed in seeds])
    return both


def _by_seed(scores: ProtocolScores, name: str) -> dict[int, float]:
    return dict(zip(scores["seeds"], scores[name]["runs"], strict=True))  # type: ignore[literal-required]


def _joined_training(old: CellResult, new: CellResult) -> dict[str, list[Any]] | None:
    """Return the times and epochs of each seed. An entry that one of the computations did not record is None."""
    by_seed = {
        seed: {name: values[place] for name, values in result["training"].items()}
        for result in (old, new)
        if result["training"] is not None
        for place, seed in enumerate(result["seeds"])
    }
    names = dict.fromkeys(name for one in by_seed.values() for name in one)
    return {name: [by_seed[seed].get(name) for seed in sorted(by_seed)] for name in names} if by_seed else None
