"""Optuna's part of a search: the study and its journal file, the sampler, and which trials count.

A trial that was interrupted by Ctrl-C, the deadline or a kill stays in the journal as failed without a reason, and does
not count. The trial that replaces it has its rank and draws the same settings, so the study continues as if it had not
been interrupted.
"""

import os
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO

from epagcl.core.config import RENAMED_SETTINGS, current_settings, current_value
from epagcl.core.errors import InputError, MissingExtra
from epagcl.core.files import is_leftover, locked
from epagcl.core.hashing import fold
from epagcl.core.locks import try_lock
from epagcl.runs.folder import claim
from epagcl.study.shapes import fits
from epagcl.study.tuning.space import Choice, Space

if TYPE_CHECKING:
    from optuna import Study
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial

JOURNAL = "study.journal"
#: The files that a search writes beside its journal.
TABLES = ("best.toml", "metrics.json", "trials.csv")
LOCK_SUFFIX = ".lock"
#: The lock of a folder, and those of :func:`process_lock`.
OWN_LOCK = re.compile(r"([0-9a-f]{12})?\.lock")
_TAIL_BYTES = 1 << 16
#: Errors of Optuna for a journal with lines that it has not written.
DAMAGED = (ValueError, LookupError, TypeError, AttributeError, AssertionError)
LOCK_SECONDS = 60.0  # a writer of the journal holds its lock for milliseconds
STARTUP = 5  # finished trials before others can be pruned


def need_optuna() -> ModuleType:
    """Return the module optuna. Raise if it is not installed."""
    try:
        import optuna
    except ImportError:
        raise MissingExtra("optuna", "tune", "the search for settings") from None
    return optuna


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Silence Optuna's own log within the block."""
    logging = need_optuna().logging
    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


def prepare_folder(folder: Path, resume: bool) -> None:
    """Create the folder of a new study, or check that the study in it can be continued.

    A folder that holds no study yet counts as new: a search that is killed at once leaves its lock and an empty
    journal. With ``resume``, the tables of a study whose journal was removed do not matter either.

    Args:
        folder: the folder; a new study needs a new or an empty one.
        resume: whether to continue the study in the folder.
    """
    if resume and not folder.is_dir():
        raise InputError(f"{folder}: no study to resume; leave out resume=True to start one")
    if folder.is_dir():
        files = {file.name for file in folder.iterdir() if not OWN_LOCK.fullmatch(file.name) and not is_leftover(file)}
        if not _has_study(folder):
            files.discard(JOURNAL)
            if files - set(TABLES):
                raise InputError(f"{folder}: holds other files and no study; give another folder=")
        if resume:
            return
        if files or _has_live_process(folder):
            raise InputError(f"{folder}: already exists; give another folder=, or resume=True to continue its study")
        (folder / JOURNAL).unlink(missing_ok=True)
    claim(folder)


def _has_study(folder: Path) -> bool:
    """Return whether the journal of a folder has a whole line."""
    journal = folder / JOURNAL
    if not journal.is_file():
        return False
    with journal.open("rb") as file:
        return file.readline().endswith(b"\n")


def _has_live_process(folder: Path) -> bool:
    """Return whether a process works on the study of a folder. Remove the locks of ended processes."""
    in_use = False
    for path in [path for path in folder.iterdir() if OWN_LOCK.fullmatch(path.name)]:
        with locked(path) as owner_has_ended:
            in_use |= not owner_has_ended
    return in_use


@contextmanager
def process_lock(folder: Path | None) -> Iterator[str]:
    """Hold a lock while this process works on a study. The value is the name of the process.

    Other processes recognise by the lock whether a running trial belongs to a live process.
    """
    name = uuid.uuid4().hex[:12]
    if folder is None:
        yield name
        return
    with locked(folder / f"{name}{LOCK_SUFFIX}"):
        yield name


