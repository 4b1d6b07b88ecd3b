import pytest
import torch

from epagcl.core.sparse import multiply
from epagcl.distributed.group import Ranks
from epagcl.distributed.partition import Part
from epagcl.views.probabilities import edge_probabilities
from epagcl.views.sampling import Views, ViewSampler, drop_views
from tests.conftest import random_edges


def test_frequencies_match_the_probabilities():
    edges = random_edges(25, 0.2, 7)
    p = edge_probabilities(edges, 25, 0.3, 0.2)
    sampler = ViewSampler(p, 25, seed=0, view=1)
    kept = torch.stack([sampler.kept(epoch) for epoch in range(3000)]).double().mean(0)
    expected = torch.cat([1 - p.drop, p.add[p.add > 0]])
    sigma = (expected * (1 - expected) / 3000).sqrt()
    assert ((kept - expected).abs() <= 4.5 * sigma + 1e-12).all()


def test_same_seed_same_view_and_independent_views():
    edges = random_edges(40, 0.2, 3)
    p = edge_probabilities(edges, 40, 0.5, 0.3)
    a, b = (ViewSampler(p, 40, seed=4, view=0) for _ in range(2))
    assert torch.equal(a.pairs(9), b.pairs(9))
    a.pairs(10)
    assert torch.equal(a.pairs(9), b.pairs(9))
    assert not torch.equal(a.kept(9), a.kept(10))
    assert not torch.equal(a.kept(9), ViewSampler(p, 40, seed=4, view=1).kept(9))
    assert not torch.equal(a.kept(9), ViewSampler(p, 40, seed=5, view=0).kept(9))


def test_a_pair_is_kept_or_dropped_whatever_other_pairs_exist():
    edges = random_edges(30, 0.3, 1)
    full = edge_probabilities(edges, 30, 0.5, 0, drop="uniform")
    half = edge_probabilities(edges[:, ::2], 30, 0.5, 0, drop="uniform")
    kept_full = {tuple(pair) for pair in ViewSampler(full, 30, seed=0, view=0).pairs(3).T.tolist()}
    kept_half = {tuple(pair) for pair in ViewSampler(half, 30, seed=0, view=0).pairs(3).T.tolist()}
    assert kept_half == kept_full & {tuple(pair) for pair in half.pairs.T.tolist()}


@pytest.mark.parametrize(("p_drop", "p_add"), [(0.0, 0.0), (1.0, 0.0), (0.4, 0.3)])
def test_adjacency_of_a_view_is_the_formula_on_its_pairs(p_drop, p_add):
    edges = random_edges(15, 0.2, 0)
    sampler = ViewSampler(edge_probabilities(edges, 15, p_drop, p_add, drop="uniform"), 15, seed=0, view=0)
    a = torch.eye(15)
    pairs = sampler.pairs(2)
    a[pairs[0], pairs[1]] = a[pairs[1], pairs[0]] = 1
    scale = a.sum(1).rsqrt()
    torch.testing.assert_close(sampler.adjacency(2).to_dense(), scale[:, None] * a * scale)
    if p_drop == 1:
        assert pairs.shape[1] == 0


def test_adjacency_of_all_views_stacks_that_of_each_view():
    p = edge_probabilities(random_edges(15, 0.2, 0), 15, 0.4, 0.3)
    views = Views(ViewSampler(p, 15, seed=2, view=view) for view in range(2))
    h = torch.randn(30, 4)
    for epoch in (0, 7):
        adjacency = views.adjacency(torch.tensor(epoch))
        assert adjacency.shape == (15, 15)
        assert adjacency.views == 2
        expected = [sampler.adjacency(epoch) @ part for sampler, part in zip(views, h.split(15), strict=True)]
        torch.testing.assert_close(adjacency @ h, torch.cat(expected))


def test_drop_views_drop_at_their_rates_and_spare_high_scores():
    pairs = random_edges(40, 0.3, 0)
    alike = drop_views(pairs, 40, (0.2, 0.5, 0.0), seed=3)
    assert [sampler.view for sampler in alike] == [0, 1, 2]
    for sampler, rate in zip(alike, (0.2, 0.5, 0.0), strict=True):
        assert torch.equal(sampler.keep, torch.full((pairs.shape[1],), 1 - torch.tensor(rate).item()).float())
        dropped = 1 - torch.stack([sampler.kept(epoch) for epoch in range(200)]).double().mean().item()
        assert dropped == pytest.approx(rate, abs=0.01)
    score = torch.linspace(0, 1, pairs.shape[1])
    (scored,) = drop_views(pairs, 40, (0.4,), seed=3, score=score, cutoff=0.6)
    assert scored.keep[-1] == 1
    assert scored.keep[0] == pytest.approx(0.4)  # 1 − 2·0.4 = 0.2 without the cut-off
    assert (scored.keep.diff() >= 0).all()


