"""Downloads and caches of other libraries, read as data only: no code from pickles, no files that have changed."""

import hashlib
import pickle
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from epagcl.core.errors import InputError
from epagcl.core.files import read_json, write_json

#: The file with the SHA-256 of each file of a download.
MANIFEST = "sha256.json"
_BUILTINS = ("object", "list", "dict", "set", "tuple", "int", "float", "complex", "bool", "str", "bytes", "bytearray")
#: What a pickle of data may name: arrays, sparse matrices, tensors, PyG's graphs and plain containers.
ALLOWED = frozenset(
    {
        *((module, name) for module in ("builtins", "__builtin__") for name in _BUILTINS),
        *((module, "_reconstructor") for module in ("copyreg", "copy_reg")),
        *((f"numpy.{core}.multiarray", name) for core in ("core", "_core") for name in ("_reconstruct", "scalar")),
        *(("numpy", name) for name in ("ndarray", "dtype")),
        *((f"scipy.sparse.{part}", "csr_matrix") for part in ("csr", "_csr")),
        *(("collections", name) for name in ("OrderedDict", "defaultdict")),
        ("_codecs", "encode"),
        *(("torch._utils", name) for name in ("_rebuild_tensor_v2", "_rebuild_tensor", "_rebuild_sparse_tensor")),
        *(("torch.serialization", name) for name in ("_get_layout",)),
        *(("torch", name) for name in ("Size", "device", "float32", "float64", "int32", "int64", "bool")),
        *(("torch_geometric.data.data", name) for name in ("Data", "DataEdgeAttr", "DataTensorAttr")),
        *(("torch_geometric.data.storage", name) for name in ("GlobalStorage", "BaseStorage")),
    }
)
_state = threading.local()


@contextmanager
def data_only() -> Iterator[None]:
    """Refuse every pickle that names more than :data:`ALLOWED`, in this thread and block, whoever reads it.

    A pickle can call any function that it names. PyG and NumPy read some files as pickles. Python announces each name
    before it is looked up, so that no code runs.

    Examples:
        >>> with data_only():
        ...     pickle.loads(pickle.dumps([1, 2]))
        [1, 2]
        >>> with data_only():
        ...     pickle.loads(pickle.dumps(print))
        Traceback (most recent call last):
        ...
        _pickle.UnpicklingError: a pickle that names builtins.print, which is code and not data
    """
    _install()
    before, _state.active = getattr(_state, "active", False), True
    try:
        yield
    finally:
        _state.active = before


@cache
def _install() -> None:
    """Add the check to the interpreter, once. It does nothing outside of :func:`data_only`."""
    sys.addaudithook(_audit)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "pickle.find_class" and getattr(_state, "active", False) and tuple(arguments) not in ALLOWED:
        name = ".".join(map(str, arguments))
        raise pickle.UnpicklingError(f"a pickle that names {name}, which is code and not data")


def write_manifest(folder: Path) -> None:
    """Write the SHA-256 of each file of a download to the file :data:`MANIFEST` in its folder.

    Raises:
        InputError: if a file of the download is a link that leads out of the folder.
    """
    for path in folder.rglob("*"):
        if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
            raise InputError(f"{path}: leads out of the folder of the download; it is not used")
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    write_json({path.relative_to(folder).as_posix(): _sha256(path) for path in files}, folder / MANIFEST)


def check_manifest(folder: Path, fix: str) -> None:
    """Raise if a file of a download has changed since. Folders that another program downloaded have no manifest.

    Args:
        folder: the folder of the download.
        fix: how to get an unchanged one, for the message.
    """
    if not (folder / MANIFEST).is_file():
        return
    for name, expected in read_json(folder / MANIFEST, fix).items():
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()):
            raise InputError(f"{folder / MANIFEST}: names {name}, which is outside of the folder; {fix}")
        if path.is_file() and _sha256(path) != expected:
            raise InputError(f"{path}: has changed since it was downloaded (its SHA-256 differs); {fix}")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
