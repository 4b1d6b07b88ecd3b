"""The evaluation of a run: protocols, splits, references, and scores of several seeds."""

import pytest
import torch

from epagcl import EPAGCL, MVGRL, EPAGCLPlus, Propagated, SupervisedGCN, linear_evaluation
from epagcl.core.errors import InputError
from epagcl.data import block_model, geom_splits, random_split
from epagcl.data.splits import published_splits
from epagcl.runs.evaluation import REFERENCES, Plan, evaluate, merge, references, split_of, unfit_labels

SMALL = {"hidden": 32, "dim": 16, "projection": 16, "device": "cpu"}


@pytest.fixture(scope="module")
def data():
    return block_model(300, num_classes=3, num_features=60, topic_words=20, seed=1)


@pytest.fixture(scope="module")
def published(data):
    """The graph with two published splits."""
    graph = data.clone()
    for part, index in vars(random_split(data.y)).items():
        mask = torch.zeros(300, 2, dtype=torch.bool)
        mask[index] = True
        graph[f"geom_{part}_mask"] = mask
    return graph


def test_scores_are_those_of_the_linear_evaluation(data):
    scores = evaluate(data.x, data, Plan(runs=2), seed=3, device="cpu")
    assert scores["accuracy"]["runs"] == linear_evaluation(data.x, data.y, runs=2, seed=3).runs
    assert scores["split_seeds"] == [3, 4]
    assert len(scores["knn_accuracy"]["runs"]) == 2
    assert scores["clustering"].keys() == {"nmi", "ari"}
    alone = evaluate(data.x, data, Plan(runs=2), seed=3, device="cpu", companions=False)
    assert scores.keys() - alone.keys() == {"knn_accuracy", "clustering"}


def test_the_public_protocol_uses_the_published_splits(published):
    scores = evaluate(published.x, published, Plan("public"), seed=0, device="cpu", companions=False)
    assert (scores["protocol"], len(scores["accuracy"]["runs"]), scores["split_seeds"]) == ("public", 2, [])


@pytest.mark.slow
def test_references_are_raw_untrained_and_propagated_features(data):
    method = EPAGCL(epochs=3, seed=2, **SMALL)
    scores = references(data, method, Plan(runs=1))
    untrained = EPAGCL(epochs=0, seed=2, **SMALL).fit_embed(data)
    propagated = Propagated(device="cpu").fit_embed(data)
    assert list(scores) == list(REFERENCES) == ["raw features", "untrained encoder", "propagated"]
    for name, z in zip(REFERENCES, (data.x, untrained, propagated), strict=True):
        assert scores[name] == evaluate(z, data, Plan(runs=1), seed=2, device="cpu", companions=False)


def test_an_untrained_method_with_more_than_an_encoder_is_named_after_the_method(data):
    """Without training, EPAGCL+ still has its propagated features; "untrained encoder" would hide them."""
    method = EPAGCLPlus(epochs=3, seed=2, **SMALL)
    scores = references(data, method, Plan(runs=1))
    assert list(scores) == ["raw features", "untrained EPAGCL+", "propagated"]
    untrained = EPAGCLPlus(epochs=0, seed=2, **SMALL).fit_embed(data)
    expected = evaluate(untrained, data, Plan(runs=1), seed=2, device="cpu", companions=False)
    assert scores["untrained EPAGCL+"] == expected


def test_the_reference_encoder_of_a_supervised_method_is_that_of_epagcl(data):
    split = [random_split(data.y, seed=1)]
    scores = references(data, SupervisedGCN(seed=1, device="cpu"), Plan(runs=1), split)
    untrained = EPAGCL(epochs=0, seed=1, device="cpu").fit_embed(data)
    expected = evaluate(untrained, data, Plan(runs=1), seed=1, device="cpu", companions=False, splits=split)
    assert scores["untrained encoder"] == expected


def test_the_untrained_encoder_is_the_methods_own_and_a_method_without_training_has_none(data):
    scores = references(data, MVGRL(dim=8, seed=1, device="cpu"), Plan(runs=1))
    untrained = MVGRL(dim=8, epochs=0, seed=1, device="cpu").fit_embed(data)
    expected = evaluate(untrained, data, Plan(runs=1), seed=1, device="cpu", companions=False)
    assert scores["untrained encoder"] == expected
    assert list(references(data, Propagated(dim=8, device="cpu"), Plan(runs=1))) == ["raw features"]


def test_the_split_of_a_seed(data, published):
    for seed in (0, 3):
        expected = random_split(data.y, seed=seed)
        assert torch.equal(split_of(data, "strict", seed).test, expected.test)
    splits = published_splits(published)
    for seed in (0, 1, 2):
        assert torch.equal(split_of(published, "public", seed).train, splits[seed % 2].train)


def test_published_splits_are_those_of_the_graph(data, published):
    assert len(published_splits(published)) == len(geom_splits(published)) == 2
    with pytest.raises(InputError, match="no public split"):
        published_splits(data)


def test_labels_that_cannot_be_evaluated_are_found_before_training(data):
    assert unfit_labels(data, Plan()) is None
    for y, words in (
        (torch.full((300,), -1), "0 labelled nodes"),
        (torch.zeros(300, dtype=torch.long), "1 class among the labels"),
        (torch.where(torch.arange(300) < 4, data.y, -1), "4 labelled nodes"),
    ):
        other = data.clone()
        other.y = y
        assert words in unfit_labels(other, Plan())
    assert "no public split" in unfit_labels(data, Plan("public"))
    unlabelled = data.clone()
    del unlabelled.y
    assert unfit_labels(unlabelled, Plan()) is None


def test_merged_scores():
    parts = [
        {
            "protocol": "strict",
            "split": "a",
            "split_seeds": [k],
            "classes": [0, 1],
            "accuracy": {"runs": [r]},
            "macro_f1": {"runs": [r]},
            "clustering": {"nmi": r},
            "confusion": [[1, 2], [0, k]],
        }
        for k, r in enumerate((0.2, 0.4))
    ]
    merged = merge(parts)
    assert merged["confusion"] == [[2, 4], [0, 1]]
    assert merged["split_seeds"] == [0, 1]
    assert merged["accuracy"] == {"mean": pytest.approx(0.3), "std": pytest.approx(0.02**0.5), "runs": [0.2, 0.4]}
    assert merged["clustering"] == {"nmi": pytest.approx(0.3)}
    assert "knn_accuracy" not in merged
