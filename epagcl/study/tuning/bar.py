"""Progress of a search for settings in notebooks and terminals."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from epagcl.core.progress import Callback, CountedProgress
from epagcl.training.bar import UpdatedLine


class SearchBar(CountedProgress):
    """Progress of a search: trials, the best accuracy so far, the time left, and the training that runs.

    It is shown as :class:`~epagcl.training.bar.ProgressBar` shows one training.

    Args:
        title: name of the method.

    Examples:
        >>> bar = SearchBar("EPAGCL")
        >>> bar.plan([1.0] * 30)
        >>> bar.note = "best 81.23"
        >>> bar.finish([1.0], seconds=12.0)
        >>> bar.words("epoch 50 of 200")
        'EPAGCL: 1 of 30 trials, best 81.23, about 6 min left, epoch 50 of 200'
    """

    def __init__(self, title: str):
        super().__init__()
        self.title = title
        self._line = UpdatedLine()

    def words(self, activity: str = "") -> str:
        """Return the progress in words.

        Args:
            activity: what is going on.
        """
        parts = (f"{self.title}: {self.done} of {self.runs} trials", self.time_left(), activity)
        return ", ".join(part for part in parts if part)

    def changed(self) -> None:
        """Show the counts."""
        self._show()

    def say(self, words: str) -> None:
        """Show the current activity."""
        self._show(words, always=True)

    @contextmanager
    def training(self, title: str, epochs: int) -> Iterator[Callback | None]:
        """Show the epochs of one training."""

        def show(row: Mapping[str, Any]) -> None:
            self._show(f"epoch {row['epoch']} of {epochs}")

        yield show

    def close(self) -> None:
        """Show the last counts, and leave them on the screen."""
        self.deadline = None
        self._show(always=True)
        self._line.close()

    def _show(self, activity: str = "", *, always: bool = False) -> None:
        if self._line.is_due() or always:
            self._line.show(self.words(activity), self.done, self.runs)
