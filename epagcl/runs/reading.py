"""Embeddings read from files: arrays with a file of ids, tables, and run folders."""

import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from epagcl.core.errors import InputError, MissingExtra
from epagcl.core.files import reading
from epagcl.core.formatting import spreadsheet_original
from epagcl.core.memory import read_array

SUFFIXES = (".npy", ".csv", ".tsv", ".parquet")
#: The column of vectors in a Parquet file, and the columns of single dimensions.
VECTOR = "vector"
_DIMENSION = re.compile(r"z(?:0|[1-9][0-9]*)")

#: Rows of an embedding, as they are written.
Rows = npt.NDArray[np.float32]


def read_embeddings(path: Path | str) -> tuple[Rows, list[int] | list[str]]:
    """Return the array and the ids that :func:`write_embeddings` wrote, or those of a run folder.

    The ids are integers if all of them are, otherwise text. An ``.npy`` file without a file of ids has the ids
    0, 1, ... In tables, the columns ``z0, z1, ...`` or ``vector`` are read; other columns are ignored.

    Args:
        path: ``.npy``, ``.csv``, ``.tsv`` or ``.parquet``, the folder of a finished run, or a folder of shards.

    Examples:
        >>> import tempfile
        >>> from epagcl.runs import write_embeddings
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     files = write_embeddings(np.eye(2), [7, 3], Path(folder, "z.npy"))
        ...     z, ids = read_embeddings(files[0])
        >>> z.shape, ids
        ((2, 2), [7, 3])
    """
    path = Path(path)
    if shards := shard_paths(path):
        parts = [_read_table(shard) for shard in shards]
        return np.concatenate([z for z, _ in parts]), _distinct([node for _, ids in parts for node in ids], path)
    if path.is_dir():
        path = embeddings_of_run(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file; give embeddings ({', '.join(SUFFIXES)}) or a run folder")
    if path.suffix.lower() == ".npy":
        z = _load_rows(path)
        ids = _read_ids(ids_path(path)) if ids_path(path).is_file() else list(range(len(z)))
    elif path.suffix.lower() in SUFFIXES:
        z, ids = _read_table(path)
    else:
        raise InputError(f"{path}: not a file of embeddings; give {', '.join(SUFFIXES)} or a run folder")
    if len(ids) != len(z):
        raise InputError(f"{path}: {len(z):,} rows for {len(ids):,} ids; write both again")
    return z, _distinct(ids, path)


def _distinct(ids: list[Any], path: Path) -> list[Any]:
    """Return the ids. Raise if one occurs twice: results by id would go to one of its rows."""
    if len(set(ids)) == len(ids):
        return ids
    first: dict[Any, int] = {}
    second = next(row for row, node in enumerate(ids) if first.setdefault(node, row) != row)
    rows = f"rows {first[ids[second]]:,} and {second:,} (counted from 0)"
    raise InputError(f"{path}: id {ids[second]} is in {rows}; keep one row per node")


def ids_path(path: Path) -> Path:
    """Return the file of the ids of an ``.npy`` file."""
    return path.with_name(f"{path.stem}.ids.txt")


def shard_paths(folder: Path) -> list[Path]:
    """Return the shards of an embedding in a folder, in order; none if it is not a folder of shards."""
    return sorted(folder.glob("embeddings-[0-9]*.parquet")) if folder.is_dir() else []


def embeddings_of_run(folder: Path) -> Path:
    """Return the embeddings of a run folder. Raise unless they and their ids are there."""
    if not (folder / "embeddings.npy").is_file() or not (folder / "embeddings.ids.txt").is_file():
        seeds = sorted(folder.glob("seed-*/embeddings.npy"))
        fix = f"give one of its seeds, {seeds[0].parent}" if seeds else "give the folder of a finished run"
        raise InputError(f"{folder}: no embeddings.npy with its ids; {fix}")
    return folder / "embeddings.npy"


def _load_rows(path: Path) -> Rows:
    z = read_array(path, "write it with np.save(path, z)")
    if z.ndim != 2 or z.dtype.kind not in "biuf":
        raise InputError(f"{path}: {z.dtype} values of shape {z.shape}; give numbers, one row per node")
    return z


def _read_ids(path: Path) -> list[int] | list[str]:
    with reading(path, "write it again, one id per line"):
        # splitlines splits at other characters too
        texts = path.read_text(encoding="utf-8", errors="surrogateescape").split("\n")[:-1]
    try:
        integers = [int(text) for text in texts]
    except ValueError:
        return texts
    return integers if [str(node) for node in integers] == texts else texts


def _read_table(path: Path) -> tuple[Rows, list[Any]]:
    """Return the embeddings and ids of a table."""
    parquet = path.suffix.lower() == ".parquet"
    if parquet and importlib.util.find_spec("pyarrow") is None:
        raise MissingExtra("pyarrow", "parquet", "reading Parquet")
    try:
        if parquet:
            frame = pd.read_parquet(path, engine="pyarrow")
        else:
            tab = "\t" if path.suffix.lower() == ".tsv" else ","
            frame = pd.read_csv(path, sep=tab, dtype={"id": str}, keep_default_na=False, low_memory=False)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not a readable table ({' '.join(str(error).split())}); write it again") from None
    names = [name for name in map(str, frame.columns) if _DIMENSION.fullmatch(name)]
    if "id" not in frame or not (names or VECTOR in frame):
        raise InputError(f"{path}: no columns id and z0, z1, ... or vector; write it with `epagcl embed --out {path}`")
    try:
        z = np.stack(frame[VECTOR].to_list()) if VECTOR in frame else frame[names].to_numpy()
        z = np.ascontiguousarray(z, dtype=np.float32)
    except ValueError:
        raise InputError(f"{path}: embeddings are not numbers in rows of one length; write it again") from None
    ids = frame["id"].tolist() if parquet else [spreadsheet_original(node) for node in frame["id"]]
    whole = [int(node) for node in ids] if all(re.fullmatch(r"0|-?[1-9][0-9]*", str(node)) for node in ids) else ids
    return z, whole
