"""Users' own graphs from files: edges, features, labels, and which row belongs to which node.

How tables are read (separators, headers, comments, kinds of ids) stands in :mod:`epagcl.data.tables`.
"""

import logging
import pickle
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage

from epagcl.data.check import check, check_features, counted
from epagcl.data.convert import assemble, encode_labels, feature_tensor
from epagcl.data.npz import read_npz
from epagcl.data.tables import (
    TABLES,
    Table,
    TextTable,
    distinct_ids,
    examples,
    existing_file,
    factorise,
    is_number,
    open_table,
    plain_name,
    positions,
    table_suffix,
    union,
)
from epagcl.errors import InputError

log = logging.getLogger("epagcl")

SOURCE_NAMES = ("source", "src", "from", "u", "node1", "source_id", "from_id", "citing", "head")
TARGET_NAMES = ("target", "dst", "dest", "to", "v", "node2", "target_id", "to_id", "cited", "tail")
ID_NAMES = ("id", "node_id", "node", "name", "nodeid", "index")
LABEL_NAMES = ("label", "labels", "y", "class", "target", "category")


def read_graph(
    path: Path | str | None = None,
    *,
    edges: Path | str | None = None,
    features: Path | str | None = None,
    labels: Path | str | None = None,
    nodes: Path | str | None = None,
    need_features: bool = True,
) -> Data:
    """A checked graph from one file, or from an edge list and its features.

    Which feature row belongs to which node: a table with ids says so itself (nodes that are only in the table
    are isolated). Rows without ids belong to the ids of ``nodes``, in its order. Without ``nodes``, an id is
    the number of its row if all ids are integers in 0..rows−1, and one more if they are exactly 1..rows. Else
    the rows belong to the ids in order of first appearance in the edges (row by row, source before target). A
    warning says so in the last two cases.

    Args:
        path: ``.npz`` in the project's format, or ``.pt`` with a PyG ``Data`` or a dict of its tensors.
        edges: table whose columns named source and target, or else its first two, are the ends of the edges.
        features: ``.npy`` or ``.npz`` (dense, or sparse as SciPy saves it), or a table of numbers; its ids
            are the column named id, node_id, node or name, else the first if it is text or holds edge ids.
        labels: table (id, label), or one column or ``.npy`` with one label per node in the order of the rows.
        nodes: the ids of the feature rows: one per line (``.txt``), or the id column of a table.
        need_features: False for what needs only edges and labels. A graph without features has the nodes of
            ``nodes``, of the edges and of the labels, in this order; integers that are exactly 0..N−1 are in
            theirs. Labels without ids are then placed like rows of features without ids.

    Returns:
        ``Data`` with ``x`` (unless there are no features), ``edge_index``, ``num_nodes``, ``node_ids`` (array of
        int64 or of text) and, with labels, ``y`` (−1 = none) and ``label_names`` where the labels were not 0..C−1
        already.
    """
    parts = {"edges": edges, "features": features, "labels": labels, "nodes": nodes}
    if path is not None:
        if given := [name for name, value in parts.items() if value is not None]:
            raise InputError(f"{path}: a graph file stands alone; leave out {', '.join(f'--{name}' for name in given)}")
        return _read_whole(existing_file(path), need_features)
    if edges is None:
        raise InputError(f"no graph given; give a .npz or .pt file, or --edges{' and --features' * need_features}")
    if features is None and need_features:
        raise InputError(f"{edges}: no node features; give a table with one row per node (--features)")
    files = {name: existing_file(value) for name, value in parts.items() if value is not None}

    edge_list = _EdgeList(files["edges"])
    label_list = _LabelList(files["labels"]) if "labels" in files else None
    node_ids = _read_nodes(files["nodes"]) if "nodes" in files else None
    if "features" in files:
        x, node_ids = _features_with_ids(files["features"], edge_list, node_ids, files.get("nodes"))
    else:
        x, node_ids = None, _ids_without_features(edge_list, label_list, node_ids)
    where = files.get("nodes") or files.get("features") or files["edges"]
    edge_index = edge_list.numbered(node_ids, where.name)
    y = None if label_list is None else encode_labels(label_list.of(node_ids), label_list.name)
    return assemble(x, torch.from_numpy(edge_index), y, node_ids, edge_list.name)


# ---- One file that holds everything


