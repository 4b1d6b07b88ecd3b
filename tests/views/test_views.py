import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.utils import degree

from epagcl.core.errors import InputError
from epagcl.views.masks import feature_mask, feature_masks
from epagcl.views.probabilities import drop_probabilities, edge_probabilities, edge_weights
from epagcl.views.sampling import Views, ViewSampler, drop_views
from tests.conftest import random_edges


def twin(edges, n, p_drop, p_add, drop="eq7", drop_cutoff=1.0, add_cutoff=0.9):
    """Algorithm 1 and Eq. 7 as they read: sets, loops, float64."""
    present = sorted({(min(i, j), max(i, j)) for i, j in edges if i != j})
    d = [sum(v in pair for pair in present) for v in range(n)]
    w_drop = [2 / math.sqrt(d[i] * d[j]) for i, j in present]
    l = 2 * len(present)
    top = sorted(range(n), key=lambda v: (-d[v], v))[: math.ceil(math.sqrt(2 * l))]
    candidates = sorted((i, j) for i in top for j in top if i < j and (i, j) not in present)
    w_add = [2 / math.sqrt((d[i] + 1) * (d[j] + 1)) for i, j in candidates]

    def large(w, p, cutoff):
        mean = math.fsum(w) / len(w) if w else 0
        return [min(p if max(w) == min(w) else (v - min(w)) / (mean - min(w)) * p, cutoff) for v in w]

    def small(w, p, cutoff):
        mean = math.fsum(w) / len(w) if w else 0
        return [min(p if max(w) == min(w) else (max(w) - v) / (max(w) - mean) * p, cutoff) for v in w]

    rule = {"eq7": large, "text": small, "uniform": lambda w, p, cutoff: [min(p, cutoff)] * len(w)}[drop]
    return present, rule(w_drop, p_drop, drop_cutoff), candidates, small(w_add, p_add, add_cutoff)


