"""Which columns of a user's tables are which, as the user names them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from epagcl.core.errors import InputError
from epagcl.data.io.columns.encoding import TableEncoding
from epagcl.data.io.columns.kinds import parse_columns_as, shortened
from epagcl.data.io.tables.base import Table, normalised_name
from epagcl.data.relations import DIRECTIONS

#: Format of argument names in messages, for Python callers and for the command line.
PYTHON_ARGUMENT, OPTION = "{}=", "--{}"

#: Roles that are plain text.
NAMED = ("source", "target", "weight", "type", "directed", "id", "label")


@dataclass(frozen=True)
class Roles:
    """The columns of the tables of a graph, by name or, in a table without header, by number from 1.

    Attributes:
        source: column of the edges with the first end; None to find it by its name.
        target: column of the edges with the second end.
        weight: column of the edges with their weights; None to find it by its name, ``"none"`` for no weights.
        type: column of the edges with their kinds; None to find it by its name, ``"none"`` to merge all kinds.
        directed: how directed edges are used, one of :data:`~epagcl.data.relations.DIRECTIONS`; None: symmetric.
        id: column with the ids, of each of the other tables that has it.
        label: column with the labels, of the labels or else of the features.
        bipartite: whether the two ends of an edge are nodes of two kinds, which may have equal ids.
        time: column of the edges with times, if the caller reads them.
        columns_as: kinds of feature columns, in place of the detected ones.
        encoding: a fitted encoding of the feature columns to use; None to fit one.
        argument: format of argument names in messages.
    """

    source: str | None = None
    target: str | None = None
    id: str | None = None
    label: str | None = None
    bipartite: bool = False
    columns_as: Mapping[str, str] = field(default_factory=dict)
    encoding: TableEncoding | None = None
    argument: str = PYTHON_ARGUMENT
    weight: str | None = None
    type: str | None = None
    directed: str | None = None
    time: str | None = None

    def __post_init__(self) -> None:
        if (self.source is None) != (self.target is None):
            given, absent = ("source", "target") if self.target is None else ("target", "source")
            raise InputError(f"{self.name_of(given)} is given without {self.name_of(absent)}; give both")
        if self.directed is not None and self.directed not in DIRECTIONS:
            what = self.write(directed=self.directed)
            raise InputError(f"{what}: unknown; give one of {', '.join(DIRECTIONS)}")

    def record(self) -> dict[str, str | bool]:
        """Return what the user named, as plain values."""
        columns = {name: getattr(self, name) for name in NAMED}
        record: dict[str, str | bool] = {name: value for name, value in columns.items() if value is not None}
        if self.bipartite:
            record["bipartite"] = True
        if self.columns_as:
            record["columns_as"] = ",".join(f"{name}={kind}" for name, kind in self.columns_as.items())
        return record

    @classmethod
    def from_record(cls, record: Mapping[str, object]) -> Self:
        """Return the roles of a record that :meth:`record` wrote. Other entries of the record are left out.

        Examples:
            >>> roles = Roles("payer", "payee", weight="none", directed="both", columns_as={"zone": "category"})
            >>> Roles.from_record({"name": "payments", **roles.record()}) == roles
            True
        """
        columns: dict[str, Any] = {name: str(record[name]) for name in NAMED if name in record}
        columns_as = parse_columns_as(str(record.get("columns_as", "")))
        return cls(**columns, bipartite=bool(record.get("bipartite", False)), columns_as=columns_as)

    def name_of(self, argument: str) -> str:
        """Return an argument as the caller writes it: ``columns_as=``, or ``--columns-as``."""
        return self.argument.format(argument if self.argument == PYTHON_ARGUMENT else argument.replace("_", "-"))

    def write(self, **values: str) -> str:
        """Return arguments with values as the caller writes them: ``source='a', target='b'``, or ``--source a ...``."""
        if self.argument == PYTHON_ARGUMENT:
            return ", ".join(f"{name}={value!r}" for name, value in values.items())
        return " ".join(f"{self.name_of(name)} {value}" for name, value in values.items())

    def column(self, table: Table, name: str, argument: str) -> int:
        """Return the column that the user named. A first row with this name is then a header.

        Args:
            table: the table.
            name: the name of the column or, in a table without header, its number from 1.
            argument: the name of the argument, for the message if there is no such column.
        """
        if (column := find_column(table, name)) is not None:
            table.header = True
            return column
        if not table.header and str(name).isdigit() and 1 <= int(name) <= len(table.first_row):
            return int(name) - 1
        fix = f"its columns are {shortened(table.first_row, 8)}"
        raise InputError(f"{table.name}: no column {str(name)!r} for {self.name_of(argument)}; {fix}")


def find_column(table: Table, name: str | None) -> int | None:
    """Return the column of this name, or else of this name apart from case, blanks and hyphens; None if there is none.

    Args:
        table: the table.
        name: the name; None finds no column.
    """
    if name is None:
        return None
    if str(name) in table.first_row:
        return table.first_row.index(str(name))
    return table.column([normalised_name(str(name))])