def _read_whole(path: Path, need_features: bool) -> Data:
    if path.suffix.lower() == ".npz":
        return check(read_npz(path), source=path.name, features=need_features)
    if path.suffix.lower() == ".pt":
        return check(_read_pt(path), source=path.name, features=need_features)
    if table_suffix(path) in TABLES:
        with_features = ", with --features" if need_features else ""
        raise InputError(f"{path.name}: a table is no whole graph; give it as --edges{with_features}")
    raise InputError(f"{path.name}: cannot read {path.suffix or 'a file without suffix'}; give .npz or .pt, or --edges")


def _read_pt(path: Path) -> Data:
    """A ``Data`` or a dict of tensors, loaded without running any code of the file."""
    fix = "save its tensors with torch.save(data.to_dict(), path), or all of it with epagcl.data.write_npz(data, path)"
    try:
        with (
            torch.serialization.safe_globals([Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]),
            warnings.catch_warnings(action="ignore"),  # torch comments on a foreign pickle before it refuses it
        ):
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    # A file that is no checkpoint fails anywhere in the unpickler, hence the many kinds.
    except (pickle.UnpicklingError, EOFError, LookupError, RuntimeError, ValueError, TypeError, AttributeError):
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
    return loaded


# ---- Edges


class _EdgeList:
    """An edge list: the distinct ids by first appearance, and the ends of each edge as numbers of these."""

    def __init__(self, path: Path):
        table = self.table = open_table(path)
        self.name = table.name
        if len(table.first) < 2:
            example = {".tsv": "a<tab>b", ".txt": "a b"}.get(table_suffix(path), "a,b")
            raise InputError(f"{self.name}: one column; an edge list needs two, source and target, as {example}")
        columns = [table.column(SOURCE_NAMES), table.column(TARGET_NAMES)]
        if None in columns:
            table.header, columns = table.has_header(()), [0, 1]
        else:
            table.header = True
        self.ends, self.ids = factorise(table.ids(columns), table, ["source id", "target id"])
        if ignored := [column for column in range(len(table.first)) if column not in columns]:
            names = ", ".join(table.first[column] if table.header else f"column {column + 1}" for column in ignored)
            log.warning("%s: only the ends of edges are read; ignored: %s", self.name, names)

    def place(self, number: int) -> str:
        """Where the id with this number first stands."""
        return self.table.place(int((self.ends == number).any(axis=1).argmax()))

    def may_be_header(self, known: np.ndarray | None) -> bool:
        """Whether the first row, read as an edge, has two names that occur nowhere else (nor are ``known``)."""
        first = self.ends[0]
        if self.table.header or self.ids.dtype != object or len(self.ends) == 1:
            return False
        if known is not None and (positions(self.ids[first], known) >= 0).any():
            return False
        return bool((np.bincount(self.ends.ravel())[first] == 1).all())

    def numbered(self, node_ids: np.ndarray, where: str) -> np.ndarray:
        """``edge_index`` in the numbers of ``node_ids``."""
        position = positions(self.ids, node_ids)
        if (position < 0).any():
            unknown = self.ids[position < 0]
            message = f"{where}: no row for {counted(len(unknown), 'node')} of {self.name} ({examples(unknown)})"
            if not self.table.header and (position[self.ends[0]] < 0).all():
                message += f"; if {self.table.place(0)} is a header, call its columns source and target"
            else:
                message += "; give every node a row, or drop its edges"
            raise InputError(message)
        return np.ascontiguousarray(position[self.ends].T, dtype=np.int64)


def _ids_of_rows(edges: _EdgeList, rows: int, name: str) -> np.ndarray:
    """The node of each row of an array without ids, by the rule of ``read_graph``."""
    ids = edges.ids
    whole = ids.dtype == np.int64
    if whole and ids.min() < 0:
        lowest = int(ids.argmin())
        raise InputError(
            f"{edges.name}: {edges.place(lowest)}: node {ids[lowest]} is negative, and the rows of "
            f"{name} are numbered from 0; give the ids of the rows with --nodes"
        )
    if whole and ids.max() < rows:
        return np.arange(rows)
    if len(ids) != rows:
        raise InputError(
            f"{name}: {counted(rows, 'row')} for {counted(len(ids), 'distinct node')} in {edges.name}; "
            "give the ids of the rows with --nodes"
        )
    if whole and ids.min() == 1 and ids.max() == rows:
        ids = np.arange(1, rows + 1)  # counted from 1: MATLAB, R
        how = f"by number, since {edges.name} counts from 1"
    else:
        how = f"in order of first appearance in {edges.name}"
    log.warning(
        "%s: has no ids; its rows were given to the nodes %s (%s); say otherwise with --nodes",
        name,
        how,
        examples([f"row {row} = {node}" for row, node in enumerate(ids[:4])]),
    )
    return ids


