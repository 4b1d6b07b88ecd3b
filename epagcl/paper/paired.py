"""Comparison of two methods on paired runs: differences, effect size, tests and verdict."""

from typing import Any

import numpy as np

from epagcl.paper.statistics import repeated
from epagcl.study.statistics import DECIMALS, bootstrap_interval, holm, rank_biserial, signed_rank

ALPHA = 0.05
#: Pairs that a test needs. With n pairs no one-sided p is below 2⁻ⁿ, and correcting for 28 tests multiplies it by 28.
ENOUGH = 20
RESAMPLES = 10_000

#: EPAGCL and another method on a graph under a protocol, as plain JSON values.
Comparison = dict[str, Any]


def compare(graph: str, protocol: str, title: str, ours: dict[int, float], theirs: dict[int, float]) -> Comparison:
    """Compare runs paired by seed: model k of both methods is scored on split k."""
    seeds = sorted(set(ours) & set(theirs))
    about = {"graph": graph, "protocol": protocol, "method": title, "seeds": seeds}
    if not seeds:
        return about
    d = np.round([100 * (ours[seed] - theirs[seed]) for seed in seeds], DECIMALS)
    return about | {
        "ours": [ours[seed] for seed in seeds],
        "theirs": [theirs[seed] for seed in seeds],
        "mean_difference": float(d.mean()),
        "interval": bootstrap_interval(d.tolist(), RESAMPLES),
        "rank_biserial": rank_biserial(d),
        "wins": int((d > 0).sum()),
        "ties": int((d == 0).sum()),
        "losses": int((d < 0).sum()),
        "p": signed_rank(d) if len(d) >= ENOUGH else None,
        "holm": {},
        "repeated": repeated(d),
    }


def verdict(comparison: Comparison) -> str:
    """Return "better", "worse", "undecided" (two-sided, corrected), or "untested"."""
    if comparison["p"] is None:
        return "untested"
    if comparison["holm"]["two_sided"] >= ALPHA:
        return "undecided"
    return "better" if comparison["rank_biserial"] > 0 else "worse"


def correct(family: list[Comparison]) -> None:
    """Add Holm's correction, for each alternative, to the tested comparisons of a family."""
    tested = [comparison for comparison in family if comparison["p"] is not None]
    for test in ("better", "worse", "two_sided"):
        corrected = holm([comparison["p"][test] for comparison in tested])
        for comparison, p in zip(tested, corrected, strict=True):
            comparison["holm"][test] = p
