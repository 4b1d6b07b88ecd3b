"""A graph on disk, whose arrays are mapped into memory: :class:`OnDiskGraph`."""

import mmap
import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import numpy as np
import scipy.sparse
import torch
from numpy.typing import ArrayLike
from torch_geometric.data import Data

from epagcl.core.arrays import write_array
from epagcl.core.errors import InputError, MissingFeatures
from epagcl.core.files import check_space, remove_leftovers, write_failure
from epagcl.core.sparse import SparseMatrix
from epagcl.core.version import __version__
from epagcl.data.checking import check
from epagcl.data.disk.layout import (
    ARRAYS,
    FORMAT,
    MANIFEST,
    VERSION,
    WORK,
    Manifest,
    array_path,
    described,
    index_type,
    open_array,
    read_manifest,
    write_manifest,
)
from epagcl.data.disk.text import decode_text, encode_text, find_integers, find_text
from epagcl.data.io.columns.encoding import TableEncoding
from epagcl.data.io.ids import id_array, node_kinds

BLOCK = 1 << 18  # nodes whose edges are read at once


class OnDiskGraph:
    """A graph in a folder. Its arrays are mapped into memory: what is not used is not read.

    Open one with :meth:`open`. :func:`epagcl.ingest` writes one from tables, :meth:`write` from a graph in memory.
    :mod:`epagcl.data.disk.layout` documents the files.

    Attributes:
        path: the folder.
        manifest: counts, names, where the graph comes from, and the digests of its files.
        indptr: int64 ``[N + 1]``; the neighbours of node i are ``indices[indptr[i]:indptr[i + 1]]``, ascending.
        indices: int32 or int64 ``[2 E]``: both directions of each pair.
        weights: float32 ``[2 E]``, positive and of mean 1; None without weights.
        features: float32 ``[N, F]``, or a SciPy CSR matrix; None without features.
        labels: int64 ``[N]``, −1 = no label; None without labels.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> data = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
        >>> with TemporaryDirectory() as folder:
        ...     graph = OnDiskGraph.write(data, f"{folder}/graph")
        ...     graph.num_nodes, graph.num_edges, graph.neighbours(1).tolist()
        (3, 2, [0, 2])
    """

    def __init__(self, path: Path, manifest: Manifest):
        self.path, self.manifest = path, manifest
        self._maps = {key: open_array(path, key, manifest) for key in manifest["arrays"]}
        if not {"indptr", "indices"} <= self._maps.keys():
            raise InputError(f"{path}: no edges; ingest the graph again")
        self.indptr, self.indices = self._maps["indptr"], self._maps["indices"]
        self.weights, self.labels = self._maps.get("weights"), self._maps.get("labels")
        n, entries = manifest["nodes"], 2 * manifest["edges"]
        self._check_lengths({"indptr": n + 1, "indices": entries, "weights": entries, "features": n, "labels": n})
        self._check_lengths({"features.indptr": n + 1, "ids": n, "ids.offsets": n + 1})

    @classmethod
    def open(cls, path: Path | str) -> "OnDiskGraph":
        """Open a folder. Raise if a file is missing, or is not the one that the manifest describes by its size.

        :meth:`verify` also compares the content of the files.

        Args:
            path: the folder.
        """
        return cls(Path(path), read_manifest(Path(path)))

    @classmethod
    def write(cls, data: Data, path: Path | str, *, name: str | None = None, overwrite: bool = False) -> "OnDiskGraph":
        """Write a graph in memory to a folder and open it. The graph is checked by :func:`epagcl.data.check`.

        Edges and their weights, features, labels, ids and names are written. Masks are not.

        Args:
            data: the graph.
            path: the folder, new or empty.
            name: name of the graph in results; by default that of the folder.
            overwrite: replace a graph in this folder.
        """
        folder = Path(path)
        data = check(data, features=False, quiet=True)
        arrays = _arrays(data)
        claim_folder(folder, overwrite=overwrite)
        check_space(folder, sum(array.nbytes for array in arrays.values()))
        for key, array in arrays.items():
            try:
                with array_path(folder, key).open("wb") as file:
                    write_array(file, array)
            except OSError as error:
                raise write_failure(array_path(folder, key), error.errno) from error
        manifest = new_manifest(
            folder,
            name or str(data.get("name") or folder.name),
            0 if data.x is None else data.x.shape[1],
            feature_names=None if data.get("feature_names") is None else [str(each) for each in data.feature_names],
            label_names=None if data.get("label_names") is None else [str(each) for each in data.label_names],
            encoding=data.get("encoding"),
        )
        write_manifest(manifest, folder)
        return cls(folder, manifest)

    @property
    def name(self) -> str:
        """The name of the graph in results."""
        return self.manifest["name"]

    @property
    def num_nodes(self) -> int:
        """N, the number of nodes."""
        return self.manifest["nodes"]

    @property
    def num_edges(self) -> int:
        """E, the number of undirected pairs."""
        return self.manifest["edges"]

    @property
    def num_features(self) -> int:
        """F, the number of feature columns; 0 without features."""
        return self.manifest["features"]

    @property
    def feature_names(self) -> list[str] | None:
        """The names of the feature columns; None if they have none."""
        return self.manifest["feature_names"]

    @property
    def label_names(self) -> list[str] | None:
        """The names of the classes; None if the labels were numbers 0..C−1."""
        return self.manifest["label_names"]

    @property
    def encoding(self) -> TableEncoding | None:
        """How the columns of a table were encoded; None if they were given as numbers."""
        saved = self.manifest["encoding"]
        return None if saved is None else TableEncoding.from_dict(saved, str(self.path / MANIFEST))

    @cached_property
    def features(self) -> "np.ndarray | scipy.sparse.csr_array | None":
        """The features, dense or as a CSR matrix; None without features."""
        if "features" in self._maps:
            return self._maps["features"]
        if "features.values" not in self._maps:
            return None
        parts = (self._maps["features.values"], self._maps["features.indices"], self._maps["features.indptr"])
        return scipy.sparse.csr_array(parts, shape=(self.num_nodes, self.num_features), copy=False)

    @property
    def ids(self) -> np.ndarray | None:
        """The ids of all nodes: int64, or an array of text that is built at each access; None without ids."""
        return self.ids_of()

    def ids_of(self, nodes: "slice | ArrayLike | None" = None) -> np.ndarray | None:
        """Return the ids of some nodes: int64 or text; None without ids.

        Args:
            nodes: the nodes, as a slice or as numbers; all by default.
        """
        if "ids" in self._maps:
            chosen = nodes if isinstance(nodes, slice) else slice(None) if nodes is None else np.asarray(nodes)
            return self._maps["ids"][chosen]
        if "ids.text" not in self._maps:
            return None
        return decode_text(self._maps["ids.offsets"], self._maps["ids.text"], nodes)

    def kinds_of(self, nodes: ArrayLike | None = None) -> torch.Tensor | None:
        """Return the numbers of the kinds of some or all nodes of a bipartite graph; None if all are of one kind."""
        return node_kinds(self.ids_of(nodes)) if self.manifest["source"].get("bipartite") else None  # type: ignore[arg-type]

    def numbers_of(self, ids: Sequence[int | str]) -> np.ndarray:
        """Return the number of the node of each id (without ids, of each number), −1 if there is none; 7 is "7"."""
        if "ids.text" in self._maps:
            return find_text(self._maps["ids.offsets"], self._maps["ids.text"], list(map(str, ids)))
        return find_integers(self._maps.get("ids", np.arange(self.num_nodes)), list(map(str, ids)))

    def neighbours(self, node: int) -> np.ndarray:
        """Return the neighbours of a node, in ascending order."""
        return self.indices[self.indptr[node] : self.indptr[node + 1]]

    @property
    def fingerprint(self) -> str:
        """A digest of the content of all files."""
        digests = sorted((key, entry["sha256"]) for key, entry in self.manifest["arrays"].items())
        return sha256(repr(digests).encode()).hexdigest()[:32]

    def verify(self) -> None:
        """Raise unless every file has the content that the manifest describes."""
        for key, expected in self.manifest["arrays"].items():
            path = array_path(self.path, key)
            if described(path) != expected:
                raise InputError(f"{path}: its content changed after it was written; ingest the graph again")

    def release(self) -> None:
        """Let the operating system take back the memory of pages that were read. They are read again when needed."""
        for array in self._maps.values():
            mapped = array.base if isinstance(array.base, mmap.mmap) else getattr(array, "_mmap", None)
            if mapped is not None and hasattr(mapped, "madvise"):
                mapped.madvise(mmap.MADV_DONTNEED)

    def to_data(self, features: bool = True) -> Data:
        """Return the graph in memory, as :func:`epagcl.read_graph` returns it for the same tables.

        Args:
            features: raise if the graph has none; if False, they may be absent.
        """
        if self.num_features == 0 and features:
            fix = "ingest the graph with features=, or compute some with features='structure'"
            raise MissingFeatures(f"{self.path}: no node features; {fix}")
        data = Data(x=self._x(), edge_index=self._edge_index(), num_nodes=self.num_nodes)
        if self.weights is not None:
            data.edge_weight = torch.from_numpy(np.array(self.weights))
        if (ids := self.ids) is not None:
            data.node_ids = np.array(ids)
        if (kinds := self.kinds_of()) is not None:
            data.node_type = kinds
        if self.feature_names is not None:
            data.feature_names = self.feature_names
        if (encoding := self.encoding) is not None:
            data.encoding = encoding
        if self.labels is not None:
            data.y = torch.from_numpy(np.array(self.labels))
        if self.label_names is not None:
            data.label_names = self.label_names
        return data

    def _edge_index(self) -> torch.Tensor:
        """Return both directions of each edge, filled block by block: a copy would be half of the memory."""
        edge_index = torch.empty(2, len(self.indices), dtype=torch.int64)
        for first in range(0, self.num_nodes, BLOCK):
            bounds = torch.from_numpy(np.array(self.indptr[first : first + BLOCK + 1], dtype=np.int64))
            start, stop = int(bounds[0]), int(bounds[-1])
            edge_index[0, start:stop] = torch.repeat_interleave(bounds.diff()) + first
            edge_index[1, start:stop] = torch.from_numpy(self.indices[start:stop].astype(np.int64))
        return edge_index

    def _x(self) -> torch.Tensor | None:
        features = self.features
        if features is None:
            return None
        if isinstance(features, np.ndarray):
            return torch.from_numpy(np.array(features))
        rowptr, col = (torch.from_numpy(part.astype(np.int64)) for part in (features.indptr, features.indices))
        return SparseMatrix(rowptr, col, torch.from_numpy(np.array(features.data)), features.shape).csr

    def _check_lengths(self, expected: Mapping[str, int]) -> None:
        for key, length in expected.items():
            if key in self._maps and len(self._maps[key]) != length:
                path = array_path(self.path, key)
                raise InputError(f"{path}: {len(self._maps[key]):,} entries instead of {length:,}; ingest it again")

    def __repr__(self) -> str:
        sizes = f"nodes={self.num_nodes}, edges={self.num_edges}, features={self.num_features}"
        return f"OnDiskGraph({str(self.path)!r}, {sizes})"


