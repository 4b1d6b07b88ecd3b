import math

import pytest
import torch

from epagcl.losses.infonce.dense import dense_loss
from tests.losses.infonce.examples import pair, stacked


def test_groups_are_separate_losses():
    x = stacked(6, 4, groups=3).double()
    expected = torch.stack([dense_loss(group, 0.3) for group in x.chunk(3)]).mean()
    torch.testing.assert_close(dense_loss(x, 0.3, groups=3), expected)


def test_equal_rows_have_the_loss_of_chance():
    assert dense_loss(torch.ones(18, 4), 0.5).item() == pytest.approx(math.log(17))


def test_gradient_by_finite_differences():
    u, v = pair(4, 3)
    assert torch.autograd.gradcheck(lambda u, v: dense_loss(torch.cat([u, v]), 0.5), (u, v))


@pytest.mark.parametrize("temperature", [0.2, 0.5, 3.0])
def test_orthogonal_nodes_by_hand(temperature):
    expected = math.log(math.exp(1 / temperature) + 2) - 1 / temperature
    assert dense_loss(torch.eye(2).repeat(2, 1), temperature).item() == pytest.approx(expected, rel=1e-5)
