import numpy as np
import pytest

from epagcl.core.errors import InputError
from epagcl.study.variance_components import VarianceComponents, variance_components


def test_additive_tables_have_the_sample_variances_of_their_effects():
    rows, columns = np.array([0.0, 2.0, 7.0, 3.0]), np.array([1.0, -1.0, 4.0])
    parts = variance_components(80 + rows[:, None] + columns)
    assert parts.of_rows == pytest.approx(rows.var(ddof=1))
    assert parts.of_columns == pytest.approx(columns.var(ddof=1))
    assert parts.rest == pytest.approx(0.0, abs=1e-12)
    assert (parts.rows, parts.columns) == (4, 3)
    assert parts.mean == pytest.approx(80 + rows.mean() + columns.mean())


def test_components_equal_brute_force_sums_of_squares():
    y = np.random.default_rng(0).normal(size=(5, 4)) + 3 * np.arange(5)[:, None] + np.arange(4)
    r, c = y.shape
    mean = y.mean()
    squares = {
        "rows": sum(c * (y[i].mean() - mean) ** 2 for i in range(r)) / (r - 1),
        "columns": sum(r * (y[:, j].mean() - mean) ** 2 for j in range(c)) / (c - 1),
    }
    total = sum((y[i, j] - mean) ** 2 for i in range(r) for j in range(c))
    rest = (total - squares["rows"] * (r - 1) - squares["columns"] * (c - 1)) / ((r - 1) * (c - 1))
    parts = variance_components(y)
    assert parts.rest == pytest.approx(rest)
    assert parts.of_rows == pytest.approx((squares["rows"] - rest) / c)
    assert parts.of_columns == pytest.approx((squares["columns"] - rest) / r)
    turned = variance_components(y.T)
    assert (turned.of_rows, turned.of_columns) == pytest.approx((parts.of_columns, parts.of_rows))


def test_estimates_of_simulated_tables_are_unbiased():
    random = np.random.default_rng(1)
    truth = (4.0, 9.0, 1.0)
    found = []
    for _ in range(2000):
        effects = random.normal(size=(8, 1)) * 2 + random.normal(size=(1, 20)) * 3
        parts = variance_components(effects + random.normal(size=(8, 20)))
        found.append((parts.of_rows, parts.of_columns, parts.rest))
    errors = np.std(found, axis=0) / len(found) ** 0.5
    assert np.all(abs(np.mean(found, axis=0) - truth) < 4 * errors)
    assert np.all(errors < 0.1)


def test_standard_errors_of_designs_match_simulated_means():
    parts = VarianceComponents(8, 20, 0.0, of_rows=4.0, of_columns=9.0, rest=1.0)
    random = np.random.default_rng(2)
    for rows, columns in ((1, 10), (10, 1), (3, 4)):
        shape = (4000, rows, columns)
        tables = 2 * random.normal(size=(4000, rows, 1)) + 3 * random.normal(size=(4000, 1, columns))
        means = (tables + random.normal(size=shape)).mean((1, 2))
        assert parts.standard_error(rows, columns) == pytest.approx(means.std(), rel=0.05)


def test_shares_add_up_and_negative_estimates_are_zero():
    checkered = [[1.0, -1.0], [-1.0, 1.0]]  # interaction only: both mean squares are below that of the rest
    parts = variance_components(checkered)
    assert (parts.of_rows, parts.of_columns, parts.rest) == (0.0, 0.0, 4.0)
    assert parts.shares == (0.0, 0.0, 1.0)
    assert variance_components([[5.0, 5.0], [5.0, 5.0]]).shares == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("values", [[1.0, 2.0], [[1.0, 2.0]], [[1.0], [2.0]], [[1.0, float("nan")], [0.0, 1.0]]])
def test_tables_with_gaps_or_one_line_are_refused(values):
    with pytest.raises(InputError, match="at least 2 x 2 finite numbers"):
        variance_components(values)
