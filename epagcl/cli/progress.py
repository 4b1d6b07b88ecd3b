"""What the terminal shows: progress, tables, the summary of a run."""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from epagcl.methods.base import Method
    from epagcl.training.history import Row

from epagcl.core.log import log

LOG_SECONDS = 20  # between lines of progress where there is no terminal


SETTLED_SECONDS = 5  # after the first epoch, before a long run is spoken of


LONG_MINUTES = 5  # a run that will take longer is worth a word on how to shorten it


def console_for(quiet: bool = False) -> "Console":
    """Where progress goes; quiet silences it and the notes, not the warnings."""
    from rich.console import Console

    log.setLevel(logging.WARNING if quiet else logging.INFO)
    return Console(stderr=True, quiet=quiet)


@contextlib.contextmanager
def busy(console: "Console", words: str) -> "Iterator[None]":
    """A spinner while something takes its time: loading libraries, reading a graph."""
    with console.status(words) if console.is_terminal and not console.quiet else contextlib.nullcontext():
        yield


class Line:
    """A progress line on stderr: epochs, loss, time left and memory; after training, what is being done.

    Called with each epoch's history row. Where there is no terminal, a line of the log now and then.
    """

    def __init__(self, console: "Console", method: "Method", logger: str | None = None, folder: Path = Path()):
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeRemainingColumn,
        )

        self.console, self.method = console, method
        self.title = f"{type(method).title} seed {method.seed}"
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[memory]}"),
        )
        disable = not console.is_terminal
        self._bar = Progress(*columns, console=console, disable=disable)
        self._step = Progress(SpinnerColumn(), TextColumn("{task.description}"), console=console, disable=disable)
        self._spoken, self._advised, self._first = 0.0, False, None
        self._log = logger, folder
        self._logger = None

    def __enter__(self) -> "Line":
        name, folder = self._log
        if name is not None:
            from epagcl.integrations.loggers import open_logger

            self._logger = open_logger(name, folder, self.method.settings()).__enter__()
        self._bar.start()
        self._task = self._bar.add_task(self.title, total=self.method.epochs, loss="–", memory="")
        return self

    def stop(self) -> None:
        """Leave the line as it is."""
        self._bar.stop()
        self._step.stop()

    def __exit__(self, *reason: Any) -> None:
        self.stop()
        if self._logger is not None:
            self._logger.__exit__(*reason)

    def __call__(self, row: "Row") -> None:
        """An epoch is done."""
        from epagcl.runs.provenance import peak_memory_gib

        method = self.method
        if self._logger is not None:
            self._logger(row)
        memory = peak_memory_gib(method.device)
        shown = "" if memory is None else f"{memory:.1f} GiB"
        self._bar.update(self._task, completed=row["epoch"], loss=f"{row['loss']:.4f}", memory=shown)
        # By the epochs after the first, in which a GPU compiles.
        first = self._first = self._first or row
        since = row["seconds"] - first["seconds"]
        pace = since / (row["epoch"] - first["epoch"]) if row is not first else row["seconds"] / row["epoch"]
        if since > SETTLED_SECONDS and not self._advised and getattr(method, "batch_size", None) == 0:
            self._advised = True
            if (minutes := method.epochs * pace / 60) > LONG_MINUTES:
                log.info("about %.0f minutes; --batch-size 512 is faster (negatives inside batches only)", minutes)
        if not self.console.is_terminal and row["seconds"] - self._spoken > LOG_SECONDS:
            self._spoken = row["seconds"]
            left = (method.epochs - row["epoch"]) * pace / 60
            words = "%s: epoch %d of %d, loss %.4f, %.1f minutes left, %s"
            log.info(words, self.title, row["epoch"], method.epochs, row["loss"], left, shown)

    def say(self, words: str) -> None:
        """What is being done now, after training."""
        if not self.console.is_terminal:
            log.info("%s", words)
            return
        self._bar.stop()
        self._step.start()
        if not self._step.tasks:
            self._step.add_task(words)
        self._step.update(self._step.tasks[0].id, description=words)


class Work:
    """Progress of many runs: how many are done, what is being trained, and how long the rest will take.

    Runs differ in cost, so the time left goes by their expected cost, not by their number. Use it as a context; without
    a console it is silent.
    """

    note = ""
    deadline: float | None = None

    def __init__(self, console: "Console | None" = None, what: str = "runs"):
        self.console, self.what = console, what
        self.runs = self.done = 0
        self.left = self.spent = self.seconds = 0.0
        self._spoken = time.monotonic()

    def __enter__(self) -> "Work":
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        if self.console is not None:
            columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"))
            disable = not self.console.is_terminal
            self._bars = Progress(
                TextColumn("{task.description}"), *columns, console=self.console, disable=disable, transient=True
            )
            self._bars.start()
            self._all = self._bars.add_task(self.what, total=None, note="")
            self._one = self._bars.add_task("", total=None, note="", visible=False)
        return self

    def __exit__(self, *_: object) -> None:
        if self.console is not None:
            self._bars.stop()

    def plan(self, costs: "list[float]") -> None:
        """Runs that are to come, by their expected cost in any unit."""
        self.runs += len(costs)
        self.left += sum(costs)
        self._show()

    def drop(self, costs: "list[float]") -> None:
        """Runs that another process has finished."""
        self.done += len(costs)
        self.left = max(0.0, self.left - sum(costs))
        self._show()

    def finish(self, costs: "list[float]", seconds: float) -> None:
        """Runs that were computed here."""
        self.spent += sum(costs)
        self.seconds += seconds
        self.drop(costs)
        self._speak()

    def say(self, words: str) -> None:
        """What is being done now."""
        if self.console is not None and not self.console.is_terminal:
            log.info("%s", words)
        self._set_one(words, None)

    @contextlib.contextmanager
    def training(self, title: str, epochs: int) -> "Iterator[Callable[[Row], None]]":
        """Show one training; the value is its callback."""
        self._set_one(title, epochs)

        def update(row: "Row") -> None:
            if self.console is not None:
                self._bars.update(self._one, completed=row["epoch"], note=f"loss {row['loss']:.4f}")
                self._speak(f"{title}, epoch {row['epoch']}")

        yield update

    def time_left(self) -> str:
        """Return the remaining time in words after the note, or "" while nothing is known.

        The remaining time ends with the runs or at the deadline, whichever is first.
        """
        words = ""
        if self.spent and self.left:
            minutes = self.left * self.seconds / self.spent / 60
            words = f"about {minutes:.0f} min left" if minutes >= 1 else "less than a minute left"
        if self.deadline is not None:
            minutes = max(self.deadline - time.monotonic(), 0) / 60
            if not words or self.left * self.seconds / max(self.spent, 1e-9) > 60 * minutes:
                words = f"{minutes:.0f} min left"
        return ", ".join(part for part in (self.note, words) if part)

    def _set_one(self, words: str, total: int | None) -> None:
        if self.console is not None:
            self._bars.update(self._one, description=words, total=total, completed=0, note="", visible=True)

    def _show(self) -> None:
        if self.console is not None:
            self._bars.update(self._all, total=self.runs, completed=self.done, note=self.time_left())

    def _speak(self, what: str = "") -> None:
        """A line now and then where there is no terminal."""
        if self.console is None or self.console.is_terminal or time.monotonic() - self._spoken < LOG_SECONDS:
            return
        self._spoken = time.monotonic()
        parts = (f"{self.done} of {self.runs} {self.what}", what, self.time_left())
        log.info("%s", ", ".join(part for part in parts if part))
