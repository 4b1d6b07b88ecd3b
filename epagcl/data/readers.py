"""Users' own graphs from files: edges, features, labels, and which row belongs to which node.

Rules of text tables (``.csv``, ``.tsv``, ``.txt``, each also ``.gz``):

- Lines that start with ``#`` or ``%`` are comments; blank lines are skipped.
- Fields are separated by tabs in ``.tsv``; else by the first of comma, semicolon and tab that the first row
  has, and in a ``.txt`` that has none of them by white space.
- The first row is a header when it has a known column name (an edge list: one for each end), or when one of
  its fields is not a number while that column holds numbers below it (judged on the first 1,000 rows).
- Ids are integers if every id of a file is written as one (``7``, ``7.0``), else text; ``007`` is text.
  Between two files, ids are compared as text if one of them has text ids.
"""

import csv
import gzip
import importlib.util
import io
import logging
import pickle
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage

from epagcl.data.check import check
from epagcl.data.convert import assemble, encode_labels, feature_tensor
from epagcl.errors import InputError, MissingExtra

log = logging.getLogger("epagcl")

SOURCE_NAMES = ("source", "src", "from", "u", "node1", "source_id", "from_id", "citing", "head")
TARGET_NAMES = ("target", "dst", "dest", "to", "v", "node2", "target_id", "to_id", "cited", "tail")
ID_NAMES = ("id", "node_id", "node", "name", "nodeid", "index")
LABEL_NAMES = ("label", "labels", "y", "class", "target", "category")
TABLES = (".csv", ".tsv", ".txt", ".parquet")
# Text that means "no value" among features and labels. Among ids only the blank does: "NA" may be a name.
MISSING = ("", "NA", "N/A", "NaN", "nan", "None", "null", "NULL", "<NA>")
_PADDED = re.compile(rb"(?<![0-9.])0[0-9]")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.0+)?")
_HEADER_ROWS = 1000


def read_graph(
    path: Path | str | None = None,
    *,
    edges: Path | str | None = None,
    features: Path | str | None = None,
    labels: Path | str | None = None,
    nodes: Path | str | None = None,
) -> Data:
    """A checked graph from one file, or from an edge list and its features.

    Which feature row belongs to which node: a table with ids says so itself (nodes that are only in the table
    are isolated). Rows without ids belong to the ids of ``nodes``, in its order. Without ``nodes``, an id is
    the number of its row if all ids are integers in 0..rows−1; else the rows belong to the ids in order of
    first appearance in the edges (row by row, source before target), and a warning says so.

    Args:
        path: ``.npz`` in the project's format, or ``.pt`` with a PyG ``Data`` or a dict of its tensors.
        edges: table whose columns named source and target, or else its first two, are the ends of the edges.
        features: ``.npy`` or ``.npz`` (dense, or sparse as SciPy saves it), or a table of numbers; its ids
            are the column named id, node_id, node or name, else the first if it is text or holds edge ids.
        labels: table (id, label), or one column or ``.npy`` with one label per node in the order of the rows.
        nodes: the ids of the feature rows: one per line (``.txt``), or the id column of a table.

    Returns:
        ``Data`` with ``x``, ``edge_index``, ``num_nodes``, ``node_ids`` (array of int64 or of text) and, with
        labels, ``y`` (−1 = none) and ``label_names`` where the labels were not 0..C−1 already.
    """
    parts = {"edges": edges, "features": features, "labels": labels, "nodes": nodes}
    if path is not None:
        if given := [name for name, value in parts.items() if value is not None]:
            raise InputError(f"{path}: a graph file stands alone; leave out {', '.join(f'--{name}' for name in given)}")
        return _read_whole(_existing(path))
    if edges is None:
        raise InputError("no graph given; give a .npz or .pt file, or --edges and --features")
    if features is None:
        raise InputError(f"{edges}: no node features; give a table with one row per node (--features)")
    files = {name: _existing(value) for name, value in parts.items() if value is not None}

    edge_list = _EdgeList(files["edges"])
    x, row_ids = _read_features(files["features"], edge_list.ids)
    if "nodes" in files:
        if row_ids is not None:
            raise InputError(
                f"{files['nodes'].name}: {files['features'].name} names its nodes itself; leave out --nodes, "
                "or take the ids out of the features"
            )
        row_ids = _read_nodes(files["nodes"], x.shape[0], files["features"].name)
    if row_ids is None:
        row_ids = _implicit_ids(edge_list, x.shape[0], files["features"].name)
    edge_index = edge_list.numbered(row_ids, files.get("nodes", files["features"]).name)
    y = None
    if "labels" in files:
        y = encode_labels(_read_labels(files["labels"], row_ids), files["labels"].name)
    return assemble(x, torch.from_numpy(edge_index), y, row_ids, edge_list.name)


