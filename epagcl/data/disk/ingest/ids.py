"""The distinct ids of the edges and of other tables, by the rules of :mod:`epagcl.data.io.ids`, in DuckDB."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypedDict

import numpy as np

from epagcl.core.errors import InputError
from epagcl.core.files import atomic_path
from epagcl.core.formatting import counted
from epagcl.core.log import log
from epagcl.data.disk.ingest.edge_rows import BLANKS, ROWS, EdgeSource
from epagcl.data.disk.ingest.node_tables import place_in_words, place_numbers
from epagcl.data.disk.ingest.work import Work, quoted, require_engine
from epagcl.data.io.edge_list import shared_ids
from epagcl.data.io.roles import Roles
from epagcl.data.io.tables.base import Table
from epagcl.data.io.tables.text import TextTable

#: raw and side (the text in the rows), id, first (its position in the rows), and if needed at_source and at_target
EDGE_IDS = "edge-ids.parquet"
_DISTINCT = "distinct-{}.parquet"
#: Memory of DuckDB for each distinct id that it groups, roughly, and the share of its memory for them.
_GROUP_BYTES, _GROUP_SHARE = 200, 0.6
_INTEGER = r"(0|-?[1-9][0-9]*)(\.0+)?"


class IdSummary(TypedDict):
    """The distinct ids of the edges: how many, whether all are integers, and their bounds if they are.

    ``plain`` says that every id is as in the rows: not trimmed, not written in another way, and without a kind.
    """

    count: int
    integers: bool
    plain: bool
    low: int
    high: int


class Listed(NamedTuple):
    """The ids of a table with one row per node, in a Parquet file: row, place, id.

    Attributes:
        name: name of the table in messages.
        file: name of the Parquet file.
        integers: whether the ids are integers.
        rows: number of rows.
        in_text: whether ``place`` is a line, and not a row.
    """

    name: str
    file: str
    integers: bool
    rows: int
    in_text: bool

    def place(self, number: int) -> str:
        """Return a position in the table, for messages."""
        return place_in_words(number, self.in_text)


def write_edge_ids(source: EdgeSource, integers: bool, roles: Roles, work: Work) -> IdSummary:
    """Write the distinct ids of the edges. Return how many there are.

    Args:
        source: the edges.
        integers: whether the columns of the ends are integers in the file.
        roles: how messages write arguments.
        work: the work.
    """
    distinct = _write_distinct(source, work)
    if source.kinds:
        kinds = [quoted(kind) for kind in source.kinds]
        by_side = [_id_expression(distinct, integers, work, f"WHERE side = {side}")[0] for side in (0, 1)]
        prefixed = [f"'{kind}:' || CAST({each} AS VARCHAR)" for kind, each in zip(kinds, by_side, strict=True)]
        expression, integers = f"CASE WHEN side = 0 THEN {prefixed[0]} ELSE {prefixed[1]} END", False
    else:
        expression, integers = _id_expression(distinct, integers, work)
    work.copy(f"SELECT *, {expression} AS id FROM {distinct}", EDGE_IDS)
    for path in work.folder.glob(_DISTINCT.format("*")):
        path.unlink()
    ids = f"'{quoted(work.path(EDGE_IDS))}'"
    ((changed,),) = work.sql(f"SELECT EXISTS (SELECT 1 FROM {ids} WHERE CAST(id AS VARCHAR) <> CAST(raw AS VARCHAR))")
    if integers and changed:
        _report_merged(source.table.name, ids, work)
    if source.two_kinds:
        _refuse_shared(source, ids, roles, work)
    number = "count(DISTINCT id)" if changed else "count(*)"
    bounds = "min(id), max(id)" if integers else "0, 0"
    ((count, low, high),) = work.sql(f"SELECT {number}, {bounds} FROM {ids}")
    ((same_type,),) = work.sql(f"SELECT typeof(id) = typeof(raw) FROM {ids} LIMIT 1")
    plain = bool(same_type) and not changed
    return {"count": int(count), "integers": integers, "plain": plain, "low": int(low), "high": int(high)}


def _write_distinct(source: EdgeSource, work: Work) -> str:
    """Write the distinct ids as they are in the rows, in passes that fit in memory. Return the table of all."""
    rows = f"'{quoted(work.path(ROWS))}'"
    ends = f"SELECT source AS raw FROM {rows} WHERE problem = 0 UNION ALL SELECT target FROM {rows} WHERE problem = 0"
    ((distinct,),) = work.sql(f"SELECT approx_count_distinct(raw) FROM ({ends})")
    passes = max(math.ceil(int(distinct) * _GROUP_BYTES / (work.engine_memory * _GROUP_SHARE)), 1)
    side = "side" if source.kinds else "0"
    sides = ", bool_or(side = 0) AS at_source, bool_or(side = 1) AS at_target" if source.two_kinds else ""
    for number in range(passes):
        work.copy(
            f"""SELECT raw, {side} AS side, min(position) AS first{sides}
                FROM (
                    SELECT source AS raw, 2 * row AS position, 0 AS side FROM {rows}
                    WHERE problem = 0 AND hash(source) % {passes} = {number}
                    UNION ALL
                    SELECT target, 2 * row + 1, 1 FROM {rows}
                    WHERE problem = 0 AND hash(target) % {passes} = {number}
                ) GROUP BY raw{", side" if source.kinds else ""}""",
            _DISTINCT.format(number),
        )
    files = ", ".join(f"'{quoted(work.path(_DISTINCT.format(number)))}'" for number in range(passes))
    return f"read_parquet([{files}])"


def write_listed(blocks: Iterator[tuple[Table, np.ndarray]], name: str, work: Work) -> Listed:
    """Write the ids of a table with one row per node. Raise if one is missing or occurs twice.

    Args:
        blocks: the table in blocks, each with the ids of its rows: text, with None or NaN for missing ones.
        name: name of the Parquet file.
        work: the work.
    """
    raw = f"raw-{name}"
    with atomic_path(work.path(raw)) as temporary:
        table, rows = _write_raw(blocks, temporary)
    source = f"'{quoted(work.path(raw))}'"
    in_text = isinstance(table, TextTable)
    listed = Listed(table.name, name, False, rows, in_text)
    missing = f"SELECT place FROM {source} WHERE raw IS NULL OR trim(raw, '{BLANKS}') = '' ORDER BY row LIMIT 1"
    if found := work.sql(missing):
        place = listed.place(found[0][0])
        raise InputError(f"{table.name}: {place}: the id is missing; fill it or drop the row")
    expression, integers = _id_expression(source, False, work)
    work.copy(f"SELECT row, place, {expression} AS id FROM {source}", name)
    work.path(raw).unlink()
    listed = listed._replace(integers=integers)
    _refuse_repeated(listed, work)
    return listed


def _write_raw(blocks: Iterator[tuple[Table, np.ndarray]], path: Path) -> tuple[Table, int]:
    """Write the ids of all blocks as text. Return the first block and the number of rows."""
    _, pa = require_engine()
    import pyarrow.parquet as parquet

    schema = pa.schema([("row", pa.int64()), ("place", pa.int64()), ("raw", pa.string())])
    rows, first = 0, None
    with parquet.ParquetWriter(path, schema) as writer:
        for block, ids in blocks:
            first = first or block
            count = len(ids)
            number, place = np.arange(rows, rows + count), place_numbers(block, count)
            text = pa.array(ids, pa.string(), from_pandas=True)
            writer.write_table(pa.table([pa.array(number), pa.array(place), text], schema=schema))
            rows += count
    assert first is not None  # an empty table is refused by its reader
    return first, rows


def _id_expression(table: str, integers: bool, work: Work, where: str = "WHERE true") -> tuple[str, bool]:
    """Return the expression of an id by its text ``raw``, and whether it is an integer.

    Ids are integers if all are written as one. This is judged on distinct ids, and ends at the first that is not.
    """
    if integers:
        return "raw", True
    text = f"trim(raw, '{BLANKS}')"
    number = f"TRY_CAST(split_part({text}, '.', 1) AS BIGINT)"
    other = f"NOT regexp_full_match({text}, '{_INTEGER}') OR {number} IS NULL"
    ((found,),) = work.sql(f"SELECT EXISTS (SELECT 1 FROM {table} {where} AND ({other}))")
    return (text, False) if found else (number, True)


def _report_merged(name: str, ids: str, work: Work) -> None:
    """Warn if ids that are written differently become one id, as 7 and 7.0."""
    written = (
        f"SELECT id, trim(CAST(raw AS VARCHAR), '{BLANKS}') AS written, min(first) AS first FROM {ids} GROUP BY ALL"
    )
    merged = work.sql(
        f"""SELECT sum(count(*) - 1) OVER (), list(written ORDER BY first)[1:2]
            FROM ({written}) GROUP BY id HAVING count(*) > 1 ORDER BY min(first) LIMIT 1"""
    )
    if merged:
        count, (one, other) = merged[0]
        pairs = counted(int(count), "such pair")
        log.warning("%s: ids written differently are one node: %r and %r (%s)", name, one, other, pairs)


def _refuse_shared(source: EdgeSource, ids: str, roles: Roles, work: Work) -> None:
    """Raise if an id occurs at both ends, and the names of the columns suggest nodes of two kinds."""
    both = f"SELECT id, min(first) AS first FROM {ids} GROUP BY id HAVING bool_or(at_source) AND bool_or(at_target)"
    shared = work.sql(f"SELECT id, count(*) OVER () FROM ({both}) ORDER BY first LIMIT 4")
    if shared:
        raise shared_ids(source.table, source.columns, int(shared[0][1]), [node for node, _ in shared], roles)


def _refuse_repeated(listed: Listed, work: Work) -> None:
    """Raise if an id occurs twice."""
    file = f"'{quoted(work.path(listed.file))}'"
    ((distinct,),) = work.sql(f"SELECT count(DISTINCT id) FROM {file}")
    if distinct == listed.rows:
        return
    second = "SELECT *, row_number() OVER (PARTITION BY id ORDER BY row) AS k, min(place) OVER (PARTITION BY id) AS one"
    ((node, one, two),) = work.sql(
        f"SELECT id, one, place FROM ({second} FROM {file}) WHERE k = 2 ORDER BY row LIMIT 1"
    )
    places = f"{listed.place(one)} and {listed.place(two)}"
    repeats = counted(listed.rows - int(distinct), "repeated row")
    raise InputError(f"{listed.name}: id {node} is in {places} ({repeats}); keep one row per node")


def with_kinds(listed: Listed, kinds: tuple[str, str], work: Work) -> Listed:
    """Return the ids of another table as ids of a bipartite graph: each with its kind before it.

    An id that begins with its kind, or that the edges do not have, is unchanged.
    """
    file, edge_ids = work.path(listed.file), f"SELECT DISTINCT id FROM '{quoted(work.path(EDGE_IDS))}'"
    text = "CAST(l.id AS VARCHAR)"
    first, second = (f"'{quoted(kind)}:' || {text}" for kind in kinds)
    query = f"""
        SELECT l.row, l.place, {text} AS plain, a.id IS NOT NULL AND b.id IS NOT NULL AND e.id IS NULL AS doubtful,
            CASE WHEN e.id IS NOT NULL THEN {text} ELSE coalesce(a.id, b.id, {text}) END AS id
        FROM '{quoted(file)}' l LEFT JOIN ({edge_ids}) e ON e.id = {text}
        LEFT JOIN ({edge_ids}) a ON a.id = {first} LEFT JOIN ({edge_ids}) b ON b.id = {second}"""
    if found := work.sql(f"SELECT plain FROM ({query}) WHERE doubtful ORDER BY row LIMIT 1"):
        node = found[0][0]
        choice = f"{kinds[0]}:{node} or {kinds[1]}:{node}"
        raise InputError(f"{listed.name}: id {node} is a {kinds[0]} and a {kinds[1]}; write {choice}")
    work.copy(f"SELECT row, place, id FROM ({query})", f"kinds-{listed.file}")
    listed = listed._replace(integers=False, file=f"kinds-{listed.file}")
    _refuse_repeated(listed, work)
    return listed
