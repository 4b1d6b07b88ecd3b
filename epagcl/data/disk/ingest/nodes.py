"""The number of each node, by the rules of :func:`epagcl.read_graph`, and the ids in this order."""

from typing import NamedTuple, TypedDict

import numpy as np

from epagcl.core.errors import InputError
from epagcl.core.formatting import counted
from epagcl.core.log import log
from epagcl.data.disk.ingest.arrays import writing_array
from epagcl.data.disk.ingest.edge_rows import ROWS, EdgeSource
from epagcl.data.disk.ingest.ids import EDGE_IDS, IdSummary, Listed
from epagcl.data.disk.ingest.work import Work, quoted
from epagcl.data.disk.layout import array_path
from epagcl.data.io.edge_list import FoundIds, row_numbering
from epagcl.data.io.ids import examples

#: node and id of all nodes
NODES = "nodes.parquet"
#: raw, side and node: from the text in the rows to the number, unless ids are as in the rows
MAPPING = "mapping.parquet"
MOST_NODES = 2**31 - 1
_PART = 2**60  # ids of a later table come after all ids of an earlier one


class NodeParts(NamedTuple):
    """What the nodes come from, besides the edges.

    Attributes:
        rows: the ids of the rows of the features, or of a list of nodes.
        unnamed: number of rows without ids, of features or labels, and the name of their table; None if there are none.
        closed: whether there are no nodes but those of ``rows``, because they have features.
        labels: the ids of the labels.
    """

    rows: Listed | None = None
    unnamed: tuple[int, str] | None = None
    closed: bool = False
    labels: Listed | None = None


class Numbered(TypedDict):
    """How many nodes there are, whether their ids are integers, and the row of the edges that is a header.

    ``mapped`` says that ids in the rows are found in :data:`MAPPING`, and not in :data:`NODES`.
    """

    nodes: int
    integers: bool
    header_row: int | None
    mapped: bool


def number_nodes(source: EdgeSource, found: IdSummary, parts: NodeParts, nodes_argument: str, work: Work) -> Numbered:
    """Write the number of each id. Raise if an end of an edge is not a node.

    Args:
        source: the edges.
        found: their distinct ids.
        parts: the other tables.
        nodes_argument: the argument that gives the ids of rows, in messages.
        work: the work.
    """
    edge_ids = f"'{quoted(work.path(EDGE_IDS))}'"
    header_row = None
    if parts.unnamed is not None and parts.rows is None:
        query, integers = _by_rows(source, found, parts.unnamed, nodes_argument, work), found["integers"]
    elif parts.closed:
        assert parts.rows is not None
        header_row = _refuse_unknown(source, found, parts.rows, work)
        integers = parts.rows.integers
        query = f"SELECT row AS node, id FROM '{quoted(work.path(parts.rows.file))}'"
    else:
        header_row = _header_row(source, [part for part in (parts.rows, parts.labels) if part is not None], work)
        query, integers = _in_order(found, parts, header_row, work)
    work.copy(query, NODES)
    nodes = f"'{quoted(work.path(NODES))}'"
    ((count, low, high),) = work.sql(f"SELECT count(*), {'min(id), max(id)' if integers else '0, 0'} FROM {nodes}")
    if count > MOST_NODES:
        raise InputError(f"{source.path.name}: {count:,} nodes; at most {MOST_NODES:,} can be ingested")
    ascending = integers and low == 0 and high == count - 1 and parts.rows is None
    if ascending and parts.unnamed is None:  # integers that are exactly 0..N−1
        work.copy("SELECT range AS node, range AS id FROM range(" + str(count) + ")", NODES)
    if parts.labels is not None:
        _judge_labels(parts, source, nodes, integers, work)
    mapped = not found["plain"] or integers != found["integers"]
    if mapped:
        same = "n.id = e.id" if integers == found["integers"] else _as_text("n.id", "e.id")
        work.copy(f"SELECT e.raw, e.side, n.node FROM {edge_ids} e JOIN {nodes} n ON {same}", MAPPING)
    return {"nodes": int(count), "integers": integers, "header_row": header_row, "mapped": mapped}