# ---- One file that holds everything


def _read_whole(path: Path) -> Data:
    if path.suffix.lower() == ".npz":
        from epagcl.data.npz import read_npz

        return check(read_npz(path), source=path.name)
    if path.suffix.lower() == ".pt":
        return _read_pt(path)
    if _suffix(path) in TABLES:
        raise InputError(f"{path.name}: a table is no whole graph; give it as --edges, with --features")
    raise InputError(f"{path.name}: cannot read {path.suffix or 'a file without suffix'}; give .npz or .pt, or --edges")


def _read_pt(path: Path) -> Data:
    """A ``Data`` or a dict of tensors, loaded without running any code of the file."""
    fix = "save it with torch.save(data.to_dict(), path), tensors only"
    try:
        with (
            torch.serialization.safe_globals([Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]),
            warnings.catch_warnings(action="ignore"),  # torch comments on a foreign pickle before it refuses it
        ):
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    # A file that is no checkpoint fails anywhere in the unpickler, hence the many kinds.
    except (
        pickle.UnpicklingError,
        EOFError,
        LookupError,
        RuntimeError,
        ValueError,
        TypeError,
        AttributeError,
    ):
        raise InputError(f"{path.name}: not a graph that can be loaded safely; {fix}") from None
    if isinstance(loaded, dict):
        if not all(isinstance(key, str) for key in loaded):
            raise InputError(f"{path.name}: a dict with keys that are not names; {fix}")
        loaded = Data(**loaded)
    if not isinstance(loaded, Data):
        raise InputError(f"{path.name}: holds a {type(loaded).__name__}, not a graph; {fix}")
    for key in ("x", "edge_index"):
        if loaded.get(key) is not None and not isinstance(loaded[key], Tensor):
            raise InputError(f"{path.name}: {key} is a {type(loaded[key]).__name__}, not a tensor; {fix}")
    return check(loaded, source=path.name)


# ---- Tables: text and Parquet with one face


