"""The trials of a search, the closing test, and the files of its folder."""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from epagcl.core.config import current_settings, current_value, write_config
from epagcl.core.errors import InputError, TrainingError
from epagcl.core.files import atomic_path, write_json
from epagcl.core.log import log
from epagcl.core.progress import Progress
from epagcl.methods.base import Method
from epagcl.runs.record import describe, provenance
from epagcl.study.scoring import training_title
from epagcl.study.tuning.criterion import Criterion
from epagcl.study.tuning.journal import (
    best_trial,
    counted_trials,
    give_up,
    others_running,
    parameter_names,
    parameter_values,
    rank,
)
from epagcl.study.tuning.result import FinalScores, SettingsScores, TrialRow, Tuning
from epagcl.study.tuning.space import Space
from epagcl.training.history import Callback

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.trial import FrozenTrial

FOR_IMPORTANCE = 10  # complete trials below which the importance of settings is noise


@dataclass
class Search:
    """A running search.

    Attributes:
        study: Optuna's study.
        criterion: judges settings.
        first: the model with the settings of trial 0.
        space: the settings to search.
        identity: what all processes of the study have in common.
        name: name of the graph.
        work: receives the progress.
        folder: folder of the study; None: in memory.
        process: name of this process, whose lock shows others that it is alive.
    """

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
        """Run trials until the study has this many, or until the deadline."""
        done = counted_trials(self.study)
        self.work.plan([1.0] * max(trials - len(done), 0))
        while len(done) < trials and not self._is_late():
            trial = self._next_trial(is_first=not done)
            if rank(self.study, trial.number) >= trials:  # another process was faster
                give_up(self.study, trial.number)
                break
            start = time.monotonic()
            self._run_trial(trial)
            done, before = counted_trials(self.study), len(done)
            best = best_trial(self.study)
            self.work.note = "" if best is None else f"best {100 * _value(best):.2f}"
            self.work.finish([1.0], time.monotonic() - start)
            self.work.drop([1.0] * max(min(len(done), trials) - before - 1, 0))
            if self.folder is not None:
                self._write_tables(self.folder)

    def _next_trial(self, is_first: bool) -> "Trial":
        """Return the next trial with its settings drawn. Trial 0 has the start settings, or the nearest ones."""
        parameters, space = parameter_names(self.study), parameter_values(self.study, self.space)
        waiting = any(trial.state.name == "WAITING" for trial in self.study.get_trials(deepcopy=False))
        if is_first and not waiting:
            start = self.first.get_params()
            for name, values in space.items():  # a value that the journal has in its former form
                start[name] = next((end for end in values.ends if current_value(name, end) == start[name]), start[name])
            nearest = {parameters[name]: values.nearest(start[name]) for name, values in space.items()}
            self.study.enqueue_trial({name: value for name, value in nearest.items() if value is not None})
        trial = self.study.ask({parameters[name]: values.distribution() for name, values in space.items()})
        trial.set_user_attr("process", self.process)
        return trial

    def _run_trial(self, trial: "Trial") -> None:
        """Train and judge one trial, and record its state in the study."""
        from optuna import TrialPruned
        from optuna.trial import TrialState

        start = time.monotonic()
        drawn = current_settings(trial.params)
        settings = {name: self.space[name].rounded(value) for name, value in drawn.items()}
        trial.set_user_attr("settings", settings)
        value, state, reason = None, TrialState.PRUNED, None
        try:
            outcome = self.criterion.judge(self._models(settings), self._progress_of, self._reporter(trial))
            trial.set_user_attr("epochs", outcome.epochs)
            trial.set_user_attr("validation", outcome.accuracies)
            value, state = outcome.mean, TrialState.COMPLETE
        except TrialPruned:
            reason = "below the median of earlier trials"
        except InputError as error:  # an invalid combination of settings; the start settings must be valid
            if rank(self.study, trial.number) == 0:
                give_up(self.study, trial.number)
                raise
            reason = str(error)
        except (TrainingError, torch.OutOfMemoryError) as error:
            state, reason = TrialState.FAIL, str(error).splitlines()[0]
        except TimeoutError:
            give_up(self.study, trial.number)
            return
        except BaseException:  # Ctrl-C: the resumed study runs the same trial again
            give_up(self.study, trial.number)
            raise
        if reason is not None:
            trial.set_user_attr("reason", reason)
        trial.set_user_attr("seconds", round(time.monotonic() - start, 3))
        self.study.tell(trial, value, state)

    def _reporter(self, trial: "Trial") -> Callable[[int, int, float], None]:
        """Return a function that reports an accuracy to Optuna, and raises to prune the trial or at the deadline."""
        from optuna import TrialPruned

        def report(model_index: int, epoch: int, accuracy: float) -> None:
            if self._is_late() and best_trial(self.study) is not None:
                raise TimeoutError
            if model_index == 0:  # a trial whose first model was good enough is finished
                trial.report(accuracy, epoch)
                if trial.should_prune():
                    raise TrialPruned

        return report

    def close(self, test: bool) -> None:
        """Read the test accuracy of the default and of the tuned settings, once for each best trial."""
        others = others_running(self.study)
        if others:
            log.info("another process is still running a trial; the last process to finish reads the test accuracy")
        best = best_trial(self.study)
        if best is None:
            reasons = [trial.user_attrs.get("reason") for trial in counted_trials(self.study)]
            last = f"; the last trial: {reasons[-1]}" if reasons and reasons[-1] else ""
            raise TrainingError(f"no trial gave a result{last}; allow more trials or minutes, or change the space")
        scores = dict(self.study.user_attrs.get("scores", {}))
        if others or not test or scores.get("trial") == best.number:
            return
        self.work.say("test accuracy of the default and of the tuned settings")
        if "default" not in scores:
            scores["default"] = self.criterion.test(self._models({}), self._progress_of)
        scores["tuned"] = self.criterion.test(self._models(_settings(best)), self._progress_of)
        scores |= {"trial": best.number, "test_reads": scores.get("test_reads", 0) + 1}
        self.study.set_user_attr("scores", scores)

    def result(self) -> Tuning:
        """Return the result so far; :meth:`close` has checked that there is one."""
        best = best_trial(self.study)
        assert best is not None
        rows = self._rows()
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
        settings = self._models(_settings(best))[0].get_params()
        final = _current_scores(scores) if scores is not None and scores["trial"] == best.number else None
        return Tuning(type(self.first), settings, rows, self._importance(), final, search)

    def write_metrics(self, result: Tuning, folder: Path) -> None:
        """Write the files of the folder, ``metrics.json`` last."""
        self._write_tables(folder)
        about = {**provenance(self.first.device), "graph": describe(self.criterion.data, self.name)}
        write_json({**about, **result.to_dict()}, folder / "metrics.json")

    def _write_tables(self, folder: Path) -> None:
        """Write ``trials.csv`` and, once a trial is complete, ``best.toml``."""
        import pandas as pd

        rows = self._rows()
        table: list[dict[str, Any]] = []
        for row in rows:
            columns = {key: value for key, value in row.items() if key != "settings"}
            columns["validation_runs"] = " ".join(f"{value:.6f}" for value in row["validation_runs"] or [])
            table.append({**columns, **row["settings"]})
        with atomic_path(folder / "trials.csv") as path:
            pd.DataFrame(table).astype({"epochs": "Int64"}).to_csv(path, index=False)
        if (best := best_trial(self.study)) is None:
            return
        summary = {"trial": rank(self.study, best.number), "validation_accuracy": best.value, "trials": len(rows)}
        summary |= {key: self.identity[key] for key in ("protocol", "split", "seeds", "graph")}
        model = self._models(_settings(best))[0]
        write_config(folder / "best.toml", {"method": model.settings(), "tuning": summary})

    def _rows(self) -> list[TrialRow]:
        return [_trial_row(number, trial) for number, trial in enumerate(counted_trials(self.study))]

    def _models(self, settings: dict[str, Any]) -> list[Method]:
        """Return a model for each seed; ``settings`` take precedence over the start's."""
        settings = {**self.first.get_params(), **settings}
        if not type(self.first).trained:
            settings.pop("epochs", None)  # trials record 0 epochs
        return [
            type(self.first)(**{**settings, "seed": self.first.seed + k}) for k in range(len(self.criterion.splits))
        ]

    def _progress_of(self, model: Method) -> AbstractContextManager[Callback | None]:
        return self.work.training(training_title(model, self.name), model.epochs)

    def _is_late(self) -> bool:
        return self.work.deadline is not None and time.monotonic() > self.work.deadline

    def _importance(self) -> dict[str, float]:
        from optuna.importance import FanovaImportanceEvaluator, get_param_importances

        values = [trial.value for trial in counted_trials(self.study) if trial.state.name == "COMPLETE"]
        if len(values) < FOR_IMPORTANCE or len(self.space) < 2 or len(set(values)) < 2:
            return {}
        return current_settings(get_param_importances(self.study, evaluator=FanovaImportanceEvaluator(seed=0)))


def _value(trial: "FrozenTrial") -> float:
    """Return the value of a complete trial."""
    assert trial.value is not None
    return trial.value


def _settings(trial: "FrozenTrial") -> dict[str, Any]:
    return {**current_settings(trial.user_attrs["settings"]), "epochs": trial.user_attrs["epochs"]}


def _current_scores(scores: FinalScores) -> FinalScores:
    """Return the scores saved in a study, with the current names of settings."""
    return {**scores, "default": _renamed(scores["default"]), "tuned": _renamed(scores["tuned"])}


def _renamed(scores: SettingsScores) -> SettingsScores:
    return {**scores, "settings": current_settings(scores["settings"])}


def _trial_row(number: int, trial: "FrozenTrial") -> TrialRow:
    states = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed", "RUNNING": "running"}
    attributes = trial.user_attrs
    return {
        "trial": number,
        "state": states[trial.state.name],
        "validation": trial.value if trial.state.name == "COMPLETE" else None,
        "validation_runs": attributes.get("validation"),
        "epochs": attributes.get("epochs"),
        "seconds": attributes.get("seconds"),
        "settings": current_settings(attributes.get("settings", {})),
        "reason": attributes.get("reason"),
    }