class JournalLock:
    """A lock on the journal for its writers, which the operating system releases when a process ends.

    Optuna's own locks are files. One that a killed process leaves makes the others wait for half a minute, and one that
    cannot be renamed, as on a full disk, ends in an error about the lock.

    Args:
        file: the journal.
    """

    def __init__(self, file: Path):
        self.file = file

    def acquire(self) -> bool:
        """Wait for the lock."""
        journal = self.file.open("ab+")
        deadline = time.monotonic() + LOCK_SECONDS
        while not try_lock(journal):
            if time.monotonic() > deadline:
                journal.close()
                raise InputError(f"{self.file}: another process has locked it for {LOCK_SECONDS:.0f} s; end it first")
            time.sleep(0.005)
        self._end_last_line(journal)
        self._journal = journal  # now, since the holder before may be another thread, which closes its own
        return True

    def _end_last_line(self, journal: BinaryIO) -> None:
        """Remove a line that was cut short, by a full disk or a kill, so that the next one is not glued to it."""
        end = journal.seek(0, os.SEEK_END)
        start, tail = end, b""
        while start > 0 and b"\n" not in tail:
            start = max(start - _TAIL_BYTES, 0)
            journal.seek(start)
            tail = journal.read(end - start)
        if (whole := start + tail.rfind(b"\n") + 1) < end:
            journal.truncate(whole)

    def release(self) -> None:
        """Give the lock to others."""
        self._journal.close()


def open_study(folder: Path | None, identity: dict[str, Any], seed: int, warm_up: int) -> "Study":
    """Open the study of a folder, or create one. Raise if its graph, start, space or seeds differ.

    Args:
        folder: the folder; None: a study in memory.
        identity: what all processes of the study must have in common, such as the graph and the space.
        seed: seed of the sampler.
        warm_up: epochs before a trial can be pruned.
    """
    study = _read_study(folder, seed, warm_up)
    saved = study.user_attrs.get("identity")
    if saved is None:
        study.set_user_attr("identity", identity)
        saved = identity
    saved = {
        **saved,
        "start": current_settings(saved.get("start", {})),
        "space": _current_words(saved.get("space", {})),
    }
    if "published_splits" not in saved:  # studies of earlier versions do not record the masks
        saved["published_splits"] = identity.get("published_splits")
    if changed := [key for key in identity if saved.get(key) != identity[key]]:
        then, now = _difference(saved.get(changed[0]), identity[changed[0]])
        raise InputError(
            f"{folder}: its study has another {changed[0]} ({then}, now {now}); use the same, or give another folder="
        )
    if folder is not None:
        _fail_orphaned_trials(study, folder)
    return study


def _read_study(folder: Path | None, seed: int, warm_up: int) -> "Study":
    """Return the study of a folder, or a new one. Raise if its journal is damaged."""
    import optuna

    try:
        study = optuna.create_study(
            study_name="epagcl",
            direction="maximize",
            storage=None if folder is None else _storage(folder / JOURNAL),
            load_if_exists=True,
            sampler=_sampler(seed),
            pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP, n_warmup_steps=warm_up),
        )
        identity = study.user_attrs.get("identity")
        if not fits(identity, (None, {"start?": dict, "space?": {str: str}})):
            raise ValueError("the identity is damaged")
        return study
    except InputError:
        raise
    except DAMAGED:
        if folder is None:
            raise
        raise InputError(f"{folder / JOURNAL}: is damaged; delete it to start over, or give another folder=") from None


def _storage(journal: Path) -> Any:
    """Return Optuna's storage in a journal."""
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock, JournalStorage

    # Windows lets nobody read the locked bytes of a file.
    lock: Any = JournalFileOpenLock(str(journal)) if os.name == "nt" else JournalLock(journal)
    return JournalStorage(JournalFileBackend(str(journal), lock))


