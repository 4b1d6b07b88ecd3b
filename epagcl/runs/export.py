"""Embeddings in files: arrays, tables, and the format of the Embedding Projector. Files are written atomically."""

import csv
import glob
import importlib.util
import itertools
import numbers
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from epagcl.core.arrays import write_array
from epagcl.core.errors import InputError, MissingExtra, OutputError
from epagcl.core.files import atomic_path, atomic_paths, is_leftover, reading
from epagcl.core.formatting import spreadsheet_text
from epagcl.core.outputs import check_kept, check_writable
from epagcl.core.rescue import rescue
from epagcl.report.nodes import without_apostrophes
from epagcl.runs.reading import SUFFIXES, VECTOR, Rows, embeddings_of_run, ids_path, read_embeddings

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
#: Node ids: integers, text or any other values, one per node.
Ids = Sequence[Any] | np.ndarray[Any, Any]


def check_output(path: Path | str, *, vectors: bool = False) -> None:
    """Raise if :func:`write_embeddings` cannot write to ``path``, and create its folder.

    Call it before long work, so that the work is not lost.
    """
    path = Path(path)
    if vectors and path.suffix.lower() != ".parquet":
        raise InputError(f"{path}: one column of vectors needs .parquet; leave out vectors= or write .parquet")
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{path}: cannot write {path.suffix or 'a file without suffix'}; use {', '.join(SUFFIXES)}")
    if path.suffix.lower() == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise MissingExtra("pyarrow", "parquet", "writing Parquet")
    check_writable(path)
    if path.suffix.lower() == ".npy":
        check_writable(ids_path(path))


