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
import importlib.util
import io
import logging
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from epagcl.data.check import counted
from epagcl.data.convert import is_number
from epagcl.errors import InputError, MissingExtra

log = logging.getLogger("epagcl")

TABLES = (".csv", ".tsv", ".txt", ".parquet")
# Text that means "no value" among features and labels. Among ids only the blank does: "NA" may be a name.
MISSING = ("", "NA", "N/A", "NaN", "nan", "None", "null", "NULL", "<NA>")
_PADDED = re.compile(rb"(?<![0-9.])0[0-9]")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.0+)?")
_HEADER_ROWS = 1000


class Table(ABC):
    """A table in memory, columns numbered from 0.

    Attributes:
        name: the file's name, for messages.
        first: the fields of the first row; of a Parquet table, the names of its columns.
        header: whether the first row names the columns; whoever opens the table decides, by ``has_header``.
        index: how many columns, the first ones, are the index of a pandas table; one without a name is called "".
        memory: whether a program holds it: what it means as ids it has named so, or made the index.
        counts_rows: whether a program holds it, with an index of pandas that is 0, 1, ...
        id_column: that of the features that holds ids; whoever finds it says so.
        separator: between the fields of a text table.
    """

    name: str
    first: list[str]
    header: bool
    index: int = 0
    memory: bool = False
    counts_rows: bool = False
    id_column: int | None = None
    separator: str = ","

    @abstractmethod
    def has_header(self, known: Iterable[str]) -> bool:
        """Whether the first row looks like names of columns, of which some are known."""

    @abstractmethod
    def ids(self, columns: list[int]) -> np.ndarray:
        """Columns of ids ``[rows, columns]``: int64 if they can be read so, else text with NaN for blanks."""

    @abstractmethod
    def values(self, id_column: int | None) -> pd.DataFrame:
        """All columns; that of ids as text, the others by what they hold."""

    @abstractmethod
    def place(self, row: int) -> str:
        """Where a row stands in the file."""

    def column(self, names: Iterable[str], start: int = 0) -> int | None:
        """The first column from ``start`` on with one of these names, the names in order of preference."""
        plain = [plain_name(field) for field in self.first[start:]]
        return next((start + plain.index(name) for name in names if name in plain), None)

    def title(self, column: int) -> str:
        """A column in words."""
        return f"column {self.first[column]!r}" if self.header else f"column {column + 1}"


def open_table(path: Path) -> Table:
    """The table in a file, by its suffix."""
    if table_suffix(path) == ".parquet":
        return FrameTable(_read_parquet(path), path.name)
    if table_suffix(path) in TABLES:
        return TextTable(path)
    kinds = ", ".join(TABLES)
    raise InputError(f"{path.name}: cannot read {path.suffix or 'a file without suffix'} as a table; give {kinds}")


def table_suffix(path: Path) -> str:
    """The suffix that names the format; that of a text table may be followed by ``.gz``."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] == [".gz"] and suffixes[-2:-1] and suffixes[-2] != ".parquet":
        return suffixes[-2]
    return path.suffix.lower()


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


class FrameTable(Table):
    """A pandas table: its header is the names of its columns, its index (other than 0, 1, ...) its first column.

    ``indexed`` says that an index 0, 1, ... is one too: not where polars or a file had none.
    """

    def __init__(self, frame: pd.DataFrame, name: str, memory: bool = False, indexed: bool = False):
        self.name = name
        self.header = True
        self.memory = memory
        if isinstance(frame.index, pd.MultiIndex):
            self.index = frame.index.nlevels
            frame = frame.reset_index(allow_duplicates=True)
        elif frame.index.equals(pd.RangeIndex(len(frame))) and frame.index.name is None:
            self.counts_rows = indexed
        else:
            self.index = 1
            frame = frame.reset_index(names=frame.index.name or "", allow_duplicates=True)
        if frame.empty:
            raise InputError(f"{self.name}: the table is empty; give one row per node or edge")
        self.first = [str(name) for name in frame.columns]
        self.frame = frame.set_axis(range(frame.shape[1]), axis=1)

    def has_header(self, known: Iterable[str]) -> bool:
        """Such a table always names its columns."""
        return True

    def ids(self, columns: list[int]) -> np.ndarray:
        """Columns of ids ``[rows, columns]``: int64, or text with NaN for what is missing."""
        chosen = self.frame[columns]
        if all(_fits_int64(chosen[column]) for column in columns):
            return chosen.to_numpy(dtype=np.int64)
        return chosen.apply(lambda column: column.astype(object).map(str, na_action="ignore")).to_numpy(dtype=object)

    def values(self, id_column: int | None) -> pd.DataFrame:
        """All columns; that of ids as text, with NaN for what is missing."""
        if id_column is None:
            return self.frame
        frame = self.frame.copy(deep=False)
        frame[id_column] = _as_text(self.ids([id_column])[:, 0])
        return frame

    def place(self, row: int) -> str:
        """The number of a row."""
        return f"row {row} (counted from 0)"


# ---- Ids


def factorise(values: np.ndarray, table: Table, what: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Number of each id in ``values`` (by first appearance, row by row); the distinct ids, int64 or text.

    ``what`` names the columns, for the message about an id that is missing.
    """
    codes, ids = pd.factorize(values.ravel())
    if ids.dtype == object:
        ids = np.array([text.strip() for text in ids], dtype=object)
        merged, ids = pd.factorize(ids)  # "a" and "a " are one id
        blank = np.flatnonzero(ids == "")
        codes = np.where(codes < 0, -1, merged[codes])
        missing = (codes < 0) | np.isin(codes, blank)
        if missing.any():
            row, column = divmod(int(missing.argmax()), values.shape[1])
            place = f"{table.name}: {table.place(row)}"
            raise InputError(f"{place}: the {what[column]} is missing; fill it or drop the row")
        if all(_INTEGER.fullmatch(text) for text in ids):
            numbers = [int(text.partition(".")[0]) for text in ids]
            if all(-(2**63) <= number < 2**63 for number in numbers):
                merged, ids = pd.factorize(np.array(numbers, dtype=np.int64))  # "7" and "7.0" are one id
                codes = merged[codes]
    return codes.reshape(values.shape), ids


