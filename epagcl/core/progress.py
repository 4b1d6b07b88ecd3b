"""The interface through which the library reports the progress of many runs. The command line renders it."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from epagcl.core.formatting import duration

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


class InnerProgress(SilentProgress):
    """The progress of a computation that is one run of another. Its trainings are shown; its own runs do not count.

    Args:
        outer: the progress of the other computation.

    Examples:
        >>> work = CountedProgress()
        >>> work.plan([1.0])
        >>> InnerProgress(work).plan([1.0, 1.0])
        >>> work.runs
        1
    """

    def __init__(self, outer: Progress) -> None:
        self.outer = outer

    def say(self, words: str) -> None:
        """Pass the words on."""
        self.outer.say(words)

    @contextmanager
    def training(self, title: str, epochs: int) -> Iterator[Callback | None]:
        """Provide the callback of the other computation."""
        with self.outer.training(title, epochs) as callback:
            yield callback


class CountedProgress(SilentProgress):
    """The counts behind a :class:`Progress`, for those that show them: how many runs are done, and the time left.

    Attributes:
        runs: number of announced runs.
        done: number of runs that are finished or dropped.

    Examples:
        >>> work = CountedProgress()
        >>> work.plan([1.0, 1.0, 8.0])
        >>> work.finish([1.0], seconds=30.0)
        >>> work.done, work.runs, work.time_left()
        (1, 3, 'about 4 min left')
    """

    def __init__(self) -> None:
        self.runs = self.done = 0
        self.remaining_cost = self.finished_cost = self.seconds = 0.0

    def plan(self, costs: list[float]) -> None:
        """Announce runs by their expected costs."""
        self.runs += len(costs)
        self.remaining_cost += sum(costs)
        self.changed()

    def drop(self, costs: list[float]) -> None:
        """Remove announced runs that another process has finished."""
        self.done += len(costs)
        self.remaining_cost = max(0.0, self.remaining_cost - sum(costs))
        self.changed()

    def finish(self, costs: list[float], seconds: float) -> None:
        """Record runs that were computed here, and their time in total."""
        self.finished_cost += sum(costs)
        self.seconds += seconds
        self.drop(costs)

    def changed(self) -> None:
        """Show the counts; subclasses do."""

    def time_left(self) -> str:
        """Return the note and the remaining time in words, or "" while neither is known.

        The computation ends with its runs or at the deadline, whichever comes first.
        """
        words = ""
        seconds = self.remaining_cost * self.seconds / max(self.finished_cost, 1e-9)
        if self.finished_cost and self.remaining_cost:
            words = f"about {duration(seconds)} left"
        if self.deadline is not None:
            until_deadline = max(self.deadline - time.monotonic(), 0)
            if not words or seconds > until_deadline:
                words = f"{duration(until_deadline)} left"
        return ", ".join(part for part in (self.note, words) if part)
