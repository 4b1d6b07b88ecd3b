from itertools import product

import numpy as np
import pytest
from scipy.stats import wilcoxon

from epagcl.study.statistics import holm, signed_rank


def test_holm_matches_a_computation_by_hand():
    # Sorted: 0.01·4, 0.02·3, 0.03·2, 0.5·1. A corrected p is never below the one before it.
    assert holm([0.02, 0.5, 0.01, 0.03]) == pytest.approx([0.06, 0.5, 0.04, 0.06])
    assert holm([0.4, 0.6]) == pytest.approx([0.8, 0.8])
    assert holm([]) == []


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
