"""The errors that a user can mend."""


class InputError(ValueError):
    """Something the user gave cannot be used; the message is one line that names the place and the fix."""


class MissingExtra(ImportError):
    """An optional package is not installed; the message names the extra that brings it."""

    def __init__(self, package: str, extra: str, purpose: str):
        super().__init__(f"{purpose} needs {package}: pip install 'epagcl[{extra}]'")


class TrainingError(RuntimeError):
    """Training cannot go on (a loss that is no number); the message says what to change."""
