"""Results whose own place cannot be written, kept elsewhere so that no training is lost."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from epagcl.core.errors import InputError, OutputError


def rescue(error: OutputError, write: Callable[[Path], object], what: str) -> OutputError:
    """Write a result to a new folder for temporary files, or else in the user's home. Return an error that says where.

    Args:
        error: why the result could not be written to its own place.
        write: function that writes it to a folder.
        what: the result, for the message.

    Returns:
        The error to raise; ``error`` itself if the result could not be written anywhere.

    Examples:
        >>> error = OutputError("z.npy: cannot be written (No space left on device)")
        >>> str(rescue(error, lambda folder: None, "the embedding"))
        'z.npy: cannot be written (No space left on device). The embedding is kept in /...'
    """
    for base in (tempfile.gettempdir(), Path.home()):
        folder = None
        try:
            folder = Path(tempfile.mkdtemp(prefix="epagcl-", dir=base))
            write(folder)
        except (OSError, InputError):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
            continue
        return OutputError(f"{error}. {what[0].upper()}{what[1:]} is kept in {folder}")
    return error
