"""Graphs from users' files: :func:`read_graph`.

:mod:`epagcl.data.io.tables.text` documents how text tables are read (separators, headers, comments), and
:mod:`epagcl.data.io.ids` which ids are integers and which are text.
"""

import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import BaseStorage, EdgeStorage, GlobalStorage, NodeStorage

from epagcl.core.errors import InputError, MissingFeatures
from epagcl.core.log import log
from epagcl.core.memory import check_memory, read_array
from epagcl.data.checking import check
from epagcl.data.disk.graph import OnDiskGraph
from epagcl.data.io.assemble import graph_from_parts
from epagcl.data.io.feature_list import Near
from epagcl.data.io.graph_files import GRAPH_SUFFIXES, is_graph_file, read_graph_file
from epagcl.data.io.hetero import from_hetero
from epagcl.data.io.ids import ID_NAMES, NodeIds, distinct_ids, id_array, listed_ids
from epagcl.data.io.npz import DAMAGED, check_distinct, read_npz
from epagcl.data.io.roles import Roles
from epagcl.data.io.tables.base import ArrayRows, Table, normalised_name
from epagcl.data.io.tables.files import TABLE_SUFFIXES, existing_file, open_table, table_suffix
from epagcl.data.io.tables.text import TextTable
from epagcl.data.structural.features import PRESETS, split_preset, with_structural_features

#: The classes of PyG that a saved graph consists of.
_PYG_CLASSES = [
    *(Data, DataEdgeAttr, DataTensorAttr, GlobalStorage),
    *(HeteroData, BaseStorage, NodeStorage, EdgeStorage),
]
LARGE = 2**30  # bytes of a graph on disk from which a line says how much is read
_NPY = b"\x93NUMPY"  # the first bytes of an .npy file


