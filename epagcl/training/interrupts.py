"""Ctrl-C during training."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def deferred_interrupts(enabled: bool) -> Iterator[Callable[[], bool]]:
    """Defer Ctrl-C to the end of the epoch, where the state is complete and can be saved.

    A second Ctrl-C interrupts at once. Nothing is deferred outside the main thread, or where the program has its own
    handler.

    Yields:
        A function that returns whether Ctrl-C was pressed.
    """
    default_handler = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not enabled or not default_handler or threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    requests: list[int] = []

    def handler(number: int, frame: object) -> None:
        if requests:
            raise KeyboardInterrupt
        requests.append(number)

    previous = signal.signal(signal.SIGINT, handler)
    try:
        yield lambda: bool(requests)
    finally:
        signal.signal(signal.SIGINT, previous)
