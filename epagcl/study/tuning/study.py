"""The search: trials that learn from one another, a folder that others may share, and what came out."""

import hashlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch_geometric.data import Data

from epagcl.core.config import write_config
from epagcl.core.errors import InputError, TrainingError
from epagcl.core.files import atomic_path, write_json
from epagcl.core.hardware import resolve_device
from epagcl.core.log import log
from epagcl.core.progress import Progress, SilentProgress
from epagcl.data.checking import check
from epagcl.data.graph import Graph
from epagcl.methods import method as method_class
from epagcl.methods.base import Method
from epagcl.runs.provenance import describe, provenance
from epagcl.study.tuning.criterion import FEW, STRICT_RATIOS, Criterion, splits_with_one_test
from epagcl.study.tuning.journal import (
    best_of,
    claim_folder,
    counted,
    give_up,
    need_optuna,
    open_study,
    others_running,
    process_lock,
    quiet_optuna,
    rank,
)
from epagcl.study.tuning.space import Space, space_of, space_words

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.trial import FrozenTrial


LOOKS = 10  # at the embedding during the longest training; the number of epochs is one of these
WARM_UP = 2  # looks before a trial is stopped
FOR_IMPORTANCE = 10  # finished trials that say something about which settings matter


@dataclass(frozen=True)
class Tuning:
    """What a search has found.

    Attributes:
        method: the class whose settings were searched.
        best: the best settings on validation nodes, all of them; ``epochs`` is chosen too.
        trials: a row for each trial in order: state (complete, pruned, failed), validation accuracy (mean and each
            seed's), epochs, seconds, its settings, and the reason where it came to nothing.
        importance: share of each setting in the variation of validation accuracy (fANOVA); empty for few trials.
        scores: of the default and of the tuned settings, validation and test accuracy; None if the test was not read.
        search: how it was searched: space, seeds, splits, counts and seconds.
    """

    method: type[Method]
    best: dict[str, Any]
    trials: list[dict[str, Any]]
    importance: dict[str, float]
    scores: dict[str, Any] | None
    search: dict[str, Any]

    def estimator(self, **settings: Any) -> Method:
        """The method with the best settings, to be trained; further settings, such as a seed, take their place."""
        return self.method(**{**self.best, **settings})

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        found = {"name": self.method.name, **self.best}
        return {"best": found, "scores": self.scores, "importance": self.importance, "search": self.search}


