import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix, f1_score, precision_recall_fscore_support

from epagcl import evaluation
from epagcl.core.errors import InputError
from epagcl.data import Split, random_split
from epagcl.evaluation.clusters import clustering
from epagcl.evaluation.knn import knn_accuracy
from epagcl.evaluation.linear import linear_evaluation
from epagcl.evaluation.protocol import Rule
from epagcl.evaluation.scores import Evaluation, class_scores, prediction_evaluation


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


def scores(z, y, **options):
    """Of all three; those of a linear classifier in full."""
    return linear_evaluation(z, y, runs=2, **options).to_dict(), knn_accuracy(z, y, runs=2, **options), clustering(z, y)


LOCKED = blobs(spread=1.5)[0].numpy()
LOCKED.setflags(write=False)


@pytest.mark.parametrize(
    "form",
    [
        lambda z: z.numpy(),
        lambda z: z.numpy()[::-1].copy()[::-1],
        lambda z: LOCKED,
        lambda z: z.tolist(),
        lambda z: [tuple(row) for row in z.tolist()],
        lambda z: pd.DataFrame(z.numpy(), index=range(600, 0, -1)),
        lambda z: pd.DataFrame(z.numpy()).astype({0: object}),
        lambda z: pd.DataFrame(z.numpy()).astype("Float32"),
        lambda z: scipy.sparse.csr_array(z.numpy()),
        lambda z: scipy.sparse.coo_matrix(z.numpy()),
        lambda z: z.to_sparse_csr(),
        lambda z: z.clone().requires_grad_(),
    ],
)
def test_embeddings_in_any_form_score_the_same(form):
    z, y = blobs(spread=1.5)
    assert scores(form(z), y) == scores(z, y)


@pytest.mark.parametrize(
    "form",
    [
        lambda y: y.numpy(),
        lambda y: y.tolist(),
        lambda y: list(y),
        lambda y: y.numpy().astype(np.uint16) if (y >= 0).all() else y.int(),
        lambda y: y[:, None],
        lambda y: torch.where(y < 0, torch.nan, y),
        lambda y: pd.Series(y.numpy(), index=range(600, 0, -1)),
        lambda y: pd.Series(y.numpy()).astype("Int64").mask(y.numpy() < 0),
        lambda y: pd.Categorical(y.numpy()),
        lambda y: pd.DataFrame({"label": y.numpy()}),
    ],
)
@pytest.mark.parametrize("holes", [False, True])
def test_labels_in_any_form_score_the_same(form, holes):
    z, y = blobs(spread=1.5)
    y[::9] = -1 if holes else y[::9]
    assert scores(z, form(y)) == scores(z, y)
    assert all(type(c) is int for c in linear_evaluation(z, form(y), runs=1).classes)


@pytest.mark.parametrize(
    "form",
    [
        lambda names: names,
        lambda names: np.array(["" if name is None else name for name in names]),
        lambda names: pd.Series(names, index=range(600, 0, -1)),
        lambda names: pd.Series(names, dtype="category"),
        lambda names: pd.Categorical(names, categories=["oak", "fir", "elm", "ash"]),
    ],
)
def test_names_are_classes_in_their_sorted_order(form):
    z, y = blobs(spread=1.5)
    y[::9] = -1
    trees = ["ash", "elm", "fir", "oak", None]
    by_name = scores(z, form([trees[c] for c in y]))
    expected = scores(z, y)
    assert by_name[0].pop("classes") == trees[:4]
    assert expected[0].pop("classes") == [0, 1, 2, 3]
    assert by_name == expected


def test_text_of_digits_is_text():
    z, y = blobs(spread=1.5)
    result = linear_evaluation(z, [str(c) for c in y.tolist()], runs=1)
    assert result.classes == ["0", "1", "2", "3"]
    assert result.runs == linear_evaluation(z, y, runs=1).runs


@pytest.mark.parametrize(
    "form", [lambda y: y == 1, lambda y: (y == 1).tolist(), lambda y: pd.Series((y == 1).numpy(), dtype=object)]
)
def test_false_and_true_are_0_and_1(form):
    z, y = blobs(classes=2, spread=1.5)
    assert scores(z, form(y)) == scores(z, y)


