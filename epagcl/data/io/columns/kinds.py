"""The kind of each column of a table, by plain rules, and ``columns_as``, which overrides it.

Rules, in this order:

- No value at all, or the same text in every row: skip.
- Lists of numbers of one length, such as embeddings: vector. Other lists: skip.
- Booleans, or two words such as yes and no: boolean.
- Text of digits, some with a leading zero, such as postal codes: as other text, below.
- Numbers, also as text or with a decimal comma: number. A table of numbers without gaps may stay as it is; see
  :func:`scaled_numbers`.
- Dates by type, in ISO 8601, or all as 31/12/2021, 2021/12/31, 31 Dec 2021 or Dec 31, 2021, also with a time: date.
- Text of which at least :data:`MOSTLY` are numbers, or dates: refused, since one value is probably mistyped. So are
  numbers with a unit or with groups of digits.
- Texts of at least :data:`TEXT_WORDS` words on average: text.
- Values that nearly all differ: text if most have several words, otherwise skip, since they tell nodes apart and say
  nothing that two nodes have in common.
- Everything else: category.
"""

import difflib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

import numpy as np
import pandas as pd

from epagcl.core.errors import InputError
from epagcl.data.io.columns.category import is_boolean
from epagcl.data.io.columns.date import date_format_of, date_share, is_date, to_dates
from epagcl.data.io.columns.number import NotNumeric, has_decimal_comma, is_real, number_share, to_numbers
from epagcl.data.io.columns.vector import is_vector
from epagcl.data.io.tables.base import is_code

KINDS = ("number", "boolean", "category", "date", "text", "vector", "given", "skip")
#: A column with this many words per value on average is free text.
TEXT_WORDS = 4.0
#: A column of text with at least this share of numbers or dates is refused.
MOSTLY = 0.5
#: A column whose values differ in more than this share of at least :data:`ROWS_FOR_IDS` rows identifies rows.
DISTINCT_SHARE = 0.9
ROWS_FOR_IDS = 20
#: Numbers of a table are standardised if the typical sizes of its columns differ by more than this factor.
SCALE_RATIO = 10.0
#: Columns whose mean is below this share of their standard deviation were centred by the user, as principal components.
CENTRED = 0.01
#: Columns of counts with at least this share of zeros, such as words of a text, are kept as they are, up to
#: :data:`MOST_COUNT`, the typical size of a count that is not zero.
SPARSE_SHARE, MOST_COUNT = 0.5, 100.0


#: Numbers with a sign of money or percent, or with groups of thousands: 12%, €5.50, 1,234 and 1.234.567.
_WRITTEN_NUMBER = r"[-+]?[$€£¥%]?\s?[-+]?\d{1,3}(?:[,.']?\d{3})*(?:[.,]\d+)?\s?[$€£¥%]?"


class WrittenNumber(InputError):
    """A column holds numbers in a form that can be read in several ways, or with a unit. ``value`` is one of them."""

    def __init__(self, value: str):
        self.value = value
        super().__init__(f"{value!r} is a number with a unit or with groups of digits, or unlike the others")


def parse_columns_as(text: str) -> dict[str, str]:
    """Return the kinds in a text such as ``city=category,since=date,skip=notes``; each pair may be written either way.

    Examples:
        >>> parse_columns_as("city=category,skip=notes")
        {'city': 'category', 'notes': 'skip'}
    """
    kinds: dict[str, str] = {}
    for pair in (part for part in text.split(",") if part.strip()):
        left, equals, right = (word.strip() for word in pair.partition("="))
        if not equals or not left or not right:
            raise InputError(f"{pair.strip()!r} is not a pair; give column=kind, as in city=category,notes=skip")
        if not _is_kind(right) and _is_kind(left):
            left, right = right, left
        kinds[left] = right
    return kinds


