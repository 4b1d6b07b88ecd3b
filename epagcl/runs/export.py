"""Embeddings into files, whole or not at all."""

import csv
import importlib.util
import itertools
import numbers
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch

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


def check_output(path: Path | str) -> None:
    """Raise now, before long work, if ``write_embeddings`` could not write ``path``; its folder is made."""
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{path}: cannot write {path.suffix or 'a file without suffix'}; use {', '.join(SUFFIXES)}")
    if path.suffix.lower() == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise MissingExtra("pyarrow", "parquet", "writing Parquet")
    _check_folder(path)
    if path.suffix.lower() == ".npy":
        _check_folder(_ids_path(path))


def write_embeddings(
    z: torch.Tensor | np.ndarray, ids: Sequence | None, path: Path | str, columns: pd.DataFrame | None = None
) -> list[Path]:
    """Write one row per node, with its id, in the format of the suffix; the files written, ``path`` first.

    ``.npy`` is the float32 array alone; its ids stand beside it in ``<stem>.ids.txt``, one per line, in the
    same order. ``.csv``, ``.tsv`` and ``.parquet`` have the columns ``id, z0, z1, ...``, with those of ``columns``
    behind the id. Without ids, nodes are numbered from 0. Text holds 9 significant digits, which give back every
    float32 exactly.
    """
    path = Path(path)
    check_output(path)
    if columns is not None and path.suffix.lower() == ".npy":
        raise InputError(f"{path}: an array has no other columns; write .csv, .tsv or .parquet")
    z = np.asarray(z.detach().cpu() if isinstance(z, torch.Tensor) else z, dtype=np.float32)
    ids = list(range(len(z))) if ids is None else ids.tolist() if hasattr(ids, "tolist") else list(ids)
    if z.ndim != 2:
        raise InputError(f"{path.name}: embeddings of shape {z.shape}; give one row per node")
    if len(ids) != len(z):
        raise InputError(f"{path.name}: {len(ids):,} ids for {len(z):,} embeddings; give one per row")
    if path.suffix.lower() == ".npy":
        return _write_npy(z, ids, path)
    columns = pd.DataFrame() if columns is None else columns.to_pandas() if hasattr(columns, "to_pandas") else columns
    if columns.shape[1] and len(columns) != len(z):
        raise InputError(f"{path.name}: {len(columns):,} rows of columns for {len(z):,} embeddings; give one per row")
    if taken := {"id", *_dimensions(z)} & set(columns):
        raise InputError(f"{path.name}: a column called {min(taken)} is there already; rename yours")
    write: dict[str, Callable] = {".csv": _write_text, ".tsv": _write_text, ".parquet": _write_parquet}
    with atomic_path(path) as temporary:
        write[path.suffix.lower()](z, ids, columns, temporary)
    return [path]


def read_embeddings(path: Path | str) -> tuple[np.ndarray, list]:
    """What :func:`write_embeddings` wrote as ``.npy``: the array, and its ids as integers if all are, else as text."""
    path = Path(path)
    ids = _ids_path(path).read_text(encoding="utf-8").split("\n")[:-1]  # splitlines breaks at more than line ends
    try:
        whole = [int(node) for node in ids]
    except ValueError:
        return np.load(path), ids
    return np.load(path), whole if [str(node) for node in whole] == ids else ids


def export_run(folder: Path, out: Path | None, projector: Path | None, columns: bool = False) -> list[Path]:
    """The embeddings of a finished run as a table, or for the Embedding Projector; the files written.

    Args:
        folder: the run's, with ``embeddings.npy`` and, for columns and metadata, ``nodes.csv``.
        out: file to write, as :func:`write_embeddings`.
        projector: folder to write, as :func:`write_projector`.
        columns: also the columns of ``nodes.csv`` in ``out``.
    """
    if not (folder / "embeddings.npy").is_file() or not (folder / "embeddings.ids.txt").is_file():
        seeds = sorted(folder.glob("seed-*/embeddings.npy"))
        fix = f"give one of its seeds, {seeds[0].parent}" if seeds else "give a folder that `epagcl train` finished"
        raise InputError(f"{folder}: no embeddings.npy with its ids; {fix}")
    if out is None and projector is None:
        raise InputError("nothing to write; give --out FILE or --projector FOLDER")
    if out is not None:
        check_output(out)
    z, ids = read_embeddings(folder / "embeddings.npy")
    nodes = _node_columns(folder / "nodes.csv", ids) if columns or projector is not None else None
    if columns and nodes is None:
        raise InputError(f"{folder}: no nodes.csv, whose columns --columns adds; leave it out, or train the run anew")
    written = []
    if out is not None:
        written += write_embeddings(z, ids, out, nodes if columns else None)
    if projector is not None:
        named = pd.DataFrame({"id": ids})
        written += write_projector(z, named if nodes is None else pd.concat([named, nodes], axis=1), projector)
    return written


