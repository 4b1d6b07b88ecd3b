import pytest
import torch
from sklearn.metrics import adjusted_rand_score

from epagcl.core.errors import InputError
from epagcl.evaluation.clusters import clustering
from tests.evaluation.blobs import blobs


def test_separable_classes_are_found_and_noise_agrees_by_chance():
    z, y = blobs(spread=0.05)
    assert clustering(z, y) == pytest.approx({"nmi": 1.0, "ari": 1.0})
    noise = torch.randn(600, 8, generator=torch.Generator().manual_seed(0))
    assert clustering(noise, y)["ari"] == pytest.approx(0, abs=0.03)


def test_errors_name_the_wrong_argument_and_the_fix():
    z, y = blobs()
    with pytest.raises(InputError, match="no node has a label"):
        clustering(z, torch.full_like(y, -1))
    with pytest.raises(InputError, match=r"shape \(2, 600, 8\): it must be nodes × dimensions"):
        clustering([z, z], y)


def test_a_list_of_rows_is_one_embedding():
    z, y = blobs()
    assert clustering(list(z.numpy()), y) == clustering(z, y)


def test_all_labelled_nodes_count_and_no_others():
    z = torch.tensor([[1.0, 0.0]] * 4 + [[0.0, 1.0]] * 4 + [[-1.0, 0.0]] * 4)
    y = torch.tensor([0, 0, 1, 1] + [1] * 4 + [2] * 4)
    assert clustering(z, y)["ari"] == pytest.approx(adjusted_rand_score(y, [0] * 4 + [1] * 4 + [2] * 4))
    labelled = torch.where(y == 0, -1, y)[2:]
    assert clustering(z, torch.where(y == 0, -1, y)) == clustering(z[2:], labelled)


def test_seeds_may_be_larger_than_32_bits():
    z, y = blobs(30, 2, 3)
    assert clustering(z, y, seed=2**32 + 3) == clustering(z, y, seed=3)
