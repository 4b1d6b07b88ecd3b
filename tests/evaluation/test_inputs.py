"""Inputs in every accepted form, through all three scores."""

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch

from epagcl.core.errors import InputError
from epagcl.data import Split, random_split
from epagcl.evaluation.clusters import clustering
from epagcl.evaluation.inputs import check_inputs, is_list_of_embeddings, labelled_split, scale_embedding
from epagcl.evaluation.knn import knn_accuracy
from epagcl.evaluation.linear import linear_evaluation
from tests.evaluation.blobs import blobs

READ_ONLY = blobs(spread=1.5)[0].numpy()
READ_ONLY.setflags(write=False)


def test_unlabelled_nodes_are_removed_from_given_splits():
    z, y = blobs(spread=0.05)
    split = random_split(y, seed=0)
    holes = y.clone()
    holes[split.train[:5]] = holes[split.test[:7]] = -1
    result = linear_evaluation(z.numpy(), holes[:, None].numpy(), splits=[split])
    assert result.mean > 0.99
    assert knn_accuracy(z, holes, splits=[split])[0] > 0.99
    with pytest.raises(InputError, match="splits is empty"):
        linear_evaluation(z, y, splits=[])


def test_sparse_features_are_accepted():
    z, y = blobs(spread=0.5)
    z = z * (z > 0)
    assert linear_evaluation(z.to_sparse_csr(), y).runs == linear_evaluation(z, y).runs


def scores(z, y, **options):
    """Return the results of all three scores."""
    return linear_evaluation(z, y, runs=2, **options).to_dict(), knn_accuracy(z, y, runs=2, **options), clustering(z, y)


@pytest.mark.parametrize(
    "form",
    [
        lambda z: z.numpy(),
        lambda z: z.numpy()[::-1].copy()[::-1],
        lambda z: READ_ONLY,
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


def test_digits_as_text_are_class_names():
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
        (lambda z, y: (z, [[0], [1, 2]] * 300), "lists of different lengths"),
        (lambda z, y: (z, y - 2), "y: label -2; give class numbers"),
        (lambda z, y: (z, None), "y: no labels"),
        (lambda z, y: (z, 3), r"labels have shape \(\)"),
        (lambda z, y: (z[:, 0], y), r"shape \(600,\): it must be nodes × dimensions"),
        (lambda z, y: (z[:, :0], y), r"shape \(600, 0\): it must be nodes × dimensions"),
        (lambda z, y: ([[1.0, 2.0], [3.0]] * 300, y), "rows of equal length"),
        (lambda z, y: ([["a", "b"]] * 600, y), "z: values of type <U1; give numbers"),
        (lambda z, y: (pd.DataFrame({"a": ["1"] * 600}), y), "z: values of type object; give numbers"),
        (lambda z, y: (pd.DataFrame({"a": ["1"] * 600, "b": 2.0}), y), "z: values of type object; give numbers"),
        (lambda z, y: (pd.DataFrame({"a": [{}] * 600}), y), "numbers only"),
        (lambda z, y: ([], y), r"z is empty|shape \(0,\)"),
    ],
)
def test_all_scores_check_embeddings_and_labels_in_the_same_way(call, change, message):
    with pytest.raises(InputError, match=message):
        call(*change(*blobs()))


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


def test_numpy_integers_are_accepted_as_seeds():
    z, y = blobs(spread=1.5)
    assert linear_evaluation(z, y, runs=2, seed=np.int64(3)) == linear_evaluation(z, y, runs=2, seed=3)
    result = linear_evaluation(z, y, seed=np.array([3, 7]))
    assert result == linear_evaluation(z, y, seed=[3, 7])
    assert json.loads(json.dumps(result.to_dict()))["split_seeds"] == [3, 7]
    assert knn_accuracy(z, y, seed=np.array([3, 4])) == knn_accuracy(z, y, runs=2, seed=np.int64(3))
    assert clustering(z, y, np.int64(3)) == clustering(z, y, 3)
    with pytest.raises(InputError, match=r"seed=0\.5: give a whole number"):
        linear_evaluation(z, y, seed=0.5)


def test_a_list_of_lists_of_numbers_is_one_embedding():
    assert not is_list_of_embeddings([[1.0, 2.0], [3.0, 4.0]])
    assert not is_list_of_embeddings(torch.ones(2, 2))
    assert is_list_of_embeddings([[[1.0, 2.0]], [[3.0, 4.0]]])
    assert is_list_of_embeddings([torch.ones(2, 2), np.ones((2, 2))])


def test_checked_inputs_are_tensors_and_class_numbers_with_names():
    inputs = check_inputs([np.eye(3)], ["b", "a", None])
    assert inputs.embeddings[0].equal(torch.eye(3, dtype=torch.float64))
    assert inputs.y.tolist() == [1, 0, -1]
    assert inputs.class_names == ["a", "b"]
    assert inputs.splits is None


def test_scaling_divides_by_the_root_mean_square_unless_all_values_are_0():
    z = torch.tensor([[3.0, 4.0]])
    assert scale_embedding(z).square().mean() == pytest.approx(1)
    assert scale_embedding(z, rescale=False).equal(z)
    assert scale_embedding(torch.zeros(2, 2)).equal(torch.zeros(2, 2))
    for value in (float("nan"), float("inf")):  # one of several values
        with pytest.raises(InputError, match="the embedding has NaN or infinite values"):
            scale_embedding(torch.tensor([[1.0, value], [2.0, 3.0]]))


def test_nodes_of_class_0_are_labelled():
    y = torch.tensor([0, 1, -1, 0, 1, -1])
    split = labelled_split(Split(torch.tensor([0, 1, 2]), torch.tensor([3, 5]), torch.tensor([4, 2])), y)
    assert [part.tolist() for part in (split.train, split.val, split.test)] == [[0, 1], [3], [4]]