def tune(
    data: Data,
    method: "str | type[Method]" = "epagcl",
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
    **settings: Any,
) -> Tuning:
    """Search a method's settings by validation accuracy; test labels are hidden from the search.

    Trial 0 has the start's settings; the others are drawn by Optuna's TPE from what was found before. Each trains one
    model per seed; the first is looked at ten times, and a trial below the median of the earlier ones is stopped.
    The same seed gives the same trials, whether or not the search was interrupted in between.

    Args:
        data: the graph; some nodes must have labels.
        method: its name, or its class.
        trials: how many, counting those of a study that goes on.
        minutes: begin no trial after so long; the one under way is given up. The closing step comes after.
        seeds: models per trial, of the seeds ``seed``, ``seed`` + 1, ...
        seed: of the models, the split and the search.
        space: what to search: name → "low:high", "low:high:log", (low, high), or a list of values; None: the method's
            default space.
        start: settings to start from and to hold the result against; else the method's defaults.
        protocol: strict, or public for the first published split.
        ratios: shares of labelled nodes for training and for validation.
        test: at the end train the default and the tuned settings once more, and read their test accuracy.
        folder: where to keep the study and write best.toml, trials.csv and metrics.json; processes may share it.
        resume: go on with the study in the folder, or join it.
        name: what the graph is called.
        work: shows the progress.
        settings: of the method, fixed: they are not searched.
    """
    cls = method_class(method if isinstance(method, str) else getattr(method, "name", repr(method)))
    for what, number in (("trials", trials), ("seeds", seeds)):
        if not isinstance(number, int) or number < 1:
            raise InputError(f"{what}={number}: must be a whole number, 1 or more")
    if minutes is not None and minutes <= 0:
        raise InputError(f"minutes={minutes}: must be positive")
    if resume and folder is None:
        raise InputError("resume: a study in memory cannot go on; give the folder of the one that is to")
    if not isinstance(ratios, Sequence) or len(ratios) != 2:
        raise InputError(f"ratios={ratios}: give two shares, such as (0.1, 0.1)")
    if not isinstance(data, Data):
        check(data)  # says what to give
    if unknown := {*(start or {}), *settings} - {f.name for f in cls.setting_fields()} - {"name", "source"}:
        raise InputError(f"{cls.name} has no setting {sorted(unknown)[0]!r}; `epagcl methods {cls.name}` lists them")
    base = {key: value for key, value in {**(start or {}), **settings}.items() if key not in ("name", "source")}
    first = cls(**{**base, "seed": seed})
    resolve_device(first.device)
    searched = space_of(cls, space, first, fixed=settings)
    name = name or data.get("name") or "graph"
    need_optuna()
    graph = check(data, quiet=True)
    if graph.y is None or not (graph.y >= 0).any():
        raise InputError(
            f"{name}: tuning needs labels on some nodes (a few per class suffice, the others may have none); "
            "give labels, or keep the default settings, which need none: `epagcl embed`"
        )
    splits = splits_with_one_test(graph, protocol, ratios, seed, seeds)
    if splits[0].val.numel() < FEW:
        advice = "" if protocol == "public" else "; other --ratios, such as 0.4,0.3, give more"
        log.warning("%s: %d validation nodes; small differences are chance%s", name, splits[0].val.numel(), advice)
    most = max(searched["epochs"].ends) if "epochs" in searched else first.epochs
    criterion = Criterion(graph, splits, every=max(1, -(-most // LOOKS)))
    identity = {
        "space": space_words(searched),
        "start": {key: value for key, value in first.settings().items() if key not in ("device", "capture")},
        "graph": Graph.from_data(graph).fingerprint,
        "labels": hashlib.sha256(criterion.hidden.y.cpu().numpy().tobytes()).hexdigest()[:16],
        "protocol": protocol,
        "split": "published" if protocol == "public" else _split_words(ratios, seed),
        "seeds": seeds,
    }
    folder = None if folder is None else Path(folder)
    if folder is not None:
        claim_folder(folder, resume)
    with quiet_optuna(), process_lock(folder) as process:
        study = open_study(folder, identity, seed, warm_up=WARM_UP * criterion.every)
        search = _Search(study, criterion, first, searched, identity, name, work or SilentProgress(), folder, process)
        search.work.deadline = None if minutes is None else time.monotonic() + 60 * minutes
        search.run(trials)
        search.close(test)
        result = search.result()
    if folder is not None:
        search.write_metrics(result)
    return result


@dataclass
class _Search:
    """A search under way."""

    study: "Study"
    criterion: Criterion
    first: Method
    space: Space
    identity: dict[str, Any]
    name: str
    work: Progress
    folder: Path | None
    process: str

    def run(self, trials: int) -> None:
        """Trials until there are so many, or the time is over."""
        done = counted(self.study)
        self.work.plan([1.0] * max(trials - len(done), 0))
        while len(done) < trials and not self._late():
            waiting = any(trial.state.name == "WAITING" for trial in self.study.get_trials(deepcopy=False))
            if not done and not waiting:  # the start, or what the space has nearest to it
                base = self.first.get_params()
                near = {name: values.nearest(base[name]) for name, values in self.space.items()}
                self.study.enqueue_trial({name: value for name, value in near.items() if value is not None})
            trial = self.study.ask({name: values.distribution() for name, values in self.space.items()})
            trial.set_user_attr("process", self.process)
            if rank(self.study, trial.number) >= trials:  # another process was faster
                give_up(self.study, trial.number)
                break
            since = time.monotonic()
            self._one(trial)
            done, before = counted(self.study), len(done)
            self.work.note = "" if (best := best_of(self.study)) is None else f"best {100 * best.value:.2f}"
            self.work.finish([1.0], time.monotonic() - since)
            self.work.drop([1.0] * max(min(len(done), trials) - before - 1, 0))
            if self.folder is not None:
                self._write_tables()

    def _one(self, trial: "Trial") -> None:
        """One trial from its settings to its state."""
        from optuna import TrialPruned
        from optuna.trial import TrialState

        since = time.monotonic()
        chosen = {name: self.space[name].rounded(value) for name, value in trial.params.items()}
        trial.set_user_attr("settings", chosen)

        def report(k: int, epoch: int, accuracy: float) -> None:
            if self._late() and best_of(self.study) is not None:
                raise TimeoutError
            if k == 0:  # a trial that has come to its second model is no hopeless one
                trial.report(accuracy, epoch)
                if trial.should_prune():
                    raise TrialPruned

        value, state, reason = None, TrialState.PRUNED, None
        try:
            outcome = self.criterion.judge(self._models(chosen), self._watch, report)
            trial.set_user_attr("epochs", outcome.epochs)
            trial.set_user_attr("validation", outcome.accuracies)
            value, state = outcome.mean, TrialState.COMPLETE
        except TrialPruned:
            reason = "below the median of earlier trials"
        except InputError as error:  # settings that do not go together; those of the start must
            if rank(self.study, trial.number) == 0:
                give_up(self.study, trial.number)
                raise
            reason = str(error)
        except (TrainingError, torch.OutOfMemoryError) as error:
            state, reason = TrialState.FAIL, str(error).splitlines()[0]
        except TimeoutError:
            give_up(self.study, trial.number)
            return
        except BaseException:  # Ctrl-C: the same trial comes again when the study goes on
            give_up(self.study, trial.number)
            raise
        if reason is not None:
            trial.set_user_attr("reason", reason)
        trial.set_user_attr("seconds", round(time.monotonic() - since, 3))
        self.study.tell(trial, value, state)

    def close(self, test: bool) -> None:
        """Read the test accuracy of the default and of the tuned settings, once for each best trial."""
        others = others_running(self.study)
        if others:
            log.info("another process is still at it; the last one to finish reads the test accuracy")
        best = best_of(self.study)
        if best is None:
            reasons = [t.user_attrs.get("reason") for t in counted(self.study)]
            said = f"; the last said: {reasons[-1]}" if reasons and reasons[-1] else ""
            raise TrainingError(f"no trial came to a result{said}; give more trials or minutes, or another space")
        known = dict(self.study.user_attrs.get("scores", {}))
        if others or not test or known.get("trial") == best.number:
            return
        self.work.say("test accuracy of the default and of the tuned settings")
        if "default" not in known:
            known["default"] = self.criterion.test(self._models({}), self._watch)
        known["tuned"] = self.criterion.test(self._models(self._settings(best)), self._watch)
        known |= {"trial": best.number, "test_reads": known.get("test_reads", 0) + 1}
        self.study.set_user_attr("scores", known)

    def result(self) -> Tuning:
        """What was found so far."""
        best = best_of(self.study)
        rows = [_row(place, trial) for place, trial in enumerate(counted(self.study))]
        counts = Counter(row["state"] for row in rows)
        scores = self.study.user_attrs.get("scores")
        search = {
            **self.identity,
            "criterion": "mean validation accuracy of a linear classifier; test labels are hidden from the search",
            "looks_every": self.criterion.every,
            "trials": {state: counts[state] for state in ("complete", "pruned", "failed")},
            "best_trial": rank(self.study, best.number),
            "validation_accuracy": best.value,
            "seconds": round(sum(row["seconds"] or 0.0 for row in rows), 1),
        }
        settings = self._models(self._settings(best))[0].get_params()
        fresh = scores is not None and scores["trial"] == best.number
        return Tuning(type(self.first), settings, rows, self._importance(), scores if fresh else None, search)

    def write_metrics(self, result: Tuning) -> None:
        """The files of the folder, ``metrics.json`` last."""
        self._write_tables()
        about = {**provenance(self.first.device), "graph": describe(self.criterion.data, self.name)}
        write_json({**about, **result.to_dict()}, self.folder / "metrics.json")

    def _write_tables(self) -> None:
        """``best.toml`` and ``trials.csv``, as far as the study is."""
        import pandas as pd

        rows = [_row(place, trial) for place, trial in enumerate(counted(self.study))]
        flat = [{**{k: v for k, v in row.items() if k != "settings"}, **row["settings"]} for row in rows]
        for row in flat:
            row["validation_runs"] = " ".join(f"{value:.6f}" for value in row["validation_runs"] or [])
        with atomic_path(self.folder / "trials.csv") as path:
            pd.DataFrame(flat).astype({"epochs": "Int64"}).to_csv(path, index=False)
        if (best := best_of(self.study)) is None:
            return
        found = {"trial": rank(self.study, best.number), "validation_accuracy": best.value, "trials": len(rows)}
        found |= {key: self.identity[key] for key in ("protocol", "split", "seeds", "graph")}
        model = self._models(self._settings(best))[0]
        write_config(self.folder / "best.toml", {"method": model.settings(), "tuning": found})

    def _settings(self, trial: "FrozenTrial") -> dict[str, Any]:
        return {**trial.user_attrs["settings"], "epochs": trial.user_attrs["epochs"]}

    def _models(self, chosen: dict[str, Any]) -> list[Method]:
        """A model for each seed with these settings in place of the start's."""
        settings = {**self.first.get_params(), **chosen}
        return [
            type(self.first)(**{**settings, "seed": self.first.seed + k}) for k in range(len(self.criterion.splits))
        ]

    def _watch(self, model: Method) -> Any:
        return self.work.training(f"{model.title} on {self.name}, seed {model.seed}", model.epochs)

    def _late(self) -> bool:
        return self.work.deadline is not None and time.monotonic() > self.work.deadline

    def _importance(self) -> dict[str, float]:
        from optuna.importance import FanovaImportanceEvaluator, get_param_importances

        values = [trial.value for trial in counted(self.study) if trial.state.name == "COMPLETE"]
        if len(values) < FOR_IMPORTANCE or len(self.space) < 2 or len(set(values)) < 2:
            return {}
        return get_param_importances(self.study, evaluator=FanovaImportanceEvaluator(seed=0))


def _row(place: int, trial: "FrozenTrial") -> dict[str, Any]:
    """A trial as people read it."""
    states = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed", "RUNNING": "running"}
    known = trial.user_attrs
    return {
        "trial": place,
        "state": states[trial.state.name],
        "validation": trial.value if trial.state.name == "COMPLETE" else None,
        "validation_runs": known.get("validation"),
        "epochs": known.get("epochs"),
        "seconds": known.get("seconds"),
        "settings": known.get("settings", {}),
        "reason": known.get("reason"),
    }


def _split_words(ratios: tuple[float, float], seed: int) -> str:
    shares = [100 * ratio for ratio in (*ratios, 1 - sum(ratios))]
    return f"random {'/'.join(f'{share:.3g}' for share in shares)}, seed {seed}"
