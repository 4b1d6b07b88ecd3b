"""Commands that are killed, terminated or find a full disk while they write: repeated, they give the same result."""

import errno
import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from epagcl.core import files
from epagcl.core.errors import InputError
from epagcl.data.io.npz import write_npz
from tests.trust.cases import Tally
from tests.trust.faults import DATA, REFUSED, child, train

SMALL = ["--epochs", "2", "--hidden", "8", "--dim", "4", "--device", "cpu", "--quiet"]
#: Values that differ between two runs: times, and what they were measured on.
VARYING = (
    "seconds",
    "date",
    "created",
    "hardware",
    "versions",
    "commit",
    "memory",
    "minutes",
    "time",
    "pace",
    "folder",
)

LONGEST = 600  # seconds of a command, on a busy machine
KINDS = ("SIGKILL at a step", "disk full at a step", "SIGKILL at a moment", "SIGTERM at a moment")

_SIGNALS = {"SIGKILL at a moment": signal.SIGKILL, "SIGTERM at a moment": signal.SIGTERM}


@dataclass(frozen=True)
class Command:
    """A command, how it is repeated, and what it leaves.

    Attributes:
        words: its arguments, in a folder with the graph ``g.npz`` and the finished run ``done``.
        again: its arguments after it was stopped.
        results: function that returns what must not depend on what happened, from the folder.
    """

    words: list[str]
    again: list[str]
    results: Callable[[Path], Any]


def commands() -> dict[str, Command]:
    """Return the commands by name. ``paper`` needs a named graph on the disk."""
    embed = ["embed", "g.npz", "--method", "epagcl", "--out", "z.npy", "--save", "m", "--overwrite", "--map", "none"]
    embed += SMALL
    compare = ["compare", "g.npz", "--methods", "dgi", "--seeds", "2", "--protocols", "strict", "--out", "c"]
    compare += ["--save", "all.json", "--epochs", "2", "--dim", "4", "--device", "cpu", "--quiet"]
    tune = ["tune", "g.npz", "--method", "epagcl", "--trials", "2", "--seeds", "1", "--no-test", "--out", "t", *SMALL]
    report = ["report", "done", "--out", "r.html", "--map", "none", "--quiet"]
    chosen = {
        "embed": Command(embed, embed, lambda place: _bytes(place, "z.npy", "z.ids.txt", "m/model.safetensors")),
        "compare": Command(compare, compare, lambda place: _values(place / "all.json")),
        "tune": Command(tune, [*tune, "--resume"], lambda place: _bytes(place / "t", "best.toml")),
        "report": Command(report, report, lambda place: (place / "r.html").read_text().endswith("</html>\n")),
    }
    if Path(os.environ.get("EPAGCL_DATA", ""), "Texas.npz").is_file():
        paper = ["paper", "epr", "--datasets", "texas", "--out", "p", "--device", "cpu", "--quiet"]
        chosen["paper"] = Command(paper, paper, lambda place: _values(place / "p" / "epr.json"))
    return chosen


def command_faults(folder: Path, cases: int, seed: int) -> Tally:
    """Stop commands at their n-th step of writing, or at a random moment, repeat them, and compare the results.

    Args:
        folder: an empty folder.
        cases: number of faults.
        seed: seed of the moments.
    """
    rng, tally = np.random.default_rng(seed), Tally(seed)
    template = folder / "template"
    template.mkdir()
    write_npz(DATA, template / "g.npz")
    assert child(lambda: train(template / "done"), seconds=LONGEST) == 0
    known = {name: _whole(name, command, template, folder) for name, command in commands().items()}
    for case in range(cases):
        name = list(known)[case % len(known)]
        command, (expected, duration, steps) = commands()[name], known[name]
        place = folder / f"case-{case}"
        shutil.copytree(template, place)
        kind = KINDS[case // len(known) % len(KINDS)]
        step, after = int(rng.integers(1, steps + 1)), float(rng.uniform(0, duration))
        fault = {"SIGKILL at a step": _die, "disk full at a step": _fill}.get(kind)
        run = _in(place, command.words)
        if fault is not None:
            code = child(lambda run=run, step=step, fault=fault: (_hook(step, fault), run()), seconds=LONGEST)
        else:
            code = child(run, kill_after=after, signal_number=_SIGNALS[kind], seconds=LONGEST)
        failure = f"exit code {code}" if fault is _fill and code not in (0, REFUSED) else None
        failure = failure or _repeat(command, place, expected)
        tally.add(f"{name}, {kind}", "same result", failure and f"step {step}, {after:.2f} s: {failure}")
        shutil.rmtree(place)
    return tally


def _whole(name: str, command: Command, template: Path, folder: Path) -> tuple[Any, float, int]:
    """Return the results of an undisturbed command, its duration, and its number of steps of writing."""
    place, start = folder / f"whole-{name}", time.monotonic()
    shutil.copytree(template, place)

    def counted() -> None:
        steps = _hook(0, lambda: None)
        _in(place, command.words)()
        (folder / f"steps-{name}").write_text(str(len(steps)))

    assert child(counted, seconds=LONGEST) == 0, name
    return command.results(place), time.monotonic() - start, int((folder / f"steps-{name}").read_text())


def _repeat(command: Command, place: Path, expected: Any) -> str | None:
    """Run a command again after a fault. Return what is wrong, if anything."""
    started = (place / "t").exists() and any((place / "t").iterdir())
    words = command.again if command.again is command.words or started else command.words
    code = child(_in(place, words), seconds=LONGEST)
    if code != 0:
        return f"exit code {code} when repeated"
    left = [path.name for path in place.rglob(".*") if path.name != ".lock"]
    if left:
        return f"left behind: {left}"
    return None if command.results(place) == expected else "another result"


def _in(place: Path, words: list[str]) -> Callable[[], None]:
    """Return a function that runs a command in a folder. Its exit codes become exceptions."""

    def run() -> None:
        from epagcl.cli.app import app

        os.chdir(place)
        try:
            code = app(words, standalone_mode=False)
        except OSError as error:
            raise InputError(str(error)) from None  # the command line prints it as one line
        assert not isinstance(code, int) or code == 0, code

    return run


def _hook(step: int, fault: Callable[[], None]) -> list[int]:
    """Let a fault happen at the n-th renaming of a file or waiting for the disk. Return the list of steps so far."""
    steps: list[int] = []

    def counting(function: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            steps.append(1)
            if len(steps) == step:
                fault()
            return function(*arguments, **options)

        return call

    files.os.replace, files._sync = counting(os.replace), counting(files._sync)
    return steps


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _fill() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _bytes(folder: Path, *names: str) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in names}


def _values(path: Path) -> Any:
    """Return the content of a JSON file without the values that differ between runs."""

    def kept(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: kept(part) for key, part in value.items() if not any(word in key for word in VARYING)}
        return [kept(part) for part in value] if isinstance(value, list) else value

    return kept(json.loads(path.read_text()))
