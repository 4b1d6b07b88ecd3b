"""Text tables (``.csv``, ``.tsv``, ``.txt``, each also with ``.gz``).

- Lines that start with ``#`` or ``%`` are comments; blank lines are skipped. A ``#`` line right above the first row is
  a header if it has as many fields, and no number, as in the files of STRING and SNAP.
- In ``.tsv``, tabs separate fields. Otherwise the separator is the first of comma, semicolon and tab that the first
  row contains, where beside semicolons a comma between digits does not count; a ``.txt`` with none of them is separated
  by white space.
- The first row is a header if it has a known column name (for an edge list: one for each end) or a name that ends in
  id, or if one of its fields is not a number while the column below it holds numbers (judged by the first 1,000 rows).
"""

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from epagcl.core.errors import InputError
from epagcl.core.formatting import counted
from epagcl.core.log import log
from epagcl.data.io.tables.base import MISSING, Table, is_code, is_number, one_line

#: The separator of a table whose fields are separated by white space.
WHITE_SPACE = r"\s+"
_HEADER_SAMPLE_ROWS = 1000
_COMMA_IN_NUMBER = re.compile(r"(?<=[0-9]),(?=[0-9])")
_NAME_OF_IDS = re.compile(r"[A-Za-z][A-Za-z_ ]*(?:[_ ](?:id|ID|Id)|[a-z](?:Id|ID))")
# Numbers that pandas reads as integers although they may be text, or merge with others: 007, -0, +7, 1e1, 7.0.
_NOT_PLAIN = re.compile(rb"(?<![0-9.])0[0-9]|-0|\+[0-9]|[0-9.][eE][0-9+-]|[0-9]\.0*(?![0-9])")
# A quoted field that is closed before a separator or the end of a line.
_QUOTED = re.compile(rb'(?<![^\n,;\t ])"[^"]*+(?:""[^"]*+)*+"(?=[\n,;\t ])')
_OF_INTEGERS = b"0123456789,;\t \n"
# A field of digits that begins with 0, such as a postal code. A decimal comma between digits looks the same.
# The pattern begins with a literal, which re finds four times as fast as a lookbehind.
_CODE = re.compile(rb'0(?<![^\n,;\t "]0)[0-9]+"?(?![^\r\n,;\t])')


