import pytest
import torch

from epagcl.core.errors import InputError
from epagcl.data import Split, random_split
from epagcl.evaluation import knn
from epagcl.evaluation.knn import knn_accuracy
from tests.evaluation.blobs import blobs


def test_separable_classes_score_1():
    z, y = blobs(spread=0.05)
    assert knn_accuracy(z, y, runs=2) == [1.0, 1.0]


def test_one_neighbour_is_the_nearest_training_node():
    noise, y = torch.randn(600, 8, generator=torch.Generator().manual_seed(0)), blobs()[1]
    split = random_split(y, seed=0)
    unit = torch.nn.functional.normalize(noise, dim=1)
    nearest = (unit[split.test] @ unit[split.train].T).argmax(1)
    tiny = Split(split.train, split.train[:1], split.test)  # a training node is its own nearest: k = 1 wins the tie
    expected = (y[split.train][nearest] == y[split.test]).double().mean().item()
    assert knn_accuracy(noise, y, splits=[tiny]) == [pytest.approx(expected)]


def test_errors_name_the_wrong_argument_and_the_fix():
    z, y = blobs()
    with pytest.raises(InputError, match=r"shape \(2, 600, 8\): it must be nodes × dimensions"):
        knn_accuracy([z, z], y)
    with pytest.raises(InputError, match="runs=0: must be at least 1"):
        knn_accuracy(z, y, runs=0)
    with pytest.raises(InputError, match="splits is empty"):
        knn_accuracy(z, y, splits=[])


def test_a_list_of_rows_is_one_embedding():
    z, y = blobs()
    assert knn_accuracy(list(z.numpy()), y) == knn_accuracy(z, y)


def test_the_numbers_of_neighbours_to_choose_from():
    assert knn.NEIGHBOURS == (1, 3, 5, 10, 20)
