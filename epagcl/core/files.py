"""Files that are written completely or not at all, by one process at a time, and read without surprises."""

import contextlib
import errno
import itertools
import json
import os
import re
import secrets
import shutil
import socket
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from epagcl.core.errors import InputError, OutputError
from epagcl.core.locks import try_lock
from epagcl.core.termination import unfinished_files

#: Files of a process on another machine are removed after this time, since only their age is known.
FOREIGN_SECONDS = 24 * 3600
#: What to do about an error of the operating system, by its number.
_FIXES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "free some space there, or write elsewhere"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "give a path that you may write to"),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR), "its folder is gone; create it again, or write elsewhere"),
    **dict.fromkeys((errno.ENAMETOOLONG, errno.EINVAL, errno.EISDIR), "give another path"),
    errno.EIO: "check the disk, or write elsewhere",
}
#: What reading a damaged file can raise, besides an InputError.
_DAMAGE = (
    *(OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, IndexError, AssertionError),
    *(ArithmeticError, MemoryError, RecursionError, zlib.error),
)
_HOST = sha256(socket.gethostname().encode()).hexdigest()[:6]
_TOKEN = secrets.token_hex(3)  # tells this process from an earlier one with the same number
_counter = itertools.count()
_umask_lock = threading.Lock()
# .NAME.PID.HOST-TOKEN-COUNT.tmp.SUFFIX; earlier versions wrote .NAME.PID.tmp.SUFFIX
_TEMPORARY = re.compile(r"\..*\.(\d+)(?:\.([0-9a-f]{6})-([0-9a-f]{6})-\d+)?\.tmp(?:\.[^.]*)?", re.DOTALL)


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path in the folder of ``path``. It replaces ``path`` on success and is deleted on failure.

    If the process is killed or the machine stops, ``path`` holds either its old or its new content. Threads and
    processes may write the same path at the same time; the last one wins. Temporary files of processes that were
    killed are removed.

    Raises:
        OutputError: if the disk is full, the folder is gone, or the file cannot be written for another such reason.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder, "scores.txt")
        ...     with atomic_path(path) as temporary:
        ...         _ = temporary.write_text("84.6")
        ...     path.read_text()
        '84.6'
    """
    with atomic_paths(path) as (temporary,):
        yield temporary


@contextmanager
def atomic_paths(*paths: str | Path) -> Iterator[tuple[Path, ...]]:
    """Yield temporary paths of files that belong together, which replace ``paths`` on success; the first one last.

    No mixture of old and new files is ever visible. If the others change, the first file is removed before they are
    replaced. If the process is killed in between, the first file is missing, and a reader notices.

    Raises:
        OutputError: as in :func:`atomic_path`.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     with atomic_paths(Path(folder, "z.npy"), Path(folder, "z.ids.txt")) as (z, ids):
        ...         _ = z.write_bytes(b"..."), ids.write_text("a")
        ...     sorted(path.name for path in Path(folder).iterdir())
        ['z.ids.txt', 'z.npy']
    """
    targets = [Path(path) for path in paths]
    if nameless := [path for path in targets if not path.name]:
        raise InputError(f"{nameless[0]}: is a folder; give the name of a file in it")
    temporaries = tuple(_temporary(path) for path in targets)
    current, replaced = targets[0], list[Path]()
    unfinished_files.update(temporaries)
    try:
        for folder in {path.parent for path in targets}:
            remove_leftovers(folder)
        yield temporaries
        for current, temporary in zip(targets, temporaries, strict=True):  # noqa: B007, named in the message
            temporary.chmod(0o666 & ~_umask())  # some writers create files that only the owner can read
            _sync(temporary)
        unfinished_files.difference_update(temporaries)  # from here on, they tell that the write was interrupted
        others = [pair for pair in zip(targets[1:], temporaries[1:], strict=True) if not _same_content(*pair)]
        if others:
            targets[0].unlink(missing_ok=True)
            _sync(targets[0].parent)
        for current, temporary in (*others, (targets[0], temporaries[0])):
            os.replace(temporary, current)
            replaced.append(current)
        for folder in {path.parent for path in targets}:
            _sync(folder)
    except Exception as error:
        for path in replaced if targets[0] not in replaced and not targets[0].exists() else ():
            path.unlink(missing_ok=True)  # of no use without the first file
        number = _error_number(error)
        other = getattr(error, "filename", None)
        if isinstance(error, InputError) or number is None:
            raise
        if other is not None and not {Path(os.fsdecode(other))} <= {*temporaries, *targets, targets[0].parent}:
            raise  # about another file
        raise write_failure(current, number, str(error)) from error
    finally:
        for temporary in temporaries:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
        unfinished_files.difference_update(temporaries)


def write_failure(path: Path, number: int | None, words: str = "unknown reason") -> OutputError:
    """Return the error of a file that cannot be written.

    Args:
        path: the file.
        number: the operating system's number of the error.
        words: the reason if it has no number.

    Examples:
        >>> print(write_failure(Path("z.npy"), errno.ENOSPC))
        z.npy: cannot be written (No space left on device); free some space there, or write elsewhere
    """
    reason, fix = (words, None) if not number else (os.strerror(number), _FIXES.get(number))
    return OutputError(f"{path}: cannot be written ({reason}); {fix or 'write elsewhere'}")


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
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


def read_json(path: str | Path, fix: str) -> dict[str, Any]:
    """Return the object in a JSON file.

    Args:
        path: the file.
        fix: how to get a valid file, for the message.

    Raises:
        InputError: if the file cannot be read or does not hold an object.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     write_json({"mean": 0.846}, Path(folder, "scores.json"))
        ...     read_json(Path(folder, "scores.json"), fix="write it again")
        {'mean': 0.846}
    """
    with reading(path, fix):
        value = json.loads(Path(path).read_text(encoding="utf-8"))
        if not isinstance(value, dict):
            raise ValueError("not an object")
    return dict(value)


@contextmanager
def reading(path: str | Path, fix: str) -> Iterator[None]:
    """Turn the errors of reading a damaged file into an :class:`InputError` of one line.

    Args:
        path: the file.
        fix: how to get a valid file, for the message.

    Examples:
        >>> with reading("metrics.json", fix="train the run again"):
        ...     json.loads("{")
        Traceback (most recent call last):
        ...
        epagcl.core.errors.InputError: metrics.json: damaged (Expecting property name enclosed in double quotes: ...
    """
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; {fix}") from None
    except PermissionError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); {fix}") from None
    except _DAMAGE as error:
        words = str(error) if not isinstance(error, KeyError) else f"{error} is missing"
        raise InputError(f"{path}: damaged ({words or type(error).__name__}); {fix}") from error


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Try to lock a file for this block. The value is whether it holds the lock.

    Other processes and other threads are excluded. The operating system releases the lock when the process ends.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     with locked(Path(folder, ".lock")) as first, locked(Path(folder, ".lock")) as second:
        ...         first, second
        (True, False)
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a")  # on Windows, a file with a locked byte cannot be truncated
    except OSError as error:
        raise write_failure(path, error.errno) from None
    held = False
    try:
        with file:
            with contextlib.suppress(OSError):
                # The inode differs if the last holder just removed the file.
                held = try_lock(file) and os.fstat(file.fileno()).st_ino == path.stat().st_ino
            try:
                yield held
            finally:
                if held and os.name != "nt":
                    path.unlink(missing_ok=True)
    finally:
        if held and os.name == "nt":  # which does not remove an open file, neither this one nor that of a new holder
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def check_space(folder: Path, needed: int, otherwise: str = "write elsewhere") -> None:
    """Raise if the disk of a folder has less free space than the files to be written need.

    Args:
        folder: an existing folder.
        needed: size of the files in bytes, roughly.
        otherwise: what to do if no space can be freed.

    Examples:
        >>> check_space(Path(), needed=1)  # a byte is free
    """
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return  # unknown; writing tells
    if free < needed:
        sizes = f"about {needed / 1e6:,.0f} MB will be written, but only {free / 1e6:,.0f} MB are free"
        raise OutputError(f"{folder}: {sizes}; free some space there, or {otherwise}")


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of processes that were killed while they wrote to a folder."""
    with contextlib.suppress(OSError):
        names = [name for name in os.listdir(folder) if is_leftover(folder / name)]
        for name in names:
            (folder / name).unlink(missing_ok=True)


def is_leftover(path: Path) -> bool:
    """Return whether a file is a temporary file of a process that no longer runs.

    Examples:
        >>> is_leftover(Path("scores.json"))
        False
    """
    match = _TEMPORARY.fullmatch(path.name)
    if match is None:
        return False
    pid, host, token = int(match[1]), match[2], match[3]
    if os.name == "nt" or (host is not None and host != _HOST):
        with contextlib.suppress(OSError):
            return time.time() - path.stat().st_mtime > FOREIGN_SECONDS
        return False
    if pid == os.getpid():
        return token is not None and token != _TOKEN
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def _umask() -> int:
    """Return the umask, which can only be read by setting it."""
    with _umask_lock:
        mask = os.umask(0)
        os.umask(mask)
    return mask


def _temporary(path: Path) -> Path:
    """Return the temporary path of a file. Many writers choose the format by the suffix, so it stays last."""
    writer = f"{os.getpid()}.{_HOST}-{_TOKEN}-{next(_counter)}"
    return path.with_name(f".{path.stem[:60]}.{writer}.tmp{path.suffix}")


def _same_content(path: Path, new: Path) -> bool:
    """Return whether a file exists and has the content of another one."""
    with contextlib.suppress(OSError):
        if path.stat().st_size == new.stat().st_size:
            return path.read_bytes() == new.read_bytes()
    return False


def _sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    is_folder = path.is_dir()
    if os.name == "nt" and is_folder:
        return
    try:
        descriptor = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    except PermissionError:
        if is_folder:  # that can be written to, but not listed
            return
        raise
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems cannot
            raise
    finally:
        os.close(descriptor)


def _error_number(error: Exception) -> int | None:
    """Return the operating system's number of an error, 0 if unknown, or None if it is none of its errors."""
    if isinstance(error, OSError):
        return error.errno or 0
    # safetensors only mentions the number in its text.
    match = re.search(r"\(os error (\d+)\)", str(error))
    return None if match is None else int(match[1])
