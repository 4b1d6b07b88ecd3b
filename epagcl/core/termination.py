"""SIGTERM, and Ctrl-C while a command starts: one line, and the exit code that shells give to the signal."""

import contextlib
import os
import signal
from contextlib import contextmanager

from epagcl.core.torchrun import launched_ranks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Temporary files that this process is writing; a signal removes them.
unfinished_files: "set[Path]" = set()
#: Processes that this one has started and that end with it; a signal is passed on to them.
helpers: set[int] = set()
_WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
_advice: list[str] = []  # how to continue, for the line; the innermost last


def end_in_one_line(number: int, frame: object) -> None:
    """Handle a signal: print one line and end the process at once, with exit code 128 plus the signal's number.

    No exception is raised. One that appears inside an import, a callback of a library or a destructor would be printed
    with its traceback, turned into another error, or lost.
    """
    signal.signal(number, signal.SIG_IGN)  # timeout(1) sends the signal to the process and to its group
    for file in tuple(unfinished_files):
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)
    for process in tuple(helpers):
        with contextlib.suppress(OSError):
            os.kill(process, number)
    line = "; ".join([f"epagcl: {_WORDS[signal.Signals(number)]}", *_advice[-1:]])
    with contextlib.suppress(OSError):
        # On a terminal, show the cursor again, and start below the progress.
        os.write(2, ("\x1b[?25h\n" if os.isatty(2) else "").encode() + line.encode(errors="backslashreplace") + b"\n")
    os._exit(128 + number)


def handle_sigterm() -> None:
    """Let SIGTERM end this process in one line, unless it is ignored or has another handler.

    On several ranks nothing changes. Python's handlers wait for the running operation, which may be an exchange with a
    rank that has ended already.
    """
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL and launched_ranks() == 1:
        signal.signal(signal.SIGTERM, end_in_one_line)


@contextmanager
def quiet_ctrl_c() -> "Iterator[None]":
    """Let Ctrl-C end this process in one line during a block, such as the imports of a command."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, end_in_one_line)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def advice(words: str) -> "Iterator[None]":
    """Name what is left and how to continue, for the line of a signal during a block.

    Args:
        words: the end of the line.
    """
    _advice.append(words)
    try:
        yield
    finally:
        _advice.pop()
