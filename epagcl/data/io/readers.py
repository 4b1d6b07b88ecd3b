"""Users' own graphs from files.

How tables are read (separators, headers, comments, kinds of ids) stands in :mod:`epagcl.data.tables`, which row
belongs to which node in :mod:`epagcl.data.parts`.
"""

import pickle
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage

from epagcl.core.errors import InputError
from epagcl.data.checking import check
from epagcl.data.io.assemble import graph_from_parts, listed_ids
from epagcl.data.io.column_names import ID_NAMES
from epagcl.data.io.ids import distinct_ids
from epagcl.data.io.npz import read_npz
from epagcl.data.io.table import Rows, Table, plain_name, table_suffix
from epagcl.data.io.tables import TABLES, existing_file, open_table
from epagcl.data.io.text_table import TextTable


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
        already. The header of a table of features is ``feature_names``.
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
    readers = {"edges": open_table, "features": _read_features, "labels": _read_labels, "nodes": _read_nodes}
    files = {name: existing_file(value) for name, value in parts.items() if value is not None}
    return graph_from_parts(**{"features": None} | {name: readers[name](path) for name, path in files.items()})


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


# ---- Parts of a graph


def _read_features(path: Path) -> Table | Rows:
    if path.suffix.lower() in (".npy", ".npz"):
        return Rows(path.name, _read_array(path))
    if table_suffix(path) not in TABLES:
        kinds = ", ".join((".npy", ".npz", *TABLES))
        raise InputError(
            f"{path.name}: cannot read features from {path.suffix or 'a file without suffix'}; give {kinds}"
        )
    return open_table(path)


def _read_labels(path: Path) -> Table | Rows:
    if path.suffix.lower() == ".npy":
        return Rows(path.name, np.atleast_1d(_read_array(path)))
    return open_table(path)


def _read_nodes(path: Path) -> Rows:
    """The ids of a list of nodes."""
    table = open_table(path)
    if isinstance(table, TextTable) and table_suffix(path) == ".txt":
        lines = table.rows_as_text()
        table.header = plain_name(lines[0]) in ID_NAMES
        return Rows(table.name, distinct_ids(np.array(lines[int(table.header) :], dtype=object), table))
    return listed_ids(table)


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
