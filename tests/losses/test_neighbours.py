import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from epagcl.core.errors import InputError
from epagcl.losses import neighbours
from epagcl.losses.neighbours import neighbour_nce
from tests.conftest import Largest


def example(n, k, seed=0, d=5, dtype=torch.float64):
    """Two views that require a gradient, and k + 1 positives of each node, itself included, in any order."""
    generator = torch.Generator().manual_seed(seed)
    a, b = (torch.randn(n, d, generator=generator, dtype=dtype, requires_grad=True) for _ in range(2))
    chosen = torch.rand(n, n, generator=generator).fill_diagonal_(2).argsort(1, descending=True)[:, : k + 1]
    return a, b, chosen.gather(1, torch.rand(n, k + 1, generator=generator).argsort(1))


def dense_loss(a, b, positives, temperature, batches):
    """The formula with a dense mask in each batch. Without negatives, log Σ is −1/τ."""
    total = 0.0
    for nodes in batches:
        s = F.normalize(a[nodes], dim=1) @ F.normalize(b[nodes], dim=1).T / temperature
        positive = (positives[nodes][:, :, None] == nodes).any(1)
        for similarity in (s, s.T):
            attract = (similarity * positive).sum(1) / positive.sum(1)
            negatives = torch.where(positive, 0, similarity.exp()).sum(1)
            repel = torch.where(negatives > 0, negatives, math.exp(-1 / temperature)).log()
            total = total + (repel - attract).sum()
    return total / (2 * a.shape[0])


def assert_same_gradients(ours, expected, inputs):
    torch.testing.assert_close(ours, expected)
    for g, h in zip(torch.autograd.grad(ours, inputs), torch.autograd.grad(expected, inputs), strict=True):
        torch.testing.assert_close(g, h)


@given(n=st.integers(1, 14), k=st.integers(0, 13), panel=st.integers(1, 200), seed=st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_value_and_gradient_equal_the_formula_for_any_panel(n, k, panel, seed):
    a, b, positives = example(n, min(k, n - 1), seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "PANEL", panel)
        ours = neighbour_nce(a, b, positives, 0.2)
        assert_same_gradients(ours, dense_loss(a, b, positives, 0.2, [torch.arange(n)]), (a, b))


@given(
    n=st.integers(1, 14),
    k=st.integers(0, 5),
    size=st.integers(1, 16),
    panel=st.integers(1, 200),
    seed=st.integers(0, 9),
)
@settings(max_examples=50, deadline=None)
def test_positives_and_negatives_of_a_node_are_those_in_its_batch(n, k, size, panel, seed):
    a, b, positives = example(n, min(k, n - 1), seed)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "PANEL", panel)
        ours = neighbour_nce(a, b, positives, 0.3, size, order)
        assert_same_gradients(ours, dense_loss(a, b, positives, 0.3, order.split(size)), (a, b))


def test_batches_are_cut_from_the_order_or_from_the_node_numbers():
    a, b, positives = example(11, 3)
    numbered = neighbour_nce(a, b, positives, 0.3, 4)
    assert torch.equal(numbered, neighbour_nce(a, b, positives, 0.3, 4, torch.arange(11)))
    assert not torch.isclose(numbered, neighbour_nce(a, b, positives, 0.3, 4, torch.arange(10, -1, -1)))


def test_one_batch_of_all_nodes_is_the_loss_without_batches():
    a, b, positives = example(11, 3)
    order = torch.randperm(11)
    assert torch.equal(neighbour_nce(a, b, positives, 0.3, 11, order), neighbour_nce(a, b, positives, 0.3))
    assert torch.equal(neighbour_nce(a, b, positives, 0.3, 99, order), neighbour_nce(a, b, positives, 0.3))


def test_without_neighbours_it_is_info_nce_between_views_without_the_positive_in_the_denominator():
    a, b, itself = example(9, 0)
    s = F.normalize(a, dim=1) @ F.normalize(b, dim=1).T / 0.2
    off = s.masked_fill(torch.eye(9, dtype=torch.bool), -torch.inf)
    expected = ((off.logsumexp(1) + off.logsumexp(0)) / 2 - s.diagonal()).mean()
    assert_same_gradients(neighbour_nce(a, b, itself, 0.2), expected, (a, b))


def test_gradient_by_finite_differences():
    a, b, positives = example(7, 2, d=3)
    order = torch.tensor([4, 1, 6, 0, 2, 5, 3])
    assert torch.autograd.gradcheck(lambda a, b: neighbour_nce(a, b, positives, 0.5, 4, order), (a, b))


def test_the_loss_does_not_depend_on_the_scale_of_a_row():
    a, b, positives = example(9, 2)
    torch.testing.assert_close(neighbour_nce(3 * a, b / 5, positives, 0.2), neighbour_nce(a, b, positives, 0.2))


def test_positives_do_not_round_off_the_sum_over_negatives():
    """At τ = 0.03, e^{1/τ} of the positives is 10²⁹ times e^{−1/τ} of the negatives, in float32."""
    a = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]])
    positives = torch.tensor([[0, 1], [1, 0], [2, 3], [3, 2]])
    expected = math.log(2) - 2 / 0.03
    assert neighbour_nce(a, a, positives, 0.03).item() == pytest.approx(expected, rel=1e-5)


def test_rows_without_negatives_and_zero_rows_give_finite_values():
    a, b, positives = example(4, 3, dtype=torch.float32)
    with torch.no_grad():
        a[2] = 0
    loss = neighbour_nce(a, b, positives, 0.03)
    assert torch.isfinite(loss)
    assert all(torch.isfinite(g).all() for g in torch.autograd.grad(loss, (a, b)))


def test_float32_agrees_with_float64():
    a, b, positives = example(200, 10, d=16)
    ours = neighbour_nce(a.float(), b.float(), positives, 0.1)
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours.double(), neighbour_nce(a, b, positives, 0.1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("batch_size", [0, 700])
def test_nothing_of_size_n_squared_is_allocated(monkeypatch, batch_size):
    n, k, d = 3000, 5, 8
    monkeypatch.setattr(neighbours, "PANEL", 2**15)
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(n, d, generator=generator, requires_grad=True) for _ in range(2))
    positives = (torch.arange(n)[:, None] + torch.arange(k + 1)) % n
    with Largest() as largest:
        torch.autograd.grad(neighbour_nce(a, b, positives, 0.2, batch_size, torch.randperm(n)), (a, b))
    assert largest.bytes <= 8 * max(n * (k + 1), 2**15)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"temperature": 0.01}, "temperature=0.01: must be at least 0.03"),
        ({"batch_size": -1}, "batch_size=-1: give the number of nodes in a batch, or 0"),
        ({"b": torch.zeros(5, 3)}, r"a, b and positives have the shapes \(4, 5\), \(5, 3\), \(4, 3\)"),
        ({"positives": torch.zeros(3, 3, dtype=torch.long)}, r"give \[N, d\], \[N, d\] and \[N, k \+ 1\]"),
    ],
)
def test_errors_name_the_argument_and_the_fix(arguments, message):
    a, b, positives = example(4, 2)
    with pytest.raises(InputError, match=message):
        neighbour_nce(**{"a": a, "b": b, "positives": positives, "temperature": 0.2, **arguments})
