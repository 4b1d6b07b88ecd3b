"""A store of finished computations: each is made once, written whole, found by its key, and shared by processes."""

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from inspect import getsource, getsourcefile
from pathlib import Path
from typing import Any

import epagcl
from epagcl.errors import InputError
from epagcl.files import write_json

Key = dict[str, Any]
Record = dict[str, Any]

#: What every run's result depends on, beside the files of its method. A change to any other file keeps the results.
ROOMS = (
    "capture.py",
    "data",
    "diffusion.py",
    "encoder.py",
    "epr.py",
    "evaluation.py",
    "kernels.py",
    "losses",
    "methods/base.py",
    "randomness.py",
    "sparse.py",
    "training.py",
    "views.py",
)


def code_version(*needs: type | Callable | str) -> str:
    """Twelve hexadecimal digits of the code that a result depends on: the shared rooms, and these.

    Of a class count its file and those of the classes it builds on, so that a change to one method leaves the results
    of the others as they are; of a function its own lines; a text is the path of a file.
    """
    files, texts = set(_shared_files()), set()
    for need in needs:
        if isinstance(need, type):
            kinds = (kind for kind in need.__mro__ if kind.__module__.split(".")[0] not in _LIBRARIES)
            files |= {getsourcefile(kind) for kind in kinds}
        elif isinstance(need, str):
            files.add(need)
        else:
            texts.add(hashlib.sha256(getsource(need).encode()).hexdigest())
    total = hashlib.sha256()
    for digest in sorted({_digest(file) for file in files if file} | texts):
        total.update(digest.encode())
    return total.hexdigest()[:12]


_LIBRARIES = ("abc", "builtins", "sklearn", "torch", "typing")


@cache
def _shared_files() -> tuple[str, ...]:
    root = Path(epagcl.__file__).parent
    found = [root / room for room in ROOMS]
    return tuple(str(file) for room in found for file in (sorted(room.rglob("*.py")) if room.is_dir() else [room]))


@cache
def _digest(file: str) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


class Store:
    """A folder of records, one JSON file each: ``<graph>/<what>/<digest of the key>.json``.

    Records are written whole or not at all, and hold their key. Any number of processes may fill a store at once: each
    claims what it is about to compute, and a claim ends with its process, however that ends.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)

    def path(self, key: Key) -> Path:
        """Where the record of a key lies; ``key["graph"]["name"]`` and ``key["what"]`` name its folders."""
        digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:20]
        parts = (_plain(key["graph"]["name"]), _plain(key["what"]))
        return self.folder.joinpath(*parts, f"{digest}.json")

    def read(self, key: Key) -> Record | None:
        """The record of a key; None if there is none that can be read."""
        try:
            record = json.loads(self.path(key).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return record if isinstance(record, dict) and record.get("key") == key else None

    def similar(self, key: Key, free: str) -> list[Record]:
        """All records whose key differs from this one at most in one entry, such as the hardware."""
        wanted = {name: value for name, value in key.items() if name != free}
        found = []
        for path in sorted(self.path(key).parent.glob("*.json")):
            with contextlib.suppress(OSError, ValueError):
                record = json.loads(path.read_text(encoding="utf-8"))
                if {name: value for name, value in record["key"].items() if name != free} == wanted:
                    found.append(record)
        return found

    def write(self, key: Key, record: Record) -> Record:
        """Keep a record under its key."""
        path = self.path(key)
        _make(path.parent)
        # As it will be read: numbers and lists of JSON, whether computed just now or found.
        record = json.loads(json.dumps({"key": key, **record}))
        write_json(record, path)
        return record

    @contextlib.contextmanager
    def claim(self, keys: Iterable[Key], most: int = 1) -> Iterator[list[Key]]:
        """Up to ``most`` of the keys that no other process is computing; they are this one's until the block ends."""
        mine: list[Key] = []
        with contextlib.ExitStack() as stack:
            for key in keys:
                if stack.enter_context(locked(self.path(key).with_suffix(".lock"))):
                    mine.append(key)
                if len(mine) == most:
                    break
            yield mine

    def remember(self, key: Key, compute: Callable[[], Record]) -> Record:
        """The record of a key, computed if nobody has; if another process is at it, this one waits."""
        while (record := self.read(key)) is None:
            with self.claim([key]) as mine:
                if mine and (record := self.read(key)) is None:
                    record = self.write(key, compute())
                if mine:
                    return record
            time.sleep(0.2)
        return record


@contextlib.contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Whether this process holds the lock; the system takes it back when the process ends."""
    try:
        import fcntl
    except ImportError:  # Windows: one process at a time
        yield True
        return
    _make(path.parent)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = os.fstat(file.fileno()).st_ino == path.stat().st_ino  # else its last holder has just removed it
        except OSError:
            held = False
        try:
            yield held
        finally:
            if held:
                path.unlink(missing_ok=True)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made ({error.strerror}); give another folder for the store") from None


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9.-]+", "-", text.lower()).strip("-") or "graph"
