"""Tables in files, and the ids that stand in them.

Rules of text tables (``.csv``, ``.tsv``, ``.txt``, each also ``.gz``):

- Lines that start with ``#`` or ``%`` are comments; blank lines are skipped.
- Fields are separated by tabs in ``.tsv``; else by the first of comma, semicolon and tab that the first row
  has, and in a ``.txt`` that has none of them by white space.
- The first row is a header when it has a known column name (an edge list: one for each end), or when one of
  its fields is not a number while that column holds numbers below it (judged on the first 1,000 rows).
- Ids are integers if every id of a file is written as one (``7``, ``7.0``), else text; ``007`` is text.
  Between two files, ids are compared as text if one of them has text ids.
"""

import importlib.util
from pathlib import Path

import pandas as pd

from epagcl.core.errors import InputError, MissingExtra
from epagcl.data.io.frame_table import FrameTable
from epagcl.data.io.table import Table, one_line, table_suffix
from epagcl.data.io.text_table import TextTable

TABLES = (".csv", ".tsv", ".txt", ".parquet")


def open_table(path: Path) -> Table:
    """The table in a file, by its suffix."""
    if table_suffix(path) == ".parquet":
        return FrameTable(_read_parquet(path), path.name)
    if table_suffix(path) in TABLES:
        return TextTable(path)
    kinds = ", ".join(TABLES)
    raise InputError(f"{path.name}: cannot read {path.suffix or 'a file without suffix'} as a table; give {kinds}")


def existing_file(path: Path | str) -> Path:
    """The path of a file that can be read and is not empty."""
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
        raise InputError(f"{path}: the file is empty; write it anew")
    return path


def _read_parquet(path: Path) -> pd.DataFrame:
    if importlib.util.find_spec("pyarrow") is None:
        raise MissingExtra("pyarrow", "parquet", "reading Parquet")
    try:
        return pd.read_parquet(path, engine="pyarrow")
    except (OSError, ValueError) as error:
        raise InputError(f"{path.name}: not a readable Parquet file ({one_line(error)}); write it anew") from None
