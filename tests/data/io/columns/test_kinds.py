"""The kind of a column, and what overrides it."""

import numpy as np
import pandas as pd
import pytest

from epagcl.core.errors import InputError
from epagcl.data.io.columns.kinds import WrittenNumber, chosen_kinds, detected_kind, parse_columns_as, scaled_numbers
from epagcl.data.io.columns.number import NotNumeric


@pytest.mark.parametrize(
    ("values", "kind", "reason"),
    [
        ([1, 2, 3], "number", ""),
        (["1", "2.5", None], "number", ""),
        (["3,5", "7"], "number", ""),
        (["01001", "94105", None], "category", ""),
        (["0", "10"], "number", ""),
        (["007", "007"], "skip", "the same in every row"),
        ([f"{k:05}" for k in range(30)], "skip", "all values differ"),
        ([0.0, 1.0, np.nan], "boolean", ""),
        ([True, False], "boolean", ""),
        (["yes", "no"], "boolean", ""),
        (["2021-01-01", "2022-05-06"], "date", ""),
        (["a", "b", "a"], "category", ""),
        (["a long text of words", "another rather long text"], "text", ""),
        ([f"first last{k}" for k in range(30)], "text", ""),
        ([f"a{k}@mail" for k in range(30)], "skip", "all values differ"),
        ([None, None], "skip", "empty"),
        (["same", "same"], "skip", "the same in every row"),
        ([[1, 2], [3, 4]], "vector", ""),
        ([[1], [2, 3]], "skip", "lists or objects"),
    ],
)
def test_the_rules(values, kind, reason):
    assert detected_kind(pd.Series(values)) == (kind, reason)


def test_pandas_categories_are_categories():
    assert detected_kind(pd.Series([f"v{k}" for k in range(30)], dtype="category")) == ("category", "")


def test_a_mistyped_number_is_not_a_category():
    with pytest.raises(NotNumeric):
        detected_kind(pd.Series(["1", "2", "oops"]))
    with pytest.raises(InputError, match=r"^not a date: 'soon'"):
        detected_kind(pd.Series(["2021-01-01", "2021-01-02", "soon"]))


def test_pairs_may_be_written_either_way():
    expected = {"city": "category", "notes": "skip", "d": "date:%d/%m/%Y"}
    assert parse_columns_as("city=category, skip=notes,d=date:%d/%m/%Y") == expected
    assert parse_columns_as("") == {}
    with pytest.raises(InputError, match=r"^'city' is not a pair; give column=kind"):
        parse_columns_as("city")


def test_names_may_be_patterns():
    names = ["w1", "w2", "age"]
    assert chosen_kinds(names, {"w*": "given", "w2": "skip"}, "f.csv", "--x") == {"w1": "given", "w2": "skip"}
    with pytest.raises(InputError, match=r"^--x: f.csv has no feature column 'aeg'; did you mean 'age'\?"):
        chosen_kinds(names, {"aeg": "number"}, "f.csv", "--x")
    with pytest.raises(InputError, match=r"^--x: age=num: no such kind; choose one of number, boolean"):
        chosen_kinds(names, {"age": "num"}, "f.csv", "--x")


rng = np.random.default_rng(0)
WORDS = {f"w{k}": (rng.random(200) < 0.02 * (k + 1)).astype(float) for k in range(8)}
COUNTS = {f"c{k}": rng.poisson(0.2 * (k + 1), 200).astype(float) for k in range(3)}
BALANCE = {"balance": rng.lognormal(8, 1, 200)}


@pytest.mark.parametrize(
    ("columns", "others", "scaled"),
    [
        (WORDS, False, set()),
        (WORDS | COUNTS, True, set()),
        (WORDS | BALANCE, False, {"balance"}),
        ({"a": rng.random(50), "b": 5 * rng.random(50)}, False, set()),
        ({"age": rng.uniform(20, 80, 50), "height": rng.uniform(1.5, 2, 50)}, False, {"age", "height"}),
        ({"age": rng.uniform(20, 80, 50)}, False, set()),
        ({"age": rng.uniform(20, 80, 50)}, True, {"age"}),
        ({"pc1": 50 * (x := rng.normal(size=50) - 0.0) - 50 * x.mean(), "pc2": x - x.mean()}, False, set()),
        ({"zero": np.zeros(5)}, True, set()),
    ],
)
def test_only_numbers_of_other_size_are_scaled(columns, others, scaled):
    assert scaled_numbers(columns, others) == scaled


@pytest.mark.parametrize("form", ["{}%", "€{}.50", "{} $", "-{},250", "{}.100.000"])
@pytest.mark.parametrize("distinct", [2, 12, 30])
def test_numbers_with_units_or_groups_are_refused_however_often_they_repeat(form, distinct):
    values = pd.Series([form.format(k % distinct + 1) for k in range(30)])
    with pytest.raises(WrittenNumber, match="is a number with a unit or with groups of digits"):
        detected_kind(values)


def test_commas_and_points_mixed_are_refused():
    with pytest.raises(WrittenNumber, match=r"'1,5' is a number .* or unlike the others"):
        detected_kind(pd.Series(["1,5", "2.5"] + ["3,5"] * 10))


@pytest.mark.parametrize("form", ["user{}", "192.168.{}.1", "v{}.0", "{}-12", "{}a", "{} 555 1234"])
def test_other_values_that_all_differ_are_skipped(form):
    assert detected_kind(pd.Series([form.format(k + 1) for k in range(30)]))[0] in ("skip", "text")
