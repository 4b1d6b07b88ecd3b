"""Progress of long computations, as the library reports it. The command line renders it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class Progress(Protocol):
    """Receives the progress of many runs.

    Runs differ in cost. The remaining time is estimated from their expected costs, in any unit, not from their number.

    Attributes:
        note: shown beside the remaining time, such as the best result so far.
        deadline: when the computation ends even if runs are left, by ``time.monotonic()``; None: never.
    """

    note: str
    deadline: float | None

    def plan(self, costs: list[float]) -> None:
        """Announce runs by their expected costs."""

    def drop(self, costs: list[float]) -> None:
        """Remove announced runs that need no computation, such as those another process has finished."""

    def finish(self, costs: list[float], seconds: float) -> None:
        """Record runs that were computed here, and how long they took together."""

    def say(self, words: str) -> None:
        """Report what is being done now."""

    def training(self, title: str, epochs: int) -> Any:
        """Return a context manager for one training; its value is the training's callback, or None."""


class SilentProgress:
    """Shows nothing."""

    note = ""
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
    def training(self, title: str, epochs: int) -> Iterator[Callable[[Any], None] | None]:
        """Train without a callback."""
        yield None
