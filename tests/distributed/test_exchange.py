import pytest
import torch

from epagcl.distributed.exchange import Exchange, exchange_rows, sum_over_ranks
from epagcl.distributed.partition import Part
from tests.ranks import on_ranks

NODES, BLOCKS = 7, 2
CASES = [([4, 3], None), ([0, 7], [7, 0]), ([5, 2], [1, 6])]


def rows():
    return torch.randn(BLOCKS, NODES, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def order():
    return torch.randperm(NODES, generator=torch.Generator().manual_seed(1))


def weights():
    return torch.randn(BLOCKS, NODES, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def exchanged(ranks):
    results = []
    for sizes, places in CASES:
        part = Part(ranks, NODES, sizes)
        x = rows()[:, part.rows].flatten(0, 1).requires_grad_()
        out = exchange_rows(x, Exchange.of_order(part, order(), places), BLOCKS)
        target = Part(ranks, NODES, places or sizes)
        (out * weights()[:, target.rows].flatten(0, 1)).sum().backward()
        results.append((out.detach().view(BLOCKS, target.size, 3), x.grad.view(BLOCKS, part.size, 3)))
    return results


@pytest.mark.slow
def test_rows_and_gradients_equal_a_permutation():
    x = rows().requires_grad_()
    out = x[:, order()]
    (out * weights()).sum().backward()
    for case in zip(*on_ranks(2, exchanged), strict=True):
        assert torch.cat([values for values, _ in case], 1).equal(out)
        assert torch.cat([gradient for _, gradient in case], 1).equal(x.grad)


def summed(ranks):
    part = Part(ranks, 3)
    x = torch.full((2,), float(ranks.rank + 1), requires_grad=True)
    total = sum_over_ranks(x, part)
    (total.square().sum() * (ranks.rank + 1)).backward()
    return total.tolist(), x.grad.tolist()


@pytest.mark.slow
def test_the_gradient_of_a_sum_adds_up_the_gradients_of_all_ranks():
    # With total t = 1 + 2 + 3 = 6 the losses are r t², and the derivative is (1 + 2 + 3) 2 t.
    assert on_ranks(3, summed) == [([6.0, 6.0], [72.0, 72.0])] * 3