class _Text:
    """A text table in memory: the fields of its first row, its columns, and the line behind each row."""

    def __init__(self, path: Path):
        self.name = path.name
        raw = _read_bytes(path).removeprefix(b"\xef\xbb\xbf")
        if b"\r" in raw:
            raw = raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        self.raw = raw if raw.endswith(b"\n") else raw + b"\n"
        # Comments are found by line and not by pandas, which would also cut an id like "a#1" in two.
        characters = np.frombuffer(self.raw, dtype=np.uint8)
        ends = np.flatnonzero(characters == ord("\n"))
        starts = np.concatenate([[0], ends[:-1] + 1])
        comment = np.isin(characters[starts], list(b"#%"))
        self.comments = np.flatnonzero(comment).tolist()
        self.lines = np.flatnonzero(~comment & (starts != ends))
        if len(self.lines) == 0:
            hint = " (lines that start with # or % are comments)" if self.comments else ""
            raise InputError(f"{self.name}: the file is empty{hint}; give one row per line")
        if inside := int(comment[self.lines[0] :].sum()):
            log.warning("%s: skipped as comments (# or %%): %s", self.name, _count(inside, "line"))
        first = self._line(self.lines[0], starts, ends)
        self.separator = _separator(first, _suffix(path))
        self.first = first.split() if self.separator == r"\s+" else next(csv.reader([first], delimiter=self.separator))
        self.first = [field.strip() for field in self.first]

    def _line(self, line: int, starts: np.ndarray, ends: np.ndarray) -> str:
        try:
            return self.raw[starts[line] : ends[line]].decode()
        except UnicodeDecodeError:
            raise InputError(f"{self.name}: line {line + 1}: not UTF-8 text; save the file as UTF-8") from None

    def text(self) -> str:
        """The whole file."""
        try:
            return self.raw.decode()
        except UnicodeDecodeError:
            raise InputError(f"{self.name}: not UTF-8 text; save the file as UTF-8") from None

    def read(self, header: bool, rows: int | None = None, **options) -> pd.DataFrame:
        """The rows (below the header), with columns numbered from 0."""
        try:
            frame = pd.read_csv(
                io.BytesIO(self.raw),
                sep=self.separator,
                header=None,
                skiprows=[*self.comments, int(self.lines[0])] if header else self.comments,
                nrows=rows,
                skipinitialspace=True,
                low_memory=False,
                **options,
            )
        except pd.errors.EmptyDataError:
            raise InputError(f"{self.name}: no rows below the header; give one row per line") from None
        except pd.errors.ParserError as error:
            raise InputError(f"{self.name}: {_explain(str(error))}") from None
        except UnicodeDecodeError:
            raise InputError(f"{self.name}: not UTF-8 text; save the file as UTF-8") from None
        if header and rows is None and frame.shape[1] != len(self.first):
            raise InputError(
                f"{self.name}: {len(self.first)} names in the header, but {frame.shape[1]} fields in "
                f"{self.place(0, header)}; name every column"
            )
        return frame

    def has_header(self, known: Iterable[str]) -> bool:
        """The rule of the module's docstring."""
        if set(known) & set(map(_plain, self.first)):
            return True
        text = [column for column, field in enumerate(self.first) if field and not _is_number(field)]
        if not text or len(self.lines) < 2:
            return False
        sample = self.read(header=True, rows=_HEADER_ROWS, keep_default_na=False, na_values=list(MISSING))
        numeric = [column for column in text if column in sample and _has_numbers(sample[column])]
        if numeric:
            log.info("%s: the first row is read as a header (%s)", self.name, ", ".join(self.first))
        return bool(numeric)

    def ids(self, columns: list[int], header: bool) -> np.ndarray:
        """Columns of ids ``[rows, columns]``: int64 if they can be read so, else text with NaN for blanks."""
        options = {"keep_default_na": False, "na_values": [""]}
        sample = self.read(header, rows=1, dtype=str, **options).reindex(columns=columns)
        # Asked for integers, pandas would also take True and False, and drop leading zeros.
        if sample.map(lambda field: _is_number(str(field))).all(axis=None) and not _PADDED.search(self.raw):
            try:
                return self.read(header, dtype=dict.fromkeys(columns, np.int64), **options)[columns].to_numpy()
            except InputError:
                raise
            except (ValueError, OverflowError):
                pass
        return self.read(header, dtype=dict.fromkeys(columns, str), **options)[columns].to_numpy(dtype=object)

    def values(self, header: bool, id_column: int | None) -> pd.DataFrame:
        """All columns; those of ids as text, the others by what they hold."""
        width = len(self.first)
        missing = {column: [""] if column == id_column else list(MISSING) for column in range(width)}
        dtype = {} if id_column is None else {id_column: str}
        return self.read(header, dtype=dtype, keep_default_na=False, na_values=missing)

    def place(self, row: int, header: bool) -> str:
        """Where a row stands in the file."""
        return f"line {self.lines[row + header] + 1}"


class _Parquet:
    """A Parquet table with the face of a text table: its column names are the first row, and the header."""

    def __init__(self, path: Path):
        self.name = path.name
        if importlib.util.find_spec("pyarrow") is None:
            raise MissingExtra("pyarrow", "parquet", "reading Parquet")
        try:
            frame = pd.read_parquet(path, engine="pyarrow")
        except (OSError, ValueError) as error:
            raise InputError(f"{self.name}: not a readable Parquet file ({_one_line(error)}); write it anew") from None
        if not isinstance(frame.index, pd.RangeIndex):
            frame = frame.reset_index()
        if frame.empty:
            raise InputError(f"{self.name}: the file is empty; give one row per node or edge")
        self.first = [str(name) for name in frame.columns]
        self.frame = frame.set_axis(range(frame.shape[1]), axis=1)

    def has_header(self, known: Iterable[str]) -> bool:
        """Parquet always names its columns."""
        return True

    def ids(self, columns: list[int], header: bool) -> np.ndarray:
        """Columns of ids ``[rows, columns]``: int64, or text with NaN for what is missing."""
        chosen = self.frame[columns]
        if all(pd.api.types.is_integer_dtype(dtype) for dtype in chosen.dtypes) and not chosen.isna().any(axis=None):
            return chosen.to_numpy(dtype=np.int64)
        return chosen.apply(lambda column: column.astype(object).map(str, na_action="ignore")).to_numpy(dtype=object)

    def values(self, header: bool, id_column: int | None) -> pd.DataFrame:
        """All columns; those of ids as text."""
        if id_column is None:
            return self.frame
        frame = self.frame.copy(deep=False)
        frame[id_column] = _as_text(self.ids([id_column], header)[:, 0])
        return frame

    def place(self, row: int, header: bool) -> str:
        """Where a row stands in the file."""
        return f"row {row} (counted from 0)"


