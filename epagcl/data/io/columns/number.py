"""Columns of numbers: as given, or centred and scaled with large values compressed."""

import re
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from epagcl.core.errors import InputError
from epagcl.data.io.tables.base import MISSING, is_number

#: Standardised values approach this bound, so that an outlier does not outweigh all other nodes.
BOUND = 4.0
#: A column of non-negative values is read on a logarithmic scale if its skewness by 5%, 50% and 95% quantiles exceeds
#: this value. It is 0 for symmetric values, 0.57 for exponential and 0.68 for log-normal ones.
SKEWED = 0.5
#: The standard deviation of a standardised column is raised to 1 by at most this factor. A column that is nearly
#: constant keeps a small variance.
MOST_RAISED = 2.0

#: A number with a decimal comma, or with a comma before each three digits.
DECIMAL_COMMA = re.compile(r"[+-]?[0-9]{1,3}(?:\.[0-9]{3})+,[0-9]+|[+-]?[0-9]*,[0-9]+")
#: Those of them whose comma can only be a decimal one.
CLEAR_COMMA = re.compile(r"0,.*|.*,(?:[0-9]{1,2}|[0-9]{4,})")
_WHOLE = re.compile(r"[+-]?[0-9]+")


def with_gaps(names: list[str], column: str, missing: bool) -> list[str]:
    """Return the names of the features of a column, and of the feature that marks missing values if it has some.

    Examples:
        >>> with_gaps(["since.year"], "since", missing=True)
        ['since.year', 'since=missing']
    """
    return [*names, f"{column}=missing"] if missing else names


