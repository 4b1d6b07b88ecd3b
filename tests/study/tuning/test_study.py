import sys

import pytest
import torch

import epagcl
from epagcl.core.errors import InputError, MissingExtra
from epagcl.data.splits import random_split
from tests.study.tuning.conftest import SPACE, by_lr, rows

pytest.importorskip("optuna")


@pytest.mark.slow
def test_test_labels_do_not_change_the_search_and_training_labels_do(graph, small):
    def search(data):
        return rows(epagcl.tune(data, trials=2, seeds=2, space=SPACE, test=False, **{**small, "epochs": 2}))

    split = random_split(graph.y, seed=0)
    scrambled, other = graph.clone(), graph.clone()
    scrambled.y[split.test] = graph.y[split.test[torch.randperm(480)]]
    assert not scrambled.y.equal(graph.y)
    expected = search(graph)
    assert search(scrambled) == expected
    other.y[split.train] = (graph.y[split.train] + torch.arange(60) % 2) % 3
    assert search(other) != expected


@pytest.mark.slow
def test_a_method_without_training_is_searched(graph, tmp_path):
    result = epagcl.tune(graph, "propagated", trials=3, seeds=2, dim=8, device="cpu", folder=tmp_path / "study")
    assert list(result.trials[0]["settings"]) == ["alpha"]
    assert result.trials[0]["settings"]["alpha"] == pytest.approx(0.15, rel=0.1)  # the start
    assert "epochs" not in result.best
    assert result.scores["tuned"]["settings"] == {"name": "propagated", **result.best}
    assert result.estimator().fit_embed(graph).shape == (600, 8)
    assert "epochs" not in (tmp_path / "study" / "best.toml").read_text()


@pytest.mark.slow
def test_the_best_trial_is_reproduced_exactly(graph, small):
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


def test_mistakes_are_named(graph, small, tune, monkeypatch, caplog):
    unlabelled = graph.clone()
    unlabelled.y = None
    with pytest.raises(InputError, match=r"graph: tuning needs labels on some nodes .* keep the default settings"):
        epagcl.tune(unlabelled, **small)
    unlabelled.y = torch.full((600,), -1)
    with pytest.raises(InputError, match="mine: tuning needs labels"):
        epagcl.tune(unlabelled, name="mine", **small)
    for mistake, words in (
        ({"trials": 0}, "trials=0: must be a whole number, 1 or more"),
        ({"trials": 1.5}, "trials=1.5: must be a whole number, 1 or more"),
        ({"ratios": 0.5}, r"ratios=0.5: give two shares, such as \(0.1, 0.1\)"),
        ({"resume": True}, "resume: a study in memory cannot be resumed"),
        ({"space": {"lr": 1e-3}}, "a choice needs two values or more"),
    ):
        with pytest.raises(InputError, match=words):
            tune(**mistake)
    with pytest.raises(InputError, match="NoneType is not a torch_geometric"):
        epagcl.tune(None)
    with pytest.raises(InputError, match="epagcl has no setting 'depth'"):
        tune(depth=3)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtra, match=r"needs optuna: pip install '\.\[tune\]'"):
        tune()


def test_few_labels_are_enough_with_a_warning(graph, judged, small, caplog):
    judged(by_lr)
    few = graph.clone()
    few.y[45:] = -1
    result = epagcl.tune(few, trials=2, seeds=2, space=SPACE, test=False, ratios=(0.4, 0.3), **small)
    assert len(result.trials) == 2
    assert "validation nodes; small differences can be chance" in caplog.text
    assert result.search["split"] == "random 40/30/30, seed 0"


def test_earlier_names_of_settings_are_accepted(tune, judged):
    judged(by_lr)
    with pytest.warns(DeprecationWarning, match="features is now feature_scaling"):
        result = tune(trials=1, features="row-sum")
    assert result.best["feature_scaling"] == "row-sum"
    result = tune(trials=1, space={"lr": (1e-3, 1e-1), "features": ["given", "row-sum"]})
    assert set(result.search["space"]) == {"lr", "feature_scaling"}


def test_earlier_values_of_settings_are_accepted(tune, judged):
    judged(by_lr)
    with pytest.warns(DeprecationWarning, match="drop='eq7' is now drop='eq9'"):
        result = tune(trials=1, drop="eq7")
    assert result.best["drop"] == "eq9"
    result = tune(trials=1, space={"drop": ["eq7", "text"]})
    assert result.search["space"] == {"drop": "eq9,text"}