def read_graph(
    path: Path | str | None = None,
    *,
    edges: Path | str | None = None,
    features: Path | str | None = None,
    labels: Path | str | None = None,
    nodes: Path | str | None = None,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    type: str | None = None,
    directed: str | None = None,
    id: str | None = None,
    label: str | None = None,
    bipartite: bool = False,
    columns_as: Mapping[str, str] | None = None,
    need_features: bool = True,
) -> Data:
    """Read a graph from one file, or from an edge list and its features, and check it.

    Feature rows are matched to nodes as follows. A table with ids is matched by id; nodes that occur only in the table
    are isolated. Rows without ids are matched to the ids in ``nodes``, in order. Without ``nodes``:

    1. If all ids are integers in 0..rows−1, an id is the number of its row.
    2. If the ids are exactly 1..rows, an id is the number of its row plus one. A warning reports this.
    3. Otherwise the rows are matched to the ids in order of first appearance in the edges (row by row, source before
       target). A warning reports this.

    The columns of a feature table may be numbers, booleans, categories, dates and free text, with missing values. A
    table of numbers of similar size is used as it is. Any other is encoded; see
    :class:`~epagcl.data.io.columns.encoding.TableEncoding`. A model keeps the encoding of its training graph, and
    applies it to every graph that it embeds.

    Args:
        path: ``.npz`` in the project's format, ``.pt`` with a PyG ``Data`` or ``HeteroData`` or a dict of tensors, or a
            graph of another program: ``.graphml``, ``.gexf``, ``.gml`` or node-link ``.json``, whose node attributes
            are the features unless ``features`` is given; or the folder of a graph on disk, see :func:`epagcl.ingest`.
        edges: a table, or a graph of another program. The ends are the columns of the table named source and target, or
            with another pair of common names, or its only two columns.
        features: ``.npy`` or ``.npz`` (dense, or sparse as SciPy saves it), or a table. Its ids are the column named
            id, node_id, node or name or with a name that ends in _id, or else the first column if it is text or holds
            ids of the edges. ``"structure"`` computes features from the edges, ``"structure,f.csv"`` does so beside
            those of a file, and ``"roles"`` leaves out what does not carry over to other graphs; see
            :func:`~epagcl.structural_features`.
        labels: a table (id, label); or one column or ``.npy`` with one label per node, in the order of the rows.
        nodes: the ids of the feature rows: one per line (``.txt``), or the id column of a table.
        source: column of the edges with the first end; in a table without header, its number from 1.
        target: column of the edges with the second end.
        weight: column of the edges with their weights. Default: a column named weight, edge_weight or weights;
            ``"none"`` uses no weights.
        type: column of the edges with their kinds, each of which becomes an operator of its own. Default: a column
            named type, edge_type or relation; ``"none"`` merges all kinds.
        directed: how edges with a direction are used: ``"symmetric"`` (the default) without it, ``"both"`` as two
            relations, out and in, or ``"out"`` (a node receives from those it points to) or ``"in"`` only.
        id: column with the ids, of each other table that has it.
        label: column with the labels, of ``labels`` or else of ``features``.
        bipartite: the ends of an edge are nodes of two kinds, whose ids do not merge. An id then begins with the name
            of its column: ``user:5``.
        columns_as: kinds of feature columns by name (or by a pattern such as ``w*``), in place of the detected ones:
            number, boolean, category, date (or date:%d/%m/%Y), text, vector, given (a number as
            it is) or skip.
        need_features: if False, features may be absent. The graph then has the nodes of ``nodes``, of the edges and of
            the labels, in this order; integers that are exactly 0..N−1 are in ascending order. Labels without ids are
            matched like feature rows without ids.

    Returns:
        ``Data`` with ``x`` (unless there are no features), ``edge_index``, ``num_nodes``, ``node_ids`` (array of int64
        or of text), and ``edge_weight`` if the edges have different weights. With several kinds of edges, or with
        ``directed``, it has ``edge_relation`` and ``relation_names`` (``epagcl.data.relations``). With labels, it
        has ``y`` (−1 = none), and ``label_names`` unless the labels were 0..C−1 already. If the table of features has a
        header, it has ``feature_names``. If the table was encoded, it has ``encoding`` and ``raw_features``, the
        columns before the encoding.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     edges, features = Path(folder, "e.csv"), Path(folder, "f.csv")
        ...     _ = edges.write_text("source,target\\nann,bob\\nbob,eve\\n")
        ...     _ = features.write_text("id,age,city\\nann,30,Rome\\nbob,,Oslo\\neve,50,Rome\\n")
        ...     data = read_graph(edges=edges, features=features)
        >>> data.node_ids.tolist(), data.feature_names
        (['ann', 'bob', 'eve'], ['age', 'age=missing', 'city=Rome', 'city=Oslo'])
    """
    roles = Roles(source, target, id, label, bipartite, columns_as or {}, weight=weight, type=type, directed=directed)
    parts = {"edges": edges, "features": features, "labels": labels, "nodes": nodes}
    return read_files(path, parts, need_features, roles)


def read_files(
    path: Path | str | None,
    parts: Mapping[str, Path | str | None],
    need_features: bool = True,
    roles: Roles = Roles(),  # noqa: B008 (frozen)
    near: Near | None = None,
) -> Data:
    """Read a graph as :func:`read_graph` does, with argument names in messages formatted for the caller.

    Args:
        path: one file with the whole graph, or None.
        parts: the files of ``edges``, ``features``, ``labels`` and ``nodes``; absent or None if not given.
        need_features: whether features are required.
        roles: the columns that the user names, and how messages write arguments.
        near: the part of the graph whose features are needed; those of other nodes may be zeros. None: all of it.
    """
    preset, features_file = split_preset(parts.get("features"))
    if preset is not None:  # computed from the edges, beside those of the file
        data = read_files(path, {**parts, "features": features_file}, features_file is not None, roles)
        return with_structural_features(data, kinds=PRESETS[preset])
    names = {part: roles.name_of(part) for part in ("edges", "features", "labels", "nodes")}
    if path is not None and is_graph_file(path):
        if parts.get("edges") is not None:
            raise InputError(f"{path}: has the edges; leave out {names['edges']}")
        path, parts = None, {**parts, "edges": path}
    if path is not None:
        if superfluous := [name for part, name in names.items() if parts.get(part) is not None]:
            raise InputError(f"{path}: a graph file is complete; leave out {', '.join(superfluous)}")
        _refuse_roles(path, roles)
        if Path(path).is_dir():
            return _read_folder(Path(path), need_features, roles)
        return _read_whole(existing_file(path), need_features, names, roles)
    if parts.get("edges") is None:
        and_features = f" and {names['features']}" if need_features else ""
        raise InputError(f"no graph given; give a .npz or .pt file, or {names['edges']}{and_features}")
    files = {part: existing_file(file) for part, file in parts.items() if file is not None}
    edges, features, nodes = _read_edges(files["edges"])
    if "features" in files:
        features = _read_features(files["features"])
    if features is None and need_features:
        fix = f"give a table with one row per node ({names['features']})"
        computed = f"or {roles.write(features='structure')} to compute some from the edges"
        raise MissingFeatures(f"{parts['edges']}: no node features; {fix}, {computed}")
    return graph_from_parts(
        edges,
        features,
        _read_labels(files["labels"]) if "labels" in files else None,
        read_nodes(files["nodes"], roles) if "nodes" in files else nodes if features is None else None,
        roles,
        near,
    )


