"""The rows of the edges as DuckDB reads them, and the rows that cannot be used.

The columns are found on the first part of the file, by the rules of :func:`epagcl.read_graph`. Each row then gets a
problem, 0 if there is none. Rows are numbered by their line in text files, and from 0 in Parquet files.
"""

import csv
from pathlib import Path
from typing import NamedTuple, TypedDict

from epagcl.core.errors import InputError
from epagcl.core.formatting import counted
from epagcl.core.log import log
from epagcl.data.disk.ingest.node_tables import blocks, place_in_words
from epagcl.data.disk.ingest.work import Work, quoted
from epagcl.data.io.columns.number import CLEAR_COMMA, DECIMAL_COMMA
from epagcl.data.io.edge_columns import TYPE_NAMES, WEIGHT_NAMES, edge_columns, log_columns, optional_column
from epagcl.data.io.edge_list import kind_names
from epagcl.data.io.roles import Roles
from epagcl.data.io.tables.base import Table
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
_INTEGER_TYPES = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
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
        return place_in_words(row, isinstance(self.table, TextTable))


class EdgeRows(TypedDict):
    """How many rows the table has, how many are bad, and where the first of these are."""

    rows: int
    bad: int
    examples: list[str]
    integers: bool


def refuse_kinds(roles: Roles) -> None:
    """Raise if the user asks for kinds or directions of edges, which a graph on disk does not have."""
    for name in ("type", "directed"):
        if (value := getattr(roles, name)) not in (None, "none", "symmetric"):
            fix = "leave it out to merge them, or give the tables themselves to other commands"
            raise InputError(f"{roles.name_of(name)} {value}: a graph on disk has edges of one kind; {fix}")


def edge_source(path: Path, roles: Roles) -> EdgeSource:
    """Return the edges of a file, with their columns.

    Args:
        path: a table of edges.
        roles: the columns that the user names.
    """
    table = next(blocks(path, SAMPLE_BYTES, SAMPLE_ROWS))
    if isinstance(table, TextTable):
        table = _without_bad_lines(table, path)
    columns, two_kinds = edge_columns(table, roles)
    weight = optional_column(table, roles, "weight", WEIGHT_NAMES, columns)
    log_columns(table, columns, weight, None)
    kind = optional_column(table, roles, "type", TYPE_NAMES, columns)
    if kind is not None:
        log.warning("%s: the kinds of edges in %s are merged; a graph on disk has one", path.name, table.title(kind))
    kinds = kind_names(table, columns) if roles.bipartite else None
    return EdgeSource(path, table, columns, weight, kinds, two_kinds and not roles.bipartite)


def write_rows(source: EdgeSource, work: Work) -> EdgeRows:
    """Write the ends of all rows to a Parquet file: row, source, target, weight, problem. Return what was found."""
    in_text = isinstance(source.table, TextTable)
    work.engine.execute(f"SET preserve_insertion_order = {str(in_text).lower()}")  # lines are counted as they come
    work.copy(_text_query(source) if in_text else _parquet_query(source, work), ROWS)
    work.engine.execute("SET preserve_insertion_order = false")
    if source.weight is not None:
        _read_decimal_commas(work)
    rows = f"'{quoted(work.path(ROWS))}'"
    counts = {
        int(problem): int(count) for problem, count in work.sql(f"SELECT problem, count(*) FROM {rows} GROUP BY 1")
    }
    where = work.sql(f"SELECT row, problem FROM {rows} WHERE problem > 0 ORDER BY row LIMIT {EXAMPLES}")
    unreadable = _unreadable_lines(work) if in_text else []
    # DuckDB leaves out unreadable lines before it counts, so that a line after them has a lower number.
    places = [(row + sum(line <= row for line in unreadable), problem) for row, problem in where]
    places = sorted([*places, *((line, 6) for line in unreadable)])
    types = work.sql(f"SELECT typeof(source) FROM {rows} LIMIT 1")
    return {
        "rows": sum(counts.values()) + len(unreadable),
        "bad": sum(count for problem, count in counts.items() if problem) + len(unreadable),
        "examples": [f"{source.place(row)} ({PROBLEMS[problem]})" for row, problem in places[:EXAMPLES]],
        "integers": types == [("BIGINT",)],
    }