@dataclass(frozen=True)
class GivenColumn:
    """A column of numbers that is used as it is. Missing values are refused."""

    kind: ClassVar[str] = "given"
    name: str

    @property
    def feature_names(self) -> list[str]:
        """The name of its feature."""
        return [self.name]

    @property
    def words(self) -> str:
        """What was done to the column."""
        return ""

    @classmethod
    def fit(cls, name: str, values: pd.Series, option: str | None = None) -> "GivenColumn":
        """Return the column; ``values`` and ``option`` are not used."""
        return cls(name)

    def transform(self, values: pd.Series) -> np.ndarray:
        """Return the values as one column, NaN for missing ones."""
        return to_numbers(values).to_numpy(dtype=np.float64, na_value=np.nan)[:, None]


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers with median 0 and standard deviation about 1; missing values become 0.

    With v the value, or sign(v)·log(1 + |v| / unit) on a logarithmic scale, and z = (v − centre) / scale, the feature
    is factor · z / √(1 + (z / BOUND)²).

    Attributes:
        name: name of the column.
        centre: the median.
        scale: the interquartile range over 1.349, which is the standard deviation of normal values.
        factor: raises the standard deviation to 1.
        unit: unit of the logarithmic scale; 0 for a linear scale.
        decimal_comma: whether decimals are written with a comma.
        missing: whether the fitted column has missing values. A second feature then marks them.
    """

    kind: ClassVar[str] = "number"
    name: str
    centre: float
    scale: float
    factor: float
    unit: float = 0.0
    decimal_comma: bool = False
    missing: bool = False

    @property
    def feature_names(self) -> list[str]:
        """The names of its features."""
        return with_gaps([self.name], self.name, self.missing)

    @property
    def words(self) -> str:
        """What was done to the column."""
        parts = ["log"] * bool(self.unit) + ["decimal comma"] * self.decimal_comma + ["gaps"] * self.missing
        return ", ".join(parts)

    @classmethod
    def fit(cls, name: str, values: pd.Series, option: str | None = None) -> "NumberColumn":
        """Return the encoding of a column of numbers; ``option`` is not used."""
        comma = has_decimal_comma(values)
        numbers = to_numbers(values, comma).to_numpy(dtype=np.float64, na_value=np.nan)
        present = numbers[np.isfinite(numbers)]
        low, middle, high = np.quantile(present, (0.05, 0.5, 0.95)) if len(present) else (0.0, 0.0, 0.0)
        unit = 0.0
        if len(present) and present.min() >= 0 and low + high - 2 * middle > SKEWED * (high - low):
            unit = float(np.quantile(present[present > 0], 0.05))
        scaled = _log(present, unit)
        centre, scale = _robust_scale(scaled)
        deviation = float(_compressed((scaled - centre) / scale).std()) if len(present) else 0.0
        factor = min(1 / deviation, MOST_RAISED) if deviation else 1.0
        return cls(name, centre, scale, factor, unit, comma, bool(np.isnan(numbers).any()))

    def transform(self, values: pd.Series) -> np.ndarray:
        """Return one column of standardised numbers and, if :attr:`missing`, one that marks missing values."""
        numbers = to_numbers(values, self.decimal_comma).to_numpy(dtype=np.float64, na_value=np.nan)
        absent = np.isnan(numbers)
        z = (_log(np.where(absent, 0.0, numbers), self.unit) - self.centre) / self.scale
        column = np.where(absent, 0.0, self.factor * _compressed(z))
        return np.stack([column, absent], axis=1) if self.missing else column[:, None]


def to_numbers(values: pd.Series, decimal_comma: bool = False) -> pd.Series:
    """Return a column as numbers, NaN for missing values. Raise :class:`NotNumeric` if a value is not a number.

    Args:
        values: the column.
        decimal_comma: whether decimals are written with a comma.
    """
    if is_real(values.dtype):
        return values
    if pd.api.types.is_timedelta64_dtype(values.dtype):
        return values.dt.total_seconds() / 86_400
    if decimal_comma:
        text = values.map(str, na_action="ignore").str.strip()
        values = text.str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
    try:
        numbers = pd.to_numeric(values.astype(object))  # as an object, a date is not a number
        numbers = numbers.astype(float) if numbers.dtype == object else numbers  # integers beyond 64 bits
    except (ValueError, TypeError, OverflowError):
        raise NotNumeric(values) from None
    if not is_real(numbers.dtype):
        raise NotNumeric(values)
    return numbers


class NotNumeric(InputError):
    """A value of a column is not a number.

    Attributes:
        row: the first row with such a value, or None if it is not known.
        value: the value.
    """

    def __init__(self, values: pd.Series):
        text = values.reset_index(drop=True).dropna().map(str)
        text = text[[not is_number(value) for value in text]]
        self.row = int(text.index[0]) if len(text) else None
        self.value = text.iloc[0] if len(text) else None
        super().__init__(f"not a number: {self.value!r}")


def has_decimal_comma(values: pd.Series) -> bool:
    """Return whether a column of text holds numbers with a decimal comma, such as ``3,5`` and ``1.234,50``.

    Three digits after every comma may also be thousands. Such a column does not count.
    """
    if is_real(values.dtype):
        return False
    text = [value.strip() for value in values.dropna().map(str)]
    decimal = [value for value in text if DECIMAL_COMMA.fullmatch(value)]
    if not decimal or any(not _WHOLE.fullmatch(value) for value in set(text) - set(decimal)):
        return False
    return any(CLEAR_COMMA.fullmatch(value) for value in decimal)


def number_share(values: pd.Series) -> float:
    """Return the share of the values of a column of text that are numbers."""
    text = [str(value).strip() for value in values.dropna()]
    return sum(map(is_number, text)) / max(len(text), 1)


def is_real(dtype: Any) -> bool:
    """Return whether a column type holds real numbers or booleans."""
    return pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_complex_dtype(dtype)


def without_missing_words(values: pd.Series) -> pd.Series:
    """Return a column of text with NaN for blank text and words such as NA. Periods become dates."""
    if isinstance(values.dtype, pd.PeriodDtype):
        return values.dt.to_timestamp()
    if values.dtype != object and not pd.api.types.is_string_dtype(values.dtype):
        return values
    text = values.map(lambda value: value.strip() if isinstance(value, str) else value)
    return text.where(~text.isin(MISSING), np.nan)


def _log(values: np.ndarray, unit: float) -> np.ndarray:
    return np.sign(values) * np.log1p(np.abs(values) / unit) if unit else values


def _compressed(z: np.ndarray) -> np.ndarray:
    # hypot does not overflow where a square would. Infinite values become NaN, which the caller refuses.
    with np.errstate(invalid="ignore"):
        return z / np.hypot(1.0, z / BOUND)


def _robust_scale(values: np.ndarray) -> tuple[float, float]:
    """Return the median, and the interquartile range over 1.349 or, if it is 0, the standard deviation or 1."""
    if not len(values):
        return 0.0, 1.0
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    return float(middle), float((high - low) / 1.349 or values.std() or 1.0)
