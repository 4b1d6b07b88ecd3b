r"""Test of two methods on paired runs whose splits overlap.

Run k of both methods is scored on split k of one graph. Let d_1, ..., d_n be the differences, s their standard
deviation, and m their mean. Given the graph, the differences are independent. Over graphs of the same kind they are
not, because all splits share the graph's nodes: :math:`\operatorname{Var}(m) = (1/n + c)\, s^2` with
:math:`c = \rho / (1 - \rho)` for two runs of correlation ρ. The test divides m by the root of this variance and refers
the ratio to Student's t with n − 1 degrees of freedom.

Nadeau & Bengio (2003) set c to the number of test nodes divided by the number of training nodes, 1/9 for their splits
of 90% and 10%. On splits of 10/10/80 this would be 8: no number of runs could then show anything. Their argument is
that runs correlate as far as their test sets overlap, and it assumes that the training set matters little. With 10% of
the nodes for training, it matters most, and two such training sets share only a tenth of their nodes.
:data:`OVERLAP` is 1/4, the number of other nodes divided by the number of test nodes. It is a calibrated value, not a
derived one: ``epagcl paper overlap`` measures c on named graphs, and the size of the tests on generated ones.

Runs may come in groups that share more, such as a test set and the settings that a search has found for it. Then
:func:`grouped_tests` adds a random effect of the group, with λ times the variance s_w² of the runs within a group:
:math:`\operatorname{Var}(m) = (1/n + \lambda/K + c\,(1 + \lambda))\, s_w^2` for K groups of equal size. c is in units
of the variance of runs on different splits, which is at most (1 + λ) s_w².
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from epagcl.study.statistics import ALPHA, DECIMALS, detectable_shift, holm, holm_levels

#: c: the variance that runs on the splits of one graph share, in units of the variance of their differences.
OVERLAP = 0.25
#: Fewest pairs of a test: two differences do not show their spread.
FEWEST = 3
BETTER, WORSE, UNDECIDED = "better", "worse", "undecided"

_Name = TypeVar("_Name")


@dataclass(frozen=True)
class PairedTest:
    """The mean of n paired differences, and whether it differs from 0.

    Attributes:
        n: number of pairs.
        mean: mean difference.
        sd: standard deviation of the differences; None with fewer than :data:`FEWEST` pairs.
        interval: the 95% interval of the mean; None likewise, and if all differences are equal.
        p: two-sided p-value; 1 in these cases.
        corrected: p after Holm's correction for the tests of the same table.
        error: the standard error of the mean; None in these cases.
        freedom: the degrees of freedom of Student's t.
        level: the p below which the test decides: 5%, or less in a family, see
            :func:`~epagcl.study.statistics.holm_levels`.

    Examples:
        >>> test = paired_test([1.0, 2.0, 3.0])
        >>> test.mean, test.effect, test.decision
        (2.0, 2.0, 'undecided, detectable 4.3')
    """

    n: int
    mean: float
    sd: float | None
    interval: tuple[float, float] | None
    p: float
    corrected: float
    error: float | None
    freedom: int
    level: float = ALPHA

    @property
    def detectable(self) -> float | None:
        """The smallest true difference that this design finds significant with probability 0.8.

        In a family of tests it is larger than for one test alone, since Holm's correction lowers the level.
        """
        return None if self.error is None else self.error * detectable_shift(self.level, self.freedom)

    @property
    def effect(self) -> float | None:
        """The mean difference in units of the standard deviation of the differences."""
        return self.mean / self.sd if self.sd else None

    @property
    def verdict(self) -> str:
        """Better, worse or undecided, by the corrected p."""
        if self.corrected >= ALPHA:
            return UNDECIDED
        return BETTER if self.mean > 0 else WORSE

    @property
    def decision(self) -> str:
        """The verdict, and the smallest difference that the design can show, such as ``undecided, detectable 1.2``."""
        return self.verdict + ("" if self.detectable is None else f", detectable {self.detectable:.1f}")

    def __str__(self) -> str:
        """Return the mean difference and its interval, such as ``+2.0 (+1.2 to +2.8)``."""
        between = "" if self.interval is None else f" ({self.interval[0]:+.1f} to {self.interval[1]:+.1f})"
        return f"{self.mean:+.1f}{between}"


def paired_test(differences: npt.ArrayLike, overlap: float = OVERLAP) -> PairedTest:
    """Test whether the mean of paired differences is 0, as a family of one test.

    Args:
        differences: at least one difference, each of a pair of runs with the same seed.
        overlap: c, the variance that the runs share. With 0 it is the usual paired t test.

    Examples:
        >>> round(paired_test([1.0, 2.0, 3.0, 4.0], overlap=0.0).p, 4)
        0.0305
    """
    d = np.round(np.asarray(differences, dtype=float), DECIMALS)
    if len(d) < FEWEST:
        return PairedTest(len(d), float(d.mean()), None, None, 1.0, 1.0, None, 0)
    return _tested(d, float(d.std(ddof=1)) * (1 / len(d) + overlap) ** 0.5, len(d) - 1)


def _tested(d: npt.NDArray[np.float64], error: float, freedom: int) -> PairedTest:
    """Return the test of differences, given the standard error of their mean and its degrees of freedom."""
    from scipy.stats import t

    mean = float(d.mean())
    if not np.ptp(d):  # the same difference in every run does not show its spread
        return PairedTest(len(d), mean, 0.0, None, 1.0, 1.0, None, freedom)
    p = float(2 * t.sf(abs(mean) / error, freedom))
    margin = error * float(t.ppf(1 - ALPHA / 2, freedom))
    return PairedTest(len(d), mean, float(d.std(ddof=1)), (mean - margin, mean + margin), p, p, error, freedom)


def paired_tests(
    pairs: Mapping[_Name, tuple[Mapping[int, float], Mapping[int, float]]], overlap: float = OVERLAP
) -> dict[_Name, PairedTest]:
    """Test each pair of methods on its common seeds, with Holm's correction for all pairs.

    Args:
        pairs: by any name, the scores of the two methods by seed. Pairs without a common seed are left out.
        overlap: c, see :func:`paired_test`.

    Examples:
        >>> a, b = {0: 80.0, 1: 82.0, 2: 81.0}, {0: 70.0, 1: 71.5, 5: 0.0}
        >>> tests = paired_tests({"a and b": (a, b), "a and a": (a, a)})
        >>> [(name, test.n, test.mean, test.verdict) for name, test in tests.items()]
        [('a and b', 2, 10.25, 'undecided'), ('a and a', 3, 0.0, 'undecided')]
    """
    tests = {}
    for name, (ours, theirs) in pairs.items():
        if seeds := sorted(set(ours) & set(theirs)):
            tests[name] = paired_test([ours[seed] - theirs[seed] for seed in seeds], overlap)
    return dict(zip(tests, corrected(list(tests.values())), strict=True))


def grouped_tests(
    pairs: Mapping[_Name, tuple[Mapping[int, float], Mapping[int, float]]],
    group: Callable[[int], int],
    ratios: Mapping[_Name, float],
) -> dict[_Name, PairedTest]:
    """Test pairs of methods whose runs come in groups, with Holm's correction for all pairs.

    Args:
        pairs: by any name, the scores of the two methods by seed. Pairs without a common seed are left out.
        group: returns the group of a seed.
        ratios: λ of each pair. One pair has too few groups to tell; :func:`group_ratio` pools several.

    Examples:
        >>> ours = {0: 1.0, 1: 2.0, 2: 3.0, 3: 11.0, 4: 12.0, 5: 13.0}
        >>> test = grouped_tests({"a": (ours, dict.fromkeys(ours, 0.0))}, lambda seed: seed // 3, {"a": 25.0})["a"]
        >>> test.mean, test.decision
        (7.0, 'undecided, detectable 16.5')
    """
    tests = {}
    for name, (ours, theirs) in pairs.items():
        groups = _grouped(ours, theirs, group)
        runs = [run for own in groups for run in own]
        n, freedom, ratio = len(runs), len(runs) - len(groups), ratios[name]
        if n >= FEWEST and freedom and (within := _within(groups)):
            shares = 1 / n + ratio * sum(len(own) ** 2 for own in groups) / n**2 + OVERLAP * (1 + ratio)
            tests[name] = _tested(np.asarray(runs), (within * shares) ** 0.5, freedom)
        elif runs:  # without variance within groups, each group counts as one run
            tests[name] = paired_test([float(np.mean(own)) for own in groups])
    return dict(zip(tests, corrected(list(tests.values())), strict=True))


def group_ratio(pairs: Iterable[tuple[Mapping[int, float], Mapping[int, float]]], group: Callable[[int], int]) -> float:
    """Return λ, the variance of groups of runs in units of the variance within groups, as a mean over pairs of methods.

    For K groups of k runs, the mean squares between and within groups have a ratio with the mean
    (1 + λ k) d / (d − 2), where d = K (k − 1). Each pair has its own ratio, so that a method with one collapsed run
    does not hide the groups of the others. Pairs with groups of different sizes, with one group, with d < 3, or without
    variance within groups are left out; without any, the result is 0.

    Args:
        pairs: the scores of two methods by seed.
        group: returns the group of a seed.

    Examples:
        >>> scores = {0: 1.0, 1: 2.0, 2: 3.0, 3: 11.0, 4: 12.0, 5: 13.0}
        >>> group_ratio([(scores, dict.fromkeys(scores, 0.0))], lambda seed: seed // 3)  # (150/1 · 2/4 − 1)/3
        24.666666666666668
    """
    found = []
    for ours, theirs in pairs:
        groups = _grouped(ours, theirs, group)
        size, freedom = len(groups[0]) if groups else 0, sum(map(len, groups)) - len(groups)
        if len(groups) > 1 and {len(own) for own in groups} == {size} and freedom > 2 and (within := _within(groups)):
            between = size * float(np.var([np.mean(own) for own in groups], ddof=1))
            found.append((between / within * (freedom - 2) / freedom - 1) / size)
    return max(0.0, fmean(found)) if found else 0.0


def _grouped(ours: Mapping[int, float], theirs: Mapping[int, float], group: Callable[[int], int]) -> list[list[float]]:
    """Return the differences on common seeds, rounded as in all tests, one list for each group."""
    groups: dict[int, list[float]] = {}
    for seed in sorted(set(ours) & set(theirs)):
        groups.setdefault(group(seed), []).append(round(ours[seed] - theirs[seed], DECIMALS))
    return list(groups.values())


def _within(groups: Sequence[Sequence[float]]) -> float:
    """Return the variance within groups, of which one has two runs or more."""
    squares = sum(float(np.sum((np.asarray(own) - np.mean(own)) ** 2)) for own in groups)
    return round(squares / (sum(map(len, groups)) - len(groups)), 2 * DECIMALS)


def corrected(family: Sequence[PairedTest]) -> list[PairedTest]:
    """Return the tests of a family with Holm's correction for their number.

    Tests with too few pairs stay undecided and do not count.

    Examples:
        >>> [test.corrected == 2 * test.p for test in corrected([paired_test([1.0, 1.1, 1.2])] * 2)]
        [True, True]
        >>> clear, open_ = paired_test([1.0, 1.1, 1.2], overlap=0.0), paired_test([-1.0, 0.0, 2.0])
        >>> [test.level for test in corrected([clear, open_, open_])]
        [0.016666666666666666, 0.025, 0.025]
    """
    tested = [test for test in family if test.n >= FEWEST]
    p = [test.p for test in tested]
    found = iter(
        replace(test, corrected=value, level=level)
        for test, value, level in zip(tested, holm(p), holm_levels(p), strict=True)
    )
    return [next(found) if test.n >= FEWEST else test for test in family]