def _refuse_roles(path: Path | str, roles: Roles) -> None:
    """Raise if columns are named for a file that has no tables."""
    given = [name for name in roles.record() if name != "directed"]
    if given:
        raise InputError(f"{path}: has no tables; leave out {', '.join(roles.name_of(name) for name in given)}")


# ---- One file with the whole graph


def _read_folder(path: Path, need_features: bool, roles: Roles) -> Data:
    """Return a graph on disk, which must fit in memory."""
    if roles.directed is not None:
        raise InputError(f"{path}: a graph on disk has no directions; leave out {roles.name_of('directed')}")
    if not Path(path, "manifest.json").exists() and not Path(path, "ingest").is_dir():
        raise InputError(f"{path}: is a folder; give a file, or a folder of `epagcl ingest`")
    graph = OnDiskGraph.open(path)
    sizes = f"{path}: {graph.num_nodes:,} nodes and {graph.num_edges:,} edges"
    fix = "use a larger machine; `epagcl train` and `epagcl embed` need less with --subgraphs"
    needed = _bytes_in_memory(graph)
    check_memory(needed, sizes, fix)
    if needed >= LARGE:
        log.info("%s: reads about %.1f GiB into memory", path, needed / 2**30)
    if graph.num_features == 0 and need_features:
        computed = roles.write(features="structure")
        raise MissingFeatures(f"{path}: no node features; ingest the graph with some, or give {computed}")
    data = graph.to_data(features=need_features)
    data.name = graph.name
    return data


def _bytes_in_memory(graph: OnDiskGraph) -> int:
    """Return about the memory that a graph on disk needs, in bytes: edges in both directions, ids and features."""
    x = graph.features
    features = 0 if x is None else x.nbytes if isinstance(x, np.ndarray) else 12 * int(x.nnz)
    return 40 * graph.num_edges + 80 * graph.num_nodes + features


def _read_whole(path: Path, need_features: bool, names: Mapping[str, str], roles: Roles) -> Data:
    if path.suffix.lower() in (".npz", ".pt"):
        data = read_npz(path) if path.suffix.lower() == ".npz" else _read_pt(path)
        if isinstance(data, HeteroData):
            data = from_hetero(data, directed=roles.directed)
        elif roles.directed is not None and data.get("edge_relation") is not None:
            fix = f"leave out {roles.name_of('directed')}"
            raise InputError(f"{path.name}: its edges have relations, which hold their directions; {fix}")
        elif roles.directed is not None:
            data.directed = roles.directed
        return check(data, source=path.name, features=need_features)
    if table_suffix(path) in TABLE_SUFFIXES:
        with_features = f", with {names['features']}" if need_features else ""
        raise InputError(f"{path.name}: a table is not a whole graph; give it as {names['edges']}{with_features}")
    suffix = path.suffix or "a file without suffix"
    suffixes = ", ".join((".npz", ".pt", *GRAPH_SUFFIXES))
    raise InputError(f"{path.name}: cannot read {suffix}; give {suffixes}, or {names['edges']}")


