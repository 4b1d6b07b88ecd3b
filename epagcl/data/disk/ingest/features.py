"""The features: read once to find ids, columns and an encoding, and once more to write them, block by block."""

import functools
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from torch import Tensor

from epagcl.core.errors import InputError
from epagcl.core.log import log
from epagcl.core.sparse import SparseMatrix
from epagcl.data.checking import check_features
from epagcl.data.disk.ingest.arrays import ArrayWriter, writing_array
from epagcl.data.disk.ingest.ids import EDGE_IDS, IdSummary, Listed, write_listed
from epagcl.data.disk.ingest.labels import writing_labels
from epagcl.data.disk.ingest.node_tables import block_values, blocks, place_in_words, place_numbers
from epagcl.data.disk.ingest.work import Work, quoted, require_engine
from epagcl.data.disk.layout import array_path
from epagcl.data.io.columns.encoding import TableEncoding, raw_table
from epagcl.data.io.edge_list import EdgeIds
from epagcl.data.io.encoded import encode_table
from epagcl.data.io.feature_list import FeatureColumns, feature_columns
from epagcl.data.io.features import feature_tensor, table_features
from epagcl.data.io.ids import is_id_name
from epagcl.data.io.label_list import without_missing
from epagcl.data.io.npz import DAMAGED
from epagcl.data.io.readers import read_array
from epagcl.data.io.roles import Roles
from epagcl.data.io.tables.base import Table
from epagcl.data.io.tables.text import TextTable

#: An encoding is fitted to at most this many cells of the table, in rows that are evenly spread.
FIT_CELLS = 10_000_000
#: Of graphs with more distinct ids, only those that the first block of the table contains are compared.
MOST_IDS = 1_000_000
ROWS_AT_ONCE = 2**14
LISTED, LABELS = "features.parquet", "features-labels.parquet"


class FeatureTable(TypedDict):
    """A table or array of features, as plain values.

    Attributes:
        columns: the columns of the ids and of the labels, and all that are no features; None for an array.
        header: whether the table has a header.
        listed: the ids of its rows; None if it has none.
        rows: number of rows.
        names: the names of the columns that become features; None without header.
        encoding: how they become features; None if they are used as they are.
        sparse: whether the features are sparse.
    """

    columns: tuple[int | None, int | None, list[int]] | None
    header: bool
    listed: tuple[str, str, bool, int, bool] | None
    rows: int
    names: list[str] | None
    encoding: dict[str, Any] | None
    sparse: bool


class WrittenFeatures(TypedDict):
    """The features that were written: their number and names."""

    features: int
    names: list[str] | None


def scan_features(
    path: Path, found: IdSummary, kinds: tuple[str, str] | None, roles: Roles, *, listed: bool, label: bool, work: Work
) -> FeatureTable:
    """Read features once: find their columns and ids, and fit the encoding.

    Args:
        path: a table, or an array in ``.npy`` or ``.npz``.
        found: the distinct ids of the edges.
        kinds: the names of the two kinds of nodes of a bipartite graph, else None.
        roles: the columns that the user names.
        listed: whether a separate list has the ids of the rows.
        label: whether the table has the column of labels that the user names.
        work: the work.
    """
    if path.suffix.lower() in (".npy", ".npz"):
        return _scan_array(path)
    first = next(blocks(path))
    edge_ids = compared_ids(first, found["count"], found["integers"], work)
    columns = feature_columns(first, EdgeIds(edge_ids, roles, kinds), listed, label)
    sample = _Sample(len(first.first_row) - len(columns.dropped), isinstance(first, TextTable))
    parts = _frames(path, first.header, columns)
    if columns.id is not None:
        ids = write_listed(_with_ids(parts, columns, sample), LISTED, work)
        rows = ids.rows
    else:
        ids, rows = None, 0
        for block, frame in parts:
            sample.add(frame.drop(columns=columns.dropped), block)
            rows += len(frame)
    frame = sample.frame()
    names = [first.first_row[int(column)] for column in frame.columns] if first.header else None
    encoded = encode_table(frame, names, path.name, sample.place, roles)
    if len(frame) < rows:
        log.info("%s: its columns are judged by %s of %s rows", path.name, f"{len(frame):,}", f"{rows:,}")
    return {
        "columns": columns,
        "header": first.header,
        "listed": ids,
        "rows": rows,
        "names": encoded.names,
        "encoding": None if encoded.encoding is None else encoded.encoding.to_dict(),
        "sparse": encoded.x.layout != torch.strided,
    }


