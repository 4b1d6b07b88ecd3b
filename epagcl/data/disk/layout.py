"""The folder of a graph on disk: NumPy files, and a manifest that is written last.

=========================== ======================================================================================
file                        content
=========================== ======================================================================================
``manifest.json``           format and version, counts, names, where the graph comes from, a digest of every file
``indptr.npy``              int64 [N + 1]: the neighbours of node i are ``indices[indptr[i]:indptr[i + 1]]``
``indices.npy``             int32, or int64 from 2³¹ nodes on, [2 E]: both directions of each pair, sorted by node
``weights.npy``             float32 [2 E]: positive weights of mean 1, equal in both directions; optional
``features.npy``            float32 [N, F]; optional, or instead
``features.indptr.npy``     int64 [N + 1], with ``features.indices.npy`` (int32) and ``features.values.npy`` (float32):
                            features as a CSR matrix
``labels.npy``              int64 [N]: class numbers, −1 = no label; optional
``ids.npy``                 int64 [N]: the user's ids of the nodes, or instead
``ids.offsets.npy``         int64 [N + 1], with ``ids.text.npy`` (uint8): ids of text, as UTF-8; these are the buffers
                            of an Arrow array of large strings
=========================== ======================================================================================

A graph has no self-loops and no repeated pairs, as every checked graph.
"""

import os
from hashlib import sha256
from pathlib import Path
from typing import Any, TypedDict, cast

import numpy as np

from epagcl.core.errors import InputError
from epagcl.core.files import read_json, reading, write_json

MANIFEST = "manifest.json"
#: Folder of the files of an ingestion that is not finished.
WORK = "ingest"
FORMAT, VERSION = "epagcl-graph", 1
#: The arrays that a folder may have, and their types. The name of a file is the key with ``.npy``.
ARRAYS: dict[str, tuple[str, ...]] = {
    "indptr": ("int64",),
    "indices": ("int32", "int64"),
    "weights": ("float32",),
    "features": ("float32",),
    "features.indptr": ("int64",),
    "features.indices": ("int32",),
    "features.values": ("float32",),
    "labels": ("int64",),
    "ids": ("int64",),
    "ids.offsets": ("int64",),
    "ids.text": ("uint8",),
}
_CHUNK = 2**22  # bytes that are hashed at once
_FIX = "ingest the graph again"


class ArrayFile(TypedDict):
    """One array of the folder."""

    dtype: str
    shape: list[int]
    bytes: int
    sha256: str


class Manifest(TypedDict):
    """The content of ``manifest.json``.

    Attributes:
        format: ``"epagcl-graph"``.
        version: version of the format.
        name: name of the graph in results.
        nodes: N.
        edges: E, the number of undirected pairs.
        features: number of feature columns; 0 without features.
        feature_names: their names; None if they have none.
        label_names: the names of the classes; None if the labels were numbers 0..C−1.
        encoding: how the columns of a table became features; None if they are used as they are.
        source: the files and columns that the graph was read from.
        rows: how many rows were read, and what became of those that are no edge.
        written: date and version of epagcl.
        arrays: the arrays of the folder.
    """

    format: str
    version: int
    name: str
    nodes: int
    edges: int
    features: int
    feature_names: list[str] | None
    label_names: list[str] | None
    encoding: dict[str, Any] | None
    source: dict[str, str | bool]
    rows: dict[str, int]
    written: dict[str, str]
    arrays: dict[str, ArrayFile]


def index_type(num_nodes: int) -> type[np.signedinteger]:
    """Return the type of node numbers: int32, or int64 if there are too many nodes for it."""
    return np.int32 if num_nodes < 2**31 else np.int64


def array_path(folder: Path, key: str) -> Path:
    """Return the file of an array."""
    return folder / f"{key}.npy"


def is_graph_folder(path: Path | str) -> bool:
    """Return whether a path is the folder of a graph on disk.

    Examples:
        >>> is_graph_folder("no-such-folder")
        False
    """
    return Path(path, MANIFEST).is_file() and Path(path, "indptr.npy").is_file()


def described(path: Path) -> ArrayFile:
    """Return the type, shape, size and digest of an array in a file, reading it in parts."""
    array = np.load(path, mmap_mode="r")
    digest = sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return {
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "bytes": os.path.getsize(path),
        "sha256": digest.hexdigest(),
    }


def write_manifest(manifest: Manifest, folder: Path) -> None:
    """Write the manifest, which makes the folder a graph."""
    write_json(cast(dict[str, Any], manifest), folder / MANIFEST)


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a folder. Raise unless the folder is a complete graph of this format."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give the folder that `epagcl ingest` wrote")
    if not (folder / MANIFEST).is_file():
        unfinished = (folder / WORK).is_dir()
        what = "its ingestion is not finished; run it again to continue" if unfinished else f"has no {MANIFEST}; {_FIX}"
        raise InputError(f"{folder}: {what}")
    path = folder / MANIFEST
    manifest = read_json(path, _FIX)
    if manifest.get("format") != FORMAT:
        raise InputError(f"{path}: not the manifest of a graph; give the folder that `epagcl ingest` wrote")
    if manifest.get("version") != VERSION:
        version = manifest.get("version")
        raise InputError(f"{path}: format version {version}, and this epagcl reads {VERSION}; {_FIX}, or update epagcl")
    with reading(path, _FIX):
        absent = sorted(Manifest.__required_keys__ - manifest.keys())
        if absent:
            raise KeyError(absent[0])
        unknown = sorted(manifest["arrays"].keys() - ARRAYS.keys())
        if unknown:
            raise ValueError(f"unknown array {unknown[0]!r}")
    return cast(Manifest, manifest)


def open_array(folder: Path, key: str, manifest: Manifest) -> np.ndarray:
    """Return an array of the folder, mapped into memory. Raise if the file is not the one of the manifest."""
    path, expected = array_path(folder, key), manifest["arrays"][key]
    with reading(path, _FIX):
        size = path.stat().st_size
        if size != expected["bytes"]:
            raise ValueError(f"{size:,} bytes instead of {expected['bytes']:,}")
        array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
        if array.dtype.name not in ARRAYS[key] or list(array.shape) != expected["shape"]:
            raise ValueError(f"{array.dtype} {array.shape} instead of {expected['dtype']} {tuple(expected['shape'])}")
    return array