class TextTable(Table):
    """A text table: the bytes of the file, and the line of each row.

    Args:
        path: the file.
        suffix: its suffix without ``.gz``.
        raw: the bytes of a part of the file; by default all of it.
        lines_before: number of lines before that part.
    """

    def __init__(self, path: Path, suffix: str, raw: bytes | None = None, lines_before: int = 0):
        self.name = path.name
        self.suffix = suffix
        self.header = self.marked_header = False
        self.lines_before = lines_before
        raw = (_read_bytes(path) if raw is None else raw).removeprefix(b"\xef\xbb\xbf")
        if b"\r" in raw:
            raw = raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        self.raw = raw if raw.endswith(b"\n") else raw + b"\n"
        # pandas would also cut an id such as "a#1" at the #, so comment lines are detected here.
        characters = np.frombuffer(self.raw, dtype=np.uint8)
        ends = np.flatnonzero(characters == ord("\n"))
        starts = np.concatenate([[0], ends[:-1] + 1])
        inside = _inside_quotes(self.raw, characters, starts)
        comment = np.isin(characters[starts], list(b"#%")) & ~inside
        # pandas counts lines without those inside quotes.
        self.comments: list[int] = (np.flatnonzero(comment) - inside.cumsum()[comment]).tolist()
        self.lines = np.flatnonzero(~comment & (starts != ends) & ~inside)
        if len(self.lines) == 0:
            hint = " (lines that start with # or % are comments)" if self.comments else ""
            raise InputError(f"{self.name}: the file is empty{hint}; give one row per line")
        if between := int(comment[self.lines[0] :].sum()):
            log.warning("%s: skipped as comments (# or %%): %s", self.name, counted(between, "line"))
        line = self.lines[0]
        if b"\0" in self.raw:
            raise InputError(f"{self.name}: not UTF-8 text (it has zero bytes, as UTF-16 does); save the file as UTF-8")
        try:
            text = self.raw[starts[line] : ends[line]].decode()
        except UnicodeDecodeError:
            raise InputError(f"{self.name}: line {line + 1}: not UTF-8 text; save the file as UTF-8") from None
        self.separator = _separator(text, suffix)
        try:
            fields = text.split() if self.separator == WHITE_SPACE else _fields(text, self.separator)
        except csv.Error as error:
            raise InputError(f"{self.name}: line {line + 1}: {error}; is this a table?") from None
        self.first_row = [field.strip() for field in fields]
        if lines_before == 0 and line > 0 and comment[line - 1]:
            self._use_marked_header(starts[line - 1], ends[line - 1])

    def _use_marked_header(self, start: int, end: int) -> None:
        """Make a comment right above the first row the header, if it names the columns.

        Args:
            start: where the line begins.
            end: where it ends.
        """
        text = self.raw[start:end].decode(errors="replace").lstrip("#% ")
        try:
            names = text.split() if self.separator == WHITE_SPACE else _fields(text, self.separator)
        except csv.Error:
            return
        names = [name.strip() for name in names]
        if len(names) != len(self.first_row) or len(names) < 2 or any(not name or is_number(name) for name in names):
            return
        line = int(self.lines[0]) - 1
        self.raw = self.raw[:start] + b" " * (end - start - len(text.encode())) + self.raw[end - len(text.encode()) :]
        self.lines = np.concatenate([[line], self.lines])
        self.comments.remove(line)
        self.first_row, self.marked_header = names, True

    def rows_as_text(self) -> list[str]:
        """Return each row as one text, the first row included."""
        try:
            lines = self.raw.decode().split("\n")
        except UnicodeDecodeError:
            raise InputError(f"{self.name}: not UTF-8 text; save the file as UTF-8") from None
        return [lines[line] for line in self.lines]

    def has_header(self, known_names: Iterable[str]) -> bool:
        """Return whether the first row is a header, by the rule in the module's docstring."""
        if (
            self.marked_header
            or self.column(known_names) is not None
            or any(_NAME_OF_IDS.fullmatch(field) for field in self.first_row)
        ):
            return True
        text_columns = [column for column, field in enumerate(self.first_row) if field and not is_number(field)]
        if not text_columns or len(self.lines) < 2:
            return False
        sample = self._read(header=True, rows=_HEADER_SAMPLE_ROWS, keep_default_na=False, na_values=list(MISSING))
        if any(column in sample and _has_numbers(sample[column]) for column in text_columns):
            names = self.first_row if len(self.first_row) <= 5 else [*self.first_row[:3], "...", self.first_row[-1]]
            log.info("%s: the first row is read as a header (%s)", self.name, ", ".join(names))
            return True
        return False

    def ids(self, columns: list[int]) -> np.ndarray:
        """Return columns of ids ``[rows, columns]``: int64 if all are integers, else text with NaN for blanks."""
        options: dict[str, Any] = {"keep_default_na": False, "na_values": [""]}
        sample = self._read(self.header, rows=1, dtype=str, **options).reindex(columns=columns)
        # With an integer dtype, pandas would also accept True and False, and it would drop leading zeros.
        if sample.map(lambda field: is_number(str(field))).all(axis=None) and self._integers_are_plain():
            try:
                return self._read(self.header, dtype=dict.fromkeys(columns, np.int64), **options)[columns].to_numpy()
            except InputError:
                raise
            except (ValueError, OverflowError):
                pass
        frame = self._read(self.header, dtype=dict.fromkeys(columns, str), **options)
        return frame[columns].to_numpy(dtype=object)

    def _integers_are_plain(self) -> bool:
        """Return whether ``_NOT_PLAIN`` finds no number of the file. If all fields are integers, this is fast."""
        start = self.raw.index(b"\n") + 1 if self.header and not self.comments else 0
        body = self.raw[start:] if start else self.raw
        if b"-" in body or body.translate(None, _OF_INTEGERS):
            return _NOT_PLAIN.search(self.raw) is None
        digit = np.frombuffer(body, dtype=np.uint8) - np.uint8(ord("0"))  # other characters wrap around
        begins = np.concatenate([[True], digit[:-1] > 9])
        return not (begins[:-1] & (digit[:-1] == 0) & (digit[1:] <= 9)).any()

    def values(self, id_column: int | None, label_column: int | None = None) -> pd.DataFrame:
        """Return all columns by their content, except that ``id_column``, ``label_column`` and codes are text."""
        text = {column for column in (id_column, label_column) if column is not None}
        if _CODE.search(self.raw):
            fields = self._read(self.header, dtype=str, keep_default_na=False, na_values=list(MISSING))
            text |= {column for column in range(fields.shape[1]) if column not in text and is_code(fields[column])}
        named = (id_column, label_column)
        missing = {column: [""] if column in named else list(MISSING) for column in range(len(self.first_row))}
        dtype = dict.fromkeys(text, str)
        return self._read(self.header, dtype=dtype, keep_default_na=False, na_values=missing)

    def place(self, row: int) -> str:
        """Return the line of a row."""
        return f"line {self.lines_before + self.lines[row + self.header] + 1}"

    def _read(self, header: bool, rows: int | None = None, **options: Any) -> pd.DataFrame:
        """Return the rows below the header. ``options`` are passed to ``pandas.read_csv``."""
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
        if header and rows is None and frame.shape[1] != len(self.first_row):
            names, fields = len(self.first_row), frame.shape[1]
            fix = "name every column" if fields > names else "give each row a field for every name"
            raise InputError(f"{self.name}: {names} names in the header, but {fields} fields in {self.place(0)}; {fix}")
        return frame


