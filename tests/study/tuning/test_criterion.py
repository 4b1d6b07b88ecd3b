import contextlib
import logging

import pytest
import torch

import epagcl
from epagcl.core.errors import InputError, TrainingError
from epagcl.data import block_model, random_split
from epagcl.data.splits import Split
from epagcl.evaluation.linear import linear_evaluation
from epagcl.study.tuning import criterion
from epagcl.study.tuning.criterion import Criterion, Outcome, chooses_epoch, quiet_logs, splits_with_one_test

STRICT = (0.1, 0.1)


def silent(model):
    """Show no progress of a training."""
    return contextlib.nullcontext(None)


def ignore(k, epoch, accuracy):
    """Ignore the accuracy of an evaluation."""


def test_all_splits_share_their_test_nodes_and_redistribute_the_others(graph):
    splits = splits_with_one_test(graph, "strict", STRICT, seed=5, seeds=3)
    own = random_split(graph.y, seed=5)
    for part in ("train", "val", "test"):
        assert getattr(splits[0], part).equal(getattr(own, part))
    pool = torch.cat([own.train, own.val]).sort().values
    for split in splits:
        assert split.test.equal(own.test)
        assert torch.cat([split.train, split.val]).sort().values.equal(pool)
        for part in ("train", "val"):
            assert torch.bincount(graph.y[getattr(split, part)]).equal(torch.bincount(graph.y[getattr(own, part)]))
    trains = {tuple(split.train.tolist()) for split in splits}
    assert len(trains) == 3


def test_other_ratios_are_drawn_class_by_class_and_checked(graph):
    (split,) = splits_with_one_test(graph, "strict", (0.4, 0.3), seed=0, seeds=1)
    assert torch.bincount(graph.y[split.train]).equal((torch.bincount(graph.y) * 0.4).long())
    for ratios in ((0.5, 0.5), (0.0, 0.5), (0.1, 0.1, 0.1)):
        with pytest.raises(InputError, match="two shares above 0"):
            splits_with_one_test(graph, "strict", ratios, 0, 1)
    with pytest.raises(InputError, match="choose strict or public"):
        splits_with_one_test(graph, "paper", STRICT, 0, 1)


def test_public_is_the_published_split(graph):
    data = graph.clone()
    for k, part in enumerate(("train", "val", "test")):
        data[f"{part}_mask"] = torch.arange(600) % 3 == k
    splits = splits_with_one_test(data, "public", STRICT, seed=0, seeds=2)
    assert [split.val.tolist() for split in splits] == [list(range(1, 600, 3))] * 2


def test_the_search_sees_no_test_label(graph):
    splits = splits_with_one_test(graph, "strict", STRICT, 0, 2)
    y, hidden = graph.y.clone(), Criterion(graph, splits, 1).hidden.y
    assert hidden[splits[0].test].eq(-1).all()
    assert hidden[splits[1].train].equal(y[splits[1].train])
    assert hidden[splits[1].val].equal(y[splits[1].val])
    assert graph.y.equal(y)


@pytest.mark.slow
def test_the_best_epoch_maximises_the_mean_curve(graph, small):
    splits = splits_with_one_test(graph, "strict", STRICT, 0, 2)
    settings = {**small, "epochs": 7, "lr": 0.01}
    reports = []
    outcome = Criterion(graph, splits, every=3).judge(
        [epagcl.EPAGCL(**settings, seed=k) for k in range(2)], silent, lambda *report: reports.append(report)
    )
    curves = {}
    for epochs in (3, 6, 7):
        curves[epochs] = []
        for k, split in enumerate(splits):
            z = epagcl.EPAGCL(**{**settings, "epochs": epochs}, seed=k).fit_embed(graph)
            chosen = linear_evaluation(z, graph.y, splits=[split]).chosen[0]
            curves[epochs].append(chosen["validation_accuracy"])
    best = max(curves, key=lambda epochs: (sum(curves[epochs]), -epochs))
    assert len({sum(curve) for curve in curves.values()}) > 1
    assert (outcome.epochs, outcome.accuracies) == (best, curves[best])
    assert outcome.mean == pytest.approx(sum(curves[best]) / 2)
    assert reports == [(k, epoch, curves[epoch][k]) for k in range(2) for epoch in (3, 6)]


def test_ties_go_to_the_earliest_epoch(graph, small, monkeypatch):
    splits = splits_with_one_test(graph, "strict", STRICT, 0, 1)
    monkeypatch.setattr(Criterion, "validation_accuracy", lambda *_: 0.5)
    assert Criterion(graph, splits, 1).judge([epagcl.EPAGCL(**small)], silent, ignore) == Outcome([0.5], 1)


