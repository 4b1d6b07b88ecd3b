"""A store of finished computations: each is made once, written whole, found by its key, and shared by processes."""

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from epagcl.core.errors import InputError
from epagcl.core.files import write_json

Key = dict[str, Any]


Record = dict[str, Any]


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
