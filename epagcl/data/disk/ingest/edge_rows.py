"""The rows of the edges as DuckDB reads them, and the rows that cannot be used.

The columns are found on the first part of the file, by the rules of :func:`epagcl.read_graph`. Each row then gets a
problem, 0 if there is none. Rows are numbered by their line in text files, and from 0 in Parquet files.
"""

import gzip
from pathlib import Path
from typing import NamedTuple, TypedDict

from epagcl.core.errors import InputError
from epagcl.core.formatting import counted
from epagcl.core.log import log
from epagcl.data.disk.ingest.work import Work, quoted
from epagcl.data.io.edge_columns import edge_columns, log_columns, weight_column
from epagcl.data.io.edge_list import kind_names
from epagcl.data.io.roles import Roles
from epagcl.data.io.tables.base import Table, one_line
from epagcl.data.io.tables.files import TABLE_SUFFIXES, table_suffix
from epagcl.data.io.tables.frame import FrameTable
from epagcl.data.io.tables.text import WHITE_SPACE, TextTable

ROWS = "rows.parquet"
SAMPLE_BYTES, SAMPLE_ROWS = 2**20, 10_000
EXAMPLES = 5
#: Why a row cannot be used, by its number in the column ``problem``.
PROBLEMS = {
    1: "more fields than the first row",
    2: "a quote that is not closed",
    3: "the source id is missing",
    4: "the target id is missing",
    5: "the weight is not a number that is at least 0",
    6: "not UTF-8 text",
}
# No text has it, so that DuckDB reads each line as one field.
_NO_SEPARATOR = "\x1f\x1e\x1f\x1e"
#: What Python's str.strip removes.
BLANKS = (
    " \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


class EdgeSource(NamedTuple):
    """The file of the edges and its columns.

    Attributes:
        path: the file.
        table: its first part.
        columns: the columns of the two ends.
        weight: the column of the weights; None without weights.
        kinds: the names of the two kinds of nodes of a bipartite graph, else None.
        two_kinds: whether the names of the columns suggest nodes of two kinds.
    """

    path: Path
    table: Table
    columns: list[int]
    weight: int | None
    kinds: tuple[str, str] | None
    two_kinds: bool

    def place(self, row: int) -> str:
        """Return the position of a row, for messages."""
        return f"line {row}" if isinstance(self.table, TextTable) else f"row {row} (counted from 0)"


class EdgeRows(TypedDict):
    """How many rows the table has, how many are bad, and where the first of these are."""

    rows: int
    bad: int
    examples: list[str]
    integers: bool


def edge_source(path: Path, roles: Roles, folder: Path) -> EdgeSource:
    """Return the edges of a file, with their columns.

    Args:
        path: a table of edges.
        roles: the columns that the user names.
        folder: where the first part of a text file is kept.
    """
    table = first_part(path, folder)
    columns, two_kinds = edge_columns(table, roles)
    weight = weight_column(table, roles, columns)
    log_columns(table, columns, weight)
    kinds = kind_names(table, columns) if roles.bipartite else None
    return EdgeSource(path, table, columns, weight, kinds, two_kinds and not roles.bipartite)


def first_part(path: Path, folder: Path) -> Table:
    """Return the first rows of a table in a file.

    Args:
        path: the file.
        folder: where the first part of a text file is kept.
    """
    suffix = table_suffix(path)
    if suffix == ".parquet":
        return FrameTable(next(parquet_frames(path, SAMPLE_ROWS)), path.name)
    if suffix not in TABLE_SUFFIXES:
        raise InputError(f"{path.name}: cannot read {path.suffix or 'this'} as a table; give {', '.join(TABLE_SUFFIXES)}")
    return TextTable(path, suffix, head(path, SAMPLE_BYTES))
