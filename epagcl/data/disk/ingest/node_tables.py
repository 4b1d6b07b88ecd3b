"""Tables in blocks of rows that fit in memory: text cut at line ends, Parquet in batches."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import pandas as pd

from epagcl.core.errors import InputError
from epagcl.data.disk.ingest.work import require_engine
from epagcl.data.io.tables.base import Table, one_line
from epagcl.data.io.tables.files import TABLE_SUFFIXES, table_suffix
from epagcl.data.io.tables.frame import FrameTable
from epagcl.data.io.tables.text import TextTable

BLOCK_BYTES, BLOCK_ROWS = 2**25, 200_000
_LONGEST_QUOTE = 2**27  # bytes after which an open quote is taken for a stray one


class FrameBlock(FrameTable):
    """A part of a table, whose rows are numbered as in the whole table."""

    rows_before: int = 0

    def place(self, row: int) -> str:
        """Return the number of a row."""
        return super().place(self.rows_before + row)


def blocks(path: Path, size: int = BLOCK_BYTES, rows: int = BLOCK_ROWS) -> Iterator[Table]:
    """Yield a table in blocks. The header is detected on the first block, and later ones follow it.

    A later block has the separator and the columns of the first one, and no header of its own.

    Args:
        path: a text table or a Parquet file.
        size: bytes of a block of text.
        rows: rows of a block of Parquet.
    """
    suffix = table_suffix(path)
    if suffix == ".parquet":
        yield from _parquet_blocks(path, rows)
    elif suffix in TABLE_SUFFIXES:
        yield from _text_blocks(path, suffix, size)
    else:
        suffixes = ", ".join(TABLE_SUFFIXES)
        raise InputError(
            f"{path.name}: cannot read {path.suffix or 'a file without suffix'} as a table; give {suffixes}"
        )


def block_values(block: Table, id_column: int | None, label_column: int | None = None) -> pd.DataFrame:
    """Return the rows of a block with all columns of the table, as :meth:`Table.values` does."""
    frame = block.values(id_column, label_column)
    width = len(block.first_row)
    if frame.shape[1] > width:
        raise InputError(
            f"{block.name}: {block.place(0)}: {frame.shape[1]} fields instead of {width}; name every column"
        )
    return frame if frame.shape[1] == width else frame.reindex(columns=range(width))


def place_numbers(block: Table, rows: int) -> np.ndarray:
    """Return the number of each row of a block in its file: its line, or its row counted from 0."""
    if isinstance(block, TextTable):
        return block.lines_before + block.lines[int(block.header) :][:rows] + 1
    return getattr(block, "rows_before", 0) + np.arange(rows)


def place_in_words(number: int, in_text: bool) -> str:
    """Return a position in a file, for messages."""
    return f"line {number}" if in_text else f"row {number} (counted from 0)"


def _parquet_blocks(path: Path, rows: int) -> Iterator[FrameBlock]:
    _, pyarrow = require_engine()
    import pyarrow.parquet as parquet

    done = 0
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(rows):
                frame = pyarrow.Table.from_batches([batch]).to_pandas()
                if done and isinstance(frame.index, pd.RangeIndex):
                    frame = frame.reset_index(drop=True)  # the index of a part begins in the middle
                if len(frame):
                    block = FrameBlock(frame, path.name)
                    block.rows_before = done
                    yield block
                done += len(frame)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path.name}: not a readable Parquet file ({one_line(error)}); write it again") from None
    if done == 0:
        raise InputError(f"{path.name}: the table is empty; give one row per node or edge")


def _text_blocks(path: Path, suffix: str, size: int) -> Iterator[TextTable]:
    first: TextTable | None = None
    lines = 0
    for raw in line_blocks(path, size):
        rows = [line for line in raw.split(b"\n") if line.strip() and line[:1] not in (b"#", b"%")]
        if rows or first is None:
            block = TextTable(path, suffix, raw, lines)
            if first is not None:
                block.separator, block.first_row = first.separator, first.first_row
            first = first or block
            yield block
        lines += raw.count(b"\n")


def line_blocks(path: Path, size: int) -> Iterator[bytes]:
    """Yield the bytes of a file in parts that end with a line, where no quote is open."""
    rest = b""
    try:
        with cast(BinaryIO, gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")) as file:
            while chunk := file.read(size):
                rest += chunk
                cut = end = rest.rfind(b"\n") + 1
                while cut and rest.count(b'"', 0, cut) % 2:
                    cut = rest.rfind(b"\n", 0, cut - 1) + 1
                if cut := cut or (end if len(rest) > _LONGEST_QUOTE else 0):
                    yield rest[:cut]
                    rest = rest[cut:]
    except (EOFError, zlib.error, gzip.BadGzipFile):
        fix = "compress it again, or give it uncompressed"
        raise InputError(f"{path.name}: not a complete gzip file; {fix}") from None
    if rest:
        yield rest
