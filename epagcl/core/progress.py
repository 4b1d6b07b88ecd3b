"""The interface through which the library reports the progress of many runs. The command line renders it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

#: Called after each epoch of a training with the epoch's row of the history, such as ``epoch`` and ``loss``.
Callback = Callable[[Mapping[str, Any]], None]


class Progress(Protocol):
    """The progress of many runs.

    Runs differ in cost. The remaining time is estimated from their expected costs, in any unit, not from their number.

    Attributes:
        note: text shown next to the remaining time, such as the best result so far.
        deadline: the value of ``time.monotonic()`` at which the computation stops, even if runs are left; None: never.
    """

    note: str
    deadline: float | None

    def plan(self, costs: list[float]) -> None:
        """Announce runs by their expected costs."""

    def drop(self, costs: list[float]) -> None:
        """Remove announced runs that need no computation, such as runs that another process has finished."""

    def finish(self, costs: list[float], seconds: float) -> None:
        """Record the runs that this process has computed, and their total time."""

    def say(self, words: str) -> None:
        """Report the current activity."""

    def training(self, title: str, epochs: int) -> AbstractContextManager[Callback | None]:
        """Return a context manager for one training. Its value is the training's callback, if any."""


class SilentProgress:
    """A :class:`Progress` that shows nothing.

    Examples:
        >>> work: Progress = SilentProgress()
        >>> work.plan([1.0, 2.0])
        >>> with work.training("EPAGCL on Cora", epochs=200) as callback:
        ...     print(callback)
        None
    """

    note: str = ""
    deadline: float | None = None

    def plan(self, costs: list[float]) -> None:
        """Do nothing."""

    def drop(self, costs: list[float]) -> None:
        """Do nothing."""

    def finish(self, costs: list[float], seconds: float) -> None:
        """Do nothing."""

    def say(self, words: str) -> None:
        """Do nothing."""

    @contextmanager
    def training(self, title: str, epochs: int) -> Iterator[Callback | None]:
        """Provide no callback."""
        yield None
