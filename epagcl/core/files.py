"""Writing files whole or not at all."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """A temporary path beside ``path`` to write to; it takes that place on success and is removed on any failure.

    A kill leaves the old file or the new one, never half of one.
    """
    path = Path(path)
    # The suffix stays last, since many writers choose the format by it; the process number keeps two writers apart.
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.tmp{path.suffix}")
    try:
        yield temporary
        os.umask(mask := os.umask(0))
        temporary.chmod(0o666 & ~mask)  # some writers make files that only their owner can read
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(value: dict[str, Any], path: Path) -> None:
    """JSON that people read too."""
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