def parameter_names(study: "Study") -> dict[str, str]:
    """Return the name in the journal of each searched setting.

    A study of an earlier version keeps the former names of settings, so that its sampler learns from all its trials.
    """
    return {RENAMED_SETTINGS.get(name, name): name for name in study.user_attrs["identity"]["space"]}


def parameter_values(study: "Study", space: Space) -> Space:
    """Return the space with the values in the journal.

    A study of an earlier version keeps the former values of settings. Optuna allows no other values in a choice.
    """
    words = {RENAMED_SETTINGS.get(name, name): text for name, text in study.user_attrs["identity"]["space"].items()}
    return {
        name: values if str(values) == words[name] else Choice(tuple(words[name].split(",")))
        for name, values in space.items()
    }


def counted_trials(study: "Study") -> "list[FrozenTrial]":
    """Return the trials that count, in order: finished or running, but not interrupted."""
    trials = study.get_trials(deepcopy=False)
    return [
        t for t in trials if t.state.name != "WAITING" and not (t.state.name == "FAIL" and "reason" not in t.user_attrs)
    ]


def rank(study: "Study", number: int) -> int:
    """Return the number of counted trials before trial ``number``."""
    return sum(trial.number < number for trial in counted_trials(study))


def best_trial(study: "Study") -> "FrozenTrial | None":
    """Return the complete trial of the highest value, the earliest of equals, or None if there is none."""
    complete = [trial for trial in counted_trials(study) if trial.state.name == "COMPLETE"]
    return max(complete, key=lambda trial: (trial.value, -trial.number), default=None)


def give_up(study: "Study", number: int) -> None:
    """Mark a trial as interrupted, so that it does not count."""
    from optuna.trial import TrialState

    study.tell(number, state=TrialState.FAIL)


def others_running(study: "Study") -> bool:
    """Return whether another process is running a trial."""
    return any(trial.state.name == "RUNNING" for trial in study.get_trials(deepcopy=False))


def _fail_orphaned_trials(study: "Study", folder: Path) -> None:
    """Mark the running trials of ended processes as interrupted."""
    for trial in study.get_trials(deepcopy=False):
        if trial.state.name == "RUNNING":
            with locked(folder / f"{trial.user_attrs.get('process', 'unknown')}{LOCK_SUFFIX}") as owner_has_ended:
                if owner_has_ended:
                    give_up(study, trial.number)


def _current_words(space: dict[str, str]) -> dict[str, str]:
    """Return a space in words with the current names and values of settings."""
    return {
        name: ",".join(current_value(name, value) for value in words.split(","))
        for name, words in current_settings(space).items()
    }


def _difference(then: Any, now: Any) -> tuple[Any, Any]:
    """Return the first entries in which two dictionaries differ; other values unchanged."""
    if not isinstance(then, dict) or not isinstance(now, dict):
        return then, now
    key = next(key for key in {**then, **now} if then.get(key) != now.get(key))
    return f"{key}={then.get(key)}", f"{key}={now.get(key)}"


def _sampler(seed: int) -> "BaseSampler":
    """Return a TPE sampler whose draws depend only on the seed, the rank of the trial, and the trials before it."""
    return _seeded_tpe()(seed)


@cache
def _seeded_tpe() -> type:
    from optuna.samplers import BaseSampler, TPESampler

    class SeededTPE(BaseSampler):
        def __init__(self, seed: int):
            self.seed = seed

        def before_trial(self, study: Any, trial: Any) -> None:
            self.tpe = TPESampler(seed=fold((self.seed, rank(study, trial.number))) % 2**32)
            self.tpe.before_trial(study, trial)

        def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
            return self.tpe.infer_relative_search_space(study, trial)

        def sample_relative(self, study: Any, trial: Any, search_space: dict[str, Any]) -> dict[str, Any]:
            return self.tpe.sample_relative(study, trial, search_space)

        def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
            return self.tpe.sample_independent(study, trial, param_name, param_distribution)

    return SeededTPE
