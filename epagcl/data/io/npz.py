"""One graph in one ``.npz`` file: plain NumPy arrays under fixed names, never a pickle.

====================================================== ================================================
key                                                    meaning
====================================================== ================================================
``edge_index``                                         [2, M] integers; required
``edge_weight``                                        [M] numbers that are at least 0: the weights of the edges
``edge_relation``, ``relation_names``                  [M, R] weights of the edges in each relation, [R] text
``edge_type``, ``relation_names``                      [M] integers: the kinds of the edges, and [kinds] text
``x_data``, ``x_indices``, ``x_indptr``, ``x_shape``   features as the parts of a CSR matrix, or instead
``x``                                                  features as a dense [N, F] array
``y``                                                  [N] class numbers, −1 = no label
``train_mask``, ``val_mask``, ``test_mask``            the published split: [N], or [N, k] for k splits
``geomgcn_train_masks``, ... or ``train_masks``, ...   [N, 10]: the ten 48/32/20 splits of Geom-GCN
``node_ids``                                           [N] integers or text: the user's ids of the nodes
``node_type``                                          [N] integers: the kind of each node, if there are several
``label_names``                                        [C] text: the names of the classes
``feature_names``                                      [F] text: the names of the feature columns
``encoding``                                           JSON text: how the columns of a table became features
====================================================== ================================================

A file needs features, labels or ids, because they determine the number of nodes. Other keys are ignored.
"""

import json
import tokenize
import zipfile
import zlib
from pathlib import Path

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.core.files import atomic_path
from epagcl.core.sparse import SparseMatrix
from epagcl.data.io.columns.encoding import TableEncoding
from epagcl.data.io.ids import id_array
from epagcl.data.splits import PARTS

# An entry takes 12 bytes in a CSR matrix (value and 64-bit column) and 4 in a dense one. Memory is equal at a density
# of 1/3. Products take equal time at a lower density. No named graph is close: PubMed (10%) is sparse, Amazon (35%) and
# WikiCS are dense.
SPARSE_BELOW = 0.2