def write_features(path: Path, table: FeatureTable, work: Work) -> WrittenFeatures:
    """Write the features to the folder of the graph, and the labels in the same table to the work.

    Args:
        path: the table or array.
        table: what :func:`scan_features` found.
        work: the work.
    """
    parts = _array_parts(path) if table["columns"] is None else _table_parts(path, table, work)
    same, first, done = True, None, 0
    with ExitStack() as stack:
        writers: list[ArrayWriter] = []
        for x in parts:
            if not writers:
                writers = _open_writers(x.shape[1], table["sparse"], work, stack)
            _append(writers, x)
            if x.layout == torch.strided:
                first = x[:1].clone() if first is None else first
                same = same and bool((x == first).all())
            done += x.shape[0]
            work.progress(done / table["rows"])
        if same and first is not None and table["rows"] > 1:
            log.warning("%s: all nodes have the same features; only their edges can tell them apart", path.name)
        return {"features": x.shape[1], "names": table["names"]}


def listed_of(table: FeatureTable) -> Listed | None:
    """Return the ids of the rows of features; None if they have none."""
    return None if table["listed"] is None else Listed(*table["listed"])


def compared_ids(table: Table, count: int, integers: bool, work: Work, listed: Listed | None = None) -> np.ndarray:
    """Return the ids that help to find the column of ids of a table: all, or if they are many, those that it contains.

    Args:
        table: the first block of the table.
        count: number of distinct ids.
        integers: whether they are integers.
        work: the work.
        listed: the ids of the nodes; by default those of the edges.
    """
    ids = f"'{quoted(work.path(EDGE_IDS if listed is None else listed.file))}'"
    query = f"SELECT id FROM {ids} GROUP BY id ORDER BY min({'first' if listed is None else 'row'})"
    if count > MOST_IDS:
        _, pa = require_engine()
        candidates = [0, *(column for column, name in enumerate(table.first_row) if is_id_name(name))]
        texts = pd.concat([block_values(table, column)[column].dropna() for column in candidates])
        values = pa.table({"id": pa.array(texts.map(lambda text: str(text).strip()), pa.string())})
        work.engine.register("candidates", values)
        query = f"SELECT id FROM {ids} WHERE CAST(id AS VARCHAR) IN (SELECT id FROM candidates) GROUP BY id"
    rows = [node for (node,) in work.sql(query)]
    return np.array(rows, dtype=np.int64 if integers else object)