def write_projector(z: torch.Tensor | np.ndarray, metadata: pd.DataFrame, folder: Path | str) -> list[Path]:
    """Write what TensorFlow's Embedding Projector and TensorBoard's tab of that name load; the files written.

    ``vectors.tsv``, ``metadata.tsv`` (one line per vector; names of columns only if there are several, as the Projector
    wants it) and ``projector_config.pbtxt``. Tabs and line breaks in the metadata become blanks.
    """
    folder = Path(folder)
    z = np.asarray(z.detach().cpu() if isinstance(z, torch.Tensor) else z, dtype=np.float32)
    if len(metadata) != len(z):
        raise InputError(f"{folder}: {len(metadata):,} rows of metadata for {len(z):,} embeddings; give one per row")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made ({error.strerror}); give another folder") from None
    rows = _text_rows(metadata)
    lines = [metadata.columns, *rows] if metadata.shape[1] > 1 else rows
    files = {
        "vectors.tsv": ("\t".join(row) for row in _digits(z)),
        "metadata.tsv": ("\t".join(_BREAKS.sub(" ", str(cell)) for cell in line) for line in lines),
        "projector_config.pbtxt": PROJECTOR_CONFIG,
    }
    for name, text in files.items():
        with atomic_path(folder / name) as temporary, open(temporary, "w", newline="\n", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in text)
    return [folder / name for name in files]


def _check_folder(path: Path) -> None:
    if path.is_dir():
        raise InputError(f"{path}: is a folder; give the name of a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); choose another place") from None


def check_ids(ids: Sequence | None) -> None:
    """Raise if these ids cannot stand one on a line, as those of an ``.npy`` do."""
    for node in () if ids is None else ids:
        if isinstance(node, str) and ("\n" in node or "\r" in node):
            raise InputError(f"the id {node!r} holds a line break; give it another, or embed to .csv or .parquet")


def _ids_path(path: Path) -> Path:
    return path.with_name(f"{path.stem}.ids.txt")


def _write_npy(z: np.ndarray, ids: list, path: Path) -> list[Path]:
    ids_path = _ids_path(path)
    check_ids(ids)
    lines = [str(node) for node in ids]
    with atomic_path(path) as temporary, atomic_path(ids_path) as temporary_ids:
        with open(temporary, "wb") as file:
            np.save(file, z)
        temporary_ids.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return [path, ids_path]


def _write_text(z: np.ndarray, ids: list, columns: pd.DataFrame, path: Path) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",", lineterminator="\n")
        writer.writerow(["id", *columns, *_dimensions(z)])
        more = _text_rows(columns) if columns.shape[1] else itertools.repeat([], len(z))
        writer.writerows([node, *cells, *row] for node, cells, row in zip(ids, more, _digits(z), strict=True))


def _write_parquet(z: np.ndarray, ids: list, columns: pd.DataFrame, path: Path) -> None:
    # A Parquet column has one type: integers stay integers, everything else is written as text.
    whole = all(isinstance(node, numbers.Integral) and not isinstance(node, bool) for node in ids)
    named = pd.DataFrame({"id": [int(node) if whole else str(node) for node in ids]})
    parts = [named, columns.reset_index(drop=True), pd.DataFrame(z, columns=_dimensions(z))]
    pd.concat([part for part in parts if part.shape[1]], axis=1).to_parquet(path, index=False)


def _dimensions(z: np.ndarray) -> list[str]:
    return [f"z{k}" for k in range(z.shape[1])]


def _digits(z: np.ndarray) -> Iterator[list[str]]:
    # One format per row: twice as fast as pandas, which formats value by value.
    row_format = " ".join(["%.9g"] * z.shape[1])
    return ((row_format % tuple(row)).split() for row in z.tolist())


def _text_rows(frame: pd.DataFrame) -> list[list]:
    """The cells of a table, row by row; what is missing is blank."""
    return frame.astype(object).where(frame.notna(), "").to_numpy().tolist()


def _node_columns(path: Path, ids: list) -> pd.DataFrame | None:
    """The columns of a run's ``nodes.csv`` beside the id; None if there is no such file."""
    if not path.is_file():
        return None
    names = pd.read_csv(path, nrows=0).columns
    # Blanks are gaps but among ids; "NA" may be the name of a class.
    gaps = {name: [""] for name in names if name != "id"}
    options = {"dtype": {"id": str}, "keep_default_na": False, "na_values": gaps}
    frame = pd.read_csv(path, **options).convert_dtypes()
    if "id" not in frame or frame["id"].tolist() != [str(node) for node in ids]:
        raise InputError(f"{path}: its ids are not those of embeddings.ids.txt; was it edited?")
    return frame.drop(columns="id")
