import json

import pytest
import torch

import epagcl
from epagcl.cli.progress import StudyProgress
from epagcl.core.errors import InputError, TrainingError
from epagcl.data import block_model, random_split
from epagcl.evaluation.linear import linear_evaluation
from epagcl.evaluation.protocol import Rule
from epagcl.paper import leakage
from epagcl.paper.artefact import Request
from epagcl.study.store import Store

SMALL = {"device": "cpu", "epochs": 4, "hidden": 16, "dim": 8, "projection": 8}


@pytest.fixture(autouse=True, scope="module")
def short_paper_protocol():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("epagcl.evaluation.protocol.PAPER", Rule((0.0,), 20, 1, False, True))
        yield


@pytest.fixture(scope="module")
def result(request_):
    return leakage.ARTEFACT.make(request_, "epagcl paper leakage")


def test_looks_are_every_50_epochs_or_ten_in_all():
    assert [leakage.look_interval(epochs) for epochs in (0, 4, 99, 100, 2000)] == [1, 1, 9, 50, 50]


@pytest.mark.slow
def test_stored_run_equals_a_model_trained_again(result):
    data = epagcl.load("demo")
    [row] = result["rows"]
    assert (row["graph"], row["method"], row["reported"]) == ("demo", "EPAGCL", None)
    assert [run["seed"] for run in row["runs"]] == [0, 1]
    seed, stored = 1, row["runs"][1]
    assert stored["epochs"] == [1, 2, 3, 4]
    recipe = epagcl.methods.recipes.recipe("demo", "epagcl")
    recipe.pop("source")
    settings = {**recipe, **SMALL, "seed": seed}
    z = [epagcl.EPAGCL(**{**settings, "epochs": epochs}).fit_embed(data) for epochs in (2, 4)]
    close = {"abs": 1e-3}  # one or two nodes: batched products round differently
    assert stored["strict"] == pytest.approx(linear_evaluation(z[1], data.y, runs=1, seed=seed).runs[0], **close)
    # The last epoch by the paper's rule, as in every other table.
    last = linear_evaluation(z[1], data.y, "paper", runs=1, seed=seed)
    assert stored["test"][-1] == pytest.approx(last.runs[0], **close)
    assert stored["validation"][-1] == pytest.approx(last.chosen[0]["validation_accuracy"], abs=5e-3)
    # The second look (number 1) is scored on its own split.
    new = linear_evaluation(z[0], data.y, "paper", runs=1, seed=1000 * (seed + 1) + 1)
    assert stored["new_split"][1] == pytest.approx(new.runs[0], **close)
    assert stored["new_split"] != stored["test"]
    assert stored["effective_rank"][-1] == pytest.approx(epagcl.evaluation.health.effective_rank(z[1]), rel=1e-4)


def test_a_damaged_record_is_not_stored(request_of):
    asked = request_of(train=False)
    for one, damaged in zip(leakage.models_of(asked), ({}, {"hardware": {"device": "cpu"}}), strict=True):
        asked.store.write(one.job.key, damaged)
    with pytest.raises(InputError, match="no stored results"):
        leakage.ARTEFACT.measure(asked)


def test_each_look_is_scored_on_its_split(monkeypatch):
    data = block_model(120, num_classes=3, num_features=30, topic_words=10, seed=1)
    looks = {epoch: torch.randn(120, 4) + epoch for epoch in (1, 2, 3)}
    asked = []

    def spy(z, y, protocol, seed, splits=None):
        asked.append((protocol, seed, [one.mean().round().item() for one in z], splits))
        return linear_evaluation(z, y, protocol, seed=seed, splits=splits)

    monkeypatch.setattr(leakage, "linear_evaluation", spy)
    score = leakage.score(looks, data.y, seed=2)
    (p1, s1, z1, own), (p2, s2, z2, new), (p3, s3, z3, _) = asked
    assert (p1, s1, z1) == ("paper", 2, [3, 2, 1])
    assert all(torch.equal(split.test, random_split(data.y, seed=2).test) for split in own)
    assert (p2, s2, z2, new) == ("paper", 3000, [1, 2, 3], None)
    assert (p3, s3, z3) == ("strict", 2, [3])
    expected = linear_evaluation([looks[1]] * 3, data.y, "paper", seed=2, splits=own).runs[2]
    assert score["test"][0] == pytest.approx(expected)  # in the order of epochs


