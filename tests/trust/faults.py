"""Processes that are killed, disks that are full, and folders that are shared: no result is wrong, lost or mixed."""

import os
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np

from epagcl import EPAGCL
from epagcl.core import files
from epagcl.core.errors import InputError
from epagcl.core.log import log
from epagcl.data import block_model
from epagcl.runs import Plan, run
from epagcl.runs.folder import claim
from epagcl.training import checkpoint
from tests.trust.cases import SECONDS, Tally

DATA = block_model(60, num_classes=3, num_features=40, topic_words=10, words_per_node=6, seed=3)
#: Exit code of a child that ended in one line for the user.
REFUSED = 2


def train(folder: Path, *, resume: bool = False, overwrite: bool = False) -> None:
    """Train a small model and write its run folder, with a checkpoint after each epoch."""
    checkpoint.CHECKPOINT_SECONDS = 0.0
    claim(folder, resume=resume, overwrite=overwrite)
    method = EPAGCL(epochs=3, hidden=8, dim=4, projection=4, device="cpu")
    run(DATA, method, folder, plan=Plan(runs=1), map_kind="none")


def child(
    action: Callable[[], object],
    kill_after: float | None = None,
    *,
    signal_number: signal.Signals = signal.SIGKILL,
    seconds: float = SECONDS,
) -> int:
    """Run an action in a child process. Return its exit code, or the negative number of the signal that ended it.

    Args:
        action: what the child does.
        kill_after: seconds after which it gets a signal; None: never.
        signal_number: the signal.
        seconds: longest time.
    """
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            log.setLevel("CRITICAL")
            action()
            code = 0
        except InputError:
            code = REFUSED
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(pid, signal_number)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise TimeoutError(f"the child took more than {seconds:g} s")


def kills(folder: Path, cases: int, seed: int) -> Tally:
    """Kill a training at its n-th step of writing or at a random moment, resume it, and compare the results.

    Args:
        folder: an empty folder.
        cases: number of kills.
        seed: seed of the moments.
    """
    rng, tally = np.random.default_rng(seed), Tally(seed)
    start = time.monotonic()
    assert child(lambda: train(folder / "whole")) == 0
    duration = time.monotonic() - start
    expected = _results(folder / "whole")
    for case in range(cases):
        place = folder / f"killed-{case}"
        if case % 2:
            kind, after = "kill at a random moment", float(rng.uniform(0, duration))
            child(lambda place=place: train(place), kill_after=after)
        else:
            kind, step = "kill at a step of writing", case // 2 + 1
            child(lambda place=place, step=step: _killed_at(step, lambda: train(place)))
        again = (place / "config.toml").exists()
        code = child(lambda place=place, again=again: train(place, resume=again))
        left = [path.name for path in place.iterdir() if path.name.startswith((".", "checkpoint"))]
        failure = None
        if code != 0:
            failure = f"exit code {code} after the kill"
        elif left:
            failure = f"left behind: {left}"
        elif _results(place) != expected:
            failure = "results differ from those of an undisturbed run"
        tally.add(kind, "same bits", failure)
        shutil.rmtree(place)
    return tally


def _killed_at(step: int, action: Callable[[], object]) -> None:
    """Run an action, and kill this process at its n-th renaming of a file or waiting for the disk."""
    calls = iter(range(1, 10**9))

    def dying(function: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            if next(calls) == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)

        return call

    files.os.replace, files._sync = dying(os.replace), dying(files._sync)
    action()


def full_disks(folder: Path, cases: int, seed: int) -> Tally:
    """Limit the size of files to many sizes. A training ends in one line, and no file is half-written.

    Args:
        folder: an empty folder.
        cases: number of limits.
        seed: seed of the limits.
    """
    rng, tally = np.random.default_rng(seed), Tally(seed)
    assert child(lambda: train(folder / "whole")) == 0
    whole = _results(folder / "whole")
    for case in range(cases):
        place, limit = folder / f"full-{case}", int(10 ** rng.uniform(1, 6.7))

        def limited(place: Path = place, limit: int = limit) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            train(place)

        code = child(limited)
        hidden = [path.name for path in place.iterdir() if path.name.startswith(".")] if place.exists() else []
        failure = None
        if code not in (0, REFUSED):
            failure = f"exit code {code} with files of at most {limit} bytes"
        elif hidden:
            failure = f"left behind: {hidden}"
        elif code == 0 and _results(place) != whole:
            failure = "results differ"
        elif code == REFUSED:  # with space again, the run continues to the same result
            again = (place / "config.toml").exists()
            code = child(lambda place=place, again=again: train(place, resume=again))
            failure = None if code == 0 and _results(place) == whole else f"not resumed (exit code {code})"
        tally.add("full disk", "one line" if code == REFUSED else "finished", failure)
        shutil.rmtree(place, ignore_errors=True)
    return tally


def shared_folders(folder: Path, cases: int, seed: int) -> Tally:
    """Let three processes overwrite one run folder at the same time. One run remains, whole.

    Args:
        folder: an empty folder.
        cases: number of times.
        seed: seed of the moments at which they start.
    """
    rng, tally = np.random.default_rng(seed), Tally(seed)
    assert child(lambda: train(folder / "whole")) == 0
    expected = _results(folder / "whole")
    for case in range(cases):
        place, pauses = folder / f"shared-{case}", rng.uniform(0, 0.5, 3)

        def late(pause: float, place: Path = place) -> None:
            time.sleep(pause)
            train(place, overwrite=True)

        pids = []
        for pause in pauses:
            pid = os.fork()
            if pid == 0:
                os._exit(child(lambda pause=pause: late(float(pause))) % 256)
            pids.append(pid)
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
        failure = None
        if not set(codes) <= {0, REFUSED} or 0 not in codes:
            failure = f"exit codes {codes}"
        elif _results(place) != expected:
            failure = "results differ from those of one process"
        tally.add("three processes, one folder", "one whole run", failure)
        shutil.rmtree(place)
    return tally


def _results(folder: Path) -> dict[str, bytes | None]:
    """Return the bytes of the results of a run that must not depend on what happened."""
    names = ("embeddings.npy", "embeddings.ids.txt", "model.safetensors", "config.toml")
    return {name: (folder / name).read_bytes() if (folder / name).exists() else None for name in names} | {
        "finished": b"yes" if (folder / "metrics.json").exists() and (folder / "history.csv").exists() else None
    }
