"""Columns of numbers: scale, large values, gaps and decimal commas."""

import numpy as np
import pandas as pd
import pytest

from epagcl.data.io.columns.number import BOUND, GivenColumn, NotNumeric, NumberColumn, has_decimal_comma, to_numbers


def test_the_feature_is_the_closed_form():
    values = pd.Series([1.0, 2.0, 3.0, 4.0, 100.0])
    column = NumberColumn("a", centre=3.0, scale=2.0, factor=1.5)
    z = (values.to_numpy() - 3) / 2
    assert np.allclose(column.transform(values)[:, 0], 1.5 * z / np.sqrt(1 + (z / BOUND) ** 2))
    logarithmic = NumberColumn("a", centre=0.0, scale=1.0, factor=1.0, unit=2.0)
    v = np.array([np.log1p(1.5), -np.log1p(1.5)])
    assert np.allclose(logarithmic.transform(pd.Series([3.0, -3.0]))[:, 0], v / np.sqrt(1 + (v / BOUND) ** 2))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("shape", ["normal", "uniform", "lognormal", "exponential"])
def test_any_unit_gives_median_zero_and_deviation_one(scale, shape):
    rng = np.random.default_rng(0)
    values = pd.Series(scale * {"normal": rng.normal, "uniform": rng.random}.get(shape, getattr(rng, shape))(size=500))
    column = NumberColumn.fit("a", values)
    feature = column.transform(values)[:, 0]
    assert abs(np.median(feature)) < 1e-9
    assert abs(feature.std() - 1) < 1e-9
    assert shape == "exponential" or bool(column.unit) == (shape == "lognormal")  # the former is close to the bound


def test_an_outlier_does_not_outweigh_the_rest():
    values = pd.Series([*np.random.default_rng(0).normal(size=200), 1e12])
    feature = NumberColumn.fit("a", values).transform(values)[:, 0]
    assert feature.max() < 2 * BOUND
    assert feature[:-1].std() > 0.8


def test_missing_values_are_marked_and_centred():
    values = pd.Series([1.0, np.nan, 3.0, 5.0])
    column = NumberColumn.fit("a", values)
    assert column.feature_names == ["a", "a=missing"]
    assert column.transform(values)[1].tolist() == [0, 1]
    # A gap of a later table becomes the median, although the fitted column had none.
    assert NumberColumn.fit("a", values.dropna()).transform(values)[1].tolist() == [0]


@pytest.mark.parametrize("values", [[2.0, 2.0, 2.0], [0.0] * 99 + [7.0], [], [np.nan]])
def test_degenerate_columns_stay_finite(values):
    values = pd.Series(values, dtype=float)
    assert np.isfinite(NumberColumn.fit("a", values).transform(values)).all()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (["3,5", "1.234,50", "7"], True),
        (["0,125", "0,250"], True),
        (["1,234", "5,678"], False),  # thousands or decimals
        (["3.5", "7"], False),
        (["a,b"], False),
    ],
)
def test_decimal_commas_are_detected(text, expected):
    assert has_decimal_comma(pd.Series(text)) is expected


def test_decimal_commas_are_read():
    values = pd.Series(["3,5", "1.234,50", None, "7"])
    assert to_numbers(values, decimal_comma=True).fillna(-1).tolist() == [3.5, 1234.5, -1, 7]
    assert NumberColumn.fit("a", values).decimal_comma


def test_durations_are_days():
    assert to_numbers(pd.Series(pd.to_timedelta(["12h", "2D"]))).tolist() == [0.5, 2]


def test_a_value_that_is_no_number_is_located():
    with pytest.raises(NotNumeric) as error:
        to_numbers(pd.Series(["1", "x", "3"], index=[5, 6, 7]))
    assert (error.value.row, error.value.value) == (1, "x")


def test_given_numbers_are_unchanged():
    assert GivenColumn("a").transform(pd.Series([1, 5e8])).tolist() == [[1], [5e8]]