class _Sample:
    """Rows of a table, evenly spread: every k-th, where k doubles whenever there are too many.

    Args:
        columns: number of columns.
        in_text: whether rows are told by their line.
    """

    def __init__(self, columns: int, in_text: bool):
        self.most, self.step, self.rows, self.in_text = max(FIT_CELLS // max(columns, 1), 1000), 1, 0, in_text
        self.parts: list[tuple[np.ndarray, np.ndarray, pd.DataFrame]] = []  # numbers of rows, places, rows

    def add(self, frame: pd.DataFrame, block: Table) -> None:
        """Add the rows of a block."""
        number = self.rows + np.arange(len(frame))
        self.parts.append(self._chosen(number, place_numbers(block, len(frame)), frame))
        self.rows += len(frame)
        while self.rows / self.step > self.most:
            self.step *= 2
            self.parts = [self._chosen(*part) for part in self.parts]

    def _chosen(
        self, number: np.ndarray, place: np.ndarray, frame: pd.DataFrame
    ) -> tuple[np.ndarray, np.ndarray, pd.DataFrame]:
        if self.step == 1:
            return number, place, frame
        chosen = number % self.step == 0
        return number[chosen], place[chosen], frame[chosen].copy()

    def frame(self) -> pd.DataFrame:
        """Return the rows, numbered from 0."""
        return pd.concat([part for _, _, part in self.parts], ignore_index=True)

    def place(self, row: int) -> str:
        """Return the position of a row of the sample, for messages."""
        places = np.concatenate([place for _, place, _ in self.parts])
        return place_in_words(int(places[row]), self.in_text)


def _frames(path: Path, header: bool, columns: FeatureColumns) -> Iterator[tuple[Table, pd.DataFrame]]:
    """Yield the blocks of a table with their rows."""
    for number, block in enumerate(blocks(path)):
        block.header = header and (number == 0 or not isinstance(block, TextTable))
        yield block, block_values(block, columns.id, columns.label)


def _with_ids(
    parts: Iterator[tuple[Table, pd.DataFrame]], columns: FeatureColumns, sample: _Sample
) -> Iterator[tuple[Table, np.ndarray]]:
    """Yield the blocks with the ids of their rows, and add their features to the sample."""
    for block, frame in parts:
        sample.add(frame.drop(columns=columns.dropped), block)
        yield block, frame[columns.id].to_numpy(dtype=object)


def _scan_array(path: Path) -> FeatureTable:
    """Return the size and layout of features in an array."""
    array = _mapped(path)
    sparse = not isinstance(array, np.ndarray)
    if not sparse and array.ndim != 2:
        raise InputError(f"{path.name}: features have shape {array.shape}; they must be nodes × columns")
    return {
        "columns": None,
        "header": False,
        "listed": None,
        "rows": array.shape[0],
        "names": None,
        "encoding": None,
        "sparse": sparse,
    }


def _mapped(path: Path) -> "np.ndarray | scipy.sparse.csr_array":
    """Return an array in a file, mapped into memory if it is dense."""
    if path.suffix.lower() == ".npz":
        return read_array(path)
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except DAMAGED:
        fix = "save a plain array with np.save(path, x)"
        raise InputError(f"{path.name}: contains Python objects or is not a NumPy file; {fix}") from None


def _array_parts(path: Path) -> Iterator[Tensor]:
    """Yield the rows of an array as checked features, in parts."""
    array = _mapped(path)
    rows = array.shape[0]
    for start in range(0, rows, ROWS_AT_ONCE):
        part = feature_tensor(array[start : start + ROWS_AT_ONCE], path.name)
        yield check_features(part, path.name, functools.partial(_place_in_array, start))


def _place_in_array(start: int, row: int, column: int) -> str:
    return f"row {start + row}, column {column} (counted from 0)"


def _table_parts(path: Path, table: FeatureTable, work: Work) -> Iterator[Tensor]:
    """Yield the rows of a table as checked features, in blocks. Write the labels in the table beside them."""
    assert table["columns"] is not None
    columns = FeatureColumns(*table["columns"])
    encoding = None if table["encoding"] is None else TableEncoding.from_dict(table["encoding"])
    with ExitStack() as stack:
        labels = None if columns.label is None else stack.enter_context(writing_labels(work.path(LABELS)))
        for block, frame in _frames(path, table["header"], columns):
            if labels is not None:
                labels(without_missing(frame[columns.label]))
            frame = frame.drop(columns=columns.dropped)
            titles = [block.first_row[int(k)] if table["header"] else f"column {int(k) + 1}" for k in frame.columns]
            numbered = frame.set_axis(range(frame.shape[1]), axis=1)
            if encoding is not None:
                raw = raw_table(numbered, titles, path.name, block.place)
                yield check_features(encoding.transform(raw), path.name)
                continue
            described = [f"column {title!r}" if table["header"] else title for title in titles]
            yield table_features(numbered, path.name, described.__getitem__, block.place)


def _open_writers(columns: int, sparse: bool, work: Work, stack: ExitStack) -> list[ArrayWriter]:
    """Return the writers of dense features, or of the three parts of a CSR matrix."""
    if not sparse:
        return [stack.enter_context(writing_array(array_path(work.target, "features"), np.float32, columns))]
    parts = (("features.indptr", np.int64), ("features.indices", np.int32), ("features.values", np.float32))
    writers = [stack.enter_context(writing_array(array_path(work.target, key), dtype)) for key, dtype in parts]
    writers[0].append(np.zeros(1, dtype=np.int64))
    return writers


def _append(writers: list[ArrayWriter], x: Tensor) -> None:
    """Append rows in the layout of the writers."""
    if len(writers) == 1:
        writers[0].append((x if x.layout == torch.strided else x.to_dense()).numpy())
        return
    part = SparseMatrix.from_torch(x)
    writers[0].append(part.rowptr[1:].numpy() + writers[2].rows)
    writers[1].append(part.col.int().numpy())
    writers[2].append(part.value.numpy())
