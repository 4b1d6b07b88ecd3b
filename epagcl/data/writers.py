"""Embeddings into files, whole or not at all."""

import csv
import importlib.util
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from epagcl.errors import InputError, MissingExtra
from epagcl.files import atomic_path

SUFFIXES = (".npy", ".csv", ".tsv", ".parquet")


def check_output(path: Path | str) -> None:
    """Raise now, before long work, if ``write_embeddings`` could not write ``path``."""
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{path}: cannot write {path.suffix or 'a file without suffix'}; use {', '.join(SUFFIXES)}")
    if path.suffix.lower() == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise MissingExtra("pyarrow", "parquet", "writing Parquet")
    _check_folder(path)
    if path.suffix.lower() == ".npy":
        _check_folder(_ids_path(path))


def write_embeddings(z: torch.Tensor | np.ndarray, ids: Sequence | None, path: Path | str) -> list[Path]:
    """Write one row per node, with its id, in the format of the suffix; the files written, ``path`` first.

    ``.npy`` is the float32 array alone; its ids stand beside it in ``<stem>.ids.txt``, one per line, in the
    same order. ``.csv``, ``.tsv`` and ``.parquet`` have the columns ``id, z0, z1, ...``. Without ids, nodes
    are numbered from 0. Text holds 9 significant digits, which give back every float32 exactly.
    """
    path = Path(path)
    check_output(path)
    z = np.asarray(z.detach().cpu() if isinstance(z, torch.Tensor) else z, dtype=np.float32)
    ids = list(range(len(z))) if ids is None else ids.tolist() if hasattr(ids, "tolist") else list(ids)
    if len(ids) != len(z):
        raise InputError(f"{path.name}: {len(ids):,} ids for {len(z):,} embeddings; give one per row")
    if path.suffix.lower() == ".npy":
        return _write_npy(z, ids, path)
    write: dict[str, Callable] = {".csv": _write_text, ".tsv": _write_text, ".parquet": _write_parquet}
    with atomic_path(path) as temporary:
        write[path.suffix.lower()](z, ids, temporary)
    return [path]


def _check_folder(path: Path) -> None:
    if path.is_dir():
        raise InputError(f"{path}: is a folder; give the name of a file")
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} does not exist; make it first")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise InputError(f"{path}: the folder {path.parent} is not writable; choose another")


def _ids_path(path: Path) -> Path:
    return path.with_name(f"{path.stem}.ids.txt")


def _write_npy(z: np.ndarray, ids: list, path: Path) -> list[Path]:
    ids_path = _ids_path(path)
    lines = [str(node) for node in ids]
    if any("\n" in line or "\r" in line for line in lines):
        raise InputError(f"{ids_path.name}: an id holds a line break; write .csv or .parquet instead")
    with atomic_path(path) as temporary, atomic_path(ids_path) as temporary_ids:
        with open(temporary, "wb") as file:
            np.save(file, z)
        temporary_ids.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return [path, ids_path]


def _write_text(z: np.ndarray, ids: list, path: Path) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",", lineterminator="\n")
        writer.writerow(_header(z))
        # One format per row: twice as fast as pandas, which formats value by value.
        row_format = " ".join(["%.9g"] * z.shape[1])
        writer.writerows([node, *(row_format % tuple(row)).split()] for node, row in zip(ids, z.tolist(), strict=True))


def _write_parquet(z: np.ndarray, ids: list, path: Path) -> None:
    frame = pd.DataFrame(z, columns=_header(z)[1:])
    # A Parquet column has one type: integers stay integers, everything else is written as text.
    frame.insert(0, "id", ids if all(type(node) is int for node in ids) else [str(node) for node in ids])
    frame.to_parquet(path, index=False)


def _header(z: np.ndarray) -> list[str]:
    return ["id", *(f"z{k}" for k in range(z.shape[1]))]
