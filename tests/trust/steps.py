"""Child processes that are stopped at a moment or at one of their system calls, by ``strace``."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.trust.cases import SECONDS

#: System calls that write, rename or remove.
CALLS = ("write", "pwrite64", "writev", "ftruncate", "rename", "renameat", "renameat2", "unlink", "unlinkat", "link")
#: Calls that a full disk refuses.
GROWING = ("write", "pwrite64", "writev", "ftruncate", "rename", "renameat", "renameat2")
_LINE = re.compile(r"(\d+) +(\w+)\((.*)\) += (-?\d+)")


class Step(NamedTuple):
    """The n-th system call of one name in a process."""

    call: str
    number: int


class Ended(NamedTuple):
    """How a child ended: its exit code or the negative number of a signal, and what it wrote to stderr."""

    code: int
    words: str


def can_trace() -> bool:
    """Return whether strace is installed and may trace a child."""
    return shutil.which("strace") is not None and child(lambda: None, trace=["-e", "trace=write"]).code == 0


def steps(action: Callable[[], object], folder: Path) -> list[Step]:
    """Run an action in a child. Return its system calls that wrote, renamed or removed something in a folder.

    Args:
        action: what the child does.
        folder: the folder, which is the child's own one.
    """
    with_paths = ["-y", "-s", "0", "-e", f"trace={','.join(CALLS)}", "-o", f"{folder}.trace"]
    ended = child(action, trace=with_paths)
    assert ended.code == 0, ended
    seen: Counter[tuple[str, str]] = Counter()
    found = []
    for match in map(_LINE.match, Path(f"{folder}.trace").read_text().splitlines()):
        if match is not None:
            process, call, arguments, result = match.groups()
            seen[process, call] += 1
            # Descriptors have absolute paths, and names may be relative ones.
            inside = str(folder) in arguments or ("<" not in arguments and re.search(r'"[^/"]', arguments))
            if int(result) >= 0 and inside:
                found.append(Step(call, seen[process, call]))
    assert found, "the trace shows no writing"
    return found


def killed_at(step: Step) -> list[str]:
    """Return the options of strace that kill a process at a system call, before it has an effect."""
    return ["-e", f"trace={step.call}", "-e", f"inject={step.call}:error=EIO:signal=KILL:when={step.number}"]


def full_at(step: Step) -> list[str]:
    """Return the options of strace that let a system call fail for lack of space."""
    return ["-e", f"trace={step.call}", "-e", f"inject={step.call}:error=ENOSPC:when={step.number}"]


def child(
    action: Callable[[], object],
    *,
    trace: list[str] | None = None,
    after: float | None = None,
    number: signal.Signals = signal.SIGKILL,
    seconds: float = SECONDS,
) -> Ended:
    """Run an action in a child process, which has all modules loaded that this process has.

    Args:
        action: what the child does; ``SystemExit`` gives its exit code.
        trace: options of strace; None: without strace.
        after: seconds after which the child gets a signal; None: never.
        number: the signal.
        seconds: longest time.
    """
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, True)
    pid = os.fork()
    if pid == 0:
        _run(action, writing, stopped=trace is not None)
    os.close(writing)
    tracer = None if trace is None else _attach(pid, trace)
    start, signalled, words, status = time.monotonic(), after is None, b"", None
    while status is None and time.monotonic() < start + seconds:
        if not signalled and time.monotonic() >= start + (after or 0):
            os.kill(pid, number)
            signalled = True
        words += _available(reading)
        done, found = os.waitpid(pid, os.WNOHANG)
        status = found if done else None
        time.sleep(0.002)
    if status is None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise TimeoutError(f"the child took more than {seconds:g} s: {words.decode()[-500:]}")
    words += _available(reading)
    os.close(reading)
    if tracer is not None:
        tracer.wait()
    return Ended(os.waitstatus_to_exitcode(status), words.decode(errors="replace"))


def _run(action: Callable[[], object], output: int, stopped: bool) -> None:
    """Run an action in this process, which ends."""
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(output, 2)
        sys.stdout, sys.stderr = (open(number, "w", buffering=1, closefd=False) for number in (1, 2))  # noqa: SIM115
        if stopped:
            os.kill(os.getpid(), signal.SIGSTOP)
        action()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _attach(pid: int, options: list[str]) -> subprocess.Popen[bytes]:
    """Trace a child that has stopped itself, and let it go on."""
    os.waitpid(pid, os.WUNTRACED)
    output = [] if "-o" in options else ["-o", os.devnull]
    tracer = subprocess.Popen(["strace", "-q", "-f", *output, "-p", str(pid), *options], stderr=subprocess.DEVNULL)
    while "TracerPid:\t0\n" in Path(f"/proc/{pid}/status").read_text():
        if tracer.poll() is not None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise RuntimeError("strace may not trace a child")
        time.sleep(0.001)
    os.kill(pid, signal.SIGCONT)
    return tracer


def _available(pipe: int) -> bytes:
    try:
        return os.read(pipe, 1 << 20)
    except BlockingIOError:
        return b""
