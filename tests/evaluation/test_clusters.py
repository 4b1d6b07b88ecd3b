import pytest
import torch

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