def _table(path: Path) -> _Text | _Parquet:
    if _suffix(path) == ".parquet":
        return _Parquet(path)
    if _suffix(path) in TABLES:
        return _Text(path)
    kinds = ", ".join(TABLES)
    raise InputError(f"{path.name}: cannot read {path.suffix or 'a file without suffix'} as a table; give {kinds}")


def _named(table: _Text | _Parquet, names: Iterable[str]) -> int | None:
    """The first column with one of these names, the names in order of preference."""
    plain = [_plain(field) for field in table.first]
    return next((plain.index(name) for name in names if name in plain), None)


# ---- Ids


def _factorise(
    values: np.ndarray, table: _Text | _Parquet, header: bool, what: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Number of each id in ``values`` (by first appearance, row by row); the distinct ids, int64 or text."""
    codes, ids = pd.factorize(values.ravel())
    if ids.dtype == object:
        ids = np.array([text.strip() for text in ids], dtype=object)
        merged, ids = pd.factorize(ids)  # "a" and "a " are one id
        blank = np.flatnonzero(ids == "")
        codes = np.where(codes < 0, -1, merged[codes])
        missing = (codes < 0) | np.isin(codes, blank)
        if missing.any():
            row, column = divmod(int(missing.argmax()), values.shape[1])
            place = f"{table.name}: {table.place(row, header)}"
            raise InputError(f"{place}: the {what[column]} is missing; fill it or drop the row")
        if all(_INTEGER.fullmatch(text) for text in ids):
            numbers = [int(text.partition(".")[0]) for text in ids]
            if all(-(2**63) <= number < 2**63 for number in numbers):
                merged, ids = pd.factorize(np.array(numbers, dtype=np.int64))  # "7" and "7.0" are one id
                codes = merged[codes]
    return codes.reshape(values.shape), ids


def _positions(ids: np.ndarray, among: np.ndarray) -> np.ndarray:
    """The place of each id in ``among`` (distinct), −1 where it is not there."""
    if ids.dtype != among.dtype:
        ids, among = _as_text(ids), _as_text(among)
    return pd.Index(among).get_indexer(pd.Index(ids))


def _as_text(ids: np.ndarray) -> np.ndarray:
    return ids if ids.dtype == object else ids.astype(str).astype(object)


def _distinct_ids(values: np.ndarray, table: _Text | _Parquet, header: bool) -> np.ndarray:
    """A column of ids, each of which must occur once."""
    codes, ids = _factorise(values.reshape(-1, 1), table, header, ["id"])
    if len(ids) != len(codes):
        repeated = pd.Series(codes[:, 0]).duplicated()
        again = int(repeated.argmax())
        first = int((codes[:, 0] == codes[again, 0]).argmax())
        places = f"{table.place(first, header)} and {table.place(again, header)}"
        repeats = _count(int(repeated.sum()), "repeated row")
        raise InputError(
            f"{table.name}: id {ids[codes[again, 0]]} stands in {places} ({repeats}); keep one row per node"
        )
    return ids


# ---- Edges


class _EdgeList:
    """An edge list: the distinct ids by first appearance, and the ends of each edge as numbers of these."""

    def __init__(self, path: Path):
        table = self.table = _table(path)
        self.name = table.name
        if len(table.first) < 2:
            raise InputError(
                f"{self.name}: one column; an edge list needs two, source and target, as {_two_columns(path)}"
            )
        named = [_named(table, SOURCE_NAMES), _named(table, TARGET_NAMES)]
        if None not in named:
            self.header, columns = True, named
        else:
            self.header, columns = table.has_header(()), [0, 1]
        values = table.ids(columns, self.header)
        self.ends, self.ids = _factorise(values, table, self.header, ["source id", "target id"])
        if ignored := [column for column in range(len(table.first)) if column not in columns]:
            names = ", ".join(table.first[column] if self.header else f"column {column + 1}" for column in ignored)
            log.warning("%s: only the ends of edges are read; ignored: %s", self.name, names)

    def place(self, number: int) -> str:
        """Where the id with this number first stands."""
        row = int((self.ends == number).any(axis=1).argmax())
        return self.table.place(row, self.header)

    def numbered(self, node_ids: np.ndarray, where: str) -> np.ndarray:
        """``edge_index`` in the numbers of ``node_ids``."""
        position = _positions(self.ids, node_ids)
        if (position < 0).any():
            unknown = self.ids[position < 0]
            message = f"{where}: no row for {_count(len(unknown), 'node')} of {self.name} ({_examples(unknown)})"
            if not self.header and (position[self.ends[0]] < 0).all():
                message += f"; if {self.table.place(0, False)} is a header, call its columns source and target"
            else:
                message += "; give every node a row, or drop its edges"
            raise InputError(message)
        return np.ascontiguousarray(position[self.ends].T, dtype=np.int64)


def _implicit_ids(edges: _EdgeList, rows: int, features: str) -> np.ndarray:
    """The node of each row of features without ids, by the rule of ``read_graph``."""
    ids = edges.ids
    if ids.dtype == np.int64:
        if ids.min() < 0:
            lowest = int(ids.argmin())
            raise InputError(
                f"{edges.name}: {edges.place(lowest)}: node {ids[lowest]} is negative, and the rows of "
                f"{features} are numbered from 0; give the ids of the rows with --nodes"
            )
        if ids.max() < rows:
            return np.arange(rows)
    if len(ids) != rows:
        raise InputError(
            f"{features}: {_count(rows, 'row')} for {_count(len(ids), 'distinct node')} in {edges.name}; "
            "give the ids of the rows with --nodes"
        )
    log.warning(
        "%s: has no ids; its rows were given to the nodes in order of first appearance in %s (%s); "
        "say otherwise with --nodes",
        features,
        edges.name,
        _examples([f"row {row} = {node}" for row, node in enumerate(ids[:4])]),
    )
    return ids


def _read_nodes(path: Path, rows: int, features: str) -> np.ndarray:
    """The ids of the rows of a file of features."""
    table = _table(path)
    if isinstance(table, _Text) and _suffix(path) == ".txt":
        lines = table.text().split("\n")
        header = _plain(lines[table.lines[0]]) in ID_NAMES
        values = np.array([lines[line] for line in table.lines[int(header) :]], dtype=object)
    else:
        header = table.has_header(ID_NAMES)
        column = (_named(table, ID_NAMES) if header else None) or 0
        values = table.ids([column], header)
    ids = _distinct_ids(values, table, header)
    if len(ids) != rows:
        counts = f"{_count(len(ids), 'id')} for {_count(rows, 'row')}"
        raise InputError(f"{table.name}: {counts} of {features}; give one per row")
    return ids


# ---- Features


def _read_features(path: Path, edge_ids: np.ndarray) -> tuple[Tensor, np.ndarray | None]:
    """Features as a tensor, and the ids of their rows if they have ids."""
    if path.suffix.lower() in (".npy", ".npz"):
        return _finite(feature_tensor(_read_array(path), path.name), path.name), None
    if _suffix(path) not in TABLES:
        kinds = ", ".join((".npy", ".npz", *TABLES))
        raise InputError(
            f"{path.name}: cannot read features from {path.suffix or 'a file without suffix'}; give {kinds}"
        )
    table = _table(path)
    # pandas writes its index as a first column without a name.
    header = table.first[0] == "" or table.has_header(ID_NAMES)
    id_column = _named(table, ID_NAMES) if header else None
    guessed = id_column is None
    frame = table.values(header, 0 if guessed else id_column)
    ids = None
    if guessed:
        id_column = 0 if _are_ids(frame[0], table, header, edge_ids) else None
        if id_column is None:
            frame = table.values(header, None)
    elif table.first[0] == "":
        log.warning("%s: ignored the first column, which has no name", table.name)
        frame = frame.drop(columns=0)
    if id_column is not None:
        ids = _distinct_ids(frame[id_column].to_numpy(dtype=object), table, header)
        frame = frame.drop(columns=id_column)
    if frame.shape[1] == 0:
        raise InputError(f"{table.name}: no column of features beside the ids; add at least one")
    return _numbers(frame, table, header), ids


def _are_ids(column: pd.Series, table: _Text | _Parquet, header: bool, edge_ids: np.ndarray) -> bool:
    """Whether a first column without a known name holds ids: text, or distinct with half the edges' ids.

    Half, and not all: a table that lacks some nodes must end in an error about them, not in ids as features.
    """
    text = column.dropna().map(str)
    if not text.map(_is_number).all():
        return True
    if column.isna().any():
        return False
    codes, ids = _factorise(text.to_numpy(dtype=object).reshape(-1, 1), table, header, ["id"])
    return len(ids) == len(codes) and bool((_positions(edge_ids, ids) >= 0).mean() >= 0.5)


def _numbers(frame: pd.DataFrame, table: _Text | _Parquet, header: bool) -> Tensor:
    """The columns of features as a tensor; what is no finite number raises with its place."""
    for column in frame:
        if not pd.api.types.is_numeric_dtype(frame[column]):
            text = frame[column].dropna().map(str)
            text = text[~text.map(_is_number)]
            place = f" ({text.iloc[0]!r} in {table.place(text.index[0], header)})" if len(text) else ""
            raise InputError(
                f"{table.name}: {_column_name(table, column, header)} is not numeric{place}; "
                "encode it as numbers (one column per value) or drop it"
            )
    with np.errstate(over="ignore"):  # too large for float32 becomes infinite, and is reported as such
        array = frame.to_numpy(dtype=np.float32, na_value=np.nan)
    bad = ~np.isfinite(array)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        place = f"{table.place(row, header)}, {_column_name(table, frame.columns[column], header)}"
        count = _count(int(bad.sum()), "such value")
        raise InputError(f"{table.name}: {place}: missing, NaN or infinite ({count}); fill or drop")
    return feature_tensor(array, table.name)


def _column_name(table: _Text | _Parquet, column: int, header: bool) -> str:
    return f"column {table.first[column]!r}" if header else f"column {column + 1}"


def _finite(x: Tensor, name: str) -> Tensor:
    values = x if x.layout == torch.strided else x.values()
    bad = ~torch.isfinite(values)
    if bad.any():
        entry = bad.nonzero()[0].tolist()
        if x.layout != torch.strided:
            row = int(torch.searchsorted(x.crow_indices(), entry[0], right=True)) - 1
            entry = [row, int(x.col_indices()[entry[0]])]
        raise InputError(
            f"{name}: row {entry[0]}, column {entry[1]} (counted from 0): NaN or infinite "
            f"({_count(int(bad.sum()), 'such value')}); fill or drop"
        )
    return x


def _read_array(path: Path) -> "np.ndarray | scipy.sparse.csr_array":
    """The array of a ``.npy``, or the one of a ``.npz``, dense or as SciPy saves a sparse matrix."""
    fix = "save a plain array with np.save(path, x)"
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            if "format" in loaded.files:
                matrix = scipy.sparse.csr_array(scipy.sparse.load_npz(path))
                matrix.check_format(full_check=True)  # torch trusts the indices it is given
                return matrix
            if len(loaded.files) == 1:
                return loaded[loaded.files[0]]
            names = ", ".join(loaded.files)
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error):
        raise InputError(f"{path.name}: holds Python objects or is no NumPy file; {fix}") from None
    raise InputError(f"{path.name}: holds {names}; give one dense array, or one from scipy.sparse.save_npz")


# ---- Labels


def _read_labels(path: Path, node_ids: np.ndarray) -> np.ndarray:
    """The label of each node, as it stands in the file; None where there is none."""
    if path.suffix.lower() == ".npy":
        values = _read_array(path)
        if values.ndim != 1 and values.shape[1:] != (1,):
            raise InputError(f"{path.name}: labels have shape {values.shape}; give one per node")
        return _one_per_node(values.reshape(-1), path.name, node_ids)
    table = _table(path)
    header = table.has_header((*ID_NAMES, *LABEL_NAMES))
    id_column = _named(table, ID_NAMES) if header else None
    if len(table.first) == 1:
        return _one_per_node(table.values(header, None)[0].to_numpy(), table.name, node_ids)
    id_column = 0 if id_column is None else id_column
    others = [column for column in range(len(table.first)) if column != id_column]
    label_column = _named(table, LABEL_NAMES) if header else None
    label_column = others[0] if label_column is None else label_column
    if ignored := [_column_name(table, column, header) for column in others if column != label_column]:
        log.warning(
            "%s: labels are read from %s; ignored: %s",
            table.name,
            _column_name(table, label_column, header),
            ", ".join(ignored),
        )
    frame = table.values(header, id_column)
    ids = _distinct_ids(frame[id_column].to_numpy(dtype=object), table, header)
    position = _positions(ids, node_ids)
    if (position < 0).any():
        unknown = ids[position < 0]
        place = table.place(int((position < 0).argmax()), header)
        message = f"{table.name}: {place}: {_count(len(unknown), 'id')} not in the graph ({_examples(unknown)})"
        if not header and position[0] < 0:
            raise InputError(f"{message}; if {place} is a header, call its columns id and label")
        raise InputError(f"{message}; drop these rows, or add the nodes to the features")
    labels = np.full(len(node_ids), None, dtype=object)
    labels[position] = frame[label_column].to_numpy(dtype=object)
    return labels


def _one_per_node(labels: np.ndarray, name: str, node_ids: np.ndarray) -> np.ndarray:
    if len(labels) != len(node_ids):
        raise InputError(
            f"{name}: {_count(len(labels), 'label')} for {_count(len(node_ids), 'node')}; give one per node"
        )
    return labels


# ---- Files and words


def _existing(path: Path | str) -> Path:
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path}: is a folder; give a file")
    if not path.is_file():
        raise InputError(f"{path}: no such file; check the name")
    try:
        size = path.stat().st_size
        with open(path, "rb"):
            pass
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; check its permissions") from None
    if size == 0:
        raise InputError(f"{path}: the file is empty; write it anew")
    return path


def _read_bytes(path: Path) -> bytes:
    raw = path.read_bytes()
    if path.suffix.lower() != ".gz":
        return raw
    try:
        return gzip.decompress(raw)
    except (OSError, EOFError, zlib.error):
        raise InputError(f"{path.name}: not a whole gzip file; compress it anew, or give it uncompressed") from None


def _suffix(path: Path) -> str:
    """The suffix that names the format; that of a text table may be followed by ``.gz``."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] == [".gz"] and suffixes[-2:-1] and suffixes[-2] != ".parquet":
        return suffixes[-2]
    return path.suffix.lower()


def _separator(line: str, suffix: str) -> str:
    if suffix == ".tsv":
        return "\t"
    blank = "," if suffix == ".csv" else r"\s+"
    return next((separator for separator in ",;\t" if separator in line), blank)


def _explain(parser_error: str) -> str:
    """What pandas' parser found wrong, as a place and a fix."""
    if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", parser_error):
        expected, line, saw = found.groups()
        return f"line {line}: {saw} fields instead of {expected}; quote fields that hold the separator"
    if found := re.search(r"EOF inside string starting at row (\d+)", parser_error):
        return f"row {found[1]} (counted from 0): a quote is opened and never closed; close or remove it"
    return f"not a readable table ({_one_line(parser_error)}); write it anew"


def _one_line(error: object) -> str:
    return " ".join(str(error).split())


def _plain(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.strip().strip('"').lower())


def _has_numbers(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column) and bool(column.notna().any())


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _two_columns(path: Path) -> str:
    return {".tsv": "a<tab>b", ".txt": "a b"}.get(_suffix(path), "a,b")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _examples(ids: "np.ndarray | list[str]") -> str:
    return ", ".join(str(node) for node in ids[:3]) + (", ..." if len(ids) > 3 else "")
