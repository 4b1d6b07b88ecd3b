import pytest
import torch

from epagcl.core.randomness import Stream, _random_bits, dropout, other_nodes, permutation, uniform, uniform64


def test_uniform_is_uniform_and_exact_in_float32():
    u = uniform(torch.arange(200_000), 5, Stream.EDGES, 7, 1)
    assert u.dtype == torch.float32
    assert u.min() >= 0
    assert u.max() < 1
    assert torch.equal(u * 2**24, (u * 2**24).round())
    counts = torch.histc(u, bins=20, min=0, max=1)
    # chi-square with 19 degrees of freedom: 43.8 is the 0.1% point
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 43.8


def test_draws_depend_only_on_the_counter_and_the_stream():
    counter = torch.arange(1000)
    base = uniform(counter, 1, 2, 3)
    assert torch.equal(base[200:300], uniform(counter[200:300], 1, 2, 3))
    for other in ((0, 2, 3), (1, 3, 3), (1, 2, 4), (2, 1, 3)):
        correlation = torch.corrcoef(torch.stack([base, uniform(counter, *other)]))[0, 1]
        assert abs(correlation) < 0.12


def test_uniform64_has_53_bits():
    u = uniform64(torch.arange(10_000), 1)
    assert u.dtype == torch.float64
    assert torch.equal(u * 2.0**53, (u * 2.0**53).round())
    assert not torch.equal(u * 2.0**24, (u * 2.0**24).round())


def test_permutation_is_valid_and_reproducible():
    order = permutation(1000, 3, Stream.SPLIT)
    assert torch.equal(order.sort().values, torch.arange(1000))
    assert permutation(8, 0, Stream.SPLIT).tolist() == permutation(8, 0, Stream.SPLIT).tolist()
    assert not torch.equal(order, permutation(1000, 4, Stream.SPLIT))
    # A golden value: the splits of published results depend on this order.
    assert permutation(8, 0, Stream.SPLIT).tolist() == [7, 1, 0, 3, 4, 6, 2, 5]


def test_a_tensor_epoch_draws_the_same_as_a_number():
    counter = torch.arange(500)
    for epoch in (0, 1, 2**40):
        number = torch.tensor(epoch)
        assert torch.equal(uniform(counter, 5, Stream.EDGES, number, 1), uniform(counter, 5, Stream.EDGES, epoch, 1))
        assert torch.equal(uniform64(counter, 5, number), uniform64(counter, 5, epoch))
        assert torch.equal(uniform(counter, number), uniform(counter, epoch))
        assert torch.equal(uniform(counter, number, 4, 3, 2), uniform(counter, epoch, 4, 3, 2))
        assert torch.equal(permutation(50, 3, Stream.BATCHES, number), permutation(50, 3, Stream.BATCHES, epoch))


@pytest.mark.parametrize("n", [2, 3, 17])
def test_other_nodes_are_permutations_without_a_fixed_point(n):
    for seed in range(20):
        others = other_nodes(n, 6, seed, Stream.NEGATIVES, 3)
        assert torch.equal(others.sort(1).values, torch.arange(n).expand(6, n))
        assert (others != torch.arange(n)).all()


def test_other_nodes_are_uniform_on_the_others():
    n, count, seeds = 7, 20, 300
    drawn = torch.stack([other_nodes(n, count, seed, Stream.NEGATIVES) for seed in range(seeds)])
    frequency = torch.stack([torch.bincount(drawn[..., i].flatten(), minlength=n) for i in range(n)]).double()
    assert (frequency.diagonal() == 0).all()
    expected = seeds * count / (n - 1)
    # The shifts of one seed share its order, so the counts are less even than those of independent draws.
    off = frequency[~torch.eye(n, dtype=torch.bool)]
    assert (off / expected - 1).abs().max() < 0.25


def test_other_nodes_depend_on_the_stream_and_are_not_a_shift_of_the_numbers():
    first = other_nodes(50, 3, 0, Stream.NEGATIVES, 1, 0)
    assert torch.equal(first, other_nodes(50, 3, 0, Stream.NEGATIVES, 1, 0))
    for stream in ((1, Stream.NEGATIVES, 1, 0), (0, Stream.NEGATIVES, 2, 0), (0, Stream.NEGATIVES, 1, 1)):
        assert not torch.equal(first, other_nodes(50, 3, *stream))
    assert ((first - torch.arange(50)) % 50).unique().numel() > 25  # a shift in the random order, not in the numbers


def test_dropout_has_its_rate_and_preserves_the_mean():
    x = torch.rand(400, 500, generator=torch.Generator().manual_seed(0)) + 0.5
    for p in (0.1, 0.5, 0.8):
        y = dropout(x, p, 3, Stream.DROPOUT, 0, 1)
        nonzero = y != 0
        assert 1 - nonzero.double().mean().item() == pytest.approx(p, abs=0.005)
        torch.testing.assert_close(y[nonzero], x[nonzero] / (1 - p))
        assert y.mean().item() == pytest.approx(x.mean().item(), rel=0.01)


def test_dropout_at_rate_0_returns_its_input_and_draws_depend_on_the_stream():
    x = torch.ones(50, 20)
    assert dropout(x, 0.0, 0, Stream.DROPOUT) is x
    first = dropout(x, 0.5, 0, Stream.DROPOUT, 1, 0)
    assert torch.equal(first, dropout(x, 0.5, 0, Stream.DROPOUT, 1, 0))
    for stream in ((1, Stream.DROPOUT, 1, 0), (0, Stream.DROPOUT, 2, 0), (0, Stream.DROPOUT, 1, 1)):
        agree = (first == dropout(x, 0.5, *stream)).double().mean().item()
        assert agree == pytest.approx(0.5, abs=0.06)


def test_the_gradient_of_dropout_is_its_mask():
    x = torch.randn(30, 4, dtype=torch.float64, requires_grad=True)
    y = dropout(x, 0.3, 0, Stream.DROPOUT)
    (grad,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(grad, (y != 0) / 0.7, check_dtype=False)


def test_numbers_with_equal_keys_are_in_order():
    order = permutation(300_000, 0, Stream.NEGATIVES)
    keys = (_random_bits(order, (0, Stream.NEGATIVES)) >> 32).numpy()
    assert (keys[1:] >= keys[:-1]).all()
    ties = (keys[1:] == keys[:-1]).nonzero()[0]
    assert len(ties) > 0
    assert (order.numpy()[ties] < order.numpy()[ties + 1]).all()


def test_other_nodes_and_dropout_with_a_tensor_epoch():
    x = torch.rand(40, 3)
    for epoch in (0, 5, 2**40):
        number = torch.tensor(epoch)
        streams = [(2, Stream.NEGATIVES, e, 1) for e in (epoch, number)]
        assert torch.equal(*(other_nodes(31, 4, *stream) for stream in streams))
        assert torch.equal(*(dropout(x, 0.4, *stream) for stream in streams))
