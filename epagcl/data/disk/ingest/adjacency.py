"""The edges by node numbers, and their CSR matrix: both directions of each pair, sorted, without repeats.

DuckDB joins the ends to their numbers. The rest is NumPy: a direction of an edge is one 64-bit key of row, column and
whether it was given in this direction. Keys are distributed to files by ranges of rows, and each file is sorted in
memory.
"""

import itertools
from pathlib import Path
from typing import NamedTuple, TypedDict

import numpy as np

from epagcl.core.arrays import write_values
from epagcl.core.errors import InputError
from epagcl.core.files import atomic_path
from epagcl.core.formatting import counted
from epagcl.core.log import log
from epagcl.data.checking import repair_words
from epagcl.data.disk.ingest.arrays import writing_array
from epagcl.data.disk.ingest.edge_rows import ROWS
from epagcl.data.disk.ingest.nodes import MAPPING, NODES, Numbered
from epagcl.data.disk.ingest.work import Work, quoted
from epagcl.data.disk.layout import array_path, index_type

ENDS, WEIGHTS = "ends.bin", "ends.weights.bin"
#: Share of the memory that one file of keys may take while it is sorted; sorting needs about six times its size.
_SORT_SHARE = 1 / 16
_CHUNK = 2_000_000  # edges that are distributed at once


class Ends(TypedDict):
    """Counts of the edges by node numbers: kept, self-loops, and of weight 0."""

    edges: int
    self_loops: int
    zero_weights: int


class Pairs(TypedDict):
    """Counts of the pairs, and of the edges that are different if their direction counts."""

    pairs: int
    directed: int
    weighted: bool


def write_ends(rows: int, numbered: Numbered, bipartite: bool, weighted: bool, work: Work) -> Ends:
    """Write the two node numbers of each edge as int32, and their weights as float64.

    Args:
        rows: number of rows of edges.
        numbered: the nodes.
        bipartite: whether the ids of the two ends are apart.
        weighted: whether the edges have weights.
        work: the work.
    """
    header_row = numbered["header_row"]
    mapping = f"(SELECT id AS raw, node FROM '{quoted(work.path(NODES))}')"
    if numbered["mapped"]:
        mapping = f"'{quoted(work.path(MAPPING))}'"
    side = (" AND s.side = 0", " AND t.side = 1") if bipartite else ("", "")
    kept = "" if header_row is None else f" AND r.row <> {header_row}"
    query = f"""
        SELECT CAST(s.node AS INTEGER) AS source, CAST(t.node AS INTEGER) AS target{", r.weight" if weighted else ""}
        FROM '{quoted(work.path(ROWS))}' r
        JOIN {mapping} s ON r.source = s.raw{side[0]} JOIN {mapping} t ON r.target = t.raw{side[1]}
        WHERE r.problem = 0{kept}"""
    edges = loops = zeros = 0
    with (
        atomic_path(work.path(WEIGHTS)) as weights_path,
        atomic_path(work.path(ENDS)) as ends_path,
        weights_path.open("wb") as weights_file,
        ends_path.open("wb") as ends_file,
    ):
        for batch in work.batches(query, rows):
            ends = np.stack([batch.column(k).to_numpy() for k in (0, 1)], axis=1)
            keep = ends[:, 0] != ends[:, 1]
            if weighted:
                weight = batch.column(2).to_numpy()
                zeros += int((weight == 0).sum())
                loops += int((~keep & (weight > 0)).sum())
                keep &= weight > 0
                write_values(weights_file, weight[keep])
            else:
                loops += len(keep) - int(keep.sum())
            kept_ends = ends[keep]
            write_values(ends_file, kept_ends)
            edges += len(kept_ends)
    return {"edges": edges, "self_loops": loops, "zero_weights": zeros}


class Bucket(NamedTuple):
    """A range of rows of the matrix, and the files of its keys and weights."""

    start: int
    stop: int
    keys: Path
    weights: Path


