import tomllib

import pandas as pd
import pytest

import epagcl
from epagcl.core.errors import InputError, TrainingError
from epagcl.methods import method_settings, setting
from epagcl.study.tuning import journal, search
from epagcl.study.tuning.criterion import Criterion
from tests.study.tuning.conftest import by_lr, rows

pytest.importorskip("optuna")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "settings"),
    [("gcn", {"epochs": 6, "hidden": 4}), ("bgrl", {"epochs": 3, "hidden": 8, "dim": 6, "predictor": 8})],
)
def test_methods_whose_epochs_are_not_chosen(graph, method, settings):
    result = epagcl.tune(graph, method, trials=2, seeds=1, space={"lr": "1e-3:1e-1:log"}, device="cpu", **settings)
    assert [row["epochs"] for row in result.trials] == [settings["epochs"]] * 2
    best = result.trials[result.search["best_trial"]]
    assert result.scores["tuned"]["validation"]["runs"] == best["validation_runs"]


def test_the_first_trial_has_the_settings_nearest_to_the_start(tune, judged):
    judged(by_lr)
    space = {"lr": "1e-2:1e-1:log", "p_drop_1": "0:0.8", "activation": "relu,rrelu"}
    settings = tune(trials=1, space=space, start={"p_drop_1": 0.25}).trials[0]["settings"]
    assert settings.pop("activation") in ("relu", "rrelu")  # the start's is none of them: one is drawn
    assert settings == {"lr": 0.01, "p_drop_1": 0.25}


@pytest.mark.slow
def test_the_search_finds_the_optimum_and_is_reproducible(tune, judged):
    judged(by_lr)
    first, second, other = tune(trials=25), tune(trials=25), tune(trials=25, seed=1)
    assert rows(first) == rows(second) != rows(other)
    assert abs(first.best["lr"] - 0.02) < 0.003
    assert first.best["seed"] == 0
    assert other.best["seed"] == 1
    assert max(first.importance, key=first.importance.get) == "lr"
    assert sum(first.importance.values()) == pytest.approx(1)
    assert tune(trials=9).importance == {}


def test_of_equal_trials_the_earliest_is_the_best(tune, judged):
    judged(lambda model: 0.5)
    result = tune(trials=12)
    assert result.search["best_trial"] == 0
    assert result.importance == {}  # nothing varies


def test_trials_below_the_median_are_pruned(tune, judged):
    judged(by_lr, looks=range(1, 5))
    result = tune(trials=25)
    pruned = [row for row in result.trials if row["state"] == "pruned"]
    complete = [row for row in result.trials if row["state"] == "complete"]
    assert len(pruned) > 3
    assert pruned[0]["trial"] >= journal.STARTUP
    assert all(row["validation"] is None and row["reason"] == "below the median of earlier trials" for row in pruned)
    assert result.search["trials"] == {"complete": len(complete), "pruned": len(pruned), "failed": 0}


def test_a_failed_trial_is_recorded_and_the_search_continues(tune, judged):
    def score(model):
        if model.lr > 0.02:
            raise TrainingError("the loss is nan at epoch 3; lower lr")
        return by_lr(model)

    judged(score)
    result = tune(trials=8)
    failed = [row for row in result.trials if row["state"] == "failed"]
    assert failed
    assert all(row["settings"]["lr"] > 0.02 and row["reason"].startswith("the loss is nan") for row in failed)
    assert len(result.trials) == 8
    assert result.best["lr"] <= 0.02


def test_incompatible_settings_are_pruned(graph, judged):
    @method_settings
    class Uneven(epagcl.DGI):
        name = "uneven"
        heads: int = setting(1, "")

        def validate(self):
            super().validate()
            if self.dim % self.heads:
                raise InputError("dim must be a multiple of heads")

    judged(lambda model: model.heads / 10)
    space = {"dim": [8, 9], "heads": [1, 2, 3]}
    result = epagcl.tune(graph, "uneven", trials=12, seeds=1, space=space, test=False, start={"dim": 8})
    pruned = [row for row in result.trials if row["state"] == "pruned"]
    assert pruned
    assert all(row["reason"] == "dim must be a multiple of heads" for row in pruned)
    assert result.best["dim"] == 9
    assert result.best["heads"] == 3


def test_a_search_without_any_result_is_an_error(tune, judged):
    def fail(model):
        raise TrainingError("the loss is inf")

    judged(fail)
    with pytest.raises(TrainingError, match="no trial gave a result; the last trial: the loss is inf"):
        tune(trials=2)

    def refuse(model):
        raise InputError("batch_size=3: too small here")

    judged(refuse)
    with pytest.raises(InputError, match="too small here"):  # of the start's settings: no need for more trials
        tune()


def test_no_trial_starts_after_the_deadline(tune, judged, monkeypatch):
    clock = iter(range(0, 10**6, 20))
    monkeypatch.setattr(search.time, "monotonic", lambda: next(clock))
    judged(by_lr, looks=[1])
    result = tune(trials=50, minutes=5)
    assert 1 <= len(result.trials) < 10
    assert all(row["state"] == "complete" for row in result.trials)


def test_the_files_of_a_folder(tune, judged, tmp_path):
    judged(by_lr)
    folder = tmp_path / "study"
    result = tune(folder=folder)
    table = pd.read_csv(folder / "trials.csv")
    assert list(table["validation"]) == [row["validation"] for row in result.trials]
    assert list(table["lr"]) == [row["settings"]["lr"] for row in result.trials]
    assert list(table["epochs"]) == [4] * 4
    config = tomllib.loads((folder / "best.toml").read_text())
    assert config["method"] == {"name": "epagcl", **result.best}
    assert config["tuning"]["trial"] == result.search["best_trial"]
    assert sorted(path.name for path in folder.iterdir()) == [
        "best.toml",
        "metrics.json",
        "study.journal",
        "trials.csv",
    ]


def test_the_test_accuracy_is_read_once_for_each_best_trial(tune, judged, tmp_path, monkeypatch):
    reads = []

    def test(self, models, progress):
        reads.append(models[0].lr)
        return {"settings": models[0].settings()}

    monkeypatch.setattr(Criterion, "test", test)
    judged(by_lr)
    folder = tmp_path / "study"
    first = tune(folder=folder, test=True, trials=1)
    assert reads == [1e-3, 1e-3]  # the default, and the best of one trial
    assert tune(folder=folder, test=True, trials=1, resume=True).scores == first.scores
    assert len(reads) == 2
    more = tune(folder=folder, test=True, trials=9, resume=True)
    assert more.search["best_trial"] > 0
    assert reads[2:] == [more.best["lr"]]
    assert more.scores["test_reads"] == 2
    assert tune(folder=tmp_path / "other").scores is None
