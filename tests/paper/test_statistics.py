import numpy as np
import pytest

from epagcl.paper.statistics import bootstrap_interval


def test_the_interval_of_equal_values_is_a_point_and_of_none_nothing():
    assert bootstrap_interval([2.0, 2.0, 2.0]) == (2.0, 2.0)
    assert bootstrap_interval([]) == (0.0, 0.0)


def test_the_interval_of_a_large_normal_sample_is_the_normal_one():
    values = np.random.default_rng(1).normal(3.0, 2.0, 400)
    low, high = bootstrap_interval(values.tolist())
    error = values.std(ddof=1) / 20
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.02)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.02)
    assert bootstrap_interval(values.tolist()) == (low, high)  # the same whenever it is asked