def write_ids(numbered: Numbered, work: Work) -> Numbered:
    """Write the ids of all nodes to the folder of the graph."""
    query = f"SELECT id FROM '{quoted(work.path(NODES))}' ORDER BY node"
    work.engine.execute("SET preserve_insertion_order = true")
    batches = work.batches(query, numbered["nodes"])
    if numbered["integers"]:
        with writing_array(array_path(work.target, "ids"), np.int64) as writer:
            for batch in batches:
                writer.append(batch.column(0).to_numpy(zero_copy_only=False))
    else:
        offsets_path, text_path = array_path(work.target, "ids.offsets"), array_path(work.target, "ids.text")
        end = 0
        with writing_array(offsets_path, np.int64) as offsets, writing_array(text_path, np.uint8) as text:
            offsets.append(np.zeros(1, dtype=np.int64))
            for batch in batches:
                column = batch.column(0).cast("large_string")
                _, places, data = column.buffers()
                ends = np.frombuffer(places, np.int64)[column.offset : column.offset + len(column) + 1]
                text.append(np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]])
                offsets.append(ends[1:] - ends[0] + end)
                end += int(ends[-1] - ends[0])
    work.engine.execute("SET preserve_insertion_order = false")
    return numbered


def _by_rows(source: EdgeSource, found: IdSummary, unnamed: tuple[int, str], nodes_argument: str, work: Work) -> str:
    """Return the query of nodes that are the rows of a table without ids."""
    rows, name = unnamed
    edge_ids = f"'{quoted(work.path(EDGE_IDS))}'"
    ordered = f"SELECT id, min(first) AS first FROM {edge_ids} GROUP BY id"
    bounds = (found["low"], found["high"]) if found["integers"] else None
    first = [node for node, _ in work.sql(f"{ordered} ORDER BY first LIMIT 4")]
    place = ""
    if bounds is not None and bounds[0] < 0:
        ((position,),) = work.sql(f"SELECT min(first) FROM {edge_ids} WHERE id = {bounds[0]}")
        place = source.place(int(position) // 2)
    start = row_numbering(FoundIds(source.path.name, found["count"], bounds, first, place), rows, name, nodes_argument)
    if start is None:
        return f"SELECT row_number() OVER (ORDER BY first) - 1 AS node, id FROM ({ordered})"
    return f"SELECT range AS node, range + {start} AS id FROM range({rows})"


def _in_order(found: IdSummary, parts: NodeParts, header_row: int | None, work: Work) -> tuple[str, bool]:
    """Return the query of the nodes of a list, then of the edges, then of the labels, and whether ids are integers."""
    others = [part for part in (parts.rows, parts.labels) if part is not None]
    integers = found["integers"] and all(part.integers for part in others)
    id_ = "id" if integers else "CAST(id AS VARCHAR) AS id"
    kept = "" if header_row is None else f" WHERE first // 2 <> {header_row}"
    of_edges = f"SELECT {id_}, {_PART} + first AS place FROM '{quoted(work.path(EDGE_IDS))}'{kept}"
    if not found["plain"]:  # ids that are written differently are one node
        of_edges = f"SELECT id, min(place) AS place FROM ({of_edges}) GROUP BY id"
    # Joins spill what does not fit in memory; groups of all tables together would need more of it.
    tables: list[str] = []
    for part, number in ((parts.rows, 0), (None, 1), (parts.labels, 2)):
        if part is None and number != 1:
            continue
        file = "" if part is None else quoted(work.path(part.file))
        query = of_edges if part is None else f"SELECT {id_}, {number * _PART} + row AS place FROM '{file}'"
        earlier = " ".join(f"ANTI JOIN ({table}) e{k} ON t.id = e{k}.id" for k, table in enumerate(tables))
        tables.append(f"SELECT t.id, t.place FROM ({query}) t {earlier}")
    ordered = " UNION ALL ".join(tables)
    return f"SELECT row_number() OVER (ORDER BY place) - 1 AS node, id FROM ({ordered})", integers


def _header_row(source: EdgeSource, known: list[Listed], work: Work) -> int | None:
    """Return the first row if it is a header: the only row with ids that are not known. Else None.

    Its two ids must be text and occur nowhere else. Warn if the ids of other tables cannot settle it.
    """
    edge_ids = f"'{quoted(work.path(EDGE_IDS))}'"
    if source.table.header or source.kinds:
        return None
    ((first, rows),) = work.sql(f"SELECT min(row), count(*) FROM '{quoted(work.path(ROWS))}' WHERE problem = 0")
    ends = work.sql(f"SELECT id, raw FROM {edge_ids} WHERE first // 2 = {first} ORDER BY first")
    if rows == 1 or len(ends) != 2 or not all(isinstance(node, str) for node, _ in ends):
        return None
    names, raw = zip(*ends, strict=True)
    others = f"FROM '{quoted(work.path(ROWS))}' WHERE problem = 0 AND row <> {first} AND (source IN $1 OR target IN $1)"
    if work.sql(f"SELECT 1 {others} LIMIT 1", [list(raw)]):
        return None
    unknown = [_unknown(edge_ids, part, work) for part in known]
    if any(set(names) - set(missing) for _, missing in unknown):  # one of the two is known
        return None
    if any(count == 2 for count, _ in unknown):
        log.info("%s: the first row is read as a header (%s)", source.path.name, ", ".join(names))
        return int(first)
    fix = "if it is a header, call its columns source and target"
    log.warning("%s: %s (%s) is read as an edge; %s", source.path.name, source.place(first), ", ".join(names), fix)
    return None


def _unknown(edge_ids: str, listed: Listed, work: Work) -> tuple[int, list[str]]:
    """Return how many distinct ids of the edges a table lacks, and the first of them."""
    unknown = work.sql(
        f"""SELECT CAST(e.id AS VARCHAR), count(*) OVER ()
            FROM (SELECT id, min(first) AS first FROM {edge_ids} GROUP BY id) e
            ANTI JOIN '{quoted(work.path(listed.file))}' l ON {_as_text("e.id", "l.id")} ORDER BY e.first LIMIT 4"""
    )
    return (int(unknown[0][1]), [node for node, _ in unknown]) if unknown else (0, [])


def _refuse_unknown(source: EdgeSource, found: IdSummary, listed: Listed, work: Work) -> int | None:
    """Raise if an end of an edge has no row in the table of nodes. Return the row of the edges that is a header."""
    count, unknown = _unknown(f"'{quoted(work.path(EDGE_IDS))}'", listed, work)
    if count == 0:
        return None
    if count == 2 and (row := _header_row(source, [listed], work)) is not None:
        return row
    message = f"{listed.name}: no row for {counted(count, 'node')} of {source.path.name} ({examples(unknown)})"
    raise InputError(f"{message}; give every node a row, or drop its edges")


def _judge_labels(parts: NodeParts, source: EdgeSource, nodes: str, integers: bool, work: Work) -> None:
    """Raise if labels are of nodes that do not exist. Warn of nodes that only the labels have."""
    labels = parts.labels
    assert labels is not None
    closed = parts.closed or parts.unnamed is not None
    known = nodes if closed else f"'{quoted(work.path(EDGE_IDS))}'"
    if parts.rows is not None and not closed:
        rows = f"SELECT CAST(id AS VARCHAR) AS id FROM '{quoted(work.path(parts.rows.file))}'"
        known = f"(SELECT CAST(id AS VARCHAR) AS id FROM {known} UNION ALL {rows})"
    absent = work.sql(
        f"""SELECT CAST(l.id AS VARCHAR), count(*) OVER (), l.place FROM '{quoted(work.path(labels.file))}' l
            ANTI JOIN {known} k ON {_as_text("l.id", "k.id")} ORDER BY l.row LIMIT 4"""
    )
    if not absent:
        return
    count, shown = int(absent[0][1]), examples([node for node, *_ in absent])
    if closed or count == labels.rows:
        what = f"{labels.name}: {labels.place(absent[0][2])}: {counted(count, 'id')} not in the graph ({shown})"
        fix = "drop these rows, or add the nodes to the features" if closed else f"use the ids of {source.path.name}"
        raise InputError(f"{what}; {fix}")
    added = f"{counted(count, 'node')} without edges ({shown})"
    log.warning("%s: %s added to the nodes of %s", labels.name, added, source.path.name)


def _as_text(one: str, other: str) -> str:
    return f"CAST({one} AS VARCHAR) = CAST({other} AS VARCHAR)"
