"""Atomic writing: a file is written completely or not at all."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path in the folder of ``path``. It replaces ``path`` on success and is deleted on failure.

    If the process is killed, ``path`` holds either its old or its new content.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder, "scores.txt")
        ...     with atomic_path(path) as temporary:
        ...         _ = temporary.write_text("84.6")
        ...     path.read_text()
        '84.6'
    """
    path = Path(path)
    # Many writers choose the format by the suffix, so it stays last. The process id separates concurrent writers.
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.tmp{path.suffix}")
    try:
        yield temporary
        os.umask(mask := os.umask(0))
        temporary.chmod(0o666 & ~mask)  # some writers create files that only the owner can read
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(value: Mapping[str, Any], path: Path) -> None:
    """Write indented JSON.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     write_json({"mean": 0.846}, Path(folder, "scores.json"))
        ...     print(Path(folder, "scores.json").read_text(), end="")
        {
          "mean": 0.846
        }
    """
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
