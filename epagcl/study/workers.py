"""Several processes of one command on one machine, such as those that share a store of runs."""

import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from epagcl.core.checks import check_whole
from epagcl.core.log import log
from epagcl.core.termination import helpers

#: Environment variable of the processes: how many there are.
COUNT = "EPAGCL_PROCESSES"
PATIENCE = 20.0  # seconds that a process has to end after SIGTERM


def run_workers(command: Sequence[str], count: int, logs: Path, seconds: float | None = None) -> int:
    """Run a command in several processes until all have ended, or until the time is over.

    The first process prints to the terminal, the others to log files. If a process fails, the last line of its log is
    shown, and the others go on. SIGINT and SIGTERM end them together with this process.

    Args:
        command: the program and its arguments.
        count: number of processes, at least one.
        logs: folder of the log files.
        seconds: time limit; processes that are still running then are stopped.

    Returns:
        the number of processes that failed. Stopped ones have not failed.

    Examples:
        >>> import sys, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run_workers([sys.executable, "-c", "raise SystemExit(3)"], 2, Path(folder))
        2
    """
    count = check_whole(count, "count", least=1)
    logs.mkdir(parents=True, exist_ok=True)
    # Threads of several processes would compete for the cores, and waiting threads spin.
    threads = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // count))}
    environment = {**threads, **os.environ, COUNT: str(count)}
    deadline = None if seconds is None else time.monotonic() + seconds
    paths = [None, *(logs / f"worker-{number}.log" for number in range(1, count))]
    processes: list[subprocess.Popen[bytes]] = []
    with ExitStack() as stack:
        stack.callback(_stop, processes)  # also after Ctrl-C
        for path in paths:
            file = None if path is None else stack.enter_context(path.open("wb"))
            processes.append(
                subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment)
            )
            helpers.add(processes[-1].pid)
        running = processes
        while running and (deadline is None or time.monotonic() < deadline):
            time.sleep(0.1)
            running = [process for process in processes if process.poll() is None]
            helpers.difference_update(process.pid for process in processes if process not in running)
        if running:
            words = f"{count} process{'es' * (count != 1)} {'is' if len(running) == 1 else 'are'}"
            log.info("the time is over: %d of %s stopped", len(running), words)
    failed = [
        path for path, process in zip(paths, processes, strict=True) if process not in running and process.returncode
    ]
    for path in failed:
        if path is not None:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            log.warning("%s: %s", path, lines[-1] if lines else "the process ended without output")
    return len(failed)


def number_of_workers() -> int:
    """Return how many processes :func:`run_workers` has started together with this one; 1 if it has started none.

    Examples:
        >>> number_of_workers()
        1
    """
    return int(os.environ.get(COUNT, "1"))


def _stop(processes: Sequence["subprocess.Popen[bytes]"]) -> None:
    """End processes that are still running, by SIGTERM or, if that does not help, by force."""
    for process in processes:
        process.terminate()  # does nothing to a process that has ended
    until = time.monotonic() + PATIENCE
    for process in processes:
        try:
            process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        helpers.discard(process.pid)