def distinct_ids(values: np.ndarray, table: Table) -> np.ndarray:
    """A column of ids, each of which must occur once."""
    codes, ids = factorise(values.reshape(-1, 1), table, ["id"])
    if len(ids) != len(codes):
        repeated = pd.Series(codes[:, 0]).duplicated()
        again = int(repeated.argmax())
        first = int((codes[:, 0] == codes[again, 0]).argmax())
        places = f"{table.place(first)} and {table.place(again)}"
        repeats = counted(int(repeated.sum()), "repeated row")
        raise InputError(
            f"{table.name}: id {ids[codes[again, 0]]} stands in {places} ({repeats}); keep one row per node"
        )
    return ids


def positions(ids: np.ndarray, among: np.ndarray) -> np.ndarray:
    """The place of each id in ``among`` (distinct), −1 where it is not there."""
    if ids.dtype != among.dtype:
        ids, among = _as_text(ids), _as_text(among)
    return pd.Index(among).get_indexer(pd.Index(ids))


def union(ids: np.ndarray, more: np.ndarray) -> np.ndarray:
    """The ids, and after them those of ``more`` that are not among them."""
    new = more[positions(more, ids) < 0]
    if len(new) and ids.dtype != new.dtype:
        ids, new = _as_text(ids), _as_text(new)
    return np.concatenate([ids, new]) if len(new) else ids


def examples(ids: np.ndarray | list[str]) -> str:
    """The first three ids, for a message."""
    return ", ".join(str(node) for node in ids[:3]) + (", ..." if len(ids) > 3 else "")


def _as_text(ids: np.ndarray) -> np.ndarray:
    return ids if ids.dtype == object else ids.astype(str).astype(object)


# ---- Files, words and separators


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


def plain_name(name: str) -> str:
    """The name of a column as it is compared: ``"Node ID"`` is ``node_id``."""
    return re.sub(r"[\s-]+", "_", name.strip().strip('"').lower())


def _fits_int64(column: pd.Series) -> bool:
    """Whether a column holds integers, none missing, that int64 can hold: of uint64 not all."""
    return pd.api.types.is_integer_dtype(column) and not column.isna().any() and int(column.max()) < 2**63


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


def _read_parquet(path: Path) -> pd.DataFrame:
    if importlib.util.find_spec("pyarrow") is None:
        raise MissingExtra("pyarrow", "parquet", "reading Parquet")
    try:
        return pd.read_parquet(path, engine="pyarrow")
    except (OSError, ValueError) as error:
        raise InputError(f"{path.name}: not a readable Parquet file ({_one_line(error)}); write it anew") from None


def _explain(parser_error: str) -> str:
    """What pandas' parser found wrong, as a place and a fix."""
    if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", parser_error):
        expected, line, saw = found.groups()
        return f"line {line}: {saw} fields instead of {expected}; quote fields that hold the separator"
    if found := re.search(r"EOF inside string starting at row (\d+)", parser_error):
        return f"row {found[1]} (counted from 0): a quote is opened and never closed; close or remove it"
    return f"not a readable table ({_one_line(parser_error)}); write it anew"


def _one_line(error: object) -> str:
    return " ".join(str(error).split())
