import pytest
import torch

from epagcl.health import effective_rank


def test_one_direction_has_rank_1_and_orthonormal_rows_full_rank():
    assert effective_rank(torch.ones(50, 8) * torch.rand(50, 1)) == pytest.approx(1, abs=1e-3)
    assert effective_rank(torch.eye(8).repeat(3, 1)) == pytest.approx(8)


def test_two_equal_directions_among_eight():
    z = torch.zeros(10, 8)
    z[:5, 0] = z[5:, 3] = 2.0
    assert effective_rank(z) == pytest.approx(2)
