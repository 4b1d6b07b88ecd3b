"""Columns of dates: time since the first, month, weekday and hour."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from epagcl.core.errors import InputError
from epagcl.data.io.columns.number import NumberColumn, with_gaps

_ISO = re.compile(r"[0-9]{4}-[0-9]{1,2}(?:-[0-9]{1,2}(?:[T ][0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?)?)?")
_ZONE = re.compile(r"(?:Z|[+-][0-9]{2}:?[0-9]{2})?")
_TIME = r"(?: ([0-9]{1,2}:[0-9]{2}(:[0-9]{2})?))?"
_DAY_MONTH_YEAR = re.compile(rf"([0-9]{{1,2}})([./-])([0-9]{{1,2}})\2([0-9]{{4}}){_TIME}")
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
#: Dates of one reading only.
_WRITTEN = re.compile(
    r"(?:[0-9]{4}[/.][0-9]{1,2}[/.][0-9]{1,2}"  # 2021/12/31
    rf"|[0-9]{{1,2}}[ -]{_MONTH}[ -][0-9]{{4}}"  # 31 Dec 2021, 31-Dec-2021
    rf"|{_MONTH} [0-9]{{1,2}},? [0-9]{{4}}){_TIME}",  # Dec 31, 2021
    re.IGNORECASE,
)
#: Dates of which the year has two digits.
_SHORT_YEAR = re.compile(rf"[0-9]{{1,2}}([./-])[0-9]{{1,2}}\1[0-9]{{2}}{_TIME}")
_FORMATS = tuple(
    day + time
    for day in (
        *("%Y/%m/%d", "%Y.%m.%d", "%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%d-%B-%Y"),
        *("%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y"),
    )
    for time in ("", " %H:%M", " %H:%M:%S")
)
_CYCLES = {"month": 12, "weekday": 7, "hour": 24}
#: Months are told apart only if the dates span more days than this. In a shorter span they repeat the time.
DAYS_FOR_MONTHS = 90


class NotADate(InputError):
    """A value of a column is not a date. ``row`` is the first such row, ``value`` its value."""

    def __init__(self, row: int, value: object):
        self.row, self.value = row, value
        super().__init__(f"not a date: {value!r}")


class AmbiguousDate(InputError):
    """Day and month of a column of dates cannot be told apart. ``formats`` are the two kinds that it may have."""

    def __init__(self, value: str, formats: tuple[str, str]):
        self.value, self.formats = value, formats
        super().__init__(f"day and month of {value!r} cannot be told apart; give it as {' or '.join(formats)}")


@dataclass(frozen=True)
class DateColumn:
    """A column of dates. Its features together have variance 1; missing dates are zeros.

    Attributes:
        name: name of the column.
        first: the first date of the fitted column.
        time: encoding of the days since the first date.
        cycles: those of month, weekday and hour that vary, each with a sine and a cosine.
        format: format of the dates as in ``strptime``; None for ISO 8601 and for columns of dates.
        missing: whether the fitted column has missing values. A feature then marks them.
    """

    kind: ClassVar[str] = "date"
    name: str
    first: str
    time: NumberColumn
    cycles: list[str]
    format: str | None = None
    missing: bool = False

    @property
    def feature_names(self) -> list[str]:
        """The names of its features."""
        names = [f"{self.name}.time"]
        names += [f"{self.name}.{cycle}.{wave}" for cycle in self.cycles for wave in ("sin", "cos")]
        return with_gaps(names, self.name, self.missing)

    @property
    def words(self) -> str:
        """What was done to the column."""
        return ", ".join(["time", *self.cycles, *["gaps"] * self.missing])

    @classmethod
    def fit(cls, name: str, values: pd.Series, option: str | None = None) -> "DateColumn":
        """Return the encoding of a column of dates.

        Args:
            name: name of the column.
            values: the column.
            option: format of the dates as in ``strptime``; by default, it is detected.
        """
        date_format = option or date_format_of(values)
        dates = to_dates(values, date_format)
        present = dates.dropna()
        first = present.min() if len(present) else pd.Timestamp(0, tz="UTC")
        days = _days(dates, first)
        parts = {cycle: _cycle_part(present, cycle) for cycle in _CYCLES}
        span = float(days.max() - days.min()) if len(present) else 0.0
        varies = {
            "month": span > DAYS_FOR_MONTHS and len(np.unique(parts["month"])) > 1,
            "weekday": len(np.unique(parts["weekday"])) > 1 and not (present.dt.day == 1).all(),
            "hour": len(np.unique(parts["hour"])) > 1,
        }
        cycles = [cycle for cycle in _CYCLES if varies[cycle]]
        missing = bool(dates.isna().any())
        return cls(name, first.isoformat(), NumberColumn.fit("", days.dropna()), cycles, date_format, missing)

    def transform(self, values: pd.Series) -> np.ndarray:
        """Return a column of time, two for each cycle and, if :attr:`missing`, one that marks missing dates."""
        dates = to_dates(values, self.format)
        absent = dates.isna().to_numpy()
        columns = [self.time.transform(_days(dates, pd.Timestamp(self.first)))[:, 0]]
        for cycle in self.cycles:
            angle = 2 * np.pi * _cycle_part(dates, cycle) / _CYCLES[cycle]
            columns += [np.sin(angle), np.cos(angle)]
        weight = (1 + len(self.cycles)) ** -0.5
        features = np.where(absent[:, None], 0.0, weight * np.stack(columns, axis=1))
        return np.hstack([features, absent[:, None]]) if self.missing else features


def is_date(values: pd.Series) -> bool:
    """Return whether a column holds dates: by its type, as date objects, or as text in a common format."""
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        return True
    present = values.dropna()
    if values.dtype == object and pd.api.types.infer_dtype(present) in ("date", "datetime", "datetime64"):
        return True
    return _share(values, _is_iso) == 1 or _share(values, _DAY_MONTH_YEAR.fullmatch) == 1 or bool(_written(values))


def date_share(values: pd.Series) -> float:
    """Return the share of the values of a column that are dates as text, in any of the formats that are known."""
    return _share(values, is_like_date)


def is_like_date(text: str) -> bool:
    """Return whether a text is a date in any of the formats that are known, or with a year of two digits.

    Examples:
        >>> [is_like_date(text) for text in ("2021-12-31", "Dec 31, 2021", "31.12.21", "31 December", "12/2021")]
        [True, True, True, False, False]
    """
    rules = (_is_iso, _DAY_MONTH_YEAR.fullmatch, _WRITTEN.fullmatch, _SHORT_YEAR.fullmatch)
    return any(rule(text) for rule in rules)


def _share(values: pd.Series, rule: Callable[[str], object]) -> float:
    text = [value.strip() if isinstance(value, str) else "" for value in values.dropna()]
    return sum(map(bool, map(rule, text))) / max(len(text), 1)


def _written(values: pd.Series) -> str | None:
    """Return the format of a column of dates such as 2021/12/31 and 31 Dec 2021; None if it has another, or several."""
    if _share(values, _WRITTEN.fullmatch) < 1:
        return None
    text = values.dropna().map(str.strip)
    fits = (form for form in _FORMATS if pd.to_datetime(text, format=form, errors="coerce").notna().all())
    return next(fits, None)


def date_format_of(values: pd.Series) -> str | None:
    """Return the ``strptime`` format of a column of text such as 31/12/2021 or 31 Dec 2021; None for all others.

    Raise if day and month cannot be told apart.
    """
    text = [value.strip() for value in values.dropna() if isinstance(value, str)]
    matches = [match for match in map(_DAY_MONTH_YEAR.fullmatch, text) if match]
    if not text or len(matches) < len(text):
        return _written(values)
    separators = {match[2] for match in matches}
    first, second = (max(int(match[group]) for match in matches) for group in (1, 3))
    mark = matches[0][2]
    seconds = {match[6] is not None for match in matches}
    times = {match[5] is not None for match in matches}
    if len(times) > 1 or len(seconds) > 1:  # one of them is no date of the format of the first
        return None
    time = "" if times == {False} else " %H:%M:%S" if seconds == {True} else " %H:%M"
    if len(separators) > 1 or (first > 12) == (second > 12):
        raise AmbiguousDate(text[0], (f"date:%d{mark}%m{mark}%Y{time}", f"date:%m{mark}%d{mark}%Y{time}"))
    return f"%d{mark}%m{mark}%Y{time}" if first > 12 else f"%m{mark}%d{mark}%Y{time}"


def to_dates(values: pd.Series, date_format: str | None = None) -> pd.Series:
    """Return a column as dates in UTC, NaT for missing ones. Raise :class:`NotADate` if a value is not a date.

    Args:
        values: the column.
        date_format: format of the dates as in ``strptime``; None for ISO 8601.
    """
    values = values.reset_index(drop=True)
    text = values.map(lambda value: value.strip() if isinstance(value, str) else value)
    options: dict[str, Any] = {"utc": True, "errors": "coerce"}
    if not pd.api.types.is_datetime64_any_dtype(values.dtype):
        options["format"] = date_format or "ISO8601"
        text = text if date_format else text.map(lambda value: value if pd.isna(value) else str(value))
    dates = pd.to_datetime(text, **options)
    wrong = dates.isna() & values.notna()
    if wrong.any():
        raise NotADate(int(wrong.argmax()), values[int(wrong.argmax())])
    return pd.Series(dates)


def _is_iso(text: str) -> bool:
    match = _ISO.match(text)
    return match is not None and _ZONE.fullmatch(text[match.end() :]) is not None


def _days(dates: pd.Series, first: pd.Timestamp) -> pd.Series:
    return (dates - first) / pd.Timedelta(days=1)


def _cycle_part(dates: pd.Series, cycle: str) -> np.ndarray:
    part = {
        "month": dates.dt.month - 1,
        "weekday": dates.dt.day_of_week,
        "hour": dates.dt.hour + dates.dt.minute / 60,
    }[cycle]
    return part.to_numpy(dtype=np.float64, na_value=np.nan)