def _read_nodes(path: Path) -> np.ndarray:
    """The ids of a list of nodes."""
    table = open_table(path)
    if isinstance(table, TextTable) and table_suffix(path) == ".txt":
        lines = table.rows_as_text()
        table.header = plain_name(lines[0]) in ID_NAMES
        return distinct_ids(np.array(lines[int(table.header) :], dtype=object), table)
    table.header = table.has_header(ID_NAMES)
    column = table.column(ID_NAMES) if table.header else None
    return distinct_ids(table.ids([column or 0]), table)


# ---- Features


def _features_with_ids(
    path: Path, edges: _EdgeList, listed: np.ndarray | None, nodes: Path | None
) -> tuple[Tensor, np.ndarray]:
    """Features and the node of each of their rows; ``listed`` are the ids in the file ``nodes``."""
    x, ids = _read_features(path, edges.ids)
    if listed is None:
        return x, _ids_of_rows(edges, x.shape[0], path.name) if ids is None else ids
    if ids is not None:
        raise InputError(
            f"{nodes.name}: {path.name} names its nodes itself; leave out --nodes, or take the ids out of the features"
        )
    if len(listed) != x.shape[0]:
        counts = f"{counted(len(listed), 'id')} for {counted(x.shape[0], 'row')}"
        raise InputError(f"{nodes.name}: {counts} of {path.name}; give one per row")
    return x, listed


def _read_features(path: Path, edge_ids: np.ndarray) -> tuple[Tensor, np.ndarray | None]:
    """Features as a tensor, and the ids of their rows if they have ids."""
    if path.suffix.lower() in (".npy", ".npz"):
        return check_features(feature_tensor(_read_array(path), path.name), path.name), None
    if table_suffix(path) not in TABLES:
        kinds = ", ".join((".npy", ".npz", *TABLES))
        raise InputError(
            f"{path.name}: cannot read features from {path.suffix or 'a file without suffix'}; give {kinds}"
        )
    table = open_table(path)
    # pandas writes its index as a first column without a name.
    table.header = table.first[0] == "" or table.has_header(ID_NAMES)
    id_column = table.column(ID_NAMES) if table.header else None
    guessed = id_column is None
    frame = table.values(0 if guessed else id_column)
    ids = None
    if guessed:
        id_column = 0 if _are_ids(frame[0], table, edge_ids) else None
        if id_column is None:
            frame = table.values(None)
        elif table.first[0] != "":  # a first column without a name is an index; another may be a feature
            log.warning("%s: the first column is read as ids; name it id, or another column, to say so", table.name)
    elif table.first[0] == "":
        log.warning("%s: ignored the first column, which has no name", table.name)
        frame = frame.drop(columns=0)
    if id_column is not None:
        ids = distinct_ids(frame[id_column].to_numpy(dtype=object), table)
        frame = frame.drop(columns=id_column)
    if frame.shape[1] == 0:
        raise InputError(f"{table.name}: no column of features beside the ids; add at least one")
    return _numbers(frame, table), ids


def _are_ids(column: pd.Series, table: Table, edge_ids: np.ndarray) -> bool:
    """Whether a first column without a known name holds ids: text, or distinct with half the edges' ids.

    Half, and not all: a table that lacks some nodes must end in an error about them, not in ids as features.
    """
    text = column.dropna().map(str)
    if not text.map(is_number).all():
        return True
    if column.isna().any():
        return False
    codes, ids = factorise(text.to_numpy(dtype=object).reshape(-1, 1), table, ["id"])
    return len(ids) == len(codes) and bool((positions(edge_ids, ids) >= 0).mean() >= 0.5)


