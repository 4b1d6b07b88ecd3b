"""Embeddings in files: arrays, tables, and the format of the Embedding Projector. Files are written atomically."""

import csv
import importlib.util
import itertools
import numbers
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from torch import Tensor

from epagcl.core.errors import InputError, MissingExtra
from epagcl.core.files import atomic_path

SUFFIXES = (".npy", ".csv", ".tsv", ".parquet")
PROJECTOR_CONFIG = (
    "embeddings {",
    '  tensor_name: "nodes"',
    '  tensor_path: "vectors.tsv"',
    '  metadata_path: "metadata.tsv"',
    "}",
)
_BREAKS = re.compile(r"[\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")

#: Rows of an embedding, as users pass them and as they are written.
Embedding = Tensor | np.ndarray[Any, Any]
Rows = npt.NDArray[np.float32]
#: Node ids: integers, text or any other values, one per node.
Ids = Sequence[Any] | np.ndarray[Any, Any]


def check_output(path: Path | str) -> None:
    """Raise if :func:`write_embeddings` cannot write to ``path``, and create its folder.

    Call it before long work, so that the work is not lost.
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{path}: cannot write {path.suffix or 'a file without suffix'}; use {', '.join(SUFFIXES)}")
    if path.suffix.lower() == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise MissingExtra("pyarrow", "parquet", "writing Parquet")
    _check_writable(path)
    if path.suffix.lower() == ".npy":
        _check_writable(_ids_path(path))


def write_embeddings(
    z: Embedding, ids: Ids | None, path: Path | str, columns: pd.DataFrame | None = None
) -> list[Path]:
    """Write one row per node, with its id, in the format of the file's suffix. Return the files, ``path`` first.

    An ``.npy`` file is the float32 array alone; the ids are in ``<stem>.ids.txt`` beside it, one per line, in the same
    order. ``.csv``, ``.tsv`` and ``.parquet`` have the columns ``id, z0, z1, ...``. Text has 9 significant digits,
    which restore every float32 exactly.

    Args:
        z: the embedding, one row per node.
        ids: the node ids; None: nodes are numbered from 0.
        path: the file: ``.npy``, ``.csv``, ``.tsv`` or ``.parquet``.
        columns: further columns, one row per node, placed after the id; not for ``.npy``.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     [path] = write_embeddings(np.array([[0.5, 1.0], [0.25, 0.0]]), ["a", "b"], Path(folder, "z.csv"))
        ...     print(path.read_text(), end="")
        id,z0,z1
        a,0.5,1
        b,0.25,0
    """
    path = Path(path)
    check_output(path)
    if columns is not None and path.suffix.lower() == ".npy":
        raise InputError(f"{path}: an array has no other columns; write .csv, .tsv or .parquet")
    z = _as_rows(z)
    ids = list(range(len(z))) if ids is None else ids.tolist() if hasattr(ids, "tolist") else list(ids)
    if z.ndim != 2:
        raise InputError(f"{path.name}: embeddings of shape {z.shape}; give one row per node")
    if len(ids) != len(z):
        raise InputError(f"{path.name}: {len(ids):,} ids for {len(z):,} embeddings; give one per row")
    if path.suffix.lower() == ".npy":
        return _write_npy(z, ids, path)
    columns = _as_pandas(columns)
    if columns.shape[1] and len(columns) != len(z):
        raise InputError(f"{path.name}: {len(columns):,} rows of columns for {len(z):,} embeddings; give one per row")
    if taken := {"id", *_dimensions(z)} & set(columns):
        raise InputError(f"{path.name}: a column named {min(taken)} already exists; rename yours")
    write = _write_parquet if path.suffix.lower() == ".parquet" else _write_text
    with atomic_path(path) as temporary:
        write(z, ids, columns, temporary)
    return [path]


def read_embeddings(path: Path | str) -> tuple[Rows, list[int] | list[str]]:
    """Return the array and the ids that :func:`write_embeddings` wrote as ``.npy``.

    The ids are integers if all of them are, otherwise text.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     files = write_embeddings(np.eye(2), [7, 3], Path(folder, "z.npy"))
        ...     z, ids = read_embeddings(files[0])
        >>> z.shape, ids
        ((2, 2), [7, 3])
    """
    path = Path(path)
    texts = _ids_path(path).read_text(encoding="utf-8").split("\n")[:-1]  # splitlines splits at other characters too
    try:
        integers = [int(text) for text in texts]
    except ValueError:
        return np.load(path), texts
    return np.load(path), integers if [str(node) for node in integers] == texts else texts


def export_run(folder: Path, out: Path | None, projector: Path | None, columns: bool = False) -> list[Path]:
    """Write the embeddings of a finished run as a table or for the Embedding Projector. Return the files.

    Args:
        folder: the run folder, with ``embeddings.npy`` and, for columns and metadata, ``nodes.csv``.
        out: the file of :func:`write_embeddings`.
        projector: the folder of :func:`write_projector`.
        columns: also write the columns of ``nodes.csv`` to ``out``.
    """
    if not (folder / "embeddings.npy").is_file() or not (folder / "embeddings.ids.txt").is_file():
        seeds = sorted(folder.glob("seed-*/embeddings.npy"))
        fix = f"give one of its seeds, {seeds[0].parent}" if seeds else "give the folder of a finished run"
        raise InputError(f"{folder}: no embeddings.npy with its ids; {fix}")
    if out is None and projector is None:
        raise InputError("nothing to write; give out= or projector=")
    if out is not None:
        check_output(out)
    z, ids = read_embeddings(folder / "embeddings.npy")
    nodes = _node_columns(folder / "nodes.csv", ids) if columns or projector is not None else None
    if columns and nodes is None:
        raise InputError(f"{folder}: no nodes.csv to take columns from; export without columns, or train the run again")
    written = []
    if out is not None:
        written += write_embeddings(z, ids, out, nodes if columns else None)
    if projector is not None:
        metadata = pd.DataFrame({"id": ids})
        written += write_projector(z, metadata if nodes is None else pd.concat([metadata, nodes], axis=1), projector)
    return written


def write_projector(z: Embedding, metadata: pd.DataFrame, folder: Path | str) -> list[Path]:
    """Write the files that TensorFlow's Embedding Projector and TensorBoard load. Return the files.

    These are ``vectors.tsv``, ``metadata.tsv`` (one line per vector; as the Projector requires, the header is left out
    if there is only one column) and ``projector_config.pbtxt``. Tabs and line breaks in the metadata become spaces.

    Args:
        z: the embedding, one row per node.
        metadata: one row per node.
        folder: created with its parents.

    Examples:
        >>> import tempfile
        >>> metadata = pd.DataFrame({"id": ["a", "b"], "degree": [1, 2]})
        >>> with tempfile.TemporaryDirectory() as folder:  # doctest: +NORMALIZE_WHITESPACE
        ...     files = write_projector(np.eye(2), metadata, folder)
        ...     print(files[0].read_text() + files[1].read_text(), end="")
        1 0
        0 1
        id degree
        a 1
        b 2
    """
    folder = Path(folder)
    z = _as_rows(z)
    if len(metadata) != len(z):
        raise InputError(f"{folder}: {len(metadata):,} rows of metadata for {len(z):,} embeddings; give one per row")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be created ({error.strerror}); give another folder") from None
    rows = _text_rows(metadata)
    lines = [list(metadata.columns), *rows] if metadata.shape[1] > 1 else rows
    files: dict[str, Iterable[str]] = {
        "vectors.tsv": ("\t".join(row) for row in _digits(z)),
        "metadata.tsv": ("\t".join(_BREAKS.sub(" ", str(cell)) for cell in line) for line in lines),
        "projector_config.pbtxt": PROJECTOR_CONFIG,
    }
    for name, text in files.items():
        with atomic_path(folder / name) as temporary, open(temporary, "w", newline="\n", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in text)
    return [folder / name for name in files]


def check_ids(ids: Ids | None) -> None:
    """Raise if an id contains a line break: the ids of an ``.npy`` file are written one per line."""
    for node in () if ids is None else ids:
        if isinstance(node, str) and ("\n" in node or "\r" in node):
            raise InputError(f"node id {node!r} contains a line break; rename the node, or write .csv or .parquet")


def _check_writable(path: Path) -> None:
    if path.is_dir():
        raise InputError(f"{path}: is a folder; give the name of a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); give another path") from None


def _as_rows(z: Embedding) -> Rows:
    return np.asarray(z.detach().cpu() if isinstance(z, Tensor) else z, dtype=np.float32)


def _as_pandas(columns: Any) -> pd.DataFrame:
    """Return a table of pandas, of a library that converts to it (polars), or None as a pandas table."""
    if columns is None:
        return pd.DataFrame()
    return columns.to_pandas() if hasattr(columns, "to_pandas") else columns


def _ids_path(path: Path) -> Path:
    return path.with_name(f"{path.stem}.ids.txt")


def _write_npy(z: Rows, ids: list[Any], path: Path) -> list[Path]:
    ids_path = _ids_path(path)
    check_ids(ids)
    lines = [str(node) for node in ids]
    with atomic_path(path) as temporary, atomic_path(ids_path) as temporary_ids:
        with open(temporary, "wb") as file:
            np.save(file, z)
        temporary_ids.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return [path, ids_path]


def _write_text(z: Rows, ids: list[Any], columns: pd.DataFrame, path: Path) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",", lineterminator="\n")
        writer.writerow(["id", *columns, *_dimensions(z)])
        more: Iterable[list[Any]] = _text_rows(columns) if columns.shape[1] else itertools.repeat([], len(z))
        writer.writerows([node, *cells, *row] for node, cells, row in zip(ids, more, _digits(z), strict=True))


def _write_parquet(z: Rows, ids: list[Any], columns: pd.DataFrame, path: Path) -> None:
    # A Parquet column has one type: integers stay integers, everything else is written as text.
    whole = all(isinstance(node, numbers.Integral) and not isinstance(node, bool) for node in ids)
    id_column = pd.DataFrame({"id": [int(node) if whole else str(node) for node in ids]})
    parts = [id_column, columns.reset_index(drop=True), pd.DataFrame(z, columns=_dimensions(z))]
    pd.concat([part for part in parts if part.shape[1]], axis=1).to_parquet(path, index=False)


def _dimensions(z: Rows) -> list[str]:
    return [f"z{k}" for k in range(z.shape[1])]


def _digits(z: Rows) -> Iterator[list[str]]:
    # One format per row: twice as fast as pandas, which formats value by value.
    row_format = " ".join(["%.9g"] * z.shape[1])
    return ((row_format % tuple(row)).split() for row in z.tolist())


def _text_rows(frame: pd.DataFrame) -> list[list[Any]]:
    """Return the cells of a table, row by row; missing cells are empty text."""
    return frame.astype(object).where(frame.notna(), "").to_numpy().tolist()


def _node_columns(path: Path, ids: Sequence[Any]) -> pd.DataFrame | None:
    """Return the columns of a run's ``nodes.csv`` without the id; None if the file does not exist."""
    if not path.is_file():
        return None
    names = pd.read_csv(path, nrows=0).columns
    # Only empty cells are missing values, and no id is missing: "NA" may be the name of a class.
    missing = {str(name): [""] for name in names if name != "id"}
    frame = pd.read_csv(path, dtype={"id": str}, keep_default_na=False, na_values=missing).convert_dtypes()
    if "id" not in frame or frame["id"].tolist() != [str(node) for node in ids]:
        raise InputError(f"{path}: its ids differ from embeddings.ids.txt; was it edited?")
    return frame.drop(columns="id")
