import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix, f1_score, precision_recall_fscore_support

from epagcl import evaluation
from epagcl.data import Split, random_split
from epagcl.errors import InputError
from epagcl.evaluation import (
    Evaluation,
    Rule,
    class_scores,
    clustering,
    knn_accuracy,
    linear_evaluation,
    prediction_evaluation,
)


def blobs(n=600, d=8, classes=4, spread=1.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(classes, d, generator=generator)
    y = torch.arange(n) % classes
    return centres[y] + spread * torch.randn(n, d, generator=generator), y


@pytest.mark.parametrize("protocol", ["strict", "paper"])
def test_separable_classes_score_1_and_noise_scores_chance(protocol, monkeypatch):
    monkeypatch.setattr(evaluation, "PAPER", Rule((0.0,), 300, 1, False, True))
    z, y = blobs(spread=0.05)
    assert linear_evaluation(z, y, protocol, runs=2).mean > 0.995
    noise = torch.randn(2000, 8, generator=torch.Generator().manual_seed(0))
    assert linear_evaluation(noise, torch.arange(2000) % 4, protocol, runs=3).mean == pytest.approx(0.25, abs=0.04)


def test_test_labels_cannot_leak():
    """Scrambling all test labels changes the scores and nothing that was fitted or chosen."""
    z, y = blobs(spread=1.5)
    splits = [random_split(y, seed=s) for s in range(3)]
    fitted = []
    original = evaluation._fit

    def spy(*arguments):
        fitted.append(original(*arguments))
        return fitted[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "_fit", spy)
        honest = [linear_evaluation(z, y, splits=[split]) for split in splits]
        scrambled = []
        for split in splits:
            other = y.clone()
            other[split.test] = (y[split.test] + 1) % 4
            scrambled.append(linear_evaluation(z, other, splits=[split]))
    for a, b, first, second in zip(fitted[:3], fitted[3:], honest, scrambled, strict=True):
        assert torch.equal(a[0], b[0])
        assert torch.equal(a[1], b[1])
        assert first.chosen == second.chosen
        assert first.mean > 0.5 > second.mean


def test_test_embeddings_are_not_fitted_on():
    z, y = blobs()
    split = random_split(y, seed=0)
    rule = Rule((0.1,), 50, 10, False, False)
    moved = z.clone()
    moved[split.test] = 0
    weights = []
    for rows in (z, moved):
        train, val = split.train[None], split.val[None]
        weights.append(evaluation._fit(rows[train], y[train], rows[val], y[val], 4, rule, 0)[0])
    assert torch.equal(*weights)


def test_regression_reaches_the_minimum_that_scikit_learn_finds():
    z, y = blobs(spread=1.2)
    split = random_split(y, seed=1)
    decay = 0.1
    rule = Rule((decay,), 4000, 4000, False, False)
    weight, bias, _ = evaluation._fit(
        z[split.train][None], y[split.train][None], z[split.val][None], y[split.val][None], 4, rule, 0
    )
    theirs = LogisticRegression(C=1 / (decay * len(split.train)), tol=1e-10, max_iter=5000)
    theirs.fit(z[split.train].numpy(), y[split.train].numpy())
    np.testing.assert_allclose(weight[0].T.numpy(), theirs.coef_, atol=2e-3)
    ours = (z[split.test] @ weight[0] + bias[0]).argmax(1)
    assert (ours.numpy() == theirs.predict(z[split.test].numpy())).mean() > 0.995


@pytest.mark.parametrize("protocol", ["strict", "paper"])
def test_runs_together_equal_runs_alone(protocol, monkeypatch):
    monkeypatch.setattr(evaluation, "PAPER", Rule((0.0,), 30, 1, False, True))
    z, y = blobs(spread=1.5)
    together = linear_evaluation(z, y, protocol, runs=4, seed=3)
    alone = [linear_evaluation(z, y, protocol, runs=1, seed=3 + run).mean for run in range(4)]
    assert together.runs == pytest.approx(alone, abs=1e-6)
    assert together.split_seeds == [3, 4, 5, 6]
    given = linear_evaluation(z, y, protocol, seed=3, splits=[random_split(y, seed=s) for s in together.split_seeds])
    assert given.runs == together.runs


def test_splits_of_unequal_sizes_keep_their_order():
    z, y = blobs(spread=1.5)
    splits = [random_split(y, ratios=(r, 0.1), seed=s) for s, r in enumerate((0.1, 0.3, 0.1))]
    alone = [linear_evaluation(z, y, splits=[split]).mean for split in splits]
    assert linear_evaluation(z, y, splits=splits).runs == pytest.approx(alone, abs=1e-6)


def test_ties_go_to_the_earliest_step_and_the_strongest_penalty():
    y = torch.arange(400) % 4
    z = torch.eye(4)[y]  # every step and every penalty scores 1 on validation
    chosen = linear_evaluation(z, y, runs=1).chosen[0]
    rule = evaluation.STRICT
    assert chosen == {"decay": max(rule.decays), "step": rule.every, "validation_accuracy": 1.0}


def test_scores_equal_scikit_learn():
    generator = torch.Generator().manual_seed(0)
    truth, prediction = (torch.randint(0, 5, (200,), generator=generator) for _ in range(2))
    prediction[prediction == 3] = 2  # a class that is never predicted
    table = evaluation._confusion(prediction, truth, 6)
    assert table[:5, :5].tolist() == confusion_matrix(truth, prediction).tolist()
    result = evaluation._evaluation("strict", "", [], [table, table], [], torch.arange(6))
    assert result.runs == pytest.approx([(truth == prediction).double().mean().item()] * 2)
    assert result.macro_f1 == pytest.approx([f1_score(truth, prediction, average="macro")] * 2)
    assert result.confusion == (2 * table).tolist()
    scores = class_scores(result.confusion)
    precision, recall, f1, support = precision_recall_fscore_support(truth, prediction, zero_division=float("nan"))
    assert scores["precision"][:5].numpy() == pytest.approx(precision, nan_ok=True)
    assert scores["recall"][:5].numpy() == pytest.approx(recall)
    assert scores["support"][:5].tolist() == (2 * support).tolist()
    assert scores["f1"][:5].numpy() == pytest.approx(f1)
    assert all(scores[name][5].isnan() for name in ("precision", "recall", "f1"))


def test_the_confusion_has_true_classes_in_rows_and_predicted_ones_in_columns():
    """Every fifth node of class 1 looks like class 2, and can only be taken for it."""
    y = torch.arange(400) % 4
    looks = torch.where((y == 1) & (torch.arange(400) % 20 == 1), 2, y)
    result = linear_evaluation(torch.eye(4)[looks], y + 3, runs=2)
    assert result.classes == [3, 4, 5, 6]
    tested = torch.cat([random_split(y, seed=seed).test for seed in range(2)])
    expected = torch.bincount(4 * y[tested] + looks[tested], minlength=16).view(4, 4)
    assert expected[1, 2] > 0
    assert result.confusion == expected.tolist()


def test_scale_of_the_embedding_does_not_matter_to_strict():
    z, y = blobs(spread=1.5)
    assert linear_evaluation(z, y).runs == linear_evaluation(1024 * z, y).runs


def test_unlabelled_nodes_and_gaps_in_class_numbers():
    z, y = blobs(spread=0.05)
    gaps = torch.tensor([3, 10, 11, 40])[y]
    gaps[::5] = -1
    result = linear_evaluation(z, gaps, runs=2)
    assert result.mean > 0.99


def test_given_splits_lose_their_unlabelled_nodes_and_arrays_are_taken():
    z, y = blobs(spread=0.05)
    split = random_split(y, seed=0)
    holes = y.clone()
    holes[split.train[:5]] = holes[split.test[:7]] = -1
    result = linear_evaluation(z.numpy(), holes[:, None].numpy(), splits=[split])
    assert result.mean > 0.99
    assert knn_accuracy(z, holes, splits=[split])[0] > 0.99
    with pytest.raises(InputError, match="splits is empty"):
        linear_evaluation(z, y, splits=[])


def test_sparse_features_are_taken():
    z, y = blobs(spread=0.5)
    z = z * (z > 0)
    assert linear_evaluation(z.to_sparse_csr(), y).runs == linear_evaluation(z, y).runs


def test_public_uses_the_given_splits():
    z, y = blobs(spread=0.05)
    split = Split(torch.arange(0, 40), torch.arange(40, 80), torch.arange(80, 600))
    result = linear_evaluation(z, y, "public", splits=[split])
    assert result.split == "published, 1"
    assert result.runs == [1.0]
    with pytest.raises(InputError, match="needs the published splits"):
        linear_evaluation(z, y, "public")


def test_summary_numbers():
    result = Evaluation("strict", "words", [], [0.5, 0.7], [0.4, 0.6], [{}, {}], [0, 1], [[1, 0], [0, 1]])
    assert result.mean == pytest.approx(0.6)
    assert result.std == pytest.approx(0.1 * 2**0.5)
    assert result.micro_f1 == [0.5, 0.7]
    assert Evaluation("strict", "words", [], [0.5], [0.4], [{}], [], []).std == 0
    assert result.to_dict()["macro_f1"]["std"] == pytest.approx(0.1 * 2**0.5)


def test_companions():
    z, y = blobs(spread=0.05)
    assert knn_accuracy(z, y, runs=2) == [1.0, 1.0]
    assert clustering(z, y) == pytest.approx({"nmi": 1.0, "ari": 1.0})
    noise = torch.randn(600, 8, generator=torch.Generator().manual_seed(0))
    assert clustering(noise, y)["ari"] == pytest.approx(0, abs=0.03)
    # The nearest neighbour of each test node, by hand.
    split = random_split(y, seed=0)
    unit = torch.nn.functional.normalize(noise, dim=1)
    nearest = (unit[split.test] @ unit[split.train].T).argmax(1)
    tiny = Split(split.train, split.train[:1], split.test)  # its own nearest: k = 1 wins the tie
    expected = (y[split.train][nearest] == y[split.test]).double().mean().item()
    assert knn_accuracy(noise, y, splits=[tiny]) == [pytest.approx(expected)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda z, y: linear_evaluation(z, y, "loose"), "choose one of strict, paper, public"),
        (lambda z, y: linear_evaluation(z, y, runs=0), "runs=0"),
        (lambda z, y: linear_evaluation(z, torch.zeros_like(y)), "1 class among the labels"),
        (lambda z, y: linear_evaluation(z * float("nan"), y), "NaN or infinite"),
        (lambda z, y: linear_evaluation(z[0], y), "must be nodes × dimensions"),
        (lambda z, y: linear_evaluation(z[:50], y), "50 rows for 600 labels"),
    ],
)
def test_wrong_arguments_name_the_fix(call, message):
    with pytest.raises(InputError, match=message):
        call(*blobs())


