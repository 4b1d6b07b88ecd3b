"""What an output may not replace: the inputs of a command, and the files of a run."""

import os
import tempfile
from pathlib import Path

from epagcl.core.errors import InputError

CHECKPOINT = "checkpoint.safetensors"
CONFIG = "config.toml"
METRICS = "metrics.json"
PAGE = "report.html"

#: The files that a run may write.
RUN_FILES = (
    CONFIG,
    METRICS,
    "history.csv",
    "embeddings.npy",
    "embeddings.ids.txt",
    "model.safetensors",
    "columns.json",
    "nodes.csv",
    "report.json.gz",
    PAGE,
    "training.png",
    "embedding.png",
    "README.md",
    CHECKPOINT,
)
#: The files that identify a run folder. A folder without any of them is never overwritten.
RUN_MARKS = (CONFIG, METRICS, "model.safetensors", "report.json.gz", CHECKPOINT)


def check_kept(out: Path | str | None, *inputs: Path | str | None) -> None:
    """Raise if writing a file would replace an input, or a file of a run, to which it would not belong.

    Every command that writes a file of a user's choice calls it before its work.

    Args:
        out: the file to be written; None passes.
        inputs: files that the caller reads; None and names of graphs are ignored.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Path(folder, "l.csv").touch()
        ...     check_kept(Path(folder, "l.csv"), Path(folder, "l.csv"))
        Traceback (most recent call last):
        ...
        epagcl.core.errors.InputError: /...l.csv: is an input of this command; give another out=
    """
    if out is None:
        return
    out = Path(out)
    if any(_same_file(out, Path(one)) for one in inputs if one is not None):
        raise InputError(f"{out}: is an input of this command; give another out=")
    folder = out.parent
    if out.name in RUN_FILES and out.exists() and any((folder / mark).is_file() for mark in RUN_MARKS):
        raise InputError(f"{out}: belongs to the run in this folder; give another out=")


def check_writable(path: Path) -> None:
    """Raise if a file cannot be written, and create its folder. Call it before long work, so that no work is lost.

    Examples:
        >>> check_writable(Path("/"))
        Traceback (most recent call last):
        ...
        epagcl.core.errors.InputError: /: is a folder; give the name of a file
    """
    if path.is_dir():
        raise InputError(f"{path}: is a folder; give the name of a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); give another path") from None


def check_folder(folder: Path, argument: str = "out") -> None:
    """Raise if a path cannot be a folder, because it or what should be a folder above it is a file.

    Args:
        folder: the folder, which need not exist yet.
        argument: name of the caller's argument with the folder, for messages.

    Examples:
        >>> check_folder(Path("pyproject.toml", "runs"))
        Traceback (most recent call last):
        ...
        epagcl.core.errors.InputError: pyproject.toml: is a file, not a folder; give another out=
    """
    for part in (folder, *folder.parents):
        if os.path.exists(part) and not os.path.isdir(part):  # pathlib's raise in a folder that cannot be read
            raise InputError(f"{part}: is a file, not a folder; give another {argument}=")


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except (OSError, ValueError):
        return False
