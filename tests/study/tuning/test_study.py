import sys
import tomllib

import pandas as pd
import pytest
import torch

import epagcl
from epagcl.core.errors import InputError, MissingExtra, TrainingError
from epagcl.data.splits import random_split
from epagcl.methods import method_settings, setting

optuna = pytest.importorskip("optuna")

from epagcl.study.tuning import journal, study  # noqa: E402
from epagcl.study.tuning.criterion import Criterion  # noqa: E402

SPACE = {"lr": (1e-3, 1e-1, "log"), "p_drop": (0.0, 0.8)}


def rows(result):
    """What must be the same, bit by bit."""
    return [{key: value for key, value in row.items() if key != "seconds"} for row in result.trials]


@pytest.fixture
def tune(graph, small):
    """A search on the small graph."""

    def call(**options):
        return epagcl.tune(graph, **{"trials": 4, "seeds": 1, "space": SPACE, "test": False, **small, **options})

    return call


def by_lr(model):
    return 1 - abs(model.lr - 0.02)


def test_test_labels_change_nothing_and_training_labels_do(graph, small):
    def search(data):
        return rows(epagcl.tune(data, trials=2, seeds=2, space=SPACE, test=False, **{**small, "epochs": 2}))

    split = random_split(graph.y, seed=0)
    scrambled, other = graph.clone(), graph.clone()
    scrambled.y[split.test] = graph.y[split.test[torch.randperm(480)]]
    assert not scrambled.y.equal(graph.y)
    found = search(graph)
    assert search(scrambled) == found
    other.y[split.train] = (graph.y[split.train] + torch.arange(60) % 2) % 3
    assert search(other) != found


def test_the_best_trial_can_be_trained_again_bit_by_bit(graph, small):
    result = epagcl.tune(graph, trials=3, seeds=2, space=SPACE, **small)
    complete = [row for row in result.trials if row["state"] == "complete"]
    best = max(complete, key=lambda row: row["validation"])
    assert result.search["validation_accuracy"] == best["validation"]
    assert {key: result.best[key] for key in best["settings"]} == best["settings"]
    assert result.best["epochs"] == best["epochs"]
    assert result.scores["tuned"]["validation"]["runs"] == best["validation_runs"]
    assert result.scores["default"]["settings"]["lr"] == 1e-3
    assert result.scores["tuned"]["settings"] == {"name": "epagcl", **result.best}
    model = result.estimator(seed=7)
    assert isinstance(model, epagcl.EPAGCL)
    assert (model.lr, model.seed, model.hidden) == (result.best["lr"], 7, small["hidden"])


@pytest.mark.parametrize(
    ("method", "settings"),
    [("gcn", {"epochs": 6, "hidden": 4}), ("bgrl", {"epochs": 3, "hidden": 8, "dim": 6, "predictor": 8})],
)
def test_methods_whose_epochs_are_not_chosen(graph, method, settings):
    result = epagcl.tune(graph, method, trials=2, seeds=1, space={"lr": "1e-3:1e-1:log"}, device="cpu", **settings)
    assert [row["epochs"] for row in result.trials] == [settings["epochs"]] * 2
    best = result.trials[result.search["best_trial"]]
    assert result.scores["tuned"]["validation"]["runs"] == best["validation_runs"]


def test_the_first_trial_is_the_start_or_what_is_nearest(tune, judged):
    judged(by_lr)
    space = {"lr": "1e-2:1e-1:log", "p_drop_1": "0:0.8", "activation": "relu,rrelu"}
    settings = tune(trials=1, space=space, start={"p_drop_1": 0.25}).trials[0]["settings"]
    assert settings.pop("activation") in ("relu", "rrelu")  # the start's is none of them: one is drawn
    assert settings == {"lr": 0.01, "p_drop_1": 0.25}