def test_twenty_splits_of_coras_size_take_seconds():
    import time

    z, y = blobs(n=2708, d=256, classes=7, spread=3.0)
    start = time.perf_counter()
    linear_evaluation(z, y, runs=20)
    assert time.perf_counter() - start < 30  # about 2 s on two cores


def test_an_embedding_for_each_run_is_scored_on_the_split_of_that_run():
    embeddings = [blobs(seed=seed)[0] for seed in range(3)]
    y = blobs()[1]
    together = linear_evaluation(embeddings, y, seed=4)
    apart = [linear_evaluation(z, y, runs=1, seed=4 + k) for k, z in enumerate(embeddings)]
    assert together.runs == pytest.approx([one.runs[0] for one in apart])
    assert together.macro_f1 == pytest.approx([one.macro_f1[0] for one in apart])
    assert together.split_seeds == [4, 5, 6]
    assert [chosen["step"] for chosen in together.chosen] == [one.chosen[0]["step"] for one in apart]


def test_embeddings_and_splits_must_match():
    z, y = blobs()
    splits = [random_split(y, seed=s) for s in range(2)]
    with pytest.raises(InputError, match="3 embeddings for 2 splits"):
        linear_evaluation([z] * 3, y, splits=splits)
    with pytest.raises(InputError, match="embeddings of different widths"):
        linear_evaluation([z, z[:, :4]], y)


def test_predictions_are_scored_on_test_nodes_alone():
    y = torch.tensor([3, 3, 7, 7, 9, 9, 3, 7, -1])
    split = Split(torch.tensor([0, 2]), torch.tensor([1, 3]), torch.tensor([4, 5, 6, 7, 8]))
    prediction = torch.tensor([9, 9, 9, 9, 9, 3, 3, 7, 7])  # wrong wherever it does not count
    result = prediction_evaluation(prediction, y, split, "strict", 5)
    assert result.runs == [0.75]
    assert result.macro_f1[0] == pytest.approx((2 / 3 + 2 / 3 + 1) / 3)  # of 9, 3 and 7
    assert result.split_seeds == [5]
