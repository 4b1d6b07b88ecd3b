"""Progress for people: a bar in notebooks, a line in terminals, lines elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from epagcl.core.formatting import duration
from epagcl.core.html import block, text
from epagcl.training.history import Callback, Row

REFRESH_SECONDS = 0.2  # between updates of a bar
LINE_SECONDS = 20.0  # between lines where nothing can be updated


@contextmanager
def shown_progress(shown: bool, callback: Callback | None, title: str, epochs: int) -> Iterator[Callback | None]:
    """Show the progress of a training in this block. The value is the callback of the training.

    Args:
        shown: whether to show it; otherwise the value is ``callback``.
        callback: another callback, which is called too.
        title: name of the training.
        epochs: their number.

    Examples:
        >>> with shown_progress(False, None, "EPAGCL", 200) as callback:
        ...     print(callback)
        None
    """
    if not shown:
        yield callback
        return
    bar = ProgressBar(title, epochs)

    def both(row: Row) -> None:
        bar(row)
        if callback is not None:
            callback(row)

    try:
        yield both
    finally:
        bar.close()


class ProgressBar:
    """A callback of a training that shows epochs, loss and time left.

    In a Jupyter kernel it is one output that is updated, and needs no widgets. In a terminal it is one line on stderr.
    Elsewhere it is a line now and then.

    Args:
        title: name of the training.
        epochs: their number.

    Examples:
        >>> bar = ProgressBar("EPAGCL", 200)
        >>> bar.words(Row(epoch=50, loss=2.5, seconds=10.0))
        'EPAGCL: epoch 50 of 200, loss 2.5000, 30 s left'
    """

    def __init__(self, title: str, epochs: int):
        self.title, self.epochs = title, epochs
        self._row: Row | None = None
        self._line = UpdatedLine()

    def __call__(self, row: Row) -> None:
        """Show an epoch by its row of the history, unless the last one was shown just now."""
        self._row = row
        if self._line.is_due():
            self._line.show(self.words(row), row["epoch"], self.epochs)

    def close(self) -> None:
        """Show the last epoch, and leave it on the screen."""
        if self._row is not None:
            self._line.show(self.words(self._row), self._row["epoch"], self.epochs)
            self._line.close()

    def words(self, row: Row) -> str:
        """Return the progress in words."""
        left = row["seconds"] / max(row["epoch"], 1) * (self.epochs - row["epoch"])
        when = f"{duration(left)} left" if row["epoch"] < self.epochs else duration(row["seconds"])
        return f"{self.title}: epoch {row['epoch']} of {self.epochs}, loss {row['loss']:.4f}, {when}"


class UpdatedLine:
    """A line of progress that is updated in place: in a Jupyter kernel and in a terminal; elsewhere a line each time.

    Examples:
        >>> line = UpdatedLine()
        >>> line.is_due()  # too soon for a line in a log
        False
    """

    def __init__(self) -> None:
        self._handle: Any = None
        self._shown_at = time.monotonic() - (LINE_SECONDS if self._is_live() else 0)

    @staticmethod
    def _is_live() -> bool:
        return _in_notebook() or sys.stderr.isatty()

    def is_due(self) -> bool:
        """Return whether enough time has passed since the last time that this was the case."""
        now = time.monotonic()
        if now - self._shown_at < (REFRESH_SECONDS if self._is_live() else LINE_SECONDS):
            return False
        self._shown_at = now
        return True

    def show(self, words: str, done: int, total: int) -> None:
        """Show words and, in a notebook, a bar."""
        if _in_notebook():
            from IPython.display import display

            output = _Output(words, done, total)
            if self._handle is None:
                self._handle = display(output, display_id=True)
            else:
                self._handle.update(output)
        elif sys.stderr.isatty():
            print(f"\r{words}\033[K", end="", file=sys.stderr, flush=True)
        else:
            print(words, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leave the line on the screen."""
        if self._handle is None and sys.stderr.isatty():
            print(file=sys.stderr)


class _Output:
    """What a notebook shows: a bar and words, or the words alone where HTML is not shown."""

    def __init__(self, words: str, done: int, total: int):
        self.words, self.done, self.total = words, done, total

    def __repr__(self) -> str:
        return self.words

    def _repr_html_(self) -> str:
        bar = f'<progress value="{self.done}" max="{self.total}" aria-label="{text(self.words)}"></progress>'
        return block(f"{bar} {text(self.words)}")


def _in_notebook() -> bool:
    """Return whether the code runs in a Jupyter kernel, which can update an output."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")