def _numbers(frame: pd.DataFrame, table: Table) -> Tensor:
    """The columns of features as a tensor; what is no finite number raises with its place."""
    for column in frame:
        if not pd.api.types.is_numeric_dtype(frame[column]):
            text = frame[column].dropna().map(str)
            text = text[~text.map(is_number)]
            place = f" ({text.iloc[0]!r} in {table.place(text.index[0])})" if len(text) else ""
            raise InputError(
                f"{table.name}: {table.title(column)} is not numeric{place}; "
                "encode it as numbers (one column per value) or drop it"
            )
    with np.errstate(over="ignore"):  # too large for float32 becomes infinite, and is reported as such
        x = feature_tensor(frame.to_numpy(dtype=np.float32, na_value=np.nan), table.name)
    titles = [table.title(column) for column in frame]
    return check_features(x, table.name, lambda row, column: f"{table.place(row)}, {titles[column]}")


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


class _LabelList:
    """Labels as they stand in the file, None where there is none, and their ids if they have ids."""

    def __init__(self, path: Path):
        self.name = path.name
        self.table = self.ids = None
        if path.suffix.lower() == ".npy":
            self.values = np.atleast_1d(_read_array(path))
            return
        table = self.table = open_table(path)
        table.header = table.has_header((*ID_NAMES, *LABEL_NAMES))
        if len(table.first) == 1:
            self.values = table.values(None)[0].to_numpy()
            return
        id_column = (table.column(ID_NAMES) if table.header else None) or 0
        others = [column for column in range(len(table.first)) if column != id_column]
        label_column = table.column(LABEL_NAMES) if table.header else None
        label_column = others[0] if label_column is None else label_column
        if ignored := [table.title(column) for column in others if column != label_column]:
            read = table.title(label_column)
            log.warning("%s: labels are read from %s; ignored: %s", self.name, read, ", ".join(ignored))
        frame = table.values(id_column)
        self.ids = distinct_ids(frame[id_column].to_numpy(dtype=object), table)
        self.values = frame[label_column].to_numpy(dtype=object)

    def of(self, node_ids: np.ndarray) -> np.ndarray:
        """The label of each node."""
        if self.ids is None:
            if len(self.values) != len(node_ids):
                counts = f"{counted(len(self.values), 'label')} for {counted(len(node_ids), 'node')}"
                raise InputError(f"{self.name}: {counts}; give one per node")
            return self.values
        position = positions(self.ids, node_ids)
        if (position < 0).any():
            raise InputError(self.unknown(position >= 0, "drop these rows, or add the nodes to the features"))
        labels = np.full(len(node_ids), None, dtype=object)
        labels[position] = self.values
        return labels

    def unknown(self, known: np.ndarray, fix: str) -> str:
        """A message about the ids that are not in the graph."""
        unknown = self.ids[~known]
        place = self.table.place(int(known.argmin()))
        if not self.table.header and not known[0]:
            fix = f"if {place} is a header, call its columns id and label"
        return f"{self.name}: {place}: {counted(len(unknown), 'id')} not in the graph ({examples(unknown)}); {fix}"


def _ids_without_features(edges: _EdgeList, labels: _LabelList | None, listed: np.ndarray | None) -> np.ndarray:
    """The nodes of a graph without features, by the rule of ``read_graph``; ``listed`` are those of ``--nodes``."""
    if labels is not None and labels.ids is None and listed is None:
        return _ids_of_rows(edges, len(labels.values), labels.name)
    ids = edges.ids if listed is None else union(listed, edges.ids)
    if labels is not None and labels.ids is not None:
        known = positions(labels.ids, ids) >= 0
        # All or the first alone: ids of another kind, or a header that was not seen.
        if not known.any() or (not labels.table.header and not known[0] and known[1:].all()):
            raise InputError(labels.unknown(known, f"use the ids of {edges.name}"))
        if not known.all():
            unknown = labels.ids[~known]
            nodes = f"{counted(len(unknown), 'node')} without edges ({examples(unknown)})"
            log.warning("%s: %s added to those of %s", labels.name, nodes, edges.name)
        ids = union(ids, labels.ids)
    if edges.may_be_header(labels.ids if labels is not None and labels.ids is not None else listed):
        first = ", ".join(edges.ids[edges.ends[0]])
        fix = "if it is a header, call its columns source and target"
        log.warning("%s: %s (%s) is read as an edge; %s", edges.name, edges.table.place(0), first, fix)
    if listed is None and ids.dtype == np.int64 and ids.min() == 0 and ids.max() == len(ids) - 1:
        return np.arange(len(ids))
    return ids