def _inside_quotes(raw: bytes, characters: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return a mask of the lines that begin inside a quoted field, which may span lines.

    Args:
        raw: the file.
        characters: its bytes.
        starts: where each line begins.
    """
    inside = np.zeros(len(starts), dtype=bool)
    quotes = np.add.reduceat(characters == ord('"'), starts, dtype=np.int64)
    if not (quotes % 2).any():
        return inside
    for match in _QUOTED.finditer(raw):
        if b"\n" in match[0]:
            inside[slice(*np.searchsorted(starts, (match.start() + 1, match.end())))] = True
    return inside


def _has_numbers(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column) and bool(column.notna().any())


def _separator(line: str, suffix: str) -> str:
    if suffix == ".tsv":
        return "\t"
    if ";" in line:  # a comma between digits is then a decimal comma
        line = _COMMA_IN_NUMBER.sub("", line)
    default = "," if suffix == ".csv" else WHITE_SPACE
    return next((separator for separator in ",;\t" if separator in line), default)


def _fields(line: str, separator: str) -> list[str]:
    return next(csv.reader([line], delimiter=separator))


def _read_bytes(path: Path) -> bytes:
    raw = path.read_bytes()
    if path.suffix.lower() != ".gz":
        return raw
    try:
        return gzip.decompress(raw)
    except (OSError, EOFError, zlib.error):
        raise InputError(f"{path.name}: not a complete gzip file; compress it again, or give it uncompressed") from None


def _explain(parser_error: str) -> str:
    """Return the position of an error of pandas' parser, and how to fix it."""
    if match := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", parser_error):
        expected, line, actual = match.groups()
        return f"line {line}: {actual} fields instead of {expected}; quote fields that contain the separator"
    if match := re.search(r"EOF inside string starting at row (\d+)", parser_error):
        return f"row {match[1]} (counted from 0): a quote is opened and never closed; close or remove it"
    return f"not a readable table ({one_line(parser_error)}); write it again"