@pytest.mark.parametrize(("name", "chooses"), [("epagcl", True), ("cca-ssg", True), ("dgi", False), ("bgrl", False)])
def test_which_methods_have_their_epochs_chosen(name, chooses):
    assert chooses_epoch(epagcl.method(name)()) is chooses
    assert not chooses_epoch(epagcl.SupervisedGCN(patience=0))


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"patience": 2, "lr": 0.05}, {"patience": 0, "epochs": 0}])
def test_a_method_that_stops_early_is_judged_at_its_end(graph, small, settings):
    splits = splits_with_one_test(graph, "strict", STRICT, 0, 1)
    settings = {"epochs": 12, "dim": 6, "device": "cpu", **settings}
    outcome = Criterion(graph, splits, 1).judge([epagcl.DGI(**settings)], silent, ignore)
    z = epagcl.DGI(**settings).fit_embed(graph)
    chosen = linear_evaluation(z, graph.y, splits=splits).chosen[0]["validation_accuracy"]
    assert outcome == Outcome([chosen], settings["epochs"])


def test_a_supervised_method_is_judged_by_its_own_predictions(graph):
    splits = splits_with_one_test(graph, "strict", STRICT, 0, 1)
    settings = {"epochs": 30, "hidden": 8, "device": "cpu"}
    outcome = Criterion(graph, splits, 5).judge([epagcl.SupervisedGCN(**settings)], silent, ignore)
    model = epagcl.SupervisedGCN(**settings).fit(graph, split=splits[0])
    right = model.predict(graph)[splits[0].val] == graph.y[splits[0].val]
    assert outcome == Outcome([float(right.float().mean())], 30)
    scores = Criterion(graph, splits, 5).test([epagcl.SupervisedGCN(**settings)], silent)
    test = splits[0].test
    assert scores["test"]["mean"] == pytest.approx(float((model.predict(graph)[test] == graph.y[test]).float().mean()))
    assert scores["validation"]["runs"] == outcome.accuracies


def test_epochs_with_a_collapsed_embedding_do_not_count(graph, small, monkeypatch):
    splits = splits_with_one_test(graph, "strict", STRICT, 0, 1)
    monkeypatch.setattr(Criterion, "validation_accuracy", lambda *_: 0.5)
    ranks = iter([1.0, 1.5, 3.0, 4.0])
    monkeypatch.setattr(criterion, "effective_rank", lambda z: next(ranks))
    assert Criterion(graph, splits, 1).judge([epagcl.EPAGCL(**small)], silent, ignore).epochs == 3
    monkeypatch.setattr(criterion, "effective_rank", lambda z: 1.0)
    with pytest.raises(TrainingError, match="the embedding has collapsed"):
        Criterion(graph, splits, 1).judge([epagcl.EPAGCL(**small)], silent, ignore)


def test_an_embedding_that_is_not_finite_fails(graph):
    splits = splits_with_one_test(graph, "strict", STRICT, 0, 1)
    with pytest.raises(TrainingError, match="not finite"):
        Criterion(graph, splits, 1).validation_accuracy(epagcl.EPAGCL(), torch.full((600, 2), torch.nan), 0)


def test_the_closing_scores_equal_those_of_the_evaluation(graph, small):
    splits = splits_with_one_test(graph, "strict", STRICT, 0, 2)
    scores = Criterion(graph, splits, 1).test([epagcl.EPAGCL(**small, seed=k) for k in range(2)], silent)
    for k, split in enumerate(splits):
        z = epagcl.EPAGCL(**small, seed=k).fit_embed(graph)
        expected = linear_evaluation(z, graph.y, splits=[split])
        assert scores["test"]["runs"][k] == expected.runs[0]
        assert scores["validation"]["runs"][k] == expected.chosen[0]["validation_accuracy"]
    assert scores["settings"]["hidden"] == small["hidden"]


def test_quiet_logs_silences_the_library_below_errors(caplog):
    log = logging.getLogger("epagcl")
    with caplog.at_level(logging.INFO, logger="epagcl"), quiet_logs():
        log.warning("repeated by every trial")
        log.error("an error")
    log.warning("afterwards")
    assert caplog.messages == ["an error", "afterwards"]


def test_unlabelled_validation_nodes_are_ignored():
    data = block_model(60, num_classes=3, num_features=40, topic_words=10, words_per_node=6, seed=3)
    data.y[10:20] = -1
    split = Split(torch.arange(10), torch.arange(10, 30), torch.arange(30, 60))
    model = epagcl.SupervisedGCN(device="cpu", epochs=0).fit(data, split=split)
    z = torch.nn.functional.one_hot(data.y.clamp(min=0), 3).float()
    assert Criterion(data, [split], 1).validation_accuracy(model, z, 0) == 1.0
