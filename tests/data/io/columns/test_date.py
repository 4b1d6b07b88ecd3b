"""Dates: formats, the time since the first, and cycles."""

from datetime import date

import numpy as np
import pandas as pd
import pytest

from epagcl.core.errors import InputError
from epagcl.data.io.columns.date import DateColumn, NotADate, date_format_of, is_date, to_dates
from epagcl.data.io.columns.encoding import RawTable, TableEncoding


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["2021-03-04", None], True),
        (["2021-03-04T05:06:07Z", "2021-03-04 05:06+02:00"], True),
        (["2021-03", "2021-12"], True),
        (["31/12/2021", "01/02/2021"], True),
        (["31/12/2021 05:06", "01/02/2021 17:30"], True),
        (["2021/12/31", "2021/1/2"], True),
        (["31 Dec 2021", "1 May 2021"], True),
        (["31 December 2021", None, "1 May 2021"], True),
        (["Dec 31, 2021", "May 1, 2021"], True),
        (["31-DEC-2021 05:06:07"], True),
        (["31 Dec 2021", "2021/12/31"], False),
        (["2021-12-31", "31/12/2021"], False),
        (["31.12.21"], False),
        (["2021/13/31"], False),
        ([date(2021, 3, 4)], True),
        (["2021", "2022"], False),
        (["03-04", "x"], False),
        ([], False),
    ],
)
def test_dates_are_detected(values, expected):
    assert is_date(pd.Series(values, dtype=object)) is expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["31/12/2021", "01/02/2021"], "%d/%m/%Y"),
        (["12.31.2021"], "%m.%d.%Y"),
        (["2021-03-04"], None),
        (["12/31/2021 5:06"], "%m/%d/%Y %H:%M"),
        (["31/12/2021 05:06:07", "01/02/2021 05:06:08"], "%d/%m/%Y %H:%M:%S"),
        (["31/12/2021 05:06:07", "01/02/2021 05:06"], None),
        (["31/12/2021", "01/02/2021 05:06"], None),
        (["31 Dec 2021", "1 May 2021"], "%d %b %Y"),
        (["Dec 31, 2021 23:59"], "%b %d, %Y %H:%M"),
    ],
)
def test_the_order_of_day_and_month_follows_from_the_values(values, expected):
    assert date_format_of(pd.Series(values)) == expected


def test_an_order_that_cannot_be_told_is_refused():
    with pytest.raises(InputError, match=r"^day and month of '03/04/2021' cannot be told apart; give it as date:%d/%m"):
        date_format_of(pd.Series(["03/04/2021", "05/06/2021"]))
    column = DateColumn.fit("d", pd.Series(["03/04/2021", "05/06/2021"]), "%d/%m/%Y")
    assert column.first.startswith("2021-04-03")


def test_the_features_have_variance_one_together():
    rng = np.random.default_rng(0)
    values = pd.Series(pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 3000, 400), "D"))
    column = DateColumn.fit("d", values)
    assert column.cycles == ["month", "weekday"]
    features = column.transform(values)
    assert abs(features.var(axis=0).sum() - 1) < 0.02
    angle = 2 * np.pi * (values.dt.month - 1) / 12
    assert np.allclose(features[:, 1], np.sin(angle) / 3**0.5)
    assert np.corrcoef(features[:, 0], values.astype("int64"))[0, 1] > 0.98


def test_only_cycles_that_vary_are_used():
    years = pd.Series(["2001-01-01", "2005-01-01", "2009-01-01"])
    assert DateColumn.fit("d", years).cycles == []
    hours = pd.Series(["2021-03-04 05:00", "2021-03-04 17:30"])
    assert DateColumn.fit("d", hours).cycles == ["hour"]


def test_missing_dates_are_zeros_and_marked():
    values = pd.Series(["2021-01-05", None, "2021-01-09"])
    column = DateColumn.fit("d", values)
    assert column.feature_names == ["d.time", "d.weekday.sin", "d.weekday.cos", "d=missing"]
    assert column.transform(values)[1].tolist() == [0, 0, 0, 1]


def test_a_value_that_is_no_date_is_located():
    with pytest.raises(NotADate) as error:
        to_dates(pd.Series(["2021-01-05", "soon"]))
    assert (error.value.row, error.value.value) == (1, "soon")


def test_types_and_zones_give_the_same_dates():
    expected = pd.Timestamp("2021-03-04", tz="UTC")
    for values in (["2021-03-04"], [date(2021, 3, 4)], pd.to_datetime(["2021-03-04"]), ["2021-03-04T02:00+02:00"]):
        assert to_dates(pd.Series(values)).tolist() == [expected]


@pytest.mark.parametrize(
    ("values", "row"),
    [
        (["2021-01-05", "31/12/2021", "5 Jan 2021"], 1),
        (["31/12/2021", "31.12.2021"], 0),
        (["31.12.21", "01.02.21"], 0),
        (["31/12/2021 05:06", "01/02/2021"], 0),
    ],
    ids=["three formats", "two marks", "short years", "with and without a time"],
)
def test_dates_in_several_or_unknown_formats_are_refused(values, row):
    """They were skipped, since all values differ."""
    frame = pd.DataFrame({"since": values * 10, "a": range(10 * len(values))})
    with pytest.raises(InputError) as error:
        TableEncoding.fit(RawTable("f.csv", frame))
    if "cannot be told apart" not in str(error.value):
        what = (
            f"f.csv: column 'since': the format of {values[row]!r} (row {row} (counted from 0)) is unknown, or not that"
        )
        assert str(error.value).startswith(what)


def test_a_format_that_is_given_reads_short_years():
    column = DateColumn.fit("d", pd.Series(["31.12.21", "01.02.22"]), "%d.%m.%y")
    assert column.first.startswith("2021-12-31")