@given(
    n=st.integers(2, 14),
    density=st.floats(0.05, 0.9),
    seed=st.integers(0, 10_000),
    p=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    drop=st.sampled_from(["eq7", "text", "uniform"]),
)
@settings(max_examples=200, deadline=None)
def test_probabilities_equal_a_plain_twin(n, density, seed, p, drop):
    edges = random_edges(n, density, seed)
    result = edge_probabilities(edges, n, *p, drop=drop)
    pairs, p_drop, candidates, p_add = twin(edges.T.tolist(), n, *p, drop=drop)
    assert result.pairs.T.tolist() == [list(pair) for pair in pairs]
    assert result.candidates.T.tolist() == [list(pair) for pair in candidates]
    torch.testing.assert_close(result.drop, torch.tensor(p_drop, dtype=torch.float64), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(result.add, torch.tensor(p_add, dtype=torch.float64), rtol=1e-9, atol=1e-12)


def test_direction_duplicates_and_loops_of_the_input_do_not_matter():
    edges = random_edges(12, 0.3, 0)
    messy = torch.cat([edges, edges.flip(0), torch.tensor([[3], [3]])], dim=1)
    a, b = edge_probabilities(edges, 12), edge_probabilities(messy, 12)
    assert torch.equal(a.pairs, b.pairs)
    assert torch.equal(a.drop, b.drop)


@pytest.mark.parametrize("n", [5, 9, 30])
def test_regular_graph_has_the_mean_probability_everywhere(n):
    cycle = torch.stack([torch.arange(n), (torch.arange(n) + 1) % n])
    result = edge_probabilities(cycle, n, 0.37, 0.11)
    assert torch.equal(result.drop, torch.full((n,), 0.37, dtype=torch.float64))
    assert torch.equal(result.add, torch.full_like(result.add, 0.11))


def test_complete_graph_adds_nothing_and_one_edge_drops_at_the_mean():
    complete = torch.triu_indices(6, 6, 1)
    assert edge_probabilities(complete, 6).candidates.shape == (2, 0)
    single = edge_probabilities(torch.tensor([[0], [1]]), 2, p_drop=0.4)
    assert single.drop.tolist() == [0.4]
    assert single.add.tolist() == []


def test_candidate_nodes_are_the_top_degrees_with_ties_by_id():
    # A star of 5 leaves and isolated nodes: l = 10, ⌈√20⌉ = 5 nodes: the hub, then leaves 1 to 4.
    star = torch.tensor([[0] * 5, [1, 2, 3, 4, 5]])
    candidates = edge_weights(star, 9).candidates
    assert candidates.T.tolist() == [[1, 2], [1, 3], [1, 4], [2, 3], [2, 4], [3, 4]]


def test_mean_before_the_cutoff_and_the_cutoff():
    edges = random_edges(40, 0.1, 5)
    weights = edge_weights(edges, 40)
    assert weights.probabilities(0.1, 0.05).drop.mean().item() == pytest.approx(0.1)
    assert weights.probabilities(0.1, 0.05).add.mean().item() == pytest.approx(0.05)
    cut = weights.probabilities(0.9, 0.9, drop_cutoff=0.8, add_cutoff=0.7)
    assert cut.drop.max() == 0.8
    assert cut.add.max() == 0.7


def test_eq7_drops_large_alpha_more_and_text_small_alpha():
    edges = random_edges(30, 0.2, 1)
    weights = edge_weights(edges, 30)
    order = torch.argsort(weights.w_drop, stable=True)
    assert (weights.probabilities(0.3, 0).drop[order].diff() >= 0).all()
    assert (weights.probabilities(0.3, 0, drop="text").drop[order].diff() <= 0).all()


def test_uniform_candidates_are_absent_distinct_and_spread():
    edges = random_edges(200, 0.02, 2)
    weights = edge_weights(edges, 200, add="uniform", seed=1)
    keys = weights.candidates[0] * 200 + weights.candidates[1]
    present = weights.pairs[0] * 200 + weights.pairs[1]
    assert weights.candidates.shape[1] == edge_weights(edges, 200).candidates.shape[1]
    assert keys.unique().numel() == keys.numel()
    assert not torch.isin(keys, present).any()
    assert (weights.candidates[0] < weights.candidates[1]).all()
    counts = degree(weights.candidates.flatten(), 200)
    assert counts.std() < 1.5 * counts.mean().sqrt()  # Poisson-like, not a few hubs


def test_uniform_candidates_of_a_nearly_complete_graph():
    edges = torch.triu_indices(8, 8, 1)[:, 3:]
    assert edge_weights(edges, 8, add="uniform").candidates.T.tolist() == [[0, 1], [0, 2], [0, 3]]


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


def test_a_pair_keeps_its_fate_when_others_are_removed():
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


def test_feature_mask():
    assert feature_mask(10, 0, seed=0, epoch=0, view=0) is None
    assert feature_mask(10, 1, seed=0, epoch=0, view=0).tolist() == [0] * 10
    rate = torch.stack([feature_mask(50, 0.3, seed=0, epoch=e, view=0) for e in range(400)]).mean()
    assert rate == pytest.approx(0.7, abs=0.02)
    # Columns appended at the end leave the masks of the others alone.
    assert torch.equal(
        feature_mask(60, 0.3, seed=0, epoch=1, view=0)[:50], feature_mask(50, 0.3, seed=0, epoch=1, view=0)
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"p_drop": 1.2}, "p_drop=1.2"),
        ({"p_add": -0.1}, "p_add=-0.1"),
        ({"drop": "eq8"}, "drop='eq8': choose one of eq7, text, uniform"),
        ({"add": "text"}, "add='text': choose one of eq7, uniform"),
    ],
)
def test_wrong_options_name_the_fix(options, message):
    with pytest.raises(InputError, match=message):
        edge_probabilities(torch.tensor([[0, 1], [1, 2]]), 3, **options)


def test_edges_are_checked_and_may_be_none():
    with pytest.raises(InputError, match="nodes go from 0 to 3"):
        edge_probabilities(torch.tensor([[0, 1], [1, 9]]), 4)
    wide = torch.tensor([[30_000], [50_000]], dtype=torch.int32)
    assert edge_probabilities(wide, 100_000).pairs.tolist() == [[30_000], [50_000]]
    nothing = edge_probabilities(torch.empty(2, 0, dtype=torch.long), 4)
    assert nothing.drop.shape == nothing.add.shape == (0,)


def test_preparation_has_no_python_loop_over_edges():
    import time

    edges = torch.randint(0, 100_000, (2, 500_000), generator=torch.Generator().manual_seed(0))
    start = time.perf_counter()
    edge_probabilities(edges, 100_000)
    assert time.perf_counter() - start < 10  # about 0.5 s; a loop would take minutes