@pytest.mark.parametrize("call", [linear_evaluation, knn_accuracy, clustering])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda z, y: (z, y[:50]), "600 rows for 50 labels; give one of each per node"),
        (lambda z, y: (z, y + 0.5), "y: labels are not whole numbers"),
        (lambda z, y: (z, (y + 0.5).tolist()), "y: labels are not whole numbers"),
        (lambda z, y: (z, torch.eye(4)[y]), r"labels have shape \(600, 4\); .* that is y.argmax\(1\)"),
        (lambda z, y: (z, np.eye(4)[y.numpy()]), r"labels have shape \(600, 4\)"),
        (lambda z, y: (z, [[0], [1, 2]] * 300), "unequal lists"),
        (lambda z, y: (z, y - 2), "y: label -2; give class numbers"),
        (lambda z, y: (z, None), "y: no labels"),
        (lambda z, y: (z, 3), r"labels have shape \(\)"),
        (lambda z, y: (z[:, 0], y), r"shape \(600,\): it must be nodes × dimensions"),
        (lambda z, y: (z[:, :0], y), r"shape \(600, 0\): it must be nodes × dimensions"),
        (lambda z, y: ([[1.0, 2.0], [3.0]] * 300, y), "rows of equal length"),
        (lambda z, y: ([["a", "b"]] * 600, y), "z: values of type <U1; give numbers"),
        (lambda z, y: (pd.DataFrame({"a": ["1"] * 600}), y), "z: values of type object; give numbers"),
        (lambda z, y: (pd.DataFrame({"a": [{}] * 600}), y), "numbers alone"),
        (lambda z, y: ([], y), r"z is empty|shape \(0,\)"),
    ],
)
def test_all_scores_check_embedding_and_labels_alike(call, change, message):
    with pytest.raises(InputError, match=message):
        call(*change(*blobs()))


def test_companions_name_the_fix():
    z, y = blobs()
    with pytest.raises(InputError, match="no node has a label"):
        clustering(z, torch.full_like(y, -1))
    for call in (knn_accuracy, clustering):
        with pytest.raises(InputError, match=r"shape \(2, 600, 8\): it must be nodes × dimensions"):
            call([z, z], y)
        assert call(list(z.numpy()), y) == call(z, y)  # not several, which these cannot score
    with pytest.raises(InputError, match="runs=0: at least 1"):
        knn_accuracy(z, y, runs=0)
    with pytest.raises(InputError, match="splits is empty"):
        knn_accuracy(z, y, splits=[])


def test_a_list_of_arrays_is_several_embeddings():
    embeddings = [blobs(seed=seed)[0] for seed in range(3)]
    y = blobs()[1]
    forms = [embeddings[0].numpy(), embeddings[1].tolist(), pd.DataFrame(embeddings[2].numpy())]
    assert linear_evaluation(forms, y) == linear_evaluation(embeddings, y)


@pytest.mark.parametrize("call", [linear_evaluation, knn_accuracy])
def test_splits_in_any_form_score_the_same(call):
    z, y = blobs(spread=1.5)
    split = random_split(y, seed=3)
    parts = [split.train, split.val, split.test]
    masks = [torch.zeros(600, dtype=torch.bool).index_fill(0, part, True) for part in parts]
    expected = call(z, y, splits=[split])
    for form in (split, (split,), [Split(*masks)], [Split(*(m.tolist() for m in masks))], [tuple(parts)]):
        assert call(z, y, splits=form) == expected
    assert call(z, y, splits=[Split(*(part.numpy() for part in parts))]) == expected


@pytest.mark.parametrize("call", [linear_evaluation, knn_accuracy])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s, y: (Split(s.train[:0], s.val, s.test), y), r"splits\[0\].train: no labelled nodes; give at least"),
        (lambda s, y: (Split(s.train, s.val, s.test[:0]), y), r"splits\[0\].test: no labelled nodes"),
        (lambda s, y: ([s, (s.train, s.val)], y), r"splits\[1\].test: no labelled nodes"),
        (lambda s, y: (s, y.index_fill(0, s.test, -1)), r"splits\[0\].test: no labelled nodes"),
        (
            lambda s, y: (Split(s.train, s.val, s.test + 1), y),
            r"splits\[0\].test: node 600 is out of range; .* 0 to 599",
        ),
    ],
)
def test_a_split_must_have_labelled_nodes_of_the_graph(call, change, message):
    z, y = blobs()
    last = torch.tensor([599])
    s = random_split(y, seed=0)
    splits, y = change(Split(s.train, s.val, torch.cat([s.test, last])), y)
    with pytest.raises(InputError, match=message):
        call(z, y, splits=splits)


def test_a_classifier_cannot_be_chosen_without_validation_nodes():
    z, y = blobs()
    split = random_split(y, seed=0)
    with pytest.raises(InputError, match=r"splits\[0\].val: no labelled nodes"):
        linear_evaluation(z, y, splits=Split(split.train, split.val[:0], split.test))


def test_published_splits_are_counted_as_they_are_given():
    z, y = blobs()
    split, other = (random_split(y, seed=seed) for seed in range(2))
    assert linear_evaluation(z, y, "public", splits=[split, other, split]).split == "published, 2"


def test_seeds_of_numpy():
    z, y = blobs(spread=1.5)
    assert linear_evaluation(z, y, runs=2, seed=np.int64(3)) == linear_evaluation(z, y, runs=2, seed=3)
    result = linear_evaluation(z, y, seed=np.array([3, 7]))
    assert result == linear_evaluation(z, y, seed=[3, 7])
    assert json.loads(json.dumps(result.to_dict()))["split_seeds"] == [3, 7]
    assert knn_accuracy(z, y, seed=np.array([3, 4])) == knn_accuracy(z, y, runs=2, seed=np.int64(3))
    assert clustering(z, y, np.int64(3)) == clustering(z, y, 3)
    with pytest.raises(InputError, match=r"seed=0\.5: give a whole number"):
        linear_evaluation(z, y, seed=0.5)