def judge_bad_rows(found: EdgeRows, source: EdgeSource, roles: Roles, bad_rows: str) -> None:
    """Raise if there are bad rows and the user did not choose to skip them, or if no row is left."""
    if found["bad"]:
        shown = ", ".join(found["examples"]) + (", ..." if found["bad"] > len(found["examples"]) else "")
        what = f"{source.path.name}: {counted(found['bad'], 'bad row')} of {found['rows']:,}: {shown}"
        if bad_rows == "refuse":
            raise InputError(f"{what}; correct them, or give {roles.write(bad_rows='skip')}")
        log.warning("%s; skipped", what)
    if found["rows"] == found["bad"]:
        raise InputError(f"{source.path.name}: no edges; a graph needs at least one")


def _without_bad_lines(table: TextTable, path: Path) -> TextTable:
    """Return the first part of a table with blank lines in place of those that pandas would refuse."""

    def usable(line: bytes) -> bool:
        try:
            text = line.decode()
            fields = text.split() if table.separator == WHITE_SPACE else [text] if not text else _fields(text)
        except (UnicodeDecodeError, csv.Error):
            return False
        return len(fields) <= len(table.first_row) and line.count(b'"') % 2 == 0

    def _fields(text: str) -> list[str]:
        return next(csv.reader([text], delimiter=table.separator, skipinitialspace=True))

    lines = table.raw.split(b"\n")
    kept = [line if line[:1] in (b"#", b"%") or usable(line) else b"" for line in lines]
    if kept == lines:
        return table
    part = TextTable(path, table.suffix, b"\n".join(kept))
    part.marked_header = table.marked_header
    return part


def _text_query(source: EdgeSource) -> str:
    """Return the query of the rows of a text file, whose lines DuckDB reads whole and splits afterwards.

    The number of a line is then known, and the rules of comments and blank lines are those of :class:`TextTable`.
    """
    table = source.table
    assert isinstance(table, TextTable)
    before = int(table.lines[0]) + int(table.header)  # lines before the first row of edges
    lines = (
        f"read_csv('{quoted(source.path)}', columns={{'text': 'VARCHAR'}}, delim='{_NO_SEPARATOR}', quote='', "
        f"escape='', header=false, auto_detect=false, strict_mode=false, skip={before}, ignore_errors=true, "
        "store_rejects=true, max_line_size=16777216)"
    )
    mark = table.separator
    plain, quoting = f"string_split(text, '{mark}')", rf"""'{mark}\s*("(?:[^"]|"")*"\s*|[^{mark}]*)', 1"""
    quoting = f"regexp_extract_all('{mark}' || text, {quoting})"  # a separator before each field
    if mark == WHITE_SPACE:
        plain, quoting = r"regexp_extract_all(text, '\S+')", r"""regexp_extract_all(text, '"(?:[^"]|"")*"|\S+')"""
    source_id, target_id = (_unquoted(f"fields[{column + 1}]") for column in source.columns)
    weight = "" if source.weight is None else _numbers(_unquoted(f"fields[{source.weight + 1}]"))
    first = f"WHEN open_quote THEN 2 WHEN width > {len(table.first_row)} THEN 1"
    return f"""
        SELECT row, source, target{_weight(source)}, {_problem(source, first)} AS problem
        FROM (
            SELECT row, open_quote, len(fields) AS width, {source_id} AS source, {target_id} AS target{weight}
            FROM (
                SELECT row, quotes % 2 = 1 AS open_quote, CASE WHEN quotes > 0 THEN {quoting} ELSE {plain} END AS fields
                FROM (
                    SELECT row, text, length(text) - length(replace(text, '"', '')) AS quotes
                    FROM (SELECT row_number() OVER () + {before} AS row, text FROM {lines})
                    WHERE text IS NOT NULL AND text[1] NOT IN ('#', '%') AND trim(text) <> ''
                )
            )
        )"""


def _unquoted(field: str) -> str:
    """Return the expression of a field without the quotes around it."""
    inner = f"""replace(regexp_replace(trim({field}), '^"|"$', '', 'g'), '""', '"')"""
    return f"""CASE WHEN starts_with(trim({field}), '"') THEN {inner} ELSE {field} END"""


