"""Opening a table by the suffix of its file."""

import importlib.util
from pathlib import Path

import pandas as pd

from epagcl.core.errors import InputError, MissingExtra
from epagcl.data.io.tables.base import Table, one_line
from epagcl.data.io.tables.frame import FrameTable
from epagcl.data.io.tables.text import TextTable

TABLE_SUFFIXES = (".csv", ".tsv", ".txt", ".parquet")


def open_table(path: Path) -> Table:
    """Return the table in a file. The suffix selects the format."""
    suffix = table_suffix(path)
    if suffix == ".parquet":
        return FrameTable(_read_parquet(path), path.name)
    if suffix in TABLE_SUFFIXES:
        return TextTable(path, suffix)
    suffixes = ", ".join(TABLE_SUFFIXES)
    raise InputError(f"{path.name}: cannot read {path.suffix or 'a file without suffix'} as a table; give {suffixes}")


def table_suffix(path: Path) -> str:
    """Return the suffix that names the format; for text tables, ``.gz`` may follow it."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] == [".gz"] and suffixes[-2:-1] and suffixes[-2] != ".parquet":
        return suffixes[-2]
    return path.suffix.lower()


def existing_file(path: Path | str) -> Path:
    """Return the path. Raise unless it is a readable file that is not empty."""
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path}: is a folder; give a file")
    if not path.is_file():
        raise InputError(f"{path}: no such file; check the name")
    try:
        size = path.stat().st_size
        with open(path, "rb"):
            pass
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; check its permissions") from None
    if size == 0:
        raise InputError(f"{path}: the file is empty; write it again")
    return path


def _read_parquet(path: Path) -> pd.DataFrame:
    if importlib.util.find_spec("pyarrow") is None:
        raise MissingExtra("pyarrow", "parquet", "reading Parquet")
    try:
        return pd.read_parquet(path, engine="pyarrow")
    except (OSError, ValueError) as error:
        raise InputError(f"{path.name}: not a readable Parquet file ({one_line(error)}); write it again") from None
