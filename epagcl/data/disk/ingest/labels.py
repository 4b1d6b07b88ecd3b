"""The labels: read once as text, then encoded by their distinct values and written in the order of the nodes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict

import numpy as np
import pandas as pd

from epagcl.core.errors import InputError
from epagcl.core.files import atomic_path
from epagcl.core.formatting import counted
from epagcl.core.log import log
from epagcl.data.disk.ingest.arrays import writing_array
from epagcl.data.disk.ingest.ids import Listed, write_listed
from epagcl.data.disk.ingest.node_tables import block_values, blocks
from epagcl.data.disk.ingest.nodes import NODES
from epagcl.data.disk.ingest.work import Work, quoted, require_engine
from epagcl.data.disk.layout import array_path
from epagcl.data.io.label_list import LabelColumns, label_columns, without_missing
from epagcl.data.io.readers import read_array
from epagcl.data.io.roles import Roles
from epagcl.data.io.tables.base import Table
from epagcl.data.io.tables.text import TextTable
from epagcl.data.labels import encode_labels

#: row and label, of the table of labels
LABEL_ROWS, LISTED = "label-rows.parquet", "labels.parquet"


class LabelTable(TypedDict):
    """A table of labels, as plain values: the ids of its rows, None if it has none, and the number of rows."""

    listed: tuple[str, str, bool, int, bool] | None
    rows: int


class WrittenLabels(TypedDict):
    """The names of the classes; None if the labels are numbers 0..C−1."""

    names: list[str] | None


def scan_labels(path: Path, graph_ids: Callable[[Table], np.ndarray], roles: Roles, work: Work) -> LabelTable:
    """Read labels once, and keep them as text.

    Args:
        path: a table (id, label), one column, or ``.npy`` in the order of the nodes.
        graph_ids: function that returns the ids of the graph, which help to find the column of ids of a table.
        roles: the columns that the user names.
        work: the work.
    """
    with writing_labels(work.path(LABEL_ROWS)) as write:
        if path.suffix.lower() == ".npy":
            values = np.atleast_1d(read_array(path))
            if values.ndim == 2 and values.shape[1] == 1:
                values = values[:, 0]
            if values.ndim != 1:
                raise InputError(f"{path.name}: labels have shape {values.shape}; give one per node")
            write(pd.Series(values))
            return {"listed": None, "rows": len(values)}
        first = next(blocks(path))
        columns = label_columns(first, graph_ids(first), roles)
        words: dict[str, int] = {}
        parts = _parts(path, first.header, columns, write, words)
        if columns.id is None:
            return {"listed": None, "rows": sum(len(ids) for _, ids in parts)}
        listed = write_listed(parts, LISTED, work)
        if words:
            listed_words = " or ".join(map(repr, sorted(words)))
            log.warning("%s: %s means no label (%s)", path.name, listed_words, counted(sum(words.values()), "row"))
        return {"listed": listed, "rows": listed.rows}


def write_labels(name: str, rows: str, table: LabelTable, nodes: int, integers: bool, work: Work) -> WrittenLabels:
    """Write the class number of each node.

    Args:
        name: name of the labels in messages.
        rows: the file of the work with the labels of the rows.
        table: what :func:`scan_labels` found.
        nodes: number of nodes.
        integers: whether the ids of the nodes are integers.
        work: the work.
    """
    labels, listed = f"'{quoted(work.path(rows))}'", listed_labels(table)
    if listed is None and table["rows"] != nodes:
        counts = f"{counted(table['rows'], 'label')} for {counted(nodes, 'node')}"
        raise InputError(f"{name}: {counts}; give one per node")
    query = f"SELECT row AS node, label FROM {labels} WHERE label IS NOT NULL"
    if listed is not None:
        same = "n.id = i.id" if integers == listed.integers else "CAST(n.id AS VARCHAR) = CAST(i.id AS VARCHAR)"
        query = f"""SELECT n.node, l.label FROM {labels} l JOIN '{quoted(work.path(listed.file))}' i ON l.row = i.row
            JOIN '{quoted(work.path(NODES))}' n ON {same} WHERE l.label IS NOT NULL"""
    found = work.sql(f"SELECT label, count(*) FROM {labels} WHERE label IS NOT NULL GROUP BY label")
    distinct = pd.Series([str(label) for label, _ in found], dtype=object)
    codes, names = encode_labels(distinct, name, np.array([int(count) for _, count in found]))
    class_of = pd.Series(codes.numpy(), index=distinct)
    y = np.full(nodes, -1, dtype=np.int64)
    for batch in work.batches(query, nodes):
        numbers = class_of.reindex(batch.column(1).to_pandas()).fillna(-1).to_numpy(dtype=np.int64)
        y[batch.column(0).to_numpy()] = numbers
    with writing_array(array_path(work.target, "labels"), np.int64) as writer:
        writer.append(y)
    return {"names": names}


def listed_labels(table: LabelTable) -> Listed | None:
    """Return the ids of the rows of labels; None if they have none."""
    return None if table["listed"] is None else Listed(*table["listed"])


@contextmanager
def writing_labels(path: Path) -> Iterator[Callable[[pd.Series], None]]:
    """Yield a function that appends labels as text, with null for missing ones, to a Parquet file: row, label."""
    _, pa = require_engine()
    import pyarrow.parquet as parquet

    schema = pa.schema([("row", pa.int64()), ("label", pa.string())])
    with atomic_path(path) as temporary, parquet.ParquetWriter(temporary, schema) as writer:
        rows = 0

        def write(labels: pd.Series) -> None:
            nonlocal rows
            text = labels.astype(object).map(lambda label: str(label).strip(), na_action="ignore")
            text = text.where(text.notna() & (text != ""), None)
            number = np.arange(rows, rows + len(text))
            writer.write_table(pa.table([pa.array(number), pa.array(text, pa.string())], schema=schema))
            rows += len(text)

        yield write


def _parts(
    path: Path, header: bool, columns: LabelColumns, write: Callable[[pd.Series], None], words: dict[str, int]
) -> Iterator[tuple[Table, np.ndarray]]:
    """Yield the blocks of a table with the ids of their rows, and write their labels.

    ``words`` counts the words that mean no label, in a text table.
    """
    for number, block in enumerate(blocks(path)):
        block.header = header and (number == 0 or not isinstance(block, TextTable))
        frame = block_values(block, columns.id, columns.label)
        labels = frame[columns.label]
        if isinstance(block, TextTable):
            given, labels = labels, without_missing(labels)
            for word in given[labels.isna() & given.notna()]:
                words[str(word).strip()] = words.get(str(word).strip(), 0) + 1
            words.pop("", None)
        write(labels)
        yield block, frame[columns.label if columns.id is None else columns.id].to_numpy(dtype=object)
