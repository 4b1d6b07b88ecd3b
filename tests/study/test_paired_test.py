from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from epagcl.study.paired_test import (
    ALPHA,
    FEWEST,
    OVERLAP,
    corrected,
    group_ratio,
    grouped_tests,
    paired_test,
    paired_tests,
)
from epagcl.study.statistics import holm


def test_without_overlap_it_is_the_paired_t_test():
    d = np.random.default_rng(0).normal(0.5, 1, size=12)
    test = paired_test(d, overlap=0.0)
    expected = stats.ttest_1samp(d, 0.0)
    interval = expected.confidence_interval(0.95)
    assert test.p == pytest.approx(expected.pvalue)
    assert test.interval == pytest.approx((interval.low, interval.high))
    assert test.effect == pytest.approx(d.mean() / d.std(ddof=1))


@pytest.mark.parametrize("n", [3, 10, 20])
def test_the_overlap_widens_the_interval_by_its_closed_form(n):
    d = np.random.default_rng(n).normal(size=n)
    plain, wide = (paired_test(d, overlap) for overlap in (0.0, OVERLAP))
    width, wider = (test.interval[1] - test.interval[0] for test in (plain, wide))
    assert wider / width == pytest.approx((1 + n * OVERLAP) ** 0.5)
    assert wide.p > plain.p
    # Nadeau and Bengio's statistic on splits of 90% and 10% is the case c = 1/9
    t = d.mean() / np.sqrt((1 / n + 1 / 9) * d.var(ddof=1))
    assert paired_test(d, 1 / 9).p == pytest.approx(2 * stats.t.sf(abs(t), n - 1))


@pytest.mark.parametrize("tests", [1, 100])
@pytest.mark.parametrize("n", [3, 5, 20])
def test_the_smallest_detectable_difference_is_found_with_the_stated_power(n, tests):
    rng, runs, level = np.random.default_rng(n), 20_000, ALPHA / tests
    unit = np.linspace(-1, 1, n) / np.linspace(-1, 1, n).std(ddof=1)
    truth = corrected([paired_test(unit)] * tests)[0].detectable
    d = truth + rng.normal(size=(runs, n)) + rng.normal(scale=OVERLAP**0.5, size=(runs, 1))
    error = (1 / n + OVERLAP) ** 0.5 * d.std(axis=1, ddof=1)
    found = d.mean(axis=1) > error * stats.t.isf(level / 2, n - 1)
    assert np.mean(found) == pytest.approx(0.8, abs=0.012)


def test_the_level_in_a_family_is_the_largest_p_that_holms_procedure_finds_significant():
    rng = np.random.default_rng(2)
    for size in (1, 2, 5, 30):
        family = corrected([paired_test(rng.normal(loc=rng.normal(scale=4), size=10)) for _ in range(size)])
        for place, test in enumerate(family):
            others = [other.p for number, other in enumerate(family) if number != place]
            assert holm([test.level * 0.999, *others])[0] < ALPHA <= holm([test.level * 1.001, *others])[0]
            assert (test.p < test.level) == (test.verdict != "undecided")


def test_an_undecided_difference_is_never_as_large_as_the_detectable_one():
    rng = np.random.default_rng(3)
    family = corrected([paired_test(rng.normal(loc=rng.normal(scale=6), size=8)) for _ in range(200)])
    undecided = [test for test in family if test.verdict == "undecided"]
    assert 20 < len(undecided) < 180
    assert all(abs(test.mean) < test.detectable for test in undecided)


def test_verdicts():
    assert paired_test([5.0, 5.1, 4.9, 5.2]).verdict == "better"
    assert paired_test([-5.0, -5.1, -4.9, -5.2]).verdict == "worse"
    assert paired_test([5.0, -5.1, 4.9, -5.2]).verdict == "undecided"


@pytest.mark.parametrize("value", [0.0, 0.68, 0.1, 1.1, 100 / 29])
@pytest.mark.parametrize("n", [3, 7, 20])
def test_equal_differences_do_not_tell_how_they_scatter(value, n):
    test = paired_test([value] * n)
    assert (test.sd, test.p, test.interval, test.detectable) == (0.0, 1.0, None, None)
    assert test.mean == pytest.approx(value)
    assert (test.decision, str(test)) == ("undecided", f"{value:+.1f}")
    clear = paired_test([1.0, 1.01, 1.02], overlap=0.0)
    assert corrected([test, clear])[1].corrected == 2 * clear.p  # it counts as a test that decides nothing


def test_too_few_pairs_stay_undecided_and_do_not_count_in_the_correction():
    few = paired_test([9.0] * (FEWEST - 1))
    assert (few.p, few.interval, few.detectable, few.verdict) == (1.0, None, None, "undecided")
    assert str(few) == "+9.0"
    enough = paired_test([1.0, 1.2, 1.1, 0.9])
    assert corrected([enough, few, enough])[0].corrected == pytest.approx(2 * enough.p)


def test_pairs_are_compared_on_their_common_seeds_only():
    ours, theirs = {0: 1.0, 1: 2.0, 2: 3.5, 9: 99.0}, {2: 1.0, 1: 1.0, 0: 0.5, 7: -99.0}
    tests = paired_tests({"both": (ours, theirs), "none": (ours, {5: 0.0})})
    assert list(tests) == ["both"]
    assert (tests["both"].n, tests["both"].mean) == (3, pytest.approx(4 / 3))


def by_outer(seed):
    return seed // 5


def null_pairs(rng, count, ratio, shared):
    """Return pairs of equal methods, two groups of five runs each, with a variance of groups and one of the graph."""
    pairs = {}
    for name in range(count):
        d = rng.normal(size=(2, 5)) + ratio**0.5 * rng.normal(size=(2, 1)) + shared**0.5 * rng.normal()
        pairs[name] = dict(enumerate(d.flatten().tolist())), dict.fromkeys(range(10), 0.0)
    return pairs


