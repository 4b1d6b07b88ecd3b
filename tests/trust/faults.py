"""Commands that are killed, find a full disk or share a folder: repeated, they give the same result."""

import os
import resource
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.trust.cases import Tally
from tests.trust.commands import Command, Results, as_program, commands, difference, prepare, run
from tests.trust.steps import GROWING, Ended, Step, can_trace, child, full_at, killed_at, steps

#: Exit codes: of a mistake or a full disk, and of SIGTERM.
REFUSED, TERMINATED = 2, 143
LONGEST = 300  # seconds of a command, on a busy machine


class Known(NamedTuple):
    """What an undisturbed command leaves, its duration, and its system calls that write."""

    results: Results
    seconds: float
    steps: list[Step]


def kills(folder: Path, cases: int, seed: int) -> Tally:
    """Kill each command at each of its system calls that write or rename, and at random moments; repeat it.

    A third of the moments are those of a SIGTERM, which must end the command in one line.

    Args:
        folder: an empty folder.
        cases: number of kills, two thirds of them at system calls.
        seed: seed of the moments, and of the system calls if there are more of them.
    """
    rng, tally = np.random.default_rng(seed), Tally(seed)
    known = _known(folder, tally)
    for name, step in _chosen(known, cases * 2 // 3, rng):
        with _place(folder, name) as place:
            ended = child(as_program(commands()[name].words, place), trace=killed_at(step), seconds=LONGEST)
            failure = None if ended.code in (-signal.SIGKILL, 0) else f"ended with {ended}"
            failure = failure or _repeat(commands()[name], place, known[name])
            tally.add(f"{name}: kill -9 at {step.call}", "same result", failure and f"{step}: {failure}")
    for case in range(cases - cases * 2 // 3):
        name = list(known)[case % len(known)]
        after = float(rng.uniform(0, known[name].seconds))
        number = signal.SIGTERM if case // len(known) % 3 == 2 else signal.SIGKILL
        with _place(folder, name) as place:
            ended = child(as_program(commands()[name].words, place), after=after, number=number, seconds=LONGEST)
            failure = _after_signal(ended, number) or _repeat(commands()[name], place, known[name])
            tally.add(f"{name}: {number.name} at a moment", "same result", failure and f"{after:.3f} s: {failure}")
    return tally


def full_disks(folder: Path, cases: int, seed: int) -> Tally:
    """Let each system call of each command that needs space fail, and limit the size of files; repeat it with space.

    The command ends in one line or without an error, and no file is half-written.

    Args:
        folder: an empty folder.
        cases: number of faults, three quarters of them at system calls.
        seed: seed of the limits, and of the system calls if there are more of them.
    """
    rng, tally = np.random.default_rng(seed), Tally(seed)
    known = _known(folder, tally)
    growing = {name: one._replace(steps=[s for s in one.steps if s.call in GROWING]) for name, one in known.items()}
    tally.details["system_calls"] = {name: len(one.steps) for name, one in growing.items()}
    for name, step in _chosen(growing, cases * 3 // 4, rng):
        with _place(folder, name) as place:
            ended = child(as_program(commands()[name].words, place), trace=full_at(step), seconds=LONGEST)
            outcome, failure = _refused(name, ended, place, known[name])
            tally.add(f"{name}: no space at {step.call}", outcome, failure and f"{step}: {failure}")
    for case in range(cases - cases * 3 // 4):
        name = list(known)[case % len(known)]
        limit = int(10 ** rng.uniform(1, 6.7))
        with _place(folder, name) as place:
            ended = child(_limited(as_program(commands()[name].words, place), limit), seconds=LONGEST)
            outcome, failure = _refused(name, ended, place, known[name])
            tally.add(f"{name}: limited size", outcome, failure and f"at most {limit} bytes: {failure}")
    return tally


def shared_folders(folder: Path, cases: int, seed: int) -> Tally:
    """Let two and three processes overwrite one run folder, or fill one store, of which one may be killed.

    One whole run remains, and the store has the results of one process.

    Args:
        folder: an empty folder.
        cases: number of times.
        seed: seed of the moments at which they start and are killed.
    """
    rng, tally = np.random.default_rng(seed), Tally(seed)
    known = _known(folder, tally, "train", "compare")
    for case in range(cases):
        name, processes, killed = ("train", "compare")[case % 2], 2 + case // 2 % 2, case // 4 % 2 == 1
        command = commands()[name]
        words = [*command.words, "--overwrite"] if name == "train" else command.words
        with _place(folder, name) as place:
            pauses = rng.uniform(0, known[name].seconds / 2, processes)
            after = [
                float(rng.uniform(0, known[name].seconds)) if killed and k == 0 else None for k in range(processes)
            ]
            codes = _together([_late(as_program(words, place), float(pause)) for pause in pauses], after)
            allowed = {0, REFUSED} if name == "train" else {0}
            failure = None if set(codes[killed:]) <= allowed and (killed or 0 in codes) else f"exit codes {codes}"
            failure = failure or _repeat(command, place, known[name])
            kind = f"{name}, {processes} processes{', one killed' if killed else ''}"
            tally.add(kind, "as one process", failure)
    return tally


def _known(folder: Path, tally: Tally, *names: str) -> dict[str, Known]:
    """Return what undisturbed commands do, and load all that they need into this process."""
    (folder / "template").mkdir()
    prepare(folder / "template")
    if not (traced := can_trace()):
        tally.details["skipped"] = "faults at system calls, which need strace"
    known = {}
    for name in names or commands():
        command = commands()[name]
        if command.warm:
            with _place(folder, name) as place:
                run(command.words, place)
        with _place(folder, name) as place:
            start = time.monotonic()
            ended = child(as_program(command.words, place), seconds=LONGEST)
            assert ended.code == 0, (name, ended)
            results, seconds = command.results(place), time.monotonic() - start
        with _place(folder, name) as place:
            found = steps(as_program(command.words, place), place) if traced and not names else []
        known[name] = Known(results, seconds, found)
    tally.details["system_calls"] = {name: len(one.steps) for name, one in known.items()}
    return known


@contextmanager
def _place(folder: Path, name: str) -> Iterator[Path]:
    """Yield a new folder with what the commands read."""
    place = folder / name
    shutil.copytree(folder / "template", place)
    try:
        yield place
    finally:
        shutil.rmtree(place)


def _chosen(known: dict[str, Known], count: int, rng: np.random.Generator) -> list[tuple[str, Step]]:
    """Return a number of system calls: all of them, some twice, or as many of each command if there are more."""
    everything = [(name, step) for name, one in known.items() for step in one.steps]
    if not everything:
        return []
    repeated = everything * (count // len(everything))
    rest = rng.permutation(len(everything))[: count - len(repeated)]
    return repeated + [everything[k] for k in sorted(rest)]


def _after_signal(ended: Ended, number: signal.Signals) -> str | None:
    """Return what is wrong with the end of a command that got a signal, if anything."""
    if "Traceback" in ended.words or ended.words.count("epagcl: ") > 1:
        return ended.words[-700:]
    codes = (0, -number) if number == signal.SIGKILL else (0, -number, TERMINATED)
    if ended.code == TERMINATED and "epagcl: terminated" not in ended.words:
        return f"no line: {ended.words[-700:]}"
    return None if ended.code in codes else f"ended with {ended}"


def _refused(name: str, ended: Ended, place: Path, known: Known) -> tuple[str, str | None]:
    """Return how a command without space ended, and what is wrong, here or when it is repeated."""
    outcome = "finished" if ended.code == 0 else "one line"
    if ended.code not in (0, REFUSED) or "Traceback" in ended.words or ended.words.count("epagcl: ") > 1:
        return outcome, f"ended with {ended}"
    return outcome, _repeat(commands()[name], place, known)


def _repeat(command: Command, place: Path, known: Known) -> str | None:
    """Run a command again after a fault. Return what is wrong, if anything."""
    ended = child(as_program(command.again(place), place), seconds=LONGEST)
    finished = ended.code == REFUSED and command.refuses and command.refuses in ended.words
    if ended.code != 0 and not finished:
        return f"when repeated, ended with {ended}"
    left = [path.name for path in place.rglob(".*")]
    return f"left behind: {left}" if left else difference(known.results, command.results(place))


def _limited(action: Callable[[], None], limit: int) -> Callable[[], None]:
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        action()

    return limited


def _late(action: Callable[[], None], pause: float) -> Callable[[], None]:
    def late() -> None:
        time.sleep(pause)
        action()

    return late


def _together(actions: list[Callable[[], None]], after: list[float | None]) -> list[int]:
    """Run actions in children at the same time; kill some after a while. Return their exit codes."""
    pids = []
    for action, moment in zip(actions, after, strict=True):
        pid = os.fork()
        if pid == 0:
            try:
                os._exit(child(action, after=moment, seconds=LONGEST).code % 256)
            finally:
                os._exit(1)
        pids.append(pid)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
