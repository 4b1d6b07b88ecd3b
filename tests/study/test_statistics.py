from itertools import product

import numpy as np
import pytest
from scipy.stats import wilcoxon

from epagcl.study.statistics import bootstrap_interval, holm, rank_biserial, signed_rank


def test_interval_of_equal_values_and_of_no_values():
    assert bootstrap_interval([2.0, 2.0, 2.0]) == (2.0, 2.0)
    assert bootstrap_interval([]) == (0.0, 0.0)


def test_interval_of_a_large_normal_sample_is_the_normal_interval():
    values = np.random.default_rng(1).normal(3.0, 2.0, 400)
    low, high = bootstrap_interval(values.tolist())
    error = values.std(ddof=1) / 20
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.02)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.02)
    assert bootstrap_interval(values.tolist()) == (low, high)  # reproducible


def test_holm_matches_a_computation_by_hand():
    # Sorted: 0.01·4, 0.02·3, 0.03·2, 0.5·1. A corrected p is never below the one before it.
    assert holm([0.02, 0.5, 0.01, 0.03]) == pytest.approx([0.06, 0.5, 0.04, 0.06])
    assert holm([0.4, 0.6]) == pytest.approx([0.8, 0.8])
    assert holm([]) == []


def test_rank_biserial_by_counting():
    d = np.array([3.0, -1.0, 2.0, -2.0, 0.0, 5.0])
    kept = d[d != 0]
    # The mean rank is one more than the number below, plus half of the others that tie.
    rank = [sum(abs(e) < abs(x) for e in kept) + (sum(abs(e) == abs(x) for e in kept) + 1) / 2 for x in kept]
    signed = sum(r * np.sign(x) for r, x in zip(rank, kept, strict=True))
    assert rank_biserial(d) == pytest.approx(signed / sum(rank))
    assert rank_biserial([1, 2, 3]) == 1
    assert rank_biserial([-1, -2]) == -1
    assert rank_biserial([0, 0]) == 0


@pytest.mark.parametrize("n", [5, 12, 20])
def test_signed_rank_without_ties_equals_scipys_exact_test(n):
    d = np.random.default_rng(n).normal(0.3, 1, n)
    p = signed_rank(d)
    for ours, theirs in (("better", "greater"), ("worse", "less"), ("two_sided", "two-sided")):
        assert p[ours] == pytest.approx(wilcoxon(d, alternative=theirs, method="exact").pvalue, rel=1e-9)


def test_signed_rank_with_ties_and_zeros_counts_all_signs():
    d = np.array([1.0, -1.0, 2.0, 2.0, 0.0, -3.0, 0.1 + 0.2, 0.3])  # the last two tie up to rounding
    ranks = np.array([3.5, 3.5, 5.5, 5.5, 7.0, 1.5, 1.5])
    w = 28 - 3.5 - 7.0
    sums = np.array([np.dot(signs, ranks) for signs in product((0, 1), repeat=7)])
    assert signed_rank(d)["better"] == pytest.approx((sums >= w).mean())
    assert signed_rank(d)["worse"] == pytest.approx((sums <= w).mean())


def test_smallest_p_values():
    assert signed_rank(np.arange(1, 21))["better"] == pytest.approx(2.0**-20)
    assert signed_rank(np.ones(5))["better"] == 2.0**-5
    assert signed_rank(np.zeros(5)) == {"better": 1.0, "worse": 1.0, "two_sided": 1.0}