#: What numpy.load raises for a file that is damaged, encrypted or not its own, or that claims to be huge. The header of
#: an array is parsed as Python.
DAMAGED = (
    *(ValueError, EOFError, KeyError, SyntaxError, RuntimeError, MemoryError),
    *(tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)
_CSR_KEYS = ("x_data", "x_indices", "x_indptr", "x_shape")


def read_npz(path: Path | str) -> Data:
    """Read the graph in an ``.npz`` file without checking it; see :func:`epagcl.data.check`.

    ``x`` is float32, in the layout that :func:`compact` chooses. It is absent if the file has no features.
    Geom-GCN's splits become ``geom_train_mask``, ``geom_val_mask`` and ``geom_test_mask``. ``node_ids`` is an
    array of int64 or of text (``dtype=object``); ``label_names`` and ``feature_names`` are lists.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     np.savez(f"{folder}/g.npz", edge_index=[[0, 1], [1, 2]], x=np.eye(3), y=[0, 1, 0])
        ...     data = read_npz(f"{folder}/g.npz")
        >>> data.num_nodes, data.y.tolist()
        (3, [0, 1, 0])
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file; give the path of an .npz graph")
    try:
        # numpy.load also opens other types of file, so the type is checked first.
        if not zipfile.is_zipfile(path):
            raise InputError(f"{path}: not an .npz file (or cut short); write it with numpy.savez or write_npz")
        with np.load(path, allow_pickle=False) as arrays:
            return _graph(arrays, path)
    except InputError:
        raise
    except (*DAMAGED, TypeError, IndexError, OSError) as error:
        raise InputError(f"{path}: cannot be read ({_first_line(error)}); write the file again") from error


def write_npz(data: Data, path: Path | str) -> None:
    """Write ``x`` (in its layout), ``edge_index``, ``y``, the masks, the ids and the names of a graph.

    If writing fails, an existing file is kept. Ids that are neither all integers nor all text are written as text.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> data = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1], [1, 2]]), y=torch.tensor([0, 1, 0]))
        >>> with TemporaryDirectory() as folder:
        ...     write_npz(data, f"{folder}/g.npz")
        ...     read_npz(f"{folder}/g.npz").y.tolist()
        [0, 1, 0]
    """
    path = Path(path)
    if data.edge_index is None:
        raise InputError(f"{path}: the graph has no edge_index; set data.edge_index to a [2, E] tensor")
    if data.x is None and data.y is None and "node_ids" not in data:
        raise InputError(f"{path}: the graph has neither features nor labels; set data.x or data.y")
    arrays = {"edge_index": data.edge_index.cpu().numpy().astype(np.int32)}
    if data.get("edge_weight") is not None:
        arrays["edge_weight"] = data.edge_weight.cpu().float().numpy()
    if data.get("edge_relation") is not None:
        arrays["edge_relation"] = data.edge_relation.cpu().float().numpy()
    elif data.get("edge_type") is not None:
        arrays["edge_type"] = data.edge_type.cpu().numpy()
    if data.get("relation_names") is not None:
        arrays["relation_names"] = np.array(data.relation_names, dtype=str)
    if data.x is not None and data.x.layout == torch.strided:
        arrays["x"] = data.x.cpu().float().numpy()
    elif data.x is not None:
        x = SparseMatrix.from_torch(data.x.cpu())
        values = (x.value.float(), x.col.int(), x.rowptr, torch.tensor(x.shape))
        arrays |= {key: value.numpy() for key, value in zip(_CSR_KEYS, values, strict=True)}
    if data.y is not None:
        arrays["y"] = data.y.cpu().numpy()
    for part in PARTS:
        for key, attribute in (
            (f"{part}_mask", f"{part}_mask"),
            (f"geomgcn_{part}_masks", f"geom_{part}_mask"),
        ):
            if attribute in data:
                arrays[key] = data[attribute].cpu().numpy()
    if "node_ids" in data:
        ids = id_array(data.node_ids.tolist() if hasattr(data.node_ids, "tolist") else data.node_ids)
        arrays["node_ids"] = ids if ids.dtype == np.int64 else np.array([str(node) for node in ids])
    if data.get("node_type") is not None:
        arrays["node_type"] = data.node_type.cpu().numpy()
    if "label_names" in data:
        arrays["label_names"] = np.array(data.label_names, dtype=str)
    if "feature_names" in data:
        arrays["feature_names"] = np.array(data.feature_names, dtype=str)
    if data.get("encoding") is not None:
        arrays["encoding"] = np.array(json.dumps(data.encoding.to_dict(), ensure_ascii=False))

    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as unfinished, unfinished.open("wb") as file:
        np.savez_compressed(file, **arrays)


def compact(x: Tensor) -> Tensor:
    """Return features in the layout for their density: ``torch.sparse_csr`` up to ``SPARSE_BELOW``, else dense.

    Examples:
        >>> compact(torch.eye(10)).layout, compact(torch.eye(2)).layout
        (torch.sparse_csr, torch.strided)
    """
    entries = x if x.layout == torch.strided else x.values()
    if int(entries.count_nonzero()) > SPARSE_BELOW * x.numel():
        return x.to_dense()
    return x if x.layout == torch.sparse_csr else x.to_sparse_csr()


def _graph(arrays: np.lib.npyio.NpzFile, path: Path) -> Data:
    if "edge_index" not in arrays:
        raise InputError(f"{path}: no array edge_index; add the edges as a 2 × M integer array of that name")
    edge_index = torch.from_numpy(arrays["edge_index"])
    # Only int32, which write_npz uses, is converted. epagcl.data.check validates other types.
    data = Data(edge_index=edge_index.long() if edge_index.dtype == torch.int32 else edge_index)
    if "edge_weight" in arrays:
        _require_real(arrays["edge_weight"], "edge_weight", path)
        data.edge_weight = torch.from_numpy(arrays["edge_weight"].astype(np.float64))
    if "edge_relation" in arrays:
        _require_real(arrays["edge_relation"], "edge_relation", path)
        data.edge_relation = torch.from_numpy(arrays["edge_relation"].astype(np.float32))
    if "edge_type" in arrays:
        data.edge_type = torch.from_numpy(arrays["edge_type"])
    if "relation_names" in arrays:
        data.relation_names = _names(arrays["relation_names"], "relation_names", "U", path).tolist()
    x = _features(arrays, path)
    if x is not None:
        data.x = x
    if "y" in arrays:
        data.y = torch.from_numpy(arrays["y"])
    if "node_ids" in arrays:
        data.node_ids = _names(arrays["node_ids"], "node_ids", "Uiu", path)
        check_distinct(data.node_ids, path)
    if "label_names" in arrays:
        data.label_names = _names(arrays["label_names"], "label_names", "U", path).tolist()
    if "feature_names" in arrays:
        data.feature_names = _names(arrays["feature_names"], "feature_names", "U", path).tolist()
    if "encoding" in arrays:
        data.encoding = TableEncoding.from_dict(json.loads(str(arrays["encoding"])), str(path))
    counts = [len(data[key]) for key in ("x", "y", "node_ids") if key in data]
    if not counts:
        raise InputError(f"{path}: neither features (x, or x_data and its parts) nor labels (y); add one of them")
    data.num_nodes = counts[0]
    if "node_ids" in data and len(data.node_ids) != data.num_nodes:
        raise InputError(f"{path}: {len(data.node_ids):,} node_ids for {data.num_nodes:,} nodes; give one per node")
    if "node_type" in arrays:
        kinds = arrays["node_type"]
        if kinds.shape != (data.num_nodes,) or kinds.dtype.kind not in "iu" or (kinds < 0).any():
            raise InputError(f"{path}: node_type is not one number, at least 0, for each of {data.num_nodes:,} nodes")
        data.node_type = torch.from_numpy(kinds.astype(np.int64))
    for part in PARTS:
        for key, attribute in (
            (f"{part}_mask", f"{part}_mask"),
            (f"{part}_masks", f"geom_{part}_mask"),
            (f"geomgcn_{part}_masks", f"geom_{part}_mask"),
        ):
            if key in arrays:
                data[attribute] = _mask(arrays[key], key, data.num_nodes, path)
    return data


def _features(arrays: np.lib.npyio.NpzFile, path: Path) -> Tensor | None:
    if "x" in arrays:
        x = arrays["x"]
        _require_real(x, "x", path)
        return compact(torch.from_numpy(x).float())
    missing = [key for key in _CSR_KEYS if key not in arrays]
    if len(missing) == len(_CSR_KEYS):
        return None
    if missing:
        raise InputError(f"{path}: features without {', '.join(missing)}; a CSR matrix needs {', '.join(_CSR_KEYS)}")
    values, indices, indptr, shape = (arrays[key] for key in _CSR_KEYS)
    _require_real(values, "x_data", path)
    for key in _CSR_KEYS[1:]:
        if arrays[key].dtype.kind not in "iu":
            raise InputError(f"{path}: {key} is {arrays[key].dtype}; give integers")
    matrix = scipy.sparse.csr_matrix((values.astype(np.float32), indices, indptr), shape=tuple(shape))
    matrix.check_format(full_check=True)  # torch does not check the indices
    # The result must not depend on the order of the stored entries, nor on explicit zeros.
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    rowptr, col = (torch.from_numpy(part.astype(np.int64)) for part in (matrix.indptr, matrix.indices))
    return compact(SparseMatrix(rowptr, col, torch.from_numpy(matrix.data), matrix.shape).csr)


def _require_real(values: np.ndarray, key: str, path: Path) -> None:
    if values.dtype.kind not in "biuf":
        raise InputError(f"{path}: {key} is {values.dtype}; give real numbers")


def _mask(mask: np.ndarray, key: str, num_nodes: int, path: Path) -> Tensor:
    if mask.ndim not in (1, 2) or mask.shape[0] != num_nodes:
        raise InputError(f"{path}: {key} has shape {mask.shape}; give one row for each of the {num_nodes:,} nodes")
    return torch.from_numpy(mask.astype(bool))


def _names(names: np.ndarray, key: str, kinds: str, path: Path) -> np.ndarray:
    """Return ids or names as an array of int64 or of Python strings. Raise unless their dtype is one of ``kinds``."""
    if names.ndim != 1 or names.dtype.kind not in kinds:
        allowed = "text or integers" if "i" in kinds else "text"
        raise InputError(f"{path}: {key} has shape {names.shape} and type {names.dtype}; give a list of {allowed}")
    if names.dtype.kind == "u" and len(names) and int(names.max()) >= 2**63:
        return names.astype(str).astype(object)
    return names.astype(object if names.dtype.kind == "U" else np.int64)


def check_distinct(ids: np.ndarray, path: Path) -> None:
    """Raise if an id is blank or occurs twice."""
    if ids.dtype == object and any(not str(node).strip() for node in ids):
        row = next(row for row, node in enumerate(ids) if not str(node).strip())
        raise InputError(f"{path}: node_ids: row {row} (counted from 0) is blank; give every node an id")
    values, counts = np.unique(ids.astype(str) if ids.dtype == object else ids, return_counts=True)
    if len(values) < len(ids):
        raise InputError(f"{path}: node_ids: {values[counts > 1][0]} occurs twice; give every node its own id")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
