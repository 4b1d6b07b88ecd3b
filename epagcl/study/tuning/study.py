"""The search of settings: :func:`tune` checks its arguments, prepares the splits and runs the trials."""

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.core.hardware import resolve_device
from epagcl.core.log import log
from epagcl.core.progress import Progress, SilentProgress
from epagcl.data.checking import check
from epagcl.data.graph import Graph
from epagcl.data.identity import split_digest
from epagcl.methods import method as method_class
from epagcl.methods.base import Method
from epagcl.methods.settings import warn_of_old_names
from epagcl.study.tuning.bar import SearchBar
from epagcl.study.tuning.criterion import FEW_NODES, STRICT_RATIOS, Criterion, splits_with_one_test
from epagcl.study.tuning.journal import need_optuna, open_study, prepare_folder, process_lock, quiet_optuna
from epagcl.study.tuning.result import Tuning
from epagcl.study.tuning.search import Search
from epagcl.study.tuning.space import Space, space_of, space_words

LOOKS = 10  # evaluations during the longest training; the number of epochs is chosen among them
WARM_UP = 2  # evaluations before a trial can be pruned


def tune(
    data: Data,
    method: str | type[Method] = "epagcl",
    *,
    trials: int = 30,
    minutes: float | None = None,
    seeds: int = 2,
    seed: int = 0,
    space: Mapping[str, Any] | Sequence[str] | None = None,
    start: Mapping[str, Any] | None = None,
    protocol: str = "strict",
    ratios: tuple[float, float] = STRICT_RATIOS,
    test: bool = True,
    folder: str | Path | None = None,
    resume: bool = False,
    name: str | None = None,
    work: Progress | None = None,
    progress: bool = False,
    **settings: Any,
) -> Tuning:
    """Search a method's settings by validation accuracy; test labels are hidden from the search.

    Trial 0 has the settings ``start``. Optuna's TPE draws the others from the results of earlier trials. Each trial
    trains one model per seed. The first model is evaluated ten times during training, and the trial is pruned if it is
    below the median of earlier trials. The same seed gives the same trials, whether or not the search was interrupted.

    Args:
        data: the graph; some nodes must have labels.
        method: name or class of the method.
        trials: number of trials, including those of a resumed study.
        minutes: time limit of the trials. A trial that is running then is interrupted and does not count, unless none
            is complete yet. The closing test comes later.
        seeds: models per trial, with the seeds ``seed``, ``seed`` + 1, ...
        seed: seed of the models, the split and the search.
        space: settings to search: name → "low:high", "low:high:log", (low, high), or a list of values; None: the
            method's default space.
        start: settings of trial 0, and the baseline of the closing test; None: the method's defaults.
        protocol: strict, or public for the first published split.
        ratios: shares of labelled nodes for training and for validation.
        test: at the end, train the default and the tuned settings once more and read their test accuracy.
        folder: folder for the study and for best.toml, trials.csv and metrics.json; processes may share it. None: keep
            the study in memory.
        resume: continue the study in the folder, or join other processes that work on it.
        name: name of the graph in messages and files.
        work: receives the progress.
        progress: show trials, the best accuracy so far and the time left, in notebooks and in terminals.
        settings: fixed settings of the method, which are not searched.

    Examples:
        >>> from epagcl.data import block_model
        >>> graph = block_model(120, num_classes=2, num_features=10, topic_words=5, words_per_node=3)
        >>> small = {"epochs": 1, "hidden": 8, "dim": 8, "projection": 8, "device": "cpu", "ratios": (0.4, 0.5)}
        >>> result = tune(graph, "grace", trials=1, seeds=1, space={"lr": "1e-3:1e-1:log"}, test=False, **small)
        >>> result.trials[0]["settings"]
        {'lr': 0.001}
    """
    cls = method_class(method if isinstance(method, str) else getattr(method, "name", repr(method)))
    _check_arguments(data, trials, minutes, seeds, ratios, folder, resume)
    settings = warn_of_old_names(settings)
    first = _start_model(cls, {**warn_of_old_names(dict(start or {})), **settings}, seed)
    searched = space_of(cls, space, first, fixed=settings)
    name = name or data.get("name") or "graph"
    need_optuna()
    criterion = _criterion(
        _labelled_graph(data, name), name, protocol, ratios, seed, seeds, _most_epochs(searched, first)
    )
    identity = _identity(criterion, searched, first, protocol, ratios)
    folder = None if folder is None else Path(folder)
    if folder is not None:
        prepare_folder(folder, resume)
    with _shown(work, progress, cls.title) as work, quiet_optuna(), process_lock(folder) as process:
        study = open_study(folder, identity, seed, warm_up=WARM_UP * criterion.every)
        search = Search(study, criterion, first, searched, identity, name, work, folder, process)
        work.deadline = None if minutes is None else time.monotonic() + 60 * minutes
        search.run(trials)
        search.close(test)
        result = search.result()
    if folder is not None:
        search.write_metrics(result, folder)
    return result