def weighted_views(edges, p, seed=2):
    weight = torch.rand(edges.shape[1], generator=torch.Generator().manual_seed(0)) + 0.5
    return Views(ViewSampler(p, 15, seed=seed, view=view, weight=weight) for view in range(2)), weight


def test_weighted_adjacency_of_a_view_is_the_formula_on_its_pairs():
    p = edge_probabilities(random_edges(15, 0.2, 0), 15, 0.4, 0.3)
    views, weight = weighted_views(p.pairs, p)
    weights = dict(zip(map(tuple, p.pairs.T.tolist()), weight.tolist(), strict=True))
    for sampler in views:
        a = torch.eye(15)
        for i, j in sampler.pairs(3).T.tolist():
            a[i, j] = a[j, i] = weights.get((i, j), 1.0)  # added pairs have weight 1
        scale = a.sum(1).rsqrt()
        torch.testing.assert_close(sampler.adjacency(3).to_dense(), scale[:, None] * a * scale)


def test_weighted_views_in_one_fixed_pattern_equal_compact_ones():
    p = edge_probabilities(random_edges(15, 0.2, 0), 15, 0.4, 0.3)
    views, _ = weighted_views(p.pairs, p)
    for epoch in (0, 7):
        fixed = views._weighted(epoch)
        assert fixed.views == 2
        compact = torch.cat([sampler.adjacency(epoch).to_dense() for sampler in views])
        torch.testing.assert_close(fixed.to_dense(), compact)


def test_a_rank_samples_the_pairs_of_its_nodes_as_one_process_does():
    p = edge_probabilities(random_edges(30, 0.2, 5), 30, 0.4, 0.3)
    weight = torch.arange(1.0, p.pairs.shape[1] + 1)
    whole = ViewSampler(p, 30, seed=2, view=1, weight=weight)
    for rank in range(3):
        part = Part(Ranks(rank, 3), 30)
        own = ViewSampler(p, 30, seed=2, view=1, weight=weight, part=part)
        mask = part.owns(whole.counter // 30) | part.owns(whole.counter % 30)
        assert torch.equal(own.counter, whole.counter[mask])
        assert torch.equal(own.keep, whole.keep[mask])
        assert torch.equal(own.weight, whole.weight[mask])
        assert torch.equal(own.kept(4), whole.kept(4)[mask])


def test_the_adjacency_of_the_only_rank_is_that_of_one_process():
    p = edge_probabilities(random_edges(20, 0.3, 6), 20, 0.4, 0.3)
    weight = torch.arange(1.0, p.pairs.shape[1] + 1)
    x = torch.eye(20)
    for weights in (None, weight):
        alone, sharded = (
            Views(ViewSampler(p, 20, seed=2, view=view, weight=weights, part=part) for view in (0, 1))
            for part in (None, Part(Ranks(0, 1), 20))
        )
        for epoch in (0, 3):
            torch.testing.assert_close(multiply(sharded.adjacency(epoch), x), multiply(alone.adjacency(epoch), x))


def test_views_drawn_by_the_kernel_equal_those_of_each_sampler(use_triton, device):
    p = edge_probabilities(random_edges(9, 0.3, 0).to(device), 9, 0.4, 0.3)
    x = torch.eye(9, device=device)
    whole = torch.arange(9, device=device) * 3  # the nodes are part of a larger graph, whose pairs decide
    weight = torch.arange(1.0, p.pairs.shape[1] + 1, device=device)
    for more in ({}, {"weight": weight}, {"origin": (whole, 30)}):
        for epoch in (3, torch.tensor(3, device=device)):
            use_triton(False)
            expected = torch.cat([ViewSampler(p, 9, seed=2, view=k, **more).adjacency(3).to_dense() for k in (0, 1)])
            use_triton(True)
            views = Views(ViewSampler(p, 9, seed=2, view=view, **more) for view in (0, 1))
            found = views.adjacency(epoch)
            torch.testing.assert_close(multiply(found, x.repeat(2, 1)), expected, msg=f"{more}")
