"""A store of finished computations on disk, shared by any number of processes."""

import contextlib
import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from epagcl.core.errors import InputError
from epagcl.core.files import locked, write_json
from epagcl.study.shapes import Shape, fits

#: Everything that a stored result depends on, as plain JSON. ``graph.name`` and ``what`` name the folders of a record.
Key = dict[str, Any]
#: A stored result as plain JSON; ``key`` holds its key.
Record = dict[str, Any]


class Store:
    """A folder of records, one JSON file each: ``<graph>/<what>/<digest of the key>.json``.

    Each record is written atomically and holds its key. Any number of processes may fill a store at the same time: a
    process claims the keys that it is about to compute, and its claims end with the process.

    Args:
        folder: created when the first record is written.

    Examples:
        >>> import tempfile
        >>> key = {"what": "accuracy", "graph": {"name": "demo"}, "seed": 0}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = Store(folder)
        ...     print(store.read(key))
        ...     record = store.remember(key, lambda: {"value": 0.5})
        ...     print(store.read(key)["value"])
        None
        0.5
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self._shape: Shape = dict

    def path(self, key: Key) -> Path:
        """Return the path of a key's record; ``key["graph"]["name"]`` and ``key["what"]`` name its folders."""
        digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:20]
        parts = (_folder_name(key["graph"]["name"]), _folder_name(key["what"]))
        return self.folder.joinpath(*parts, f"{digest}.json")

    def checkpoint(self, key: Key) -> Path:
        """Return the path of the unfinished training of a key."""
        return self.path(key).with_suffix(".safetensors")

    def read(self, key: Key) -> Record | None:
        """Return the record of a key, or None if there is no readable record."""
        record = self._read_file(self.path(key))
        return record if record is not None and record["key"] == key else None

    def similar(self, key: Key, free: str) -> list[Record]:
        """Return all records whose keys equal ``key`` in all entries except possibly ``free``, such as the hardware."""
        wanted = {name: value for name, value in key.items() if name != free}
        records = []
        for path in sorted(self.path(key).parent.glob("*.json")):
            record = self._read_file(path)
            if record is not None and {name: part for name, part in record["key"].items() if name != free} == wanted:
                records.append(record)
        return records

    def _read_file(self, path: Path) -> Record | None:
        """Return the record in a file, or None if it is missing or damaged."""
        try:
            record: Record = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
        return record if fits(record, {"key": dict}) and fits(record, self._shape) else None

    def write(self, key: Key, record: Record) -> Record:
        """Write the record of a key and return it as it will be read."""
        path = self.path(key)
        _make_folder(path.parent)
        # Plain JSON in any case, so that a computed record equals one that is read.
        plain: Record = json.loads(json.dumps({"key": key, **record}))
        write_json(plain, path)
        return plain

    @contextlib.contextmanager
    def claim(self, keys: Iterable[Key], most: int = 1) -> Iterator[list[Key]]:
        """Claim up to ``most`` keys that no other process has claimed, until the block ends."""
        claimed: list[Key] = []
        with contextlib.ExitStack() as stack:
            for key in keys:
                if stack.enter_context(locked(self.path(key).with_suffix(".lock"))):
                    claimed.append(key)
                if len(claimed) == most:
                    break
            yield claimed

    def remember(self, key: Key, compute: Callable[[], Record]) -> Record:
        """Return the record of a key. Compute it if it is missing; wait if another process is computing it."""
        while (record := self.read(key)) is None:
            with self.claim([key]) as claimed:
                if claimed:
                    # Another process may have written it between the read and the claim.
                    return self.read(key) or self.write(key, compute())
            time.sleep(0.2)
        return record


def holding(store: Store, shape: Shape) -> Store:
    """Return a store for records of one shape. Others are damaged and count as missing."""
    same = Store(store.folder)
    same._shape = shape
    return same


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be created ({error.strerror}); give another folder for the store") from None


def _folder_name(text: str) -> str:
    # Without dots at the ends, no name leaves the store.
    return re.sub(r"[^a-z0-9.-]+", "-", text.lower()).strip("-.") or "graph"
