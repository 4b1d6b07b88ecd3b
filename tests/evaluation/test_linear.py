import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from epagcl.core.errors import InputError
from epagcl.data import Split, random_split
from epagcl.evaluation import linear
from epagcl.evaluation.linear import linear_evaluation
from epagcl.evaluation.protocol import STRICT, Rule
from tests.evaluation.blobs import blobs


@pytest.mark.parametrize("protocol", ["strict", "paper"])
def test_separable_classes_score_1_and_noise_scores_chance(protocol, monkeypatch):
    monkeypatch.setattr("epagcl.evaluation.protocol.PAPER", Rule((0.0,), 300, 1, False, True))
    z, y = blobs(spread=0.05)
    assert linear_evaluation(z, y, protocol, runs=2).mean > 0.995
    noise = torch.randn(2000, 8, generator=torch.Generator().manual_seed(0))
    assert linear_evaluation(noise, torch.arange(2000) % 4, protocol, runs=3).mean == pytest.approx(0.25, abs=0.04)


def test_test_labels_cannot_leak():
    """Scrambling all test labels changes the scores and nothing that was fitted or chosen."""
    z, y = blobs(spread=1.5)
    splits = [random_split(y, seed=s) for s in range(3)]
    fitted = []
    original = linear._fit

    def spy(*arguments):
        fitted.append(original(*arguments))
        return fitted[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear, "_fit", spy)
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
        weights.append(linear._fit(rows[train], y[train], rows[val], y[val], 4, rule, 0)[0])
    assert torch.equal(*weights)


def test_regression_reaches_the_minimum_that_scikit_learn_finds():
    z, y = blobs(spread=1.2)
    split = random_split(y, seed=1)
    decay = 0.1
    rule = Rule((decay,), 4000, 4000, False, False)
    weight, bias, _ = linear._fit(
        z[split.train][None], y[split.train][None], z[split.val][None], y[split.val][None], 4, rule, 0
    )
    theirs = LogisticRegression(C=1 / (decay * len(split.train)), tol=1e-10, max_iter=5000)
    theirs.fit(z[split.train].numpy(), y[split.train].numpy())
    np.testing.assert_allclose(weight[0].T.numpy(), theirs.coef_, atol=2e-3)
    ours = (z[split.test] @ weight[0] + bias[0]).argmax(1)
    assert (ours.numpy() == theirs.predict(z[split.test].numpy())).mean() > 0.995


@pytest.mark.parametrize("protocol", ["strict", "paper"])
def test_runs_together_equal_runs_alone(protocol, monkeypatch):
    monkeypatch.setattr("epagcl.evaluation.protocol.PAPER", Rule((0.0,), 30, 1, False, True))
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
    assert chosen == {"decay": max(STRICT.decays), "step": STRICT.every, "validation_accuracy": 1.0}


def test_confusion_has_true_classes_in_rows_and_predicted_classes_in_columns():
    """Every fifth node of class 1 looks like class 2, and can only be taken for it."""
    y = torch.arange(400) % 4
    looks = torch.where((y == 1) & (torch.arange(400) % 20 == 1), 2, y)
    result = linear_evaluation(torch.eye(4)[looks], y + 3, runs=2)
    assert result.classes == [3, 4, 5, 6]
    tested = torch.cat([random_split(y, seed=seed).test for seed in range(2)])
    expected = torch.bincount(4 * y[tested] + looks[tested], minlength=16).view(4, 4)
    assert expected[1, 2] > 0
    assert result.confusion == expected.tolist()


def test_strict_does_not_depend_on_the_scale_of_the_embedding():
    z, y = blobs(spread=1.5)
    assert linear_evaluation(z, y).runs == linear_evaluation(1024 * z, y).runs


def test_unlabelled_nodes_and_gaps_in_class_numbers_are_accepted():
    z, y = blobs(spread=0.05)
    gaps = torch.tensor([3, 10, 11, 40])[y]
    gaps[::5] = -1
    result = linear_evaluation(z, gaps, runs=2)
    assert result.mean > 0.99


def test_public_uses_the_given_splits():
    z, y = blobs(spread=0.05)
    split = Split(torch.arange(0, 40), torch.arange(40, 80), torch.arange(80, 600))
    result = linear_evaluation(z, y, "public", splits=[split])
    assert result.split == "published, 1"
    assert result.runs == [1.0]
    with pytest.raises(InputError, match="needs the published splits"):
        linear_evaluation(z, y, "public")


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
def test_errors_name_the_wrong_argument_and_the_fix(call, message):
    with pytest.raises(InputError, match=message):
        call(*blobs())


@pytest.mark.slow
def test_twenty_splits_of_the_size_of_cora_take_seconds():
    import time

    z, y = blobs(n=2708, d=256, classes=7, spread=3.0)
    start = time.perf_counter()
    linear_evaluation(z, y, runs=20)
    assert time.perf_counter() - start < 30  # about 2 s on two cores


