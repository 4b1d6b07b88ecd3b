"""Errors that the user can fix. Each message is one line."""

from epagcl.core.formatting import one_line


class InputError(ValueError):
    """An invalid argument, file or graph. The message says what is wrong, where, and how to fix it.

    Messages quote what users wrote. Line breaks and control characters in them are escaped, and long texts are cut.

    Examples:
        >>> raise InputError("temperature=0.01: must be at least 0.03")
        Traceback (most recent call last):
        ...
        epagcl.core.errors.InputError: temperature=0.01: must be at least 0.03
    """

    def __init__(self, message: str = ""):
        super().__init__(one_line(message))


class OutputError(InputError, OSError):
    """A file that cannot be written. The message names the file and the reason.

    Examples:
        >>> raise OutputError("z.npy: cannot be written (No space left on device); free some space there")
        Traceback (most recent call last):
        ...
        epagcl.core.errors.OutputError: z.npy: cannot be written (No space left on device); free some space there
    """


class MissingFeatures(InputError):
    """A graph without node features, where features are needed.

    Examples:
        >>> raise MissingFeatures("ogbn-arxiv.npz: no features; add them to the file as x")
        Traceback (most recent call last):
        ...
        epagcl.core.errors.MissingFeatures: ogbn-arxiv.npz: no features; add them to the file as x
    """


def install_command(extra: str) -> str:
    """Return how to install an extra, as ``docs/install.md`` says it.

    Examples:
        >>> install_command("tune")
        "pip install '.[tune]' in a copy of the repository"
    """
    return f"pip install '.[{extra}]' in a copy of the repository"


class MissingExtra(ImportError):
    """An optional package that is not installed. The message names the extra that installs it.

    Args:
        package: the import name of the package.
        extra: the extra of ``epagcl`` that installs it.
        purpose: the feature that needs the package, which begins the message.

    Examples:
        >>> print(MissingExtra("umap", "report", "UMAP"))
        UMAP needs umap: pip install '.[report]' in a copy of the repository
    """

    def __init__(self, package: str, extra: str, purpose: str):
        super().__init__(f"{purpose} needs {package}: {install_command(extra)}")
        self._arguments = package, extra, purpose

    def __reduce__(self) -> tuple[type["MissingExtra"], tuple[str, str, str]]:
        # Errors travel between ranks and from worker processes.
        return type(self), self._arguments


class TrainingError(RuntimeError):
    """Training cannot continue, for example because the loss is NaN. The message says which setting to change.

    Examples:
        >>> raise TrainingError("the loss is nan in epoch 3; use a smaller lr")
        Traceback (most recent call last):
        ...
        epagcl.core.errors.TrainingError: the loss is nan in epoch 3; use a smaller lr
    """


class OutOfMemory(TrainingError):
    """Training needs more memory than there is. The message says which settings to lower.

    Examples:
        >>> raise OutOfMemory("out of memory; lower hidden (now 512)")
        Traceback (most recent call last):
        ...
        epagcl.core.errors.OutOfMemory: out of memory; lower hidden (now 512)
    """