@pytest.mark.parametrize("ratio", [0.0, 1.0, 3.0])
def test_the_variance_of_groups_is_found(ratio):
    pairs = null_pairs(np.random.default_rng(0), 3000, ratio, shared=0.1)
    assert group_ratio(pairs.values(), by_outer) == pytest.approx(ratio, abs=0.2)


def test_grouped_tests_of_equal_methods_have_the_right_size_and_plain_ones_do_not():
    ratio = 2.0
    pairs = null_pairs(np.random.default_rng(1), 3000, ratio, shared=OVERLAP * (1 + ratio))
    grouped, plain = grouped_tests(pairs, by_outer, dict.fromkeys(pairs, ratio)), paired_tests(pairs)
    assert np.mean([test.p < 0.05 for test in grouped.values()]) == pytest.approx(0.05, abs=0.015)
    assert np.mean([test.p < 0.05 for test in plain.values()]) > 0.15


@pytest.mark.parametrize(("groups", "ratio"), [(2, 0.8), (2, 8.0), (4, 3.0)])
def test_grouped_tests_keep_their_level_with_a_ratio_that_is_pooled_over_rows(groups, ratio):
    rng = np.random.default_rng(2)
    decided = []
    for _ in range(80):  # graphs, each with twelve equal rows, whose differences have the variance 1 within a group
        parts = (OVERLAP * (1 + ratio), (12, 1, 1)), (ratio, (12, groups, 1)), (1.0, (12, groups, 5))
        values = sum((variance / 2) ** 0.5 * rng.normal(size=shape) for variance, shape in parts)
        first, *others = rows = [dict(enumerate(row)) for row in values.reshape(12, -1).tolist()]
        pooled = group_ratio(combinations(rows, 2), by_outer)
        pairs = {name: (first, other) for name, other in enumerate(others)}
        tests = grouped_tests(pairs, by_outer, dict.fromkeys(pairs, pooled))
        decided += [test.p < 0.05 for test in tests.values()]
    assert np.mean(decided) == pytest.approx(0.05, abs=0.04)


def test_one_collapsed_run_does_not_hide_the_groups_of_the_other_rows():
    rng, ratio = np.random.default_rng(4), 1.8
    with_collapse, without = [], []
    for _ in range(40):
        values = ratio**0.5 * rng.normal(size=(12, 4, 1)) + rng.normal(size=(12, 4, 5))
        without.append(group_ratio(combinations([dict(enumerate(row)) for row in values.reshape(12, -1)], 2), by_outer))
        values[-1, 0, 0] -= 60
        collapsed = [dict(enumerate(row)) for row in values.reshape(12, -1)]
        with_collapse.append(group_ratio(combinations(collapsed, 2), by_outer))
    assert np.mean(without) == pytest.approx(ratio, abs=0.2)
    # 11 of 66 pairs have the collapsed row, whose ratio is at least −1/k
    assert np.mean(with_collapse) == pytest.approx((55 * ratio - 11 * 0.1) / 66, abs=0.25)


def test_the_error_of_a_grouped_test_is_that_of_its_formula():
    runs = dict(enumerate([1.0, 2.0, 3.0, 4.0, 5.0, 3.0, 4.0, 5.0, 6.0, 7.0]))
    pairs = {"a": (runs, dict.fromkeys(runs, 0.0))}
    ratio = group_ratio(pairs.values(), by_outer)
    assert ratio == pytest.approx((10 / 2.5 * 6 / 8 - 1) / 5)  # mean squares between and within groups
    test = grouped_tests(pairs, by_outer, {"a": ratio})["a"]
    error = (2.5 * (1 / 10 + ratio / 2 + OVERLAP * (1 + ratio))) ** 0.5
    assert test.mean == 4.0
    assert test.p == pytest.approx(2 * stats.t.sf(4.0 / error, 8))
    assert test.sd == pytest.approx(np.std(list(runs.values()), ddof=1))


def test_groups_of_different_sizes_and_one_group():
    zero = dict.fromkeys(range(10), 0.0)
    uneven = {**dict(enumerate([1.0, 2.0, 3.0, 4.0, 5.0])), 5: 3.0}
    one = dict(enumerate([1.0, 2.0, 3.0, 4.0, 5.0]))
    tests = grouped_tests({"uneven": (uneven, zero), "one": (one, zero)}, by_outer, {"uneven": 2.0, "one": 2.0})
    expected = {
        "uneven": (2.5 * (1 / 6 + 2 * (25 + 1) / 36 + 3 * OVERLAP)) ** 0.5,
        "one": (2.5 * (1 / 5 + 2 + 3 * OVERLAP)) ** 0.5,
    }
    for name, error in expected.items():
        assert tests[name].p == pytest.approx(2 * stats.t.sf(3.0 / error, 4))
    assert group_ratio([(uneven, zero), (one, zero)], by_outer) == 0.0


def test_equal_runs_within_groups_count_as_one_run_each():
    zero = dict.fromkeys(range(20), 0.0)
    runs = {seed: 0.1 + 1.0 + seed // 5 for seed in range(20)}  # equal within a group up to rounding
    pairs = {"a": (runs, zero), "few": ({0: 1.0, 5: 2.0}, zero), "none": ({}, zero)}
    assert group_ratio(pairs.values(), by_outer) == 0.0
    tests = grouped_tests(pairs, by_outer, dict.fromkeys(pairs, 3.0))
    assert list(tests) == ["a", "few"]
    assert (tests["a"].n, tests["a"].p) == (4, paired_test([1.1, 2.1, 3.1, 4.1]).p)
    assert tests["few"].verdict == "undecided"