def test_views_together_are_each_view_under_the_other():
    p = edge_probabilities(random_edges(15, 0.2, 0), 15, 0.4, 0.3)
    views = Views(ViewSampler(p, 15, seed=2, view=view) for view in range(2))
    h = torch.randn(30, 4)
    for epoch in (0, 7):
        adjacency = views.adjacency(torch.tensor(epoch))
        assert adjacency.shape == (15, 15)
        assert adjacency.views == 2
        expected = [sampler.adjacency(epoch) @ part for sampler, part in zip(views, h.split(15), strict=True)]
        torch.testing.assert_close(adjacency @ h, torch.cat(expected))


def test_feature_masks_are_those_of_each_view():
    masks = feature_masks(40, (0.3, 0.0, 0.6), seed=1, epoch=torch.tensor(5), device="cpu")
    assert torch.equal(masks[0], feature_mask(40, 0.3, seed=1, epoch=5, view=0))
    assert masks[1].tolist() == [1] * 40
    assert torch.equal(masks[2], feature_mask(40, 0.6, seed=1, epoch=5, view=2))
    assert feature_masks(40, (0, 0), seed=1, epoch=5, device="cpu") is None


@pytest.mark.parametrize("seed", range(5))
def test_drop_probabilities_by_score(seed):
    pairs = random_edges(20, 0.3, seed)
    score = torch.randn(pairs.shape[1], generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    result = drop_probabilities(pairs, score, 0.05, cutoff=1.0)
    expected = [(score.max() - s) / (score.max() - score.mean()) * 0.05 for s in score]
    torch.testing.assert_close(result.drop, torch.stack(expected))
    assert result.drop.mean().item() == pytest.approx(0.05)  # a mean share of 1
    assert result.drop[score.argmax()] == 0
    assert torch.equal(torch.argsort(result.drop), torch.argsort(score, descending=True))
    assert torch.equal(result.pairs, pairs)
    assert (result.candidates.shape, result.add.shape) == ((2, 0), (0,))  # nothing is added
    shifted = drop_probabilities(pairs, 5 * score - 3, 0.05, cutoff=1.0)
    torch.testing.assert_close(shifted.drop, result.drop)


def test_drop_probabilities_are_cut_off():
    pairs = random_edges(20, 0.3, 0)
    score = torch.arange(pairs.shape[1], dtype=torch.float64)
    free, cut = (drop_probabilities(pairs, score, 0.5, cutoff=c).drop for c in (1.0, 0.7))
    assert (free > 0.7).any()
    torch.testing.assert_close(cut, free.clamp(max=0.7))
    assert torch.equal(drop_probabilities(pairs, score, 0.5).drop, cut)  # 0.7 is GCA's


@pytest.mark.parametrize("score", [0.0, -3.3, 1 / 3])
def test_equal_scores_give_the_mean_probability(score):
    pairs = random_edges(12, 0.3, 0)
    equal = torch.full((pairs.shape[1],), score, dtype=torch.float64)
    assert torch.equal(drop_probabilities(pairs, equal, 0.37).drop, torch.full_like(equal, 0.37))


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
    assert scored.keep[0] == pytest.approx(0.4)  # 1 − 2·0.4, were it not cut
    assert (scored.keep.diff() >= 0).all()


def test_feature_mask_with_a_probability_for_each_column():
    p = torch.linspace(0, 1, 50)
    masks = torch.stack([feature_mask(50, p, seed=1, epoch=epoch, view=0) for epoch in range(2000)])
    assert set(masks.unique().tolist()) == {0.0, 1.0}
    torch.testing.assert_close(masks.mean(0), 1 - p, rtol=0, atol=0.05)
    assert (masks[:, 0] == 1).all()
    assert (masks[:, -1] == 0).all()
    # The same number everywhere is that number; 0 everywhere hides nothing.
    assert torch.equal(
        feature_mask(50, torch.full((50,), 0.3), seed=1, epoch=4, view=1),
        feature_mask(50, 0.3, seed=1, epoch=4, view=1),
    )
    assert feature_mask(50, torch.zeros(50), seed=1, epoch=4, view=1).tolist() == [1] * 50
    both = feature_masks(50, (p, 0.0), seed=1, epoch=torch.tensor(7), device="cpu")
    assert torch.equal(both[0], feature_mask(50, p, seed=1, epoch=7, view=0))
    assert both[1].tolist() == [1] * 50
