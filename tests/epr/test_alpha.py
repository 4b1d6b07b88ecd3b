import math

import pytest
import torch

from epagcl.epr.alpha import alpha_add, alpha_drop


def test_alpha_by_hand():
    degree = torch.tensor([2, 8, 4, 0])
    pairs = torch.tensor([[0, 0, 2], [1, 2, 2]])
    # The last bit of a vectorised square root depends on the processor.
    assert alpha_drop(degree, pairs).tolist() == pytest.approx([2 / 4, 2 / math.sqrt(8), 2 / 4], rel=1e-15)
    assert alpha_add(degree, torch.tensor([[0, 3], [1, 3]])).tolist() == pytest.approx(
        [2 / math.sqrt(27), 2.0], rel=1e-15
    )
    assert alpha_drop(degree, pairs).dtype == torch.float64


def test_equal_products_have_equal_alpha():
    # 1/√d_i · 1/√d_j would differ in the last bit.
    degree = torch.arange(1, 61)
    i, j = torch.cartesian_prod(torch.arange(60), torch.arange(60)).T
    alpha, product = alpha_drop(degree, torch.stack([i, j])), degree[i] * degree[j]
    assert alpha.unique().numel() == product.unique().numel()


def test_weighted_alpha_by_hand():
    degree, pairs = torch.tensor([2.0, 8.0, 4.5]), torch.tensor([[0, 1], [1, 2]])
    found = alpha_drop(degree, pairs, torch.tensor([3.0, 0.5]))
    assert found.tolist() == pytest.approx([6 / 4, 1 / 6], rel=1e-15)
