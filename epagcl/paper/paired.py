"""EPAGCL and another method on paired runs: the runs that a result stores, and their test."""

from collections.abc import Mapping, Sequence
from typing import TypedDict

import numpy as np

from epagcl.study.paired_test import PairedTest, corrected, paired_test
from epagcl.study.statistics import DECIMALS


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