def new_manifest(
    folder: Path,
    name: str,
    features: int,
    *,
    feature_names: list[str] | None = None,
    label_names: list[str] | None = None,
    encoding: TableEncoding | None = None,
    source: Mapping[str, str | bool] | None = None,
    rows: Mapping[str, int] | None = None,
) -> Manifest:
    """Return the manifest of the arrays in a folder, of which ``features`` is the number of feature columns."""
    arrays = {key: described(path) for key in ARRAYS if (path := array_path(folder, key)).exists()}
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": name,
        "nodes": arrays["indptr"]["shape"][0] - 1,
        "edges": arrays["indices"]["shape"][0] // 2,
        "features": features,
        "feature_names": feature_names,
        "label_names": label_names,
        "encoding": None if encoding is None else encoding.to_dict(),
        "source": dict(source or {}),
        "rows": dict(rows or {}),
        "written": {"date": datetime.now(UTC).isoformat(timespec="seconds"), "epagcl": __version__},
        "arrays": arrays,
    }


def claim_folder(folder: Path, *, overwrite: bool, keep_work: bool = False) -> None:
    """Create the folder of a graph. Raise if it holds other files, or a graph that may not be replaced.

    Args:
        folder: the folder.
        overwrite: whether a graph may be replaced.
        keep_work: keep an ingestion that was stopped.
    """
    if folder.is_file():
        raise InputError(f"{folder}: is a file; give a folder")
    if (folder / MANIFEST).exists() and not overwrite:
        raise InputError(f"{folder}: holds a graph already; give another folder, or overwrite=True")
    own = {MANIFEST, *(array_path(folder, key).name for key in ARRAYS)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(folder)
        if others := sorted({path.name for path in folder.iterdir()} - {*own, WORK}):
            raise InputError(f"{folder}: holds {others[0]}, which is no part of a graph; give another folder")
        if keep_work and (folder / WORK).is_dir():
            return
        (folder / MANIFEST).unlink(missing_ok=True)  # first, so that no mixture of two graphs is ever a graph
        for name in own:
            (folder / name).unlink(missing_ok=True)
        shutil.rmtree(folder / WORK, ignore_errors=True)
    except OSError as error:
        if isinstance(error, InputError):
            raise
        raise write_failure(folder, error.errno) from error


def _arrays(data: Data) -> dict[str, np.ndarray]:
    """Return the arrays of a checked graph, by their names in the folder."""
    n = data.num_nodes
    row, col = data.edge_index.cpu().numpy()
    arrays = {"indptr": np.concatenate([[0], np.bincount(row, minlength=n).cumsum()]).astype(np.int64)}
    arrays["indices"] = col.astype(index_type(n))
    if data.get("edge_weight") is not None:
        arrays["weights"] = data.edge_weight.cpu().numpy()
    if data.x is not None and data.x.layout == torch.strided:
        arrays["features"] = data.x.cpu().numpy()
    elif data.x is not None:
        x = SparseMatrix.from_torch(data.x.cpu())
        arrays["features.indptr"], arrays["features.values"] = x.rowptr.numpy(), x.value.numpy()
        arrays["features.indices"] = x.col.int().numpy()
    if data.y is not None:
        arrays["labels"] = data.y.cpu().numpy()
    if data.get("node_ids") is not None:
        ids = id_array(data.node_ids.tolist() if hasattr(data.node_ids, "tolist") else data.node_ids)
        if ids.dtype == np.int64:
            arrays["ids"] = ids
        else:
            arrays["ids.offsets"], arrays["ids.text"] = encode_text(ids)
    return arrays
