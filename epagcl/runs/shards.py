"""Embeddings in shards: a folder of Parquet files, written and read a part at a time."""

import importlib.util
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from epagcl.core.errors import InputError, MissingExtra
from epagcl.core.files import atomic_path, check_space, is_leftover
from epagcl.runs.reading import shard_paths

SHARD_ROWS = 262_144  # rows of a file: 256 MiB at width 256


def write_shards(
    chunks: Iterable[Tensor],
    folder: Path | str,
    *,
    ids: Callable[[slice], Any] | None = None,
    rows: int = SHARD_ROWS,
    expected: tuple[int, int] | None = None,
) -> list[Path]:
    """Write an embedding that comes in chunks of rows to ``embeddings-00000.parquet``, ... in a folder.

    Each file has the columns ``id`` and ``vector``, a list of fixed size, as ``epagcl embed --vectors`` writes it, and is
    complete or not there. :func:`epagcl.runs.read_embeddings` reads the folder; DuckDB, Polars and pyarrow read its
    files together. Memory is that of one file.

    Args:
        chunks: the rows, ``[n, dim]`` each.
        folder: created if it does not exist; it must hold no shards.
        ids: returns the ids of a slice of nodes; None: nodes are numbered from 0.
        rows: the number of rows of a file.
        expected: N and dim, to check the space on the disk first.

    Examples:
        >>> import tempfile
        >>> from epagcl.runs import read_embeddings
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     files = write_shards([torch.eye(3)], folder, rows=2)
        ...     z, ids = read_embeddings(folder)
        >>> [file.name for file in files], z.shape, ids
        (['embeddings-00000.parquet', 'embeddings-00001.parquet'], (3, 3), [0, 1, 2])
    """
    folder = Path(folder)
    check_shards(folder)
    if expected is not None:
        check_space(folder, 4 * expected[0] * expected[1])
    written: list[Path] = []
    for number, (start, z) in enumerate(_regrouped(chunks, rows)):
        path = folder / f"embeddings-{number:05d}.parquet"
        nodes = slice(start, start + len(z))
        names = np.arange(nodes.start, nodes.stop) if ids is None else ids(nodes)
        with atomic_path(path) as temporary:
            _write(z.numpy(), names, temporary)
        written.append(path)
    return written


def check_shards(folder: Path) -> None:
    """Raise if shards cannot be written to a folder, and create it. Call it before long work."""
    if importlib.util.find_spec("pyarrow") is None:
        raise MissingExtra("pyarrow", "parquet", "writing Parquet")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; give a folder for the shards")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be created ({error.strerror}); give another folder") from None
    if shard_paths(folder):
        raise InputError(f"{folder}: holds shards of an embedding; remove them, or give another folder")
    if any(not is_leftover(path) for path in folder.iterdir()):
        raise InputError(f"{folder}: holds other files; give a new or an empty folder for the shards")


def _write(z: "np.ndarray[Any, np.dtype[np.float32]]", ids: Any, path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    lists = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(np.ascontiguousarray(z).ravel()), z.shape[1])
    pyarrow.parquet.write_table(pyarrow.table({"id": pyarrow.array(ids), "vector": lists}), path)


def _regrouped(chunks: Iterable[Tensor], rows: int) -> Iterator[tuple[int, Tensor]]:
    """Yield the rows in groups of one size, the last one smaller, each with the number of its first row."""
    waiting: list[Tensor] = []
    start = count = 0
    for chunk in chunks:
        waiting.append(chunk)
        count += len(chunk)
        while count >= rows:
            together = torch.cat(waiting)
            yield start, together[:rows]
            waiting, start, count = [together[rows:]], start + rows, count - rows
    if count:
        yield start, torch.cat(waiting)