def chosen_kinds(names: Sequence[str], columns_as: Mapping[str, str], source: str, argument: str) -> dict[str, str]:
    """Return the kind of each column that ``columns_as`` names. Raise if a kind or a column does not exist.

    Args:
        names: names of the columns.
        columns_as: kinds by column name, which may be a pattern such as ``w*``; later ones take precedence.
        source: name of the table in messages.
        argument: name of the argument in messages.
    """
    chosen: dict[str, str] = {}
    for pattern, kind in columns_as.items():
        if not _is_kind(kind):
            raise InputError(f"{argument}: {pattern}={kind}: no such kind; choose one of {', '.join(KINDS)}")
        matching = [name for name in names if name == pattern] or [
            name for name in names if fnmatchcase(name, str(pattern))
        ]
        if not matching:
            close = difflib.get_close_matches(str(pattern), names, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"the columns are {shortened(names)}"
            raise InputError(f"{argument}: {source} has no feature column {str(pattern)!r}; {hint}")
        chosen |= dict.fromkeys(matching, kind)
    return chosen


def detected_kind(values: pd.Series) -> tuple[str, str]:
    """Return the kind of a column, and the reason if it is skip. Missing values are NaN.

    Raise :class:`NotNumeric` or :class:`~epagcl.data.io.columns.date.NotADate` if most values are numbers or dates.
    """
    present = values.dropna()
    if not len(present):
        return "skip", "empty"
    if pd.api.types.is_complex_dtype(values.dtype):
        raise NotNumeric(values)
    if is_vector(values):
        return "vector", ""
    if any(isinstance(value, list | tuple | set | dict | np.ndarray) for value in present.iloc[:100]):
        return "skip", "lists or objects"
    if pd.api.types.is_bool_dtype(values.dtype) or (not is_real(values.dtype) and is_boolean(values)):
        return "boolean", ""
    if is_code(values):
        return _kind_of_text(present.map(str), len(values), numbers=True)
    try:
        numbers = to_numbers(values)
    except NotNumeric:
        pass
    else:
        gaps = len(present) < len(values)
        return ("boolean" if gaps and set(numbers.dropna().unique()) <= {0, 1} else "number"), ""
    if has_decimal_comma(values):
        return "number", ""
    if is_date(values):
        return "date", ""
    if number_share(values) >= MOSTLY:
        raise NotNumeric(values)
    if date_share(values) >= MOSTLY:
        to_dates(values, date_format_of(values))
    if isinstance(values.dtype, pd.CategoricalDtype):
        return "category", ""
    return _kind_of_text(present.map(str), len(values))


def scaled_numbers(columns: Mapping[str, np.ndarray], others: bool) -> set[str]:
    """Return the columns of numbers that are standardised; the others stay as they are.

    Columns of 0 and 1, and sparse columns of counts (a bag of words), always stay. The other columns stay if their
    typical sizes, by the root of the mean square of values that are not zero, differ by at most :data:`SCALE_RATIO`,
    from each other and from 1 where there are columns of another kind. They also stay if all of them are centred.

    Args:
        columns: the columns of numbers, complete.
        others: whether the table has columns of another kind.
    """
    sizes: dict[str, float] = {}
    unit = others
    for name, values in columns.items():
        nonzero = values[values != 0].astype(np.float64)
        if not len(nonzero):
            continue
        size = float(np.sqrt(np.mean(np.square(nonzero))))
        counts = bool((nonzero >= 0).all() and (nonzero == np.round(nonzero)).all())
        if counts and ((nonzero == 1).all() or (len(nonzero) <= SPARSE_SHARE * len(values) and size <= MOST_COUNT)):
            unit = True
        else:
            sizes[name] = size
    if all(abs(columns[name].mean()) <= CENTRED * columns[name].std() for name in sizes):
        return set()
    compared = [*sizes.values(), *[1.0] * unit]
    return set(sizes) if sizes and max(compared) > SCALE_RATIO * min(compared) else set()


def override(argument: str, name: str, kind: str) -> str:
    """Return the kind of a column as the caller gives it: ``columns_as={'a': 'text'}``, or ``--columns-as a=text``.

    Examples:
        >>> override("columns_as=", "a", "text"), override("--columns-as", "a", "text")
        ("columns_as={'a': 'text'}", '--columns-as a=text')
    """
    return f"{argument}{{{name!r}: {kind!r}}}" if argument.endswith("=") else f"{argument} {name}={kind}"


def shortened(names: Sequence[str], most: int = 5) -> str:
    """Return the first names of a list, and how many follow.

    Examples:
        >>> shortened(["a", "b", "c", "d"], most=2)
        'a, b and 2 more'
    """
    names = list(names)
    if len(names) <= most + 1:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most:,} more"


def _is_kind(text: str) -> bool:
    return text in KINDS or text.startswith("date:")


def _kind_of_text(text: pd.Series, rows: int, *, numbers: bool = False) -> tuple[str, str]:
    """Return the kind of a column of text, by its words and the share of values that differ.

    Raise :class:`WrittenNumber` if most are numbers, unless ``numbers`` is true.
    """
    distinct = text.nunique()
    if distinct == 1 and len(text) == rows > 1:
        return "skip", "the same in every row"
    words = text.str.count(r"\S+").mean()
    if words >= TEXT_WORDS:
        return "text", ""
    if not numbers and (written := text.map(str.strip).str.fullmatch(_WRITTEN_NUMBER)).mean() >= MOSTLY:
        raise WrittenNumber(str(text[written].iloc[0]))
    if len(text) >= ROWS_FOR_IDS and distinct > DISTINCT_SHARE * len(text):
        return ("text", "") if words >= 2 else ("skip", "all values differ")
    return "category", ""