def test_the_search_finds_the_hill_and_gives_the_same_again(tune, judged):
    judged(by_lr)
    first, second, other = tune(trials=25), tune(trials=25), tune(trials=25, seed=1)
    assert rows(first) == rows(second) != rows(other)
    assert abs(first.best["lr"] - 0.02) < 0.003
    assert first.best["seed"] == 0
    assert other.best["seed"] == 1
    assert max(first.importance, key=first.importance.get) == "lr"
    assert sum(first.importance.values()) == pytest.approx(1)
    assert tune(trials=9).importance == {}


def test_equal_trials_the_earliest_wins(tune, judged):
    judged(lambda model: 0.5)
    result = tune(trials=12)
    assert result.search["best_trial"] == 0
    assert result.importance == {}  # nothing varies


def test_hopeless_trials_are_pruned(tune, judged):
    judged(by_lr, looks=range(1, 5))
    result = tune(trials=25)
    pruned = [row for row in result.trials if row["state"] == "pruned"]
    complete = [row for row in result.trials if row["state"] == "complete"]
    assert len(pruned) > 3
    assert pruned[0]["trial"] >= journal.STARTUP
    assert all(row["validation"] is None and row["reason"] == "below the median of earlier trials" for row in pruned)
    assert result.search["trials"] == {"complete": len(complete), "pruned": len(pruned), "failed": 0}


def test_a_trial_that_fails_is_recorded_and_the_search_goes_on(tune, judged):
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


def test_settings_that_do_not_go_together_are_pruned(graph, judged):
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


def test_nothing_that_finishes_is_an_error(tune, judged):
    def fail(model):
        raise TrainingError("the loss is inf")

    judged(fail)
    with pytest.raises(TrainingError, match="no trial came to a result; the last said: the loss is inf"):
        tune(trials=2)

    def refuse(model):
        raise InputError("batch_size=3: too small here")

    judged(refuse)
    with pytest.raises(InputError, match="too small here"):  # of the start's settings: no need for more trials
        tune()


def test_time_that_is_over(tune, judged, monkeypatch):
    clock = iter(range(0, 10**6, 20))
    monkeypatch.setattr(study.time, "monotonic", lambda: next(clock))
    judged(by_lr, looks=[1])
    result = tune(trials=50, minutes=5)
    assert 1 <= len(result.trials) < 10
    assert all(row["state"] == "complete" for row in result.trials)


def test_an_interrupted_study_goes_on_as_if_nothing_had_been(tune, judged, tmp_path):
    judged(by_lr)
    whole = tune(trials=14)
    calls = []

    def interrupted(model):
        calls.append(model.lr)
        if len(calls) in (1, 4, 13):
            raise KeyboardInterrupt
        return by_lr(model)

    judged(interrupted)
    folder = tmp_path / "study"
    for k in range(3):
        with pytest.raises(KeyboardInterrupt):
            tune(trials=14, folder=folder, resume=k > 0)
    result = tune(trials=14, folder=folder, resume=True)
    assert rows(result) == rows(whole)
    assert (calls[0], calls[3], calls[12]) == (calls[1], calls[4], calls[13])  # the same trials again


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


def test_a_study_that_is_another_is_not_mixed(tune, judged, tmp_path, graph):
    judged(by_lr)
    folder = tmp_path / "study"
    with pytest.raises(InputError, match="no study to resume"):
        tune(folder=folder, resume=True)
    tune(folder=folder)
    with pytest.raises(InputError, match="already there; give another --out, or --resume"):
        tune(folder=folder)
    with pytest.raises(InputError, match=r"another start \(hidden=8, now hidden=9\)"):
        tune(folder=folder, resume=True, hidden=9)
    with pytest.raises(InputError, match=r"another seeds \(1, now 2\)"):
        tune(folder=folder, resume=True, seeds=2)
    with pytest.raises(InputError, match="another space"):
        tune(folder=folder, resume=True, space={"lr": (0.1, 0.2)})
    assert len(tune(folder=folder, resume=True, trials=6).trials) == 6