def write_embeddings(
    z: Embedding, ids: Ids | None, path: Path | str, columns: pd.DataFrame | None = None, *, vectors: bool = False
) -> list[Path]:
    """Write one row per node, with its id, in the format of the file's suffix. Return the files, ``path`` first.

    An ``.npy`` file is the float32 array alone; the ids are in ``<stem>.ids.txt`` beside it, one per line, in the same
    order. ``.csv``, ``.tsv`` and ``.parquet`` have the columns ``id, z0, z1, ...``. Text has 9 significant digits,
    which restore every float32 exactly; text that a spreadsheet would run as a formula (``=1+2``) gets a leading
    apostrophe there. With ``vectors``, a Parquet file has one column ``vector`` in place of
    ``z0, z1, ...``: an Arrow list of fixed size. LanceDB and pyarrow read it as such, DuckDB as a list that
    ``vector::FLOAT[256]`` casts.

    Args:
        z: the embedding, one row per node.
        ids: the node ids; None: nodes are numbered from 0.
        path: the file: ``.npy``, ``.csv``, ``.tsv`` or ``.parquet``.
        columns: further columns, one row per node, placed after the id; not for ``.npy``.
        vectors: write one column of vectors; only for ``.parquet``.

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
    check_output(path, vectors=vectors)
    if columns is not None and path.suffix.lower() == ".npy":
        raise InputError(f"{path}: an array has no other columns; write .csv, .tsv or .parquet")
    z = _as_rows(z)
    ids = list(range(len(z))) if ids is None else ids.tolist() if hasattr(ids, "tolist") else list(ids)
    if z.ndim != 2:
        raise InputError(f"{path.name}: embeddings of shape {z.shape}; give one row per node")
    if len(ids) != len(z):
        raise InputError(f"{path.name}: {len(ids):,} ids for {len(z):,} embeddings; give one per row")
    check_text(ids)
    columns = _as_pandas(columns)
    if columns.shape[1] and len(columns) != len(z):
        raise InputError(f"{path.name}: {len(columns):,} rows of columns for {len(z):,} embeddings; give one per row")
    if taken := {"id", *([VECTOR] if vectors else _dimensions(z))} & set(columns):
        raise InputError(f"{path.name}: a column named {min(taken)} already exists; rename yours")
    try:
        return _write(z, ids, path, columns, vectors)
    except OutputError as error:
        raise rescue(
            error, lambda place: _write(z, ids, place / path.name, columns, vectors), "the embedding"
        ) from error


def _write(z: Rows, ids: list[Any], path: Path, columns: pd.DataFrame, vectors: bool) -> list[Path]:
    if path.suffix.lower() == ".npy":
        return _write_npy(z, ids, path)
    with atomic_path(path) as temporary:
        if path.suffix.lower() == ".parquet":
            _write_parquet(z, ids, columns, temporary, vectors=vectors)
        else:
            _write_text(z, ids, columns, temporary)
    return [path]


def export_run(
    folder: Path, out: Path | None, projector: Path | None, columns: bool = False, *, vectors: bool = False
) -> list[Path]:
    """Write the embeddings of a finished run as a table or for the Embedding Projector. Return the files.

    Args:
        folder: the run folder, with ``embeddings.npy`` and, for columns and metadata, ``nodes.csv``.
        out: the file of :func:`write_embeddings`.
        projector: the folder of :func:`write_projector`.
        columns: also write the columns of ``nodes.csv`` to ``out``.
        vectors: write one column of vectors to ``out``, which must be ``.parquet``.
    """
    source = embeddings_of_run(folder)
    if out is None and projector is None:
        raise InputError("nothing to write; give out= or projector=")
    if out is not None:
        check_output(out, vectors=vectors)
        check_kept(out)
    z, ids = read_embeddings(source)
    nodes = _node_columns(folder / "nodes.csv", ids) if columns or projector is not None else None
    if columns and nodes is None:
        raise InputError(f"{folder}: no nodes.csv to take columns from; export without columns, or train the run again")
    written = []
    if projector is not None:
        _make_folder(Path(projector))  # before anything is written
    if out is not None:
        written += write_embeddings(z, ids, out, nodes if columns else None, vectors=vectors)
    if projector is not None:
        metadata = pd.DataFrame({"id": ids})
        written += write_projector(z, metadata if nodes is None else pd.concat([metadata, nodes], axis=1), projector)
    return written


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be created ({error.strerror}); give another folder") from None


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
    _make_folder(folder)
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


def check_replaced(out: Path | str, *inputs: Path | str | None) -> None:
    """Raise if writing an embedding and its report would replace an input, or a file that is not of an embedding.

    An earlier embedding at ``out`` is replaced together with its ids and its report. Without it, files with the names
    of these belong to something else.

    Args:
        out: the file of the embedding.
        inputs: files that the caller reads; None and names of graphs are ignored.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Path(folder, "f.npy").touch()
        ...     check_replaced(Path(folder, "f.npy"), Path(folder, "f.npy"))
        Traceback (most recent call last):
        ...
        epagcl.core.errors.InputError: /...f.npy: is an input of this command; give another out=
    """
    out = Path(out)
    companions = [out.with_name(f"{out.stem}.report.html")]
    companions += [ids_path(out)] if out.suffix.lower() == ".npy" else []
    for path in (out, *companions):
        check_kept(path, *inputs)
    for path in companions:
        if path.exists() and not out.exists() and not _was_interrupted(out):
            raise InputError(f"{path}: exists, and {out.name} does not; move it, or give another out=")


def _was_interrupted(out: Path) -> bool:
    """Return whether a process was killed while it wrote a file. Its companions may be there already."""
    names = glob.escape(f".{out.stem[:60]}.")
    return any(is_leftover(path) for path in out.parent.glob(f"{names}*.tmp{glob.escape(out.suffix)}"))


def check_ids(ids: Ids | None) -> None:
    """Raise if an id contains a line break: the ids of an ``.npy`` file are written one per line."""
    check_text(ids)
    for node in () if ids is None else ids:
        if isinstance(node, str) and ("\n" in node or "\r" in node):
            raise InputError(f"node id {node!r} contains a line break; rename the node, or write .csv or .parquet")


def check_text(ids: Ids | None) -> None:
    """Raise if an id cannot be written to any file, because it has halves of characters."""
    for node in () if ids is None else ids:
        if isinstance(node, str) and not node.isascii() and any("\ud800" <= letter <= "\udfff" for letter in node):
            raise InputError(f"node id {node!r} is not valid Unicode; rename the node")


def _as_rows(z: Embedding) -> Rows:
    # In C order, which FAISS and other indexes require.
    return np.asarray(z.detach().cpu() if isinstance(z, Tensor) else z, dtype=np.float32, order="C")


def _as_pandas(columns: Any) -> pd.DataFrame:
    """Return a table of pandas, of a library that converts to it (polars), or None as a pandas table."""
    if columns is None:
        return pd.DataFrame()
    return columns.to_pandas() if hasattr(columns, "to_pandas") else columns


def _write_npy(z: Rows, ids: list[Any], path: Path) -> list[Path]:
    ids_file = ids_path(path)
    check_ids(ids)
    lines = [str(node) for node in ids]
    with atomic_paths(path, ids_file) as (temporary, temporary_ids):
        with open(temporary, "wb") as file:
            write_array(file, z)
        temporary_ids.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return [path, ids_file]


def _write_text(z: Rows, ids: list[Any], columns: pd.DataFrame, path: Path) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",", lineterminator="\n")
        writer.writerow(["id", *map(spreadsheet_text, columns), *_dimensions(z)])
        more: Iterable[list[Any]] = _text_rows(columns) if columns.shape[1] else itertools.repeat([], len(z))
        for node, cells, row in zip(ids, more, _digits(z), strict=True):
            writer.writerow([*map(spreadsheet_text, (node, *cells)), *row])


def _write_parquet(z: Rows, ids: list[Any], columns: pd.DataFrame, path: Path, *, vectors: bool) -> None:
    # A Parquet column has one type: integers stay integers, everything else is written as text.
    whole = all(isinstance(node, numbers.Integral) and not isinstance(node, bool) for node in ids)
    id_column = pd.DataFrame({"id": [int(node) if whole else str(node) for node in ids]})
    values = pd.DataFrame() if vectors else pd.DataFrame(z, columns=_dimensions(z))
    parts = [id_column, columns.reset_index(drop=True), values]
    frame = pd.concat([part for part in parts if part.shape[1]], axis=1)
    if not vectors:
        frame.to_parquet(path, index=False)
        return
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.Table.from_pandas(frame, preserve_index=False)
    lists = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(z.ravel()), z.shape[1])
    pyarrow.parquet.write_table(table.append_column(VECTOR, lists), path)


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
    with reading(path, "train the run again"):
        names = pd.read_csv(path, nrows=0).columns
        # Only empty cells are missing values, and no id is missing: "NA" may be the name of a class.
        missing = {str(name): [""] for name in names if name != "id"}
        frame = pd.read_csv(path, dtype={"id": str}, keep_default_na=False, na_values=missing)
        frame = without_apostrophes(frame).convert_dtypes()
    if "id" not in frame or frame["id"].tolist() != [str(node) for node in ids]:
        raise InputError(f"{path}: its ids differ from embeddings.ids.txt; was it edited?")
    return frame.drop(columns="id")
