"""Optuna's part of a search: the study and its file, the draw of settings, and which trials count.

A trial that was interrupted, by Ctrl-C, the clock or a kill, stays in the file as failed without a reason, and does not
count: the one that takes its place has its rank, draws the same settings, and the study goes on as if nothing had been.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from epagcl.core.errors import InputError, MissingExtra
from epagcl.core.hashing import fold
from epagcl.runs.folder import claim
from epagcl.study.store import locked

if TYPE_CHECKING:
    from optuna import Study
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial

JOURNAL = "study.journal"
STARTUP = 5  # finished trials before hopeless ones are stopped


def need_optuna() -> ModuleType:
    """Optuna, or how to get it."""
    try:
        import optuna
    except ImportError:
        raise MissingExtra("optuna", "tune", "the search for settings") from None
    return optuna


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Optuna's own log is silent within."""
    logging = need_optuna().logging
    before = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(before)


def claim_folder(folder: Path, resume: bool) -> None:
    """Make a folder ready for a study; refuse to mix two, and to resume none."""
    if resume and not (folder / JOURNAL).is_file():
        raise InputError(f"{folder}: no study to resume; leave out --resume to start one")
    if not resume:
        if folder.is_dir() and any(folder.iterdir()):
            raise InputError(f"{folder}: already there; give another --out, or --resume to go on with its study")
        claim(folder)


@contextmanager
def process_lock(folder: Path | None) -> Iterator[str]:
    """A name for this process, locked while it lives, so that others can tell its trials from those of the dead."""
    name = uuid.uuid4().hex[:12]
    if folder is None:
        yield name
        return
    with locked(folder / f"{name}.lock"):
        yield name


def open_study(folder: Path | None, identity: dict[str, Any], seed: int, warm_up: int) -> "Study":
    """The study of a folder, or a new one; it must be of the same graph, method, space and seeds."""
    import optuna
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock, JournalStorage

    storage = None
    if folder is not None:
        file = str(folder / JOURNAL)
        storage = JournalStorage(JournalFileBackend(file, JournalFileOpenLock(file)))
    study = optuna.create_study(
        study_name="epagcl",
        direction="maximize",
        storage=storage,
        load_if_exists=True,
        sampler=_sampler(seed),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP, n_warmup_steps=warm_up),
    )
    saved = study.user_attrs.get("identity")
    if saved is None:
        study.set_user_attr("identity", identity)
    elif changed := [key for key in identity if saved.get(key) != identity[key]]:
        then, now = _difference(saved.get(changed[0]), identity[changed[0]])
        raise InputError(
            f"{folder}: its study has another {changed[0]} ({then}, now {now}); "
            "go on with the same, or give another --out"
        )
    if folder is not None:
        _fail_orphaned_trials(study, folder)
    return study


def counted(study: "Study") -> "list[FrozenTrial]":
    """The trials that count, in order: finished or under way, not the interrupted ones."""
    trials = study.get_trials(deepcopy=False)
    return [
        t for t in trials if t.state.name != "WAITING" and not (t.state.name == "FAIL" and "reason" not in t.user_attrs)
    ]


def rank(study: "Study", number: int) -> int:
    """How many trials that count came before."""
    return sum(trial.number < number for trial in counted(study))


def best_of(study: "Study") -> "FrozenTrial | None":
    """The trial of the highest value, the earliest of equals; None if none is complete."""
    complete = [trial for trial in counted(study) if trial.state.name == "COMPLETE"]
    return max(complete, key=lambda trial: (trial.value, -trial.number), default=None)


def give_up(study: "Study", number: int) -> None:
    """Leave a trial unfinished: it does not count."""
    from optuna.trial import TrialState

    study.tell(number, state=TrialState.FAIL)


def others_running(study: "Study") -> bool:
    """Whether another process is at a trial."""
    return any(trial.state.name == "RUNNING" for trial in study.get_trials(deepcopy=False))


def _fail_orphaned_trials(study: "Study", folder: Path) -> None:
    """Give up the trials of processes that are no more."""
    for trial in study.get_trials(deepcopy=False):
        if trial.state.name == "RUNNING":
            with locked(folder / f"{trial.user_attrs.get('process', 'unknown')}.lock") as dead:
                if dead:
                    give_up(study, trial.number)


def _difference(then: Any, now: Any) -> tuple[Any, Any]:
    """Of two tables, the first entry that differs."""
    if not isinstance(then, dict) or not isinstance(now, dict):
        return then, now
    key = next(key for key in {**then, **now} if then.get(key) != now.get(key))
    return f"{key}={then.get(key)}", f"{key}={now.get(key)}"


def _sampler(seed: int) -> "BaseSampler":
    """TPE whose draws depend on the seed, the trial's rank and the trials before it alone, not on what was drawn."""
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
