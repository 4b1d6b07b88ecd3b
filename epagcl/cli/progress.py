"""Progress in the terminal: bars in a terminal, otherwise occasional lines in the log."""

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

from epagcl.core.formatting import duration
from epagcl.core.log import log
from epagcl.core.progress import CountedProgress
from epagcl.core.torchrun import launched_rank

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars

    from epagcl.core.progress import Callback
    from epagcl.methods.base import Method

#: A logger of its own, so that a search can silence the notes of its trials and still show its progress.
progress_log = logging.getLogger(f"{log.name}.progress")

LOG_SECONDS = 20  # between lines of progress without a terminal
SETTLED_SECONDS = 5  # of training before its total time is estimated
LONG_SECONDS = 300  # a training that takes longer gets advice on how to shorten it


def console_for(quiet: bool = False) -> "Console":
    """Return the console for progress on stderr. ``quiet`` silences progress and notes, but not warnings.

    Of several ranks, only rank 0 shows anything but errors.
    """
    from rich.console import Console

    log.setLevel(logging.ERROR if launched_rank() else logging.WARNING if quiet else logging.INFO)
    return Console(stderr=True, quiet=quiet or launched_rank() > 0)


@contextlib.contextmanager
def busy(console: "Console", words: str) -> Iterator[None]:
    """Show a spinner during work of unknown length, such as loading libraries or reading a graph."""
    with console.status(words) if console.is_terminal and not console.quiet else contextlib.nullcontext():
        yield


def _faster(method: "Method") -> str | None:
    """Return the options that make the training of a method faster; None if there are none to recommend."""
    if getattr(method, "batch_size", None) == 0:
        return "--batch-size 512 is faster (negatives inside batches only)"
    if getattr(method, "members", 1) > 1:
        return "--members 1 and fewer --epochs are faster; --method propagated needs no training"
    return None


class TrainingProgress:
    """Progress of one training: epochs, loss, time left and memory; after training, the current activity.

    It is the callback of the training, and a context manager.

    Args:
        console: where to show it.
        method: the model to be trained.
    """

    def __init__(self, console: "Console", method: "Method"):
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
        self._activity = Progress(SpinnerColumn(), TextColumn("{task.description}"), console=console, disable=disable)
        self._logged_at = 0.0  # training time of the last line of the log
        self._advised = False
        self._first_row: Mapping[str, Any] | None = None

    def __enter__(self) -> Self:
        if not type(self.method).trained:
            self.say("computing the embedding")
            return self
        self._bar.start()
        self._task = self._bar.add_task(self.title, total=self.method.epochs, loss="–", memory="")
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop updating, and leave the last state on the screen."""
        if self.console.is_terminal:  # older versions of rich print an empty line elsewhere
            self._bar.stop()
            self._activity.stop()

    def __call__(self, row: Mapping[str, Any]) -> None:
        """Show an epoch by its row of the history."""
        from epagcl.runs.record import peak_memory_gib

        peak = peak_memory_gib(self.method.device)
        memory = "" if peak is None else f"{peak:.1f} GiB"
        self._bar.update(self._task, completed=row["epoch"], loss=f"{row['loss']:.4f}", memory=memory)
        # The first epoch is slower, because a GPU compiles its kernels.
        first = self._first_row = self._first_row or row
        seconds = row["seconds"] - first["seconds"]
        pace = seconds / (row["epoch"] - first["epoch"]) if row is not first else row["seconds"] / row["epoch"]
        if seconds > SETTLED_SECONDS:
            self._advise(self.method.epochs * pace)
        if not self.console.is_terminal and row["seconds"] - self._logged_at > LOG_SECONDS:
            self._logged_at = row["seconds"]
            left = duration((self.method.epochs - row["epoch"]) * pace)
            words = "%s: epoch %d of %d, loss %.4f, %s left, %s"
            progress_log.info(words, self.title, row["epoch"], self.method.epochs, row["loss"], left, memory)

    def _advise(self, seconds: float) -> None:
        """Say once how to train faster, if training takes long."""
        if not self._advised and (advice := _faster(self.method)) is not None:
            self._advised = True
            if seconds > LONG_SECONDS:
                progress_log.info("about %s; %s", duration(seconds), advice)

    def say(self, words: str) -> None:
        """Show the current activity after training."""
        if not self.console.is_terminal:
            progress_log.info("%s", words)
            return
        self._bar.stop()
        self._activity.start()
        if not self._activity.tasks:
            self._activity.add_task(words)
        self._activity.update(self._activity.tasks[0].id, description=words)


class StudyProgress(CountedProgress):
    """Progress of many runs: how many are done, the current training, and the time left.

    Runs differ in cost, so the time left is estimated from their
    expected costs, not from their number. Use it as a context manager.

    Args:
        console: where to show it; None: nowhere.
        noun: what the runs are called.
    """

    def __init__(self, console: "Console | None" = None, noun: str = "runs"):
        super().__init__()
        self.console, self.noun = console, noun
        self._bars: Bars | None = None
        self._logged_at = time.monotonic()

    def __enter__(self) -> Self:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        if self.console is not None:
            columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"))
            disable = not self.console.is_terminal
            self._bars = Progress(
                TextColumn("{task.description}"), *columns, console=self.console, disable=disable, transient=True
            )
            self._bars.start()
            self._all_runs = self._bars.add_task(self.noun, total=None, note="")
            self._one_run = self._bars.add_task("", total=None, note="", visible=False)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars is not None and self.console is not None and self.console.is_terminal:
            self._bars.stop()  # elsewhere, older versions of rich print an empty line

    def finish(self, costs: list[float], seconds: float) -> None:
        """Record runs that were computed here, and their time in total."""
        super().finish(costs, seconds)
        self._log_now_and_then()

    def changed(self) -> None:
        """Show the counts and the time left."""
        if self._bars is not None:
            self._bars.update(self._all_runs, total=self.runs, completed=self.done, note=self.time_left())

    def say(self, words: str) -> None:
        """Show the current activity."""
        if self.console is not None and not self.console.is_terminal:
            progress_log.info("%s", words)
        self._show_one_run(words, None)

    @contextlib.contextmanager
    def training(self, title: str, epochs: int) -> "Iterator[Callback]":
        """Show one training; the value is its callback."""
        self._show_one_run(title, epochs)

        def update(row: Mapping[str, Any]) -> None:
            if self._bars is not None:
                self._bars.update(self._one_run, completed=row["epoch"], note=f"loss {row['loss']:.4f}")
                self._log_now_and_then(f"{title}, epoch {row['epoch']}")

        yield update

    def _show_one_run(self, words: str, total: int | None) -> None:
        if self._bars is not None:
            self._bars.update(self._one_run, description=words, total=total, completed=0, note="", visible=True)

    def _log_now_and_then(self, current: str = "") -> None:
        """Write a line to the log if there is no terminal and the last line is old enough."""
        if self.console is None or self.console.is_terminal or time.monotonic() - self._logged_at < LOG_SECONDS:
            return
        self._logged_at = time.monotonic()
        parts = (f"{self.done} of {self.runs} {self.noun}", current, self.time_left())
        progress_log.info("%s", ", ".join(part for part in parts if part))
