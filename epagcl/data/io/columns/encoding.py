"""The encoding of a table: one encoder per column, fitted once, applied to any later table with the same columns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Protocol, TypedDict, cast

import numpy as np
import pandas as pd
import scipy.sparse
from torch import Tensor

from epagcl.core.errors import InputError
from epagcl.core.formatting import counted
from epagcl.core.log import log
from epagcl.data.io.columns.category import BooleanColumn, CategoryColumn
from epagcl.data.io.columns.date import AmbiguousDate, DateColumn, NotADate, is_like_date
from epagcl.data.io.columns.kinds import (
    WrittenNumber,
    chosen_kinds,
    detected_kind,
    override,
    scaled_numbers,
    shortened,
)
from epagcl.data.io.columns.number import GivenColumn, NotNumeric, NumberColumn, to_numbers, without_missing_words
from epagcl.data.io.columns.text import TextColumn
from epagcl.data.io.columns.vector import NotAVector, VectorColumn
from epagcl.data.io.features import feature_tensor

_TITLES = {"given": "as given", "skip": "skipped"}
#: Up to this density, encoded features are sparse, as those of the .npz format.
SPARSE_BELOW = 0.2


class Column(Protocol):
    """The encoder of one column."""

    kind: ClassVar[str]

    @property
    def name(self) -> str:
        """Name of the column."""

    @property
    def feature_names(self) -> list[str]:
        """The names of its features."""

    @property
    def words(self) -> str:
        """What was done to the column."""

    def transform(self, values: pd.Series) -> "np.ndarray | scipy.sparse.csr_array":
        """Return the features of the column, one row per row."""


@dataclass(frozen=True)
class SkippedColumn:
    """A column that is not used, and the reason."""

    kind: ClassVar[str] = "skip"
    name: str
    words: str = ""

    @property
    def feature_names(self) -> list[str]:
        """No names."""
        return []

    @classmethod
    def fit(cls, name: str, values: pd.Series, option: str | None = None) -> "SkippedColumn":
        """Return the column; ``values`` and ``option`` are not used."""
        return cls(name)

    def transform(self, values: pd.Series) -> np.ndarray:
        """Return no features."""
        return np.zeros((len(values), 0))


ENCODERS: dict[str, Any] = {
    cls.kind: cls
    for cls in (
        *(NumberColumn, BooleanColumn, CategoryColumn, DateColumn, TextColumn, VectorColumn),
        *(GivenColumn, SkippedColumn),
    )
}


class ColumnSummary(TypedDict):
    """What was done to one column: its kind, a few words, and how many features it became."""

    name: str
    kind: str
    words: str
    features: int


def columns_in_words(columns: Sequence[ColumnSummary]) -> str:
    """Return in one line what was done to each column, grouped by kind.

    Examples:
        >>> columns_in_words([{"name": "age", "kind": "number", "words": "gaps", "features": 2}])
        'number: age (gaps)'
    """
    groups: dict[str, list[str]] = {}
    for column in columns:
        words = f" ({column['words']})" if column["words"] else ""
        groups.setdefault(column["kind"], []).append(f"{column['name']}{words}")
    return "; ".join(f"{_TITLES.get(kind, kind)}: {shortened(names, 8)}" for kind, names in groups.items())


@dataclass(frozen=True)
class RawTable:
    """The columns of a table before their encoding, by name.

    Attributes:
        source: name of the table in messages.
        frame: the columns, one row per node; text without a value is NaN.
        place: function that describes a row in messages; by default, rows are counted from 0.
    """

    source: str
    frame: pd.DataFrame
    place: Callable[[int], str] | None = field(default=None, compare=False)

    def where(self, row: int | None) -> str:
        """Return the position of a row, for messages."""
        return "" if row is None else self.place(row) if self.place else f"row {row} (counted from 0)"

    def as_given(self, names: Sequence[str] | None = None) -> Tensor:
        """Return columns of numbers unchanged. Raise if a value is not a finite number.

        Args:
            names: the columns; all by default.
        """
        names = [str(name) for name in self.frame] if names is None else names
        return TableEncoding(tuple(GivenColumn(name) for name in names)).transform(self)

    def detached(self) -> "RawTable":
        """Return the table without :attr:`place`, which holds the whole file."""
        return RawTable(self.source, self.frame)


@dataclass(frozen=True)
class TableEncoding:
    """How the columns of a table become features: plain data that can be written as JSON.

    Attributes:
        columns: the encoder of each column, in the order of the table.

    Examples:
        >>> table = pd.DataFrame({"age": [30, 40, None], "city": ["Rome", "Oslo", "Rome"]})
        >>> encoding = TableEncoding.fit(RawTable("people", table))
        >>> encoding.feature_names
        ['age', 'age=missing', 'city=Rome', 'city=Oslo']
        >>> encoding.transform(RawTable("people", table))[:, 1:].tolist()
        [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
        >>> TableEncoding.from_dict(encoding.to_dict()) == encoding
        True
    """

    columns: tuple[Column, ...]

    @classmethod
    def fit(
        cls, table: RawTable, columns_as: Mapping[str, str] | None = None, argument: str = "columns_as="
    ) -> "TableEncoding":
        """Return the encoding of a table: the kind of each column, and its means, scales and values.

        Args:
            table: the table.
            columns_as: kinds of columns by name, in place of the detected ones.
            argument: name of the argument ``columns_as`` in messages.
        """
        names = [str(name) for name in table.frame.columns]
        chosen = chosen_kinds(names, columns_as or {}, table.source, argument)
        kinds = _kinds(table, chosen, argument)
        columns = []
        for name, (kind, reason) in kinds.items():
            base, _, option = kind.partition(":")
            values = table.frame[name]
            try:
                column = ENCODERS[base].fit(name, values, option or None)
            except InputError as error:
                fix = f"{override(argument, name, 'skip')} leaves it out"
                raise _located(error, table, name, fix, argument) from None
            columns.append(SkippedColumn(name, reason) if base == "skip" else column)
        encoding = cls(tuple(columns))
        if not any(isinstance(column, TextColumn) for column in columns):
            return encoding
        others = [encoding._block(column, table) for column in columns if not isinstance(column, TextColumn)]
        return cls(tuple(column.beside(others) if isinstance(column, TextColumn) else column for column in columns))

    @property
    def feature_names(self) -> list[str]:
        """The names of all features."""
        return [name for column in self.columns for name in column.feature_names]

    @property
    def as_given(self) -> bool:
        """Whether all columns are used as they are."""
        return all(isinstance(column, GivenColumn) for column in self.columns)

    def transform(self, table: RawTable) -> Tensor:
        """Return the features of a table as float32, sparse if few are not zero. Columns are matched by name.

        Args:
            table: a table with the columns of the fitted one; others are ignored.
        """
        used = [column for column in self.columns if column.kind != "skip"]
        if absent := [column.name for column in used if column.name not in table.frame]:
            raise InputError(
                f"{table.source}: no column {absent[0]!r}, on which the model was trained "
                f"({len(absent)} of {len(used)} are missing); add it"
            )
        blocks = [self._block(column, table) for column in used]
        width = sum(block.shape[1] for block in blocks)
        if not width:
            skipped = shortened([f"{column.name} ({column.words or 'as asked'})" for column in self.columns])
            raise InputError(f"{table.source}: no feature column is left, skipped: {skipped}; add one, or name a kind")
        matrix = scipy.sparse.hstack([scipy.sparse.csr_array(block) for block in blocks], format="csr")
        sparse = matrix.nnz <= SPARSE_BELOW * width * len(table.frame)
        return feature_tensor(matrix if sparse else matrix.toarray(), table.source)

    @staticmethod
    def table_of(x: Tensor, names: Sequence[str]) -> RawTable:
        """Return features that are the columns of a table as that table."""
        return RawTable("graph", pd.DataFrame(x.cpu().numpy(), columns=list(names)))

    def unseen(self, table: RawTable) -> list[str]:
        """Return sentences about what a later table has that this encoding does not know."""
        from epagcl.data.io.columns.unseen import unseen  # which imports this module

        return unseen(self, table)

    def summary(self) -> list[ColumnSummary]:
        """Return what was done to each column."""
        return [
            {"name": column.name, "kind": column.kind, "words": column.words, "features": len(column.feature_names)}
            for column in self.columns
        ]

    def log(self, source: str) -> None:
        """Log in one line what was done to each column, grouped by kind."""
        features = counted(len(self.feature_names), "feature")
        words = columns_in_words(self.summary())
        verb = "becomes" if len(self.columns) == 1 else "become"
        log.info("%s: %s %s %s; %s", source, counted(len(self.columns), "column"), verb, features, words)

    def to_dict(self) -> dict[str, Any]:
        """Return the encoding as plain values."""
        return {"columns": [{"kind": column.kind, **asdict(cast(Any, column))} for column in self.columns]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], source: str = "columns.json") -> "TableEncoding":
        """Return the encoding that :meth:`to_dict` wrote.

        Args:
            values: the plain values.
            source: their name in messages.
        """
        try:
            return cls(tuple(_column(dict(entry)) for entry in values["columns"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{source}: not an encoding of columns ({error!r}); save the model again") from None

    def _block(self, column: Column, table: RawTable) -> "np.ndarray | scipy.sparse.csr_array":
        """Return the features of one column. Raise if a value cannot be encoded."""
        values = table.frame[column.name]
        try:
            block = column.transform(values)
        except InputError as error:
            raise _located(error, table, column.name, "correct it, or leave the value blank") from None
        if isinstance(block, np.ndarray) and not np.isfinite(block).all():
            row = int((~np.isfinite(block)).any(axis=1).argmax())
            what = "is missing or infinite" if column.kind == "given" else "is infinite"
            fix = "fill it, or drop the row"
            raise InputError(f"{table.source}: {table.where(row)}: column {column.name!r} {what}; {fix}")
        return block


def _kinds(table: RawTable, chosen: Mapping[str, str], argument: str) -> dict[str, tuple[str, str]]:
    """Return the kind of each column, and the reason if it is skipped."""
    kinds = {}
    numbers: dict[str, np.ndarray] = {}
    for name, values in table.frame.items():
        try:
            kind, reason = (chosen[str(name)], "") if str(name) in chosen else detected_kind(values)
        except InputError as error:
            fix = f"correct it, leave the value blank, or give {override(argument, str(name), 'category')}"
            raise _located(error, table, str(name), fix, argument) from None
        kinds[str(name)] = kind, reason
        if kind == "number" and str(name) not in chosen and _complete(values):
            numbers[str(name)] = to_numbers(values).to_numpy(dtype=np.float64)
    plain = {name for name, (kind, _) in kinds.items() if kind == "given"} | set(numbers)
    others = any(name not in plain and kind != "skip" for name, (kind, _) in kinds.items())
    scaled = scaled_numbers(numbers, others)
    return kinds | {name: ("given", "") for name in numbers if name not in scaled}


def _complete(values: pd.Series) -> bool:
    """Return whether a column of numbers can be used as it is: no decimal comma, and finite values only."""
    try:
        numbers = to_numbers(values)
    except NotNumeric:
        return False
    with np.errstate(over="ignore"):
        return bool(np.isfinite(numbers.to_numpy(dtype=np.float32, na_value=np.nan)).all())


def _located(error: InputError, table: RawTable, name: str, fix: str, argument: str = "columns_as=") -> InputError:
    """Return the error of a column with its place."""
    if isinstance(error, NotAVector):
        return InputError(f"{table.source}: {table.where(error.row)}: column {name!r} is {error}; mend it")
    if isinstance(error, WrittenNumber):
        category, skip = (override(argument, name, kind) for kind in ("category", "skip"))
        fix = f"write plain numbers, or give {category} or {skip}"
        return InputError(f"{table.source}: column {name!r}: {error}; {fix}")
    if isinstance(error, AmbiguousDate):
        first, second = (override(argument, name, kind) for kind in error.formats)
        what = f"day and month of {error.value!r} cannot be told apart"
        return InputError(f"{table.source}: column {name!r}: {what}; give {first} or {second}")
    if isinstance(error, NotADate) and is_like_date(str(error.value).strip()):
        what = f"the format of {error.value!r} ({table.where(error.row)}) is unknown, or not that of the other dates"
        fix = f"write all alike, and give it as in {override(argument, name, 'date:%d.%m.%y')}"
        return InputError(f"{table.source}: column {name!r}: {what}; {fix}")
    if isinstance(error, NotNumeric | NotADate):
        what = "not numeric" if isinstance(error, NotNumeric) else "not a date"
        where = f" ({error.value!r} in {table.where(error.row)})" if error.row is not None else ""
        return InputError(f"{table.source}: column {name!r} is {what}{where}; {fix}")
    return InputError(f"{table.source}: column {name!r}: {error}")


def _column(entry: dict[str, Any]) -> Column:
    """Return the encoder of a column from plain values."""
    cls = ENCODERS[entry.pop("kind")]
    if cls is DateColumn:
        entry["time"] = NumberColumn(**entry["time"])
    if unknown := set(entry) - {each.name for each in fields(cls)}:
        raise KeyError(min(unknown))
    return cast(Column, cls(**entry))


def raw_table(
    frame: pd.DataFrame, names: Sequence[str], source: str, place: Callable[[int], str] | None = None
) -> RawTable:
    """Return the columns of a table by name, with NaN for blank text and words such as NA.

    Args:
        frame: the columns.
        names: their names.
        source: name of the table in messages.
        place: function that describes a row in messages.
    """
    if repeated := pd.Index(names)[pd.Index(names).duplicated()].tolist():
        raise InputError(f"{source}: two columns are named {repeated[0]!r}; rename one")
    columns = {name: without_missing_words(frame.iloc[:, k]) for k, name in enumerate(names)}
    return RawTable(source, pd.DataFrame(columns).reset_index(drop=True), place)