def test_the_test_is_read_once_for_each_best_trial(tune, judged, tmp_path, monkeypatch):
    reads = []
    monkeypatch.setattr(
        Criterion, "test", lambda self, models, watch: reads.append(models[0].lr) or {"lr": models[0].lr}
    )
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


def test_processes_share_a_study(tune, judged, tmp_path, monkeypatch, caplog):
    judged(by_lr)
    folder = tmp_path / "study"
    tune(folder=folder, trials=2)
    seen = optuna.load_study(
        study_name="epagcl",
        storage=optuna.storages.JournalStorage(
            optuna.storages.journal.JournalFileBackend(str(folder / journal.JOURNAL))
        ),
    )
    with journal.present(folder) as name:
        seen.ask().set_user_attr("process", name)  # another process is at trial 2
        with caplog.at_level("INFO", logger="epagcl"):
            result = tune(folder=folder, trials=4, resume=True, test=True)
        assert [row["state"] for row in result.trials] == ["complete", "complete", "running", "complete"]
        assert result.scores is None
        assert "another process is still at it" in caplog.text
    again = tune(folder=folder, trials=4, resume=True)  # it has died: its trial comes again
    assert [row["state"] for row in again.trials] == ["complete"] * 4
    assert not list(folder.glob("*.lock"))


def test_progress_shows_the_best_and_the_time(monkeypatch):
    monkeypatch.setattr(study.time, "monotonic", lambda: 0.0)
    work = study.TrialWork()
    assert work.time_left() == ""
    work.deadline = 120.0
    assert work.time_left() == "2 min left"
    work.plan([1.0] * 11)
    work.finish([1.0], 60.0)
    work.best = 0.8123
    assert work.time_left() == "best 81.23, 2 min left"
    work.deadline = 6000.0
    assert work.time_left() == "best 81.23, about 10 min left"


def test_optuna_is_silent_and_heard_again_afterwards(tune, judged, capfd):
    judged(by_lr)
    before = optuna.logging.get_verbosity()
    tune()
    assert optuna.logging.get_verbosity() == before
    assert capfd.readouterr() == ("", "")


def test_mistakes_are_said(graph, small, tune, monkeypatch, caplog):
    unlabelled = graph.clone()
    unlabelled.y = None
    with pytest.raises(InputError, match=r"graph: tuning needs labels on some nodes .* `epagcl embed`"):
        epagcl.tune(unlabelled, **small)
    unlabelled.y = torch.full((600,), -1)
    with pytest.raises(InputError, match="mine: tuning needs labels"):
        epagcl.tune(unlabelled, name="mine", **small)
    for mistake, words in (
        ({"trials": 0}, "trials=0: must be a whole number, 1 or more"),
        ({"trials": 1.5}, "trials=1.5: must be a whole number, 1 or more"),
        ({"ratios": 0.5}, r"ratios=0.5: give two shares, such as \(0.1, 0.1\)"),
        ({"resume": True}, "resume: a study in memory cannot go on"),
        ({"space": {"lr": 1e-3}}, "one value is no choice"),
    ):
        with pytest.raises(InputError, match=words):
            tune(**mistake)
    with pytest.raises(InputError, match="a NoneType is no torch_geometric"):
        epagcl.tune(None)
    with pytest.raises(InputError, match="epagcl has no setting 'depth'"):
        tune(depth=3)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtra, match=r"needs optuna: pip install 'epagcl\[tune\]'"):
        tune()


def test_few_labels_are_enough_and_warned_of(graph, judged, small, caplog):
    judged(by_lr)
    few = graph.clone()
    few.y[45:] = -1
    result = epagcl.tune(few, trials=2, seeds=2, space=SPACE, test=False, ratios=(0.4, 0.3), **small)
    assert len(result.trials) == 2
    assert "validation nodes; small differences are chance" in caplog.text
    assert result.search["split"] == "random 40/30/30, seed 0"