def test_each_of_several_embeddings_is_scored_on_its_own_split():
    embeddings = [blobs(seed=seed)[0] for seed in range(3)]
    y = blobs()[1]
    together = linear_evaluation(embeddings, y, seed=4)
    separate = [linear_evaluation(z, y, runs=1, seed=4 + k) for k, z in enumerate(embeddings)]
    assert together.runs == pytest.approx([one.runs[0] for one in separate])
    assert together.macro_f1 == pytest.approx([one.macro_f1[0] for one in separate])
    assert together.split_seeds == [4, 5, 6]
    assert [chosen["step"] for chosen in together.chosen] == [one.chosen[0]["step"] for one in separate]


def test_number_of_embeddings_and_splits_must_match():
    z, y = blobs()
    splits = [random_split(y, seed=s) for s in range(2)]
    with pytest.raises(InputError, match="3 embeddings for 2 splits"):
        linear_evaluation([z] * 3, y, splits=splits)
    with pytest.raises(InputError, match="embeddings of different widths"):
        linear_evaluation([z, z[:, :4]], y)


def test_a_list_of_arrays_is_several_embeddings():
    embeddings = [blobs(seed=seed)[0] for seed in range(3)]
    y = blobs()[1]
    forms = [embeddings[0].numpy(), embeddings[1].tolist(), pd.DataFrame(embeddings[2].numpy())]
    assert linear_evaluation(forms, y) == linear_evaluation(embeddings, y)


def test_a_classifier_cannot_be_chosen_without_validation_nodes():
    z, y = blobs()
    split = random_split(y, seed=0)
    with pytest.raises(InputError, match=r"splits\[0\].val: no labelled nodes"):
        linear_evaluation(z, y, splits=Split(split.train, split.val[:0], split.test))


def test_a_published_split_that_is_given_twice_counts_once():
    z, y = blobs()
    split, other = (random_split(y, seed=seed) for seed in range(2))
    assert linear_evaluation(z, y, "public", splits=[split, other, split]).split == "published, 2"


def test_the_steps_are_those_of_adam():
    z, y = torch.randn(1, 20, 3, dtype=torch.float64), torch.arange(20)[None] % 4
    rule = Rule(decays=(0.3,), steps=5, every=5, rescale=False, random_start=True)
    weight, bias, _ = linear._fit(z, y, z, y, 4, rule, [7])
    start = [
        linear._linear_start(torch.zeros(shape, dtype=torch.float64), 3, 7, k)
        for k, shape in enumerate(((3, 4), (1, 4)))
    ]
    w, b = (part.clone().requires_grad_() for part in start)
    optimiser = torch.optim.Adam([w, b], lr=0.01)
    for _ in range(5):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(z[0] @ w + b, y[0]) + 0.15 * w.square().sum()
        loss.backward()
        optimiser.step()
    torch.testing.assert_close((weight[0], bias[:1].view(1, 4)), (w.detach(), b.detach()), rtol=1e-9, atol=1e-12)


def test_random_initial_weights_are_uniform_up_to_one_over_the_root_of_the_width():
    for d in (4, 100):
        start = linear._linear_start(torch.zeros(d, 500), d, 0, 0) * d**0.5
        assert -1 <= start.min() < -0.98
        assert 0.98 < start.max() <= 1
        assert abs(start.mean()) < 0.06


def test_the_rows_of_a_group_of_splits_take_at_most_1_gib():
    part = torch.arange(50)
    splits = [Split(part, part, part)] * 5
    assert [len(group) for group in linear._groups(splits, d=2**20)] == [2, 2, 1]
    assert [len(group) for group in linear._groups(splits, d=2**22)] == [1, 1, 1, 1, 1]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")
@pytest.mark.parametrize("protocol", ["strict", "paper"])
def test_a_captured_fit_equals_the_fit_on_a_cpu(device, monkeypatch, caplog, protocol):
    caplog.set_level("INFO", "epagcl")
    monkeypatch.setattr("epagcl.evaluation.protocol.PAPER", Rule((0.0,), 300, 1, False, True))
    z, y = blobs(spread=1.5)
    captured, plain = (linear_evaluation(rows, y, protocol, runs=3) for rows in (z.to(device), z))
    assert captured.runs == pytest.approx(plain.runs, abs=0.01)
    for one, other in zip(captured.chosen, plain.chosen, strict=True):
        assert one["validation_accuracy"] == pytest.approx(other["validation_accuracy"], abs=0.01)
    assert not [message for message in caplog.messages if message.startswith("no CUDA graph")]
    again = linear_evaluation(z.to(device), y, protocol, runs=3)
    assert (again.runs, again.chosen) == (captured.runs, captured.chosen)  # nothing is left of an earlier graph