@contextmanager
def _shown(work: Progress | None, progress: bool, title: str) -> Iterator[Progress]:
    """Yield what receives the progress: the caller's object, or a bar if it is asked for."""
    if work is not None and progress:
        raise InputError("progress=True: work= receives the progress; give one of the two")
    if not progress:
        yield work or SilentProgress()
        return
    with closing(SearchBar(title)) as bar:
        yield bar


def _check_arguments(
    data: Data,
    trials: int,
    minutes: float | None,
    seeds: int,
    ratios: Sequence[float],
    folder: str | Path | None,
    resume: bool,
) -> None:
    """Raise if an argument of :func:`tune` is wrong by itself."""
    for name, number in (("trials", trials), ("seeds", seeds)):
        if not isinstance(number, int) or number < 1:
            raise InputError(f"{name}={number}: must be a whole number, 1 or more")
    if minutes is not None and not minutes > 0:
        raise InputError(f"minutes={minutes:g}: must be positive")
    if resume and folder is None:
        raise InputError("resume: a study in memory cannot be resumed; give the folder of the study")
    if not isinstance(ratios, Sequence) or len(ratios) != 2:
        raise InputError(f"ratios={ratios}: give two shares, such as (0.1, 0.1)")
    if not isinstance(data, Data):
        check(data)  # raises, and names the accepted type


def _start_model(cls: type[Method], settings: dict[str, Any], seed: int) -> Method:
    """Return the model of the start's settings. Raise if one is unknown or wrong, or if its device is missing."""
    settings = {name: value for name, value in settings.items() if name not in ("name", "source")}
    if unknown := settings.keys() - {field.name for field in cls.setting_fields()}:
        raise InputError(f"{cls.name} has no setting {min(unknown)!r}; `epagcl methods {cls.name}` lists them")
    model = cls(**{**settings, "seed": seed})
    resolve_device(model.device)
    return model


def _labelled_graph(data: Data, name: str) -> Data:
    """Return the checked graph. Raise if no node has a label."""
    graph = check(data, quiet=True)
    if graph.y is None or not (graph.y >= 0).any():
        raise InputError(
            f"{name}: tuning needs labels on some nodes (a few per class are enough); "
            "give labels, or keep the default settings, which need none"
        )
    return graph


def _most_epochs(space: Space, start: Method) -> int:
    return int(max(space["epochs"].ends)) if "epochs" in space else start.epochs


def _criterion(
    graph: Data, name: str, protocol: str, ratios: tuple[float, float], seed: int, seeds: int, most_epochs: int
) -> Criterion:
    """Return the criterion on the splits of all seeds. Warn if there are few validation nodes."""
    splits = splits_with_one_test(graph, protocol, ratios, seed, seeds)
    validation_nodes = splits[0].val.numel()
    if validation_nodes < FEW_NODES:
        advice = "" if protocol == "public" else "; other ratios, such as 0.4,0.3, give more"
        log.warning("%s: %d validation nodes; small differences can be chance%s", name, validation_nodes, advice)
    return Criterion(graph, splits, every=max(1, -(-most_epochs // LOOKS)))


def _identity(
    criterion: Criterion, space: Space, start: Method, protocol: str, ratios: tuple[float, float]
) -> dict[str, Any]:
    """Return what all processes of a study, and a resumed one, must have in common."""
    settings = start.settings()
    published = {"published_splits": split_digest(criterion.data)} if protocol == "public" else {}
    return {
        "space": space_words(space),
        "start": {name: value for name, value in settings.items() if name not in ("device", "capture")},
        "graph": Graph.from_data(criterion.data).fingerprint,
        "labels": hashlib.sha256(criterion.hidden.y.cpu().numpy().tobytes()).hexdigest()[:16],
        "protocol": protocol,
        "split": "published" if protocol == "public" else _split_words(ratios, start.seed),
        **published,
        "seeds": len(criterion.splits),
    }


def _split_words(ratios: tuple[float, float], seed: int) -> str:
    shares = [100 * ratio for ratio in (*ratios, 1 - sum(ratios))]
    return f"random {'/'.join(f'{share:.3g}' for share in shares)}, seed {seed}"
