"""The journals of the searches of the tuned track, packed beside the results: one archive for each graph."""

import csv
import io
import lzma
import tarfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from epagcl.core.files import atomic_path
from epagcl.core.log import log
from epagcl.methods import method
from epagcl.paper.artefact import Result
from epagcl.paper.tuned.budget import METHODS
from epagcl.paper.tuned.cells import stored_cells
from epagcl.study.store import Store

ENDING = ".tar.xz"
#: Errors of an archive that is cut off or no archive.
DAMAGED = (tarfile.TarError, lzma.LZMAError, EOFError)
#: The files of a search that are kept.
FILES = ("best.toml", "metrics.json", "study.journal", "trials.csv")


class TrialKey(NamedTuple):
    """What identifies a trial: its state, and for complete trials the validation accuracy and the number of epochs."""

    state: str
    validation: float | None
    epochs: int | None


def pack_journals(result: Result, store: Store, folder: Path) -> list[Path]:
    """Add the journals of a result's searches to the archives of their graphs. Return the archives that changed.

    A journal in the store is taken if its trials are those of the result. Journals of earlier searches, whose store
    may be gone, stay in the archives if their trials are those of the result.

    Args:
        result: the result of the tuned track.
        store: the store in which the searches ran.
        folder: folder of the archives, ``<graph>.tar.xz``.
    """
    graphs: dict[str, dict[str, bytes]] = {}
    damaged = set()
    for graph in {graph for graph, *_ in searches_of(result)}:
        path = folder / f"{graph}{ENDING}"
        try:
            graphs[graph] = read_archive(path) if path.is_file() else {}
        except DAMAGED as error:
            log.warning("%s: cannot be read (%s); remove it, and pack the journals again", path, error)
            damaged.add(graph)
    packed: dict[str, dict[str, bytes]] = {}
    for graph, name, outer, trials in searches_of(result):
        if graph in damaged:
            continue
        place, before = f"{graph}/{name}--{outer}", graphs[graph]
        old = {file: before[f"{place}/{file}"] for file in FILES if f"{place}/{file}" in before}
        found = [files for files in (*_stored(store, graph, name, outer), old) if _has(files, trials)]
        if found:
            packed.setdefault(graph, {}).update({f"{place}/{file}": found[0][file] for file in FILES})
        else:
            log.warning("%s: no journal with the trials of the result", place)
    changed = [graph for graph, files in packed.items() if files != graphs[graph]]
    for graph in changed:
        _write_archive(folder / f"{graph}{ENDING}", packed[graph])
    return [folder / f"{graph}{ENDING}" for graph in changed]


def _stored(store: Store, graph: str, name: str, outer: int) -> Iterator[dict[str, bytes]]:
    """Yield the files of each finished search of a method on an outer test set in a store."""
    for source in sorted((store.folder / "tuning" / graph).glob(f"*--{outer}--*")):
        files = {file: (source / file).read_bytes() for file in FILES if (source / file).is_file()}
        try:
            # Names of folders do not tell all methods apart: EPAGCL+ has those of EPAGCL.
            if len(files) == len(FILES) and tomllib.loads(files["best.toml"].decode())["method"]["name"] == name:
                yield files
        except (ValueError, KeyError) as error:
            log.warning("%s: cannot be read (%s)", source / "best.toml", error)


def _has(files: dict[str, bytes], trials: list[TrialKey]) -> bool:
    """Return whether the files of a search are complete and have these trials."""
    return len(files) == len(FILES) and trials_in(files["trials.csv"]) == trials


def searches_of(result: Result) -> Iterator[tuple[str, str, int, list[TrialKey]]]:
    """Yield the graph, the name of the method, the outer test set and the trials of each search of a result."""
    names = {method(name).title: name for name in METHODS}
    for cell in stored_cells(result):
        for search in cell["searches"]:
            trials = [_key(trial) for trial in search["trials"]]
            yield cell["graph"]["name"], names[cell["row"]], search["outer"], trials


def trials_in(table: bytes) -> list[TrialKey]:
    """Return the trials of a search from its ``trials.csv``."""
    rows = csv.DictReader(io.StringIO(table.decode()))
    return [
        TrialKey(
            row["state"],
            float(row["validation"]) if row["validation"] else None,
            int(row["epochs"]) if row["epochs"] else None,
        )
        for row in rows
    ]


def read_archive(path: Path) -> dict[str, bytes]:
    """Return the files of an archive by name. Nothing is written to the disk."""
    with tarfile.open(path, "r:xz") as archive:
        files = ((member.name, archive.extractfile(member)) for member in archive if member.isfile())
        return {name: file.read() for name, file in files if file is not None}


def _write_archive(path: Path, files: dict[str, bytes]) -> None:
    """Write files to an archive, sorted and without dates, so that equal files give equal archives."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary, tarfile.open(temporary, "w:xz") as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def _key(trial: dict[str, Any]) -> TrialKey:
    return TrialKey(trial["state"], trial["validation"], trial["epochs"])
