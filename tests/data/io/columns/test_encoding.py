"""The encoding of a whole table: plain data that encodes a later table in the same way."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from epagcl.core.errors import InputError
from epagcl.data.io.columns.encoding import RawTable, TableEncoding, raw_table


def people(rows: int = 60, seed: int = 0) -> pd.DataFrame:
    """Return a table with a column of every kind."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": np.where(rng.random(rows) < 0.2, np.nan, rng.integers(18, 80, rows)),
            "balance": rng.lognormal(8, 2, rows),
            "active": rng.choice(["yes", "no"], rows),
            "city": rng.choice(["Rome", "Oslo", "NA", ""], rows),
            "since": (pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, rows), "D")).astype(str),
            "bio": [" ".join(rng.choice(["likes", "long", "walks", "and", "graphs"], 6)) for _ in range(rows)],
            "email": [f"p{k}@mail" for k in range(rows)],
            "flag": rng.integers(0, 2, rows),
        }
    )


def table(frame: pd.DataFrame) -> RawTable:
    return raw_table(frame, list(frame.columns), "f.csv")


def test_every_kind_is_found_and_survives_json():
    raw = table(people())
    encoding = TableEncoding.fit(raw)
    assert [column.kind for column in encoding.columns] == [
        *("number", "number", "boolean", "category", "date", "text", "skip", "given")
    ]
    again = TableEncoding.from_dict(json.loads(json.dumps(encoding.to_dict())))
    assert again == encoding
    assert torch.equal(again.transform(raw).to_dense(), encoding.transform(raw).to_dense())
    assert len(encoding.feature_names) == encoding.transform(raw).shape[1]
    assert len(set(encoding.feature_names)) == len(encoding.feature_names)


def test_each_row_is_encoded_by_itself():
    raw = table(people())
    encoding = TableEncoding.fit(raw)
    x = encoding.transform(raw).to_dense()
    order = np.random.default_rng(1).permutation(60)[:7]
    part = RawTable("g.csv", raw.frame.iloc[order, ::-1].reset_index(drop=True))
    assert torch.equal(encoding.transform(part).to_dense(), x[torch.from_numpy(order)])


def test_no_column_outweighs_the_others():
    raw = table(people(400))
    encoding = TableEncoding.fit(raw)
    variance = encoding.transform(raw).to_dense().var(0).tolist()
    for column in encoding.columns:
        block, variance = variance[: len(column.feature_names)], variance[len(column.feature_names) :]
        assert column.kind in ("skip", "text") or 0.2 < sum(block) < 1.3
        assert sum(block) < 9


def test_a_later_table_may_have_new_values_and_gaps():
    encoding = TableEncoding.fit(table(people()))
    later = people(3, seed=5).assign(city=["Paris", None, "Rome"], balance=[np.nan, 1e30, -5.0], email="x")
    x = encoding.transform(table(later)).to_dense()
    assert torch.isfinite(x).all()
    cities = [k for k, name in enumerate(encoding.feature_names) if name.startswith("city=")]
    assert x[0, cities].tolist() == [0, 0, 0]
    assert x[1, cities].tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"age": "old"}, r"^f.csv: column 'age' is not numeric \('old' in row 0 \(counted from 0\)\); correct it"),
        ({"since": "soon"}, r"^f.csv: column 'since' is not a date \('soon' in row 0 \(counted from 0\)\); correct it"),
        ({"flag": [0, None, 1]}, r"^f.csv: row 1 \(counted from 0\): column 'flag' is missing or infinite; fill it"),
        ({"balance": np.inf}, r"^f.csv: row 0 \(counted from 0\): column 'balance' is infinite; fill it"),
    ],
)
def test_a_later_table_with_wrong_values_is_refused(change, message):
    encoding = TableEncoding.fit(table(people()))
    with pytest.raises(InputError, match=message):
        encoding.transform(table(people(3).assign(**change)))


def test_a_later_table_without_a_column_is_refused():
    encoding = TableEncoding.fit(table(people()))
    with pytest.raises(InputError, match=r"^f.csv: no column 'age', on which the model was trained \(1 of 7"):
        encoding.transform(table(people().drop(columns=["age", "email"])))


def test_kinds_can_be_chosen():
    kinds = {"age": "given", "flag": "category", "email": "text", "bio": "skip", "since": "date:%Y-%m-%d"}
    frame = people().assign(age=1)
    encoding = TableEncoding.fit(table(frame), kinds)
    assert [column.kind for column in encoding.columns] == [
        *("given", "number", "boolean", "category", "date", "skip", "text", "category")
    ]
    with pytest.raises(
        InputError, match=r"^f.csv: column 'city' is not numeric \('.*' in row .*\); columns_as={'city'"
    ):
        TableEncoding.fit(table(frame), {"city": "number"})


def test_a_table_of_words_stays_as_it_is():
    frame = pd.DataFrame((np.random.default_rng(0).random((50, 9)) < 0.2).astype(int)).add_prefix("w")
    assert TableEncoding.fit(table(frame)).as_given
    mixed = TableEncoding.fit(table(frame.assign(balance=np.arange(50) * 1e5, city=["a", "b"] * 25)))
    assert [column.kind for column in mixed.columns] == [*["given"] * 9, "number", "category"]


def test_nothing_left_and_equal_names_are_refused():
    frame = pd.DataFrame({"email": [f"p{k}@mail" for k in range(30)]})
    with pytest.raises(
        InputError, match=r"^f.csv: no feature column is left, skipped: email \(all values differ\); add"
    ):
        TableEncoding.fit(table(frame)).transform(table(frame))
    with pytest.raises(InputError, match=r"^f.csv: two columns are named 'a'; rename one"):
        raw_table(pd.DataFrame([[1, "x"]]), ["a", "a"], "f.csv")


@pytest.mark.parametrize("values", [{}, {"columns": [{"kind": "odd"}]}, {"columns": [{"kind": "given", "x": 1}]}])
def test_a_damaged_description_is_refused(values):
    with pytest.raises(InputError, match=r"^columns.json: not an encoding of columns \(.*\); save the model again"):
        TableEncoding.from_dict(values)


def test_what_was_done_is_logged_in_one_line(caplog):
    caplog.set_level("INFO")
    TableEncoding.fit(table(people())).log("f.csv")
    assert caplog.messages == [
        "f.csv: 8 columns become 77 features; number: age (gaps), balance (log); boolean: active; "
        "category: city (2 values, gaps); date: since (time, month, weekday); text: bio (words in 64 slots); "
        "skipped: email (all values differ); as given: flag"
    ]


def test_what_to_do_about_a_column_is_written_as_the_caller_writes_it():
    dates = RawTable("f.csv", pd.DataFrame({"d": ["03/04/2021", "05/06/2021"]}))
    message = r"^f.csv: column 'd': day and month of '03/04/2021' cannot be told apart; give "
    with pytest.raises(InputError, match=message + r"--columns-as d=date:%d/%m/%Y or --columns-as d=date:%m/%d/%Y$"):
        TableEncoding.fit(dates, {}, "--columns-as")
    with pytest.raises(InputError, match=message + r"columns_as=\{'d': 'date:%d/%m/%Y'\} or columns_as="):
        TableEncoding.fit(dates)
    prices = RawTable("f.csv", pd.DataFrame({"price": [f"{k} €" for k in range(30)]}))
    message = (
        r"^f.csv: column 'price': '0 €' is a number with a unit or with groups of digits, or unlike the others; "
        "write plain numbers, or give --columns-as price=category or --columns-as price=skip$"
    )
    with pytest.raises(InputError, match=message):
        TableEncoding.fit(prices, {}, "--columns-as")