def _read_pt(path: Path) -> Data | HeteroData:
    """Return the ``Data``, ``HeteroData`` or dict of tensors of a file, loaded without running any code of it."""
    fix = "save its tensors with torch.save(data.to_dict(), path), or all of it with epagcl.data.write_npz(data, path)"
    try:
        with (
            torch.serialization.safe_globals(_PYG_CLASSES),
            warnings.catch_warnings(action="ignore"),  # torch warns about a foreign pickle before it refuses it
        ):
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    # A file that is not a checkpoint can raise any of these errors in the unpickler.
    except (pickle.UnpicklingError, EOFError, LookupError, RuntimeError, ValueError, TypeError, AttributeError):
        raise InputError(f"{path.name}: not a graph that can be loaded safely; {fix}") from None
    if isinstance(loaded, HeteroData):
        return loaded
    if isinstance(loaded, dict):
        if not all(isinstance(key, str) for key in loaded):
            raise InputError(f"{path.name}: a dict with keys that are not text; {fix}")
        loaded = Data(**loaded)
    if not isinstance(loaded, Data):
        raise InputError(f"{path.name}: contains a {type(loaded).__name__}, not a graph; {fix}")
    for key in ("x", "edge_index"):
        if loaded.get(key) is not None and not isinstance(loaded[key], Tensor):
            raise InputError(f"{path.name}: {key} is a {type(loaded[key]).__name__}, not a tensor; {fix}")
    if isinstance(ids := loaded.get("node_ids"), Tensor | list | tuple | np.ndarray):
        check_distinct(id_array(ids if isinstance(ids, list | tuple) else ids.tolist()), path)
    return loaded


# ---- Parts of a graph


def _read_edges(path: Path) -> tuple[Table, Table | ArrayRows | None, NodeIds | None]:
    """Return the edges and, if the file has them, the attributes of the nodes as features, or else its nodes."""
    if not is_graph_file(path):
        return open_table(path), None, None
    edges, features, nodes = read_graph_file(path)
    return edges, features, None if nodes is None else listed_ids(nodes)


def _read_features(path: Path) -> Table | ArrayRows:
    if path.suffix.lower() in (".npy", ".npz"):
        return ArrayRows(path.name, read_matrix(path))
    if table_suffix(path) not in TABLE_SUFFIXES:
        suffixes = ", ".join((".npy", ".npz", *TABLE_SUFFIXES))
        raise InputError(
            f"{path.name}: cannot read features from {path.suffix or 'a file without suffix'}; give {suffixes}"
        )
    return open_table(path)


def _read_labels(path: Path) -> Table | ArrayRows:
    if path.suffix.lower() == ".npy":
        return ArrayRows(path.name, np.atleast_1d(read_matrix(path)))
    return open_table(path)


def read_nodes(path: Path, roles: Roles = Roles()) -> NodeIds:  # noqa: B008 (frozen)
    """Return the ids of a list of nodes. In ``.txt``, an id is a whole line.

    Args:
        path: a table.
        roles: the columns that the user names.
    """
    table = open_table(path)
    if isinstance(table, TextTable) and table.suffix == ".txt":
        lines = table.rows_as_text()
        table.header = normalised_name(lines[0]) in ID_NAMES
        return NodeIds(table.name, distinct_ids(np.array(lines[int(table.header) :], dtype=object), table))
    return listed_ids(table, roles.id)


def read_matrix(path: Path) -> "np.ndarray | scipy.sparse.csr_array":
    """Return the array of a ``.npy``, or the only one of a ``.npz``: dense, or sparse as SciPy saves it."""
    fix = "save a plain array with np.save(path, x)"
    try:
        with path.open("rb") as file:
            if file.read(len(_NPY)) == _NPY:
                return read_array(path, fix)
        with np.load(path, allow_pickle=False) as loaded:
            if "format" in loaded.files:
                matrix = scipy.sparse.csr_array(scipy.sparse.load_npz(path))
                matrix.check_format(full_check=True)  # torch does not check the indices
                return matrix
            if len(loaded.files) == 1:
                return loaded[loaded.files[0]]
            names = ", ".join(loaded.files)
    except InputError:
        raise
    except DAMAGED:
        raise InputError(f"{path.name}: contains Python objects or is not a NumPy file; {fix}") from None
    raise InputError(f"{path.name}: contains {names}; give one dense array, or one from scipy.sparse.save_npz")