def test_a_second_call_trains_nothing(request_, result, monkeypatch):
    monkeypatch.setattr(epagcl.EPAGCL, "fit", lambda *_, **__: pytest.fail("trained again"))
    assert leakage.measure(request_)["rows"] == result["rows"]
    assert leakage.measure(with_(request_, train=False))["rows"] == result["rows"]


def test_without_training_only_stored_runs_are_used(request_, result, monkeypatch):
    monkeypatch.setattr(epagcl.EPAGCL, "fit", lambda *_, **__: pytest.fail("trained"))
    three = leakage.measure(with_(request_, train=False, runs=3))
    assert three["rows"] == result["rows"]
    with pytest.raises(InputError, match="no stored results for this request"):
        leakage.measure(with_(request_, train=False, methods=("grace",)))


def with_(request, **changes):
    kept = ("datasets", "methods", "runs", "protocols", "store", "settings")
    return Request(**{**{key: getattr(request, key) for key in kept}, "work": StudyProgress(), **changes})


def test_classifiers_are_rejected(request_):
    with pytest.raises(InputError, match="methods: gcn is a classifier without embeddings to score; leave it out"):
        leakage.measure(with_(request_, methods=("gcn",)))


def test_files_of_a_result(result, tmp_path):
    result = json.loads(json.dumps(result))
    files = leakage.ARTEFACT.write(result, tmp_path)
    assert {file.name for file in files} == {
        *(f"leakage.{suffix}" for suffix in ("json", "md", "tex", "csv", "svg", "png")),
        *(f"leakage-epochs.{suffix}" for suffix in ("svg", "png")),
        "leakage-differences.csv",
    }
    assert all(file.stat().st_size > 20 for file in files)
    assert len(leakage.reading(result)) == 2


def test_missing_models_are_computed_and_joined(request_, result, tmp_path, monkeypatch):
    part = json.loads(json.dumps(result))
    part["rows"][0]["runs"] = part["rows"][0]["runs"][1:]  # seed 0 is missing
    part |= {"asked": {**part["asked"], "runs": 1, "seeds": [1]}, "absent": {"demo": "data are absent", "Cora": "too"}}
    fresh = with_(request_, store=Store(tmp_path / "fresh"))
    assert [(one.graph, one.title, one.model.seed) for one in leakage.missing_models(part, fresh)] == [
        ("demo", "EPAGCL", 0)
    ]
    assert leakage.missing_models(result, fresh) == []
    assert leakage.with_missing(part, fresh, {"GRACE"}) is None  # another row
    joined = leakage.with_missing(part, fresh, {"EPAGCL"})
    assert [run["seed"] for run in joined["rows"][0]["runs"]] == [0, 1]
    assert joined["rows"][0]["runs"][0]["test"] == pytest.approx(result["rows"][0]["runs"][0]["test"])
    assert (joined["asked"]["datasets"], joined["asked"]["seeds"], joined["asked"]["runs"]) == (["demo"], [0, 1], 2)
    assert joined["absent"] == {"Cora": "too"}
    monkeypatch.setattr(epagcl.EPAGCL, "fit", lambda *_, **__: pytest.fail("trained again"))
    assert leakage.with_missing(part, fresh, {"EPAGCL"})["rows"] == joined["rows"]


def test_a_training_that_fails_is_left_out(request_, result, tmp_path, monkeypatch, caplog):
    observe = leakage.observe

    def fails_for_seed_1(request, name, data, model):
        if model.seed == 1:
            raise TrainingError("the loss is nan")
        return observe(request, name, data, model)

    monkeypatch.setattr(leakage, "observe", fails_for_seed_1)
    empty = {**result, "rows": []}
    joined = leakage.with_missing(empty, with_(request_, store=Store(tmp_path / "fresh")), {"EPAGCL"})
    assert [run["seed"] for run in joined["rows"][0]["runs"]] == [0]
    assert "EPAGCL on demo, seed 1: left out (the loss is nan)" in caplog.messages
