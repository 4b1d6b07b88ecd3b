"""Joining the results of a cell that were computed at different times, seed by seed."""

from typing import Any

from epagcl.evaluation.scores import spread
from epagcl.study.comparison import CellResult, ProtocolScores, shares_by_seed


def joined(old: CellResult, new: CellResult) -> CellResult:
    """Return the results of two computations of a cell with the same settings. New scores of a seed replace old ones.

    If they replace all old ones, the result is the new one alone, with its hardware, dates and commits.

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
    if _places(old) <= _places(new):
        return new
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


def _places(result: CellResult) -> set[tuple[str, int]]:
    """Return the protocol and the seed of each score."""
    return {(name, seed) for name, scores in result["protocols"].items() for seed in scores["seeds"]}


def _joined_scores(old: ProtocolScores | None, new: ProtocolScores | None) -> ProtocolScores:
    if old is None or new is None:
        return old or new  # type: ignore[return-value]  # one of them is there
    names = [name for name in ("accuracy", "macro_f1", "validation") if name in old and name in new]
    runs = {name: shares_by_seed(old, name) | shares_by_seed(new, name) for name in names}
    seeds = sorted(runs["accuracy"])
    spreads = {name: spread([own[seed] for seed in seeds]) for name, own in runs.items()}
    return {"protocol": new["protocol"], "split": new["split"], "seeds": seeds, **spreads}  # type: ignore[typeddict-item]


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
