"""Booleans and categories: frequent, rare, many, unseen and missing values."""

import numpy as np
import pandas as pd
import pytest

from epagcl.data.io.columns.category import MOST_VALUES, SLOTS, BooleanColumn, CategoryColumn, is_boolean


def test_few_values_have_a_feature_each_the_most_frequent_first():
    values = pd.Series(["b", "a", "b", None, "c"])
    column = CategoryColumn.fit("k", values)
    assert column.feature_names == ["k=b", "k=a", "k=c", "k=missing"]
    assert column.transform(values).toarray().tolist() == np.eye(4)[[0, 1, 0, 3, 2]].tolist()


def test_unseen_values_are_zeros_or_other():
    column = CategoryColumn.fit("k", pd.Series(["a", "b"]))
    assert column.transform(pd.Series(["z", None])).toarray().tolist() == [[0, 0], [0, 0]]
    with_rare = CategoryColumn.fit("k", pd.Series(["a", "b"] * 60 + ["once"]))
    assert with_rare.feature_names == ["k=a", "k=b", "k=other"]
    assert with_rare.transform(pd.Series(["once", "new"])).toarray().tolist() == [[0, 0, 1], [0, 0, 1]]


def test_many_values_are_hashed():
    values = pd.Series([f"v{k}" for k in range(100)] + ["v7"] * 5)
    column = CategoryColumn.fit("k", values)
    assert (column.values[0], len(column.values), column.slots) == ("v7", MOST_VALUES, SLOTS)
    features = column.transform(values)
    assert features.shape == (105, MOST_VALUES + SLOTS)
    assert np.allclose(features.sum(axis=1), 1)
    later = column.transform(pd.Series(["new", "new"])).toarray()
    assert (later[0] == later[1]).all()
    assert later[0, MOST_VALUES:].sum() == 1


def test_numbers_as_categories_do_not_depend_on_their_type():
    column = CategoryColumn.fit("k", pd.Series([1, 2, 1]))
    assert column.values == ["1", "2"]
    assert column.transform(pd.Series([2.0, np.nan])).toarray().tolist() == [[0, 1], [0, 0]]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["yes", "No", None], True),
        (["true", "FALSE"], True),
        (["yes"], True),
        (["0", "1"], False),  # numbers
        (["yes", "no", "maybe"], False),
        ([None], False),
    ],
)
def test_words_for_booleans(values, expected):
    assert is_boolean(pd.Series(values, dtype=object)) is expected


def test_booleans_are_zero_and_one():
    values = pd.Series([True, None, False], dtype=object)
    column = BooleanColumn.fit("b", values)
    assert column.feature_names == ["b", "b=missing"]
    assert column.transform(values).tolist() == [[1, 0], [0, 1], [0, 0]]
    assert BooleanColumn("b").transform(pd.Series(["Yes", "no", " y "])).tolist() == [[1], [0], [1]]