def write_csr(nodes: int, weighted: bool, work: Work) -> Pairs:
    """Write the CSR matrix of the edges, and the weights of the pairs if they differ."""
    buckets = _distribute(nodes, weighted, work)
    pairs = directed = 0
    lowest, highest, total = np.inf, 0.0, 0.0
    index = index_type(nodes)
    indptr_path, indices_path = array_path(work.target, "indptr"), array_path(work.target, "indices")
    sums = work.path("sums.bin")
    with (
        writing_array(indptr_path, np.int64) as indptr,
        writing_array(indices_path, index) as indices,
        sums.open("wb") as sums_file,
    ):
        indptr.append(np.zeros(1, dtype=np.int64))
        for number, bucket in enumerate(buckets):
            keys, weight, given = _merged(bucket, weighted)
            directed += given
            indices.append((keys & np.uint64(2**32 - 1)).astype(index))
            degree = np.bincount(
                (keys >> np.uint64(32)).astype(np.int64) - bucket.start, minlength=bucket.stop - bucket.start
            )
            indptr.append(pairs + np.cumsum(degree))
            pairs += len(keys)
            if weight is not None and len(weight):
                write_values(sums_file, weight)
                lowest, highest = min(lowest, float(weight.min())), max(highest, float(weight.max()))
                total += float(weight.sum())
            bucket.keys.unlink()
            bucket.weights.unlink(missing_ok=True)
            work.progress(0.5 + 0.5 * (number + 1) / len(buckets))
    differ = weighted and lowest < highest
    if differ:
        _write_weights(sums, total / pairs, work)
    sums.unlink()
    return {"pairs": pairs // 2, "directed": directed, "weighted": differ}


def log_repairs(name: str, ends: Ends, pairs: Pairs, *, weighted: bool) -> None:
    """Log what was removed and merged, in the words of :func:`epagcl.data.check`.

    Args:
        name: name of the edges in messages.
        ends: counts of the edges.
        pairs: counts of the pairs.
        weighted: whether the edges have weights.
    """
    if ends["zero_weights"]:
        log.warning("%s: %s of weight 0 removed", name, counted(ends["zero_weights"], "edge"))
    if pairs["pairs"] == 0:
        raise InputError(f"{name}: no edges between different nodes; a graph needs at least one")
    counts = (ends["self_loops"], ends["edges"], pairs["directed"], pairs["pairs"])
    for level, note in repair_words(*counts, weighted=weighted):
        log.log(level, "%s: %s", name, note)


def _distribute(nodes: int, weighted: bool, work: Work) -> list[Bucket]:
    """Write both directions of each edge to files by ranges of rows, such that each file fits in memory."""
    count = work.path(ENDS).stat().st_size // 8
    degree = np.zeros(nodes, dtype=np.int64)
    for start in range(0, count, _CHUNK):
        degree += np.bincount(_part(work.path(ENDS), np.int32, 2 * start, 2 * _CHUNK), minlength=nodes)
        work.progress(0.2 * start / max(count, 1))
    entry = 16 if weighted else 8
    largest = max(int(work.memory * _SORT_SHARE) // entry, 1)
    place = np.cumsum(degree) // largest
    del degree
    bounds = [0, *(np.flatnonzero(np.diff(place)) + 1).tolist(), nodes]
    buckets = [
        Bucket(start, stop, work.path(f"keys-{k}.bin"), work.path(f"weights-{k}.bin"))
        for k, (start, stop) in enumerate(itertools.pairwise(bounds))
    ]
    for bucket in buckets:
        for path in (bucket.keys, bucket.weights):
            path.unlink(missing_ok=True)  # of an earlier attempt
            path.touch()
    starts = np.array(bounds[1:-1], dtype=np.uint64)
    for start in range(0, count, _CHUNK):
        chunk = _part(work.path(ENDS), np.int32, 2 * start, 2 * _CHUNK).reshape(-1, 2).astype(np.uint64)
        weight = _part(work.path(WEIGHTS), np.float64, start, _CHUNK) if weighted else None
        for given, (row, column) in enumerate((chunk[:, ::-1].T, chunk.T)):
            keys = (row << np.uint64(33)) | (column << np.uint64(1)) | np.uint64(given)
            _append(buckets, starts, row, keys, weight)
        work.progress(0.2 + 0.3 * start / max(count, 1))
    return buckets


def _append(
    buckets: list[Bucket], starts: np.ndarray, row: np.ndarray, keys: np.ndarray, weight: np.ndarray | None
) -> None:
    """Append keys to the files of their rows."""
    number = np.searchsorted(starts, row, side="right")
    order = np.argsort(number, kind="stable")
    cuts = np.searchsorted(number[order], np.arange(len(buckets) + 1))
    keys = keys[order]
    weight = None if weight is None else weight[order]
    for bucket, start, stop in zip(buckets, cuts[:-1], cuts[1:], strict=True):
        if start < stop:
            with bucket.keys.open("ab") as file:
                write_values(file, keys[start:stop])
            if weight is not None:
                with bucket.weights.open("ab") as file:
                    write_values(file, weight[start:stop])


def _merged(bucket: Bucket, weighted: bool) -> tuple[np.ndarray, np.ndarray | None, int]:
    """Return the sorted keys (row, column) of a range of rows, their weights, and how many edges were given.

    The weights of repeated edges are added up, and those of the two directions are averaged, as in
    :func:`epagcl.data.checking.pair_weights`. They are added in ascending order, so that the order of the rows and the
    number of threads do not change the sum.
    """
    keys = np.fromfile(bucket.keys, np.uint64)
    if not weighted:
        keys.sort()  # np.unique hashes, which takes thirty times as long here
        keys = keys[_is_first(keys)]
        given = int((keys & np.uint64(1)).sum())
        keys >>= np.uint64(1)
        return keys[_is_first(keys)], None, given
    weight = np.fromfile(bucket.weights, np.float64)
    order = np.lexsort((weight, keys))
    keys, weight = keys[order], weight[order]
    first = np.flatnonzero(_is_first(keys))
    keys, weight = keys[first], np.add.reduceat(weight, first) if len(first) else weight
    given = int((keys & np.uint64(1)).sum())
    keys >>= np.uint64(1)
    first = np.flatnonzero(_is_first(keys))
    directions = np.diff(np.append(first, len(keys)))
    weight = np.add.reduceat(weight, first) / directions if len(first) else weight
    return keys[first], weight, given


def _is_first(keys: np.ndarray) -> np.ndarray:
    """Return whether each of some sorted keys differs from the one before."""
    return np.concatenate([np.ones(min(len(keys), 1), dtype=bool), keys[1:] != keys[:-1]])


def _write_weights(sums: Path, mean: float, work: Work) -> None:
    """Write the weights of the pairs relative to their mean."""
    with writing_array(array_path(work.target, "weights"), np.float32) as writer, sums.open("rb") as file:
        while len(part := np.fromfile(file, np.float64, _CHUNK)):
            writer.append(part / mean)


def _part(path: Path, dtype: type, start: int, count: int) -> np.ndarray:
    """Return a part of a file of numbers."""
    return np.fromfile(path, dtype, count, offset=start * np.dtype(dtype).itemsize)
