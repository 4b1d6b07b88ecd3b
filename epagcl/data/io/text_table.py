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

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from epagcl.core.errors import InputError
from epagcl.core.formatting import counted
from epagcl.core.log import log
from epagcl.data.io.columns import is_number
from epagcl.data.io.table import MISSING, Table, one_line, table_suffix

_PADDED = re.compile(rb"(?<![0-9.])0[0-9]")


_HEADER_ROWS = 1000


class TextTable(Table):
    """A text table: its bytes, and the line behind each row."""

    def __init__(self, path: Path):
        self.name = path.name
        self.header = False
        raw = _read_bytes(path).removeprefix(b"\xef\xbb\xbf")
        if b"\r" in raw:
            raw = raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        self.raw = raw if raw.endswith(b"\n") else raw + b"\n"
        # Comments are found by line and not by pandas, which would also cut an id like "a#1" in two.
        characters = np.frombuffer(self.raw, dtype=np.uint8)
        ends = np.flatnonzero(characters == ord("\n"))
        starts = np.concatenate([[0], ends[:-1] + 1])
        comment = np.isin(characters[starts], list(b"#%"))
        self.comments = np.flatnonzero(comment).tolist()
        self.lines = np.flatnonzero(~comment & (starts != ends))
        if len(self.lines) == 0:
            hint = " (lines that start with # or % are comments)" if self.comments else ""
            raise InputError(f"{self.name}: the file is empty{hint}; give one row per line")
        if inside := int(comment[self.lines[0] :].sum()):
            log.warning("%s: skipped as comments (# or %%): %s", self.name, counted(inside, "line"))
        line = self.lines[0]
        try:
            first = self.raw[starts[line] : ends[line]].decode()
        except UnicodeDecodeError:
            raise InputError(f"{self.name}: line {line + 1}: not UTF-8 text; save the file as UTF-8") from None
        self.separator = _separator(first, table_suffix(path))
        fields = first.split() if self.separator == r"\s+" else next(csv.reader([first], delimiter=self.separator))
        self.first = [field.strip() for field in fields]

    def rows_as_text(self) -> list[str]:
        """Whole lines, from the first row on, without comments and blank lines."""
        try:
            lines = self.raw.decode().split("\n")
        except UnicodeDecodeError:
            raise InputError(f"{self.name}: not UTF-8 text; save the file as UTF-8") from None
        return [lines[line] for line in self.lines]

    def has_header(self, known: Iterable[str]) -> bool:
        """The rule of the module's docstring."""
        if self.column(known) is not None:
            return True
        text = [column for column, field in enumerate(self.first) if field and not is_number(field)]
        if not text or len(self.lines) < 2:
            return False
        options = {"keep_default_na": False, "na_values": list(MISSING)}
        sample = self._read(header=True, rows=_HEADER_ROWS, **options)
        if any(column in sample and _has_numbers(sample[column]) for column in text):
            names = self.first if len(self.first) <= 5 else [*self.first[:3], "...", self.first[-1]]
            log.info("%s: the first row is read as a header (%s)", self.name, ", ".join(names))
            return True
        return False

    def ids(self, columns: list[int]) -> np.ndarray:
        """Columns of ids ``[rows, columns]``: int64 if they can be read so, else text with NaN for blanks."""
        options = {"keep_default_na": False, "na_values": [""]}
        sample = self._read(self.header, rows=1, dtype=str, **options).reindex(columns=columns)
        # Asked for integers, pandas would also take True and False, and drop leading zeros.
        if sample.map(lambda field: is_number(str(field))).all(axis=None) and not _PADDED.search(self.raw):
            try:
                return self._read(self.header, dtype=dict.fromkeys(columns, np.int64), **options)[columns].to_numpy()
            except InputError:
                raise
            except (ValueError, OverflowError):
                pass
        frame = self._read(self.header, dtype=dict.fromkeys(columns, str), **options)
        return frame[columns].to_numpy(dtype=object)

    def values(self, id_column: int | None) -> pd.DataFrame:
        """All columns; that of ids as text, the others by what they hold."""
        missing = {column: [""] if column == id_column else list(MISSING) for column in range(len(self.first))}
        dtype = {} if id_column is None else {id_column: str}
        return self._read(self.header, dtype=dtype, keep_default_na=False, na_values=missing)

    def place(self, row: int) -> str:
        """The line of a row."""
        return f"line {self.lines[row + self.header] + 1}"

    def _read(self, header: bool, rows: int | None = None, **options) -> pd.DataFrame:
        """The rows (below the header)."""
        try:
            frame = pd.read_csv(
                io.BytesIO(self.raw),
                sep=self.separator,
                header=None,
                skiprows=[*self.comments, int(self.lines[0])] if header else self.comments,
                nrows=rows,
                skipinitialspace=True,
                low_memory=False,
                **options,
            )
        except pd.errors.EmptyDataError:
            raise InputError(f"{self.name}: no rows below the header; give one row per line") from None
        except pd.errors.ParserError as error:
            raise InputError(f"{self.name}: {_explain(str(error))}") from None
        except UnicodeDecodeError:
            raise InputError(f"{self.name}: not UTF-8 text; save the file as UTF-8") from None
        if header and rows is None and frame.shape[1] != len(self.first):
            raise InputError(
                f"{self.name}: {len(self.first)} names in the header, but {frame.shape[1]} fields in "
                f"{self.place(0)}; name every column"
            )
        return frame


def _has_numbers(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column) and bool(column.notna().any())


def _separator(line: str, suffix: str) -> str:
    if suffix == ".tsv":
        return "\t"
    blank = "," if suffix == ".csv" else r"\s+"
    return next((separator for separator in ",;\t" if separator in line), blank)


def _read_bytes(path: Path) -> bytes:
    raw = path.read_bytes()
    if path.suffix.lower() != ".gz":
        return raw
    try:
        return gzip.decompress(raw)
    except (OSError, EOFError, zlib.error):
        raise InputError(f"{path.name}: not a whole gzip file; compress it anew, or give it uncompressed") from None


def _explain(parser_error: str) -> str:
    """What pandas' parser found wrong, as a place and a fix."""
    if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", parser_error):
        expected, line, saw = found.groups()
        return f"line {line}: {saw} fields instead of {expected}; quote fields that hold the separator"
    if found := re.search(r"EOF inside string starting at row (\d+)", parser_error):
        return f"row {found[1]} (counted from 0): a quote is opened and never closed; close or remove it"
    return f"not a readable table ({one_line(parser_error)}); write it anew"
