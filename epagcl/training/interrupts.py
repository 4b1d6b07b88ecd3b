"""Ctrl-C and SIGTERM during training."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from epagcl.core.termination import end_in_one_line
from epagcl.core.torchrun import launched_ranks


@contextmanager
def deferred_interrupts(enabled: bool) -> Iterator[Callable[[], bool]]:
    """Defer Ctrl-C and SIGTERM to the end of the epoch, where the state is complete and can be saved.

    They take effect at the end of the block, as if they came then. A second Ctrl-C interrupts at once. Nothing is
    deferred outside the main thread, or where the program has its own handler. SIGTERM is not deferred on several
    ranks, where an epoch may wait for a rank that has ended.

    Yields:
        A function that returns whether a signal came.
    """
    numbers = _deferrable() if enabled and threading.current_thread() is threading.main_thread() else []
    requests: list[int] = []

    def handler(number: int, frame: object) -> None:
        if number == signal.SIGINT and requests:
            raise KeyboardInterrupt
        requests.append(number)

    previous = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield lambda: bool(requests)
    except (Exception, KeyboardInterrupt):
        # After a signal, an error is its result: it also ended a compiler that the epoch had started.
        if not requests:
            raise
    finally:
        for number, before in previous.items():
            signal.signal(number, before)
    if requests:
        signal.raise_signal(requests[0])


def _deferrable() -> list[signal.Signals]:
    """Return the signals whose handlers are Python's, the system's or the command line's own."""
    numbers = []
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        numbers.append(signal.SIGINT)
    if signal.getsignal(signal.SIGTERM) in (signal.SIG_DFL, end_in_one_line) and launched_ranks() == 1:
        numbers.append(signal.SIGTERM)
    return numbers