def _parquet_query(source: EdgeSource, work: Work) -> str:
    """Return the query of the rows of a Parquet file. Ids are BIGINT if both columns are integers, else text."""
    path = quoted(source.path)
    types = {str(name): str(kind) for name, kind, *_ in work.sql(f"DESCRIBE SELECT * FROM read_parquet('{path}')")}
    names = [_parquet_name(source.table, column, types) for column in source.columns]
    integers = all(types[name] in _INTEGER_TYPES for name in names)
    source_id, target_id = (f"CAST({_identifier(name)} AS {'BIGINT' if integers else 'VARCHAR'})" for name in names)
    weight = ""
    if source.weight is not None:
        name = _parquet_name(source.table, source.weight, types)
        weight = _numbers(_identifier(name), text=types[name] == "VARCHAR")
    return f"""
        SELECT row, source, target{_weight(source)}, {_problem(source, "", text=not integers)} AS problem
        FROM (
            SELECT file_row_number AS row, {source_id} AS source, {target_id} AS target{weight}
            FROM read_parquet('{path}', file_row_number=true)
        )"""


def _problem(source: EdgeSource, first: str, text: bool = True) -> str:
    """Return the expression of the problem of a row; ``first`` are the cases that come first."""
    cases = [first]
    for number, end in ((3, "source"), (4, "target")):
        # Few ids begin with a character that may be blank, so that few are trimmed.
        blank = f" OR (({end} < '!' OR {end} > '~') AND trim({end}, '{BLANKS}') = '')" if text else ""
        cases.append(f"WHEN {end} IS NULL{blank} THEN {number}")
    if source.weight is not None:
        cases.append("WHEN weight IS NULL OR NOT isfinite(weight) OR weight < 0 THEN 5")
    return f"CAST(CASE {' '.join(cases)} ELSE 0 END AS UTINYINT)"


def _weight(source: EdgeSource) -> str:
    return "" if source.weight is None else ", weight, comma, point"


def _numbers(value: str, *, text: bool = True) -> str:
    """Return the columns of a weight: its number, its text if it may have a decimal comma, and whether it has a point.

    Args:
        value: the expression of the weight.
        text: whether it is text.
    """
    if not text:
        return f", TRY_CAST({value} AS DOUBLE) AS weight, NULL::VARCHAR AS comma, false AS point"
    number = f"TRY_CAST(trim({value}) AS DOUBLE)"
    comma = f"CASE WHEN {number} IS NULL AND regexp_full_match(trim({value}), '{DECIMAL_COMMA.pattern}') "
    return f", {number} AS weight, {comma}THEN trim({value}) END AS comma, contains({value}, '.') AS point"


def _read_decimal_commas(work: Work) -> None:
    """Read weights with a decimal comma if all weights are written so, by the rule of ``has_decimal_comma``."""
    clear = f"bool_or(regexp_full_match(comma, '{CLEAR_COMMA.pattern}'))"
    rows = f"'{quoted(work.path(ROWS))}'"
    if work.sql(f"SELECT {clear}, bool_or(point AND weight IS NOT NULL) FROM {rows}") != [(True, False)]:
        return
    number = "TRY_CAST(replace(replace(comma, '.', ''), ',', '.') AS DOUBLE)"
    problem = f"CASE WHEN problem = 5 AND {number} >= 0 THEN 0 ELSE problem END"
    replaced = f"coalesce({number}, weight) AS weight, CAST({problem} AS UTINYINT) AS problem"
    work.copy(f"SELECT * REPLACE ({replaced}) FROM {rows}", ROWS)


def _parquet_name(table: Table, column: int, types: dict[str, str]) -> str:
    """Return the name of a column in the file, where an index of pandas without a name has one of its own."""
    name = table.first_row[column]
    return name if name in types else f"__index_level_{column}__"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _unreadable_lines(work: Work) -> list[int]:
    """Return the lines that are no text, which DuckDB left out."""
    return [int(line) for (line,) in work.sql("SELECT DISTINCT line FROM reject_errors ORDER BY line")]
