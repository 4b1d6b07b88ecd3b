import math
import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.utils import degree

from epagcl.core.errors import InputError
from epagcl.core.randomness import Stream, uniform64
from epagcl.views.probabilities import (
    WeightRange,
    _random_pairs,
    drop_probabilities,
    edge_probabilities,
    edge_weights,
    normalise_from_max,
    normalise_from_min,
)
from tests.conftest import random_edges


def plain_probabilities(edges, n, p_drop, p_add, drop="eq9", drop_cutoff=1.0, add_cutoff=0.9):
    """Compute Algorithm 1 and Eq. (9) literally, with sets, loops and float64."""
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

    rule = {"eq9": large, "text": small, "uniform": lambda w, p, cutoff: [min(p, cutoff)] * len(w)}[drop]
    return present, rule(w_drop, p_drop, drop_cutoff), candidates, small(w_add, p_add, add_cutoff)


@pytest.mark.slow
@given(
    n=st.integers(2, 14),
    density=st.floats(0.05, 0.9),
    seed=st.integers(0, 10_000),
    p=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    drop=st.sampled_from(["eq9", "text", "uniform"]),
)
@settings(max_examples=200, deadline=None)
def test_probabilities_equal_a_plain_implementation(n, density, seed, p, drop):
    edges = random_edges(n, density, seed)
    result = edge_probabilities(edges, n, *p, drop=drop)
    pairs, p_drop, candidates, p_add = plain_probabilities(edges.T.tolist(), n, *p, drop=drop)
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


def test_the_former_name_of_the_rule_is_accepted_with_a_warning():
    edges = random_edges(30, 0.2, 0)
    weights = edge_weights(edges, 30)
    for argument in ("drop", "add"):
        expected = weights.probabilities(0.3, 0.1)
        for call in (weights.probabilities, lambda *p, **rule: edge_probabilities(edges, 30, *p, **rule)):
            with pytest.warns(DeprecationWarning, match=f"^{argument}='eq7' is now {argument}='eq9'$") as warned:
                result = call(0.3, 0.1, **{argument: "eq7"})
            assert [warning.filename for warning in warned] == [__file__]
            assert torch.equal(result.drop, expected.drop)
            assert torch.equal(result.add, expected.add)
    with pytest.warns(DeprecationWarning, match="add='eq7' is now add='eq9'"):
        assert torch.equal(edge_weights(edges, 30, add="eq7").candidates, weights.candidates)


def test_eq9_drops_large_alpha_more_and_text_small_alpha():
    edges = random_edges(30, 0.2, 1)
    weights = edge_weights(edges, 30)
    order = torch.argsort(weights.w_drop, stable=True)
    assert (weights.probabilities(0.3, 0).drop[order].diff() >= 0).all()
    assert (weights.probabilities(0.3, 0, drop="text").drop[order].diff() <= 0).all()


@pytest.mark.parametrize("normalise", [normalise_from_min, normalise_from_max])
def test_normalised_weights_have_mean_one_and_minimum_zero(normalise):
    w = torch.rand(50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert normalise(w).mean().item() == pytest.approx(1)
    assert normalise(w).min() == 0
    assert torch.equal(normalise(torch.full((3,), 0.1)), torch.ones(3))
    assert normalise(torch.empty(0)).shape == (0,)


def test_probabilities_are_float32_on_another_device():
    p = edge_probabilities(random_edges(12, 0.3, 0), 12).to("cpu")
    assert (p.drop.dtype, p.add.dtype, p.pairs.dtype) == (torch.float32, torch.float32, torch.int64)


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"p_drop": 1.2}, "p_drop=1.2"),
        ({"p_add": -0.1}, "p_add=-0.1"),
        ({"drop": "eq6"}, "drop='eq6': choose one of eq9, text, uniform"),
        ({"add": "text"}, "add='text': choose one of eq9, uniform"),
    ],
)
def test_errors_name_the_argument_and_the_fix(options, message):
    with pytest.raises(InputError, match=message):
        edge_probabilities(torch.tensor([[0, 1], [1, 2]]), 3, **options)


def test_edges_are_checked_and_may_be_absent():
    with pytest.raises(InputError, match="nodes go from 0 to 3"):
        edge_probabilities(torch.tensor([[0, 1], [1, 9]]), 4)
    wide = torch.tensor([[30_000], [50_000]], dtype=torch.int32)
    assert edge_probabilities(wide, 100_000).pairs.tolist() == [[30_000], [50_000]]
    nothing = edge_probabilities(torch.empty(2, 0, dtype=torch.long), 4)
    assert nothing.drop.shape == nothing.add.shape == (0,)


def test_preparation_has_no_python_loop_over_edges():
    edges = torch.randint(0, 100_000, (2, 500_000), generator=torch.Generator().manual_seed(0))
    start = time.perf_counter()
    edge_probabilities(edges, 100_000)
    assert time.perf_counter() - start < 10  # about 0.5 s; a loop would take minutes


@pytest.mark.parametrize("seed", range(5))
def test_drop_probabilities_by_score(seed):
    pairs = random_edges(20, 0.3, seed)
    score = torch.randn(pairs.shape[1], generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    result = drop_probabilities(pairs, score, 0.05, cutoff=1.0)
    expected = [(score.max() - s) / (score.max() - score.mean()) * 0.05 for s in score]
    torch.testing.assert_close(result.drop, torch.stack(expected))
    assert result.drop.mean().item() == pytest.approx(0.05)  # the normalised scores have mean 1
    assert result.drop[score.argmax()] == 0
    assert torch.equal(torch.argsort(result.drop), torch.argsort(score, descending=True))
    assert torch.equal(result.pairs, pairs)
    assert (result.candidates.shape, result.add.shape) == ((2, 0), (0,))  # no pairs are added
    shifted = drop_probabilities(pairs, 5 * score - 3, 0.05, cutoff=1.0)
    torch.testing.assert_close(shifted.drop, result.drop)


def test_drop_probabilities_are_cut_off():
    pairs = random_edges(20, 0.3, 0)
    score = torch.arange(pairs.shape[1], dtype=torch.float64)
    free, cut = (drop_probabilities(pairs, score, 0.5, cutoff=c).drop for c in (1.0, 0.7))
    assert (free > 0.7).any()
    torch.testing.assert_close(cut, free.clamp(max=0.7))
    assert torch.equal(drop_probabilities(pairs, score, 0.5).drop, cut)  # the default is GCA's 0.7


@pytest.mark.parametrize("score", [0.0, -3.3, 1 / 3])
def test_equal_scores_give_the_mean_probability_everywhere(score):
    pairs = random_edges(12, 0.3, 0)
    equal = torch.full((pairs.shape[1],), score, dtype=torch.float64)
    assert torch.equal(drop_probabilities(pairs, equal, 0.37).drop, torch.full_like(equal, 0.37))


def test_edge_weights_enter_algorithm_1():
    edges, weight = torch.tensor([[0, 0, 1], [1, 2, 2]]), torch.tensor([2.0, 4.0, 6.0])
    weights = edge_weights(edges, 4, edge_weight=weight)
    w, d = [0.5, 1.0, 1.5], [1.5, 2.0, 2.5]
    expected = [2 * w[0] / (d[0] * d[1]) ** 0.5, 2 * w[1] / (d[0] * d[2]) ** 0.5, 2 * w[2] / (d[1] * d[2]) ** 0.5]
    assert weights.w_drop.tolist() == pytest.approx(expected)
    assert weights.w_add.tolist() == pytest.approx([2 / (d[i] + 1) ** 0.5 for i in range(3)])  # to the isolated node 3
    same = edge_weights(edges, 4, edge_weight=torch.full((3,), 5.0))
    assert torch.equal(same.w_drop, edge_weights(edges, 4).w_drop)
    rising = edge_probabilities(edges, 4, p_drop=0.3, edge_weight=weight).drop
    assert rising.mean().item() == pytest.approx(0.3)
    assert rising.argmax() == weights.w_drop.argmax()


def test_random_pairs_are_the_first_distinct_draws():
    n, count, seed = 50, 40, 7
    numbers = torch.arange(2 * count)
    draws = [(uniform64(numbers, seed, Stream.CANDIDATES, end) * n).long().tolist() for end in (0, 1)]
    distinct = list(dict.fromkeys((min(pair), max(pair)) for pair in zip(*draws, strict=True) if pair[0] != pair[1]))
    present = torch.tensor([distinct[0][0] * n + distinct[0][1]])  # the first one is an edge
    expected = sorted(distinct[1 : count + 1])
    assert _random_pairs(count, present, n, seed).T.tolist() == [list(pair) for pair in expected]


def test_random_pairs_of_a_nearly_complete_graph_are_the_absent_ones_in_hashed_order():
    n, seed = 6, 3
    keys = torch.tensor([i * n + j for i in range(n) for j in range(i + 1, n)])
    present, absent = keys[:10], keys[10:]
    order = uniform64(absent, seed, Stream.CANDIDATES).argsort()
    expected = absent[order[:3]].sort().values
    assert torch.equal(_random_pairs(3, present, n, seed), torch.stack([expected // n, expected % n]))
    assert _random_pairs(9, present, n, seed).shape == (2, 5)


def test_absent_pairs_are_listed_if_at_least_half_of_them_are_needed():
    n, seed = 10, 3
    absent = torch.tensor([i * n + j for i in range(n) for j in range(i + 1, n)])
    listed = absent[uniform64(absent, seed, Stream.CANDIDATES).argsort()]
    for count, is_listed in ((22, False), (23, True)):  # of 45
        expected = listed[:count].sort().values
        found = _random_pairs(count, absent[:0], n, seed)
        assert torch.equal(found, torch.stack([expected // n, expected % n])) == is_listed


def test_normalisation_of_some_weights_uses_the_range_of_all():
    w = torch.tensor([1.0, 2.0, 6.0, 7.0])
    of = WeightRange(1.0, 4.0, 7.0)
    assert normalise_from_min(w[1:3], of).tolist() == normalise_from_min(w)[1:3].tolist()
    assert normalise_from_max(w[1:3], of).tolist() == normalise_from_max(w)[1:3].tolist()
    same = WeightRange(2.0, 2.0, 2.0)
    assert normalise_from_min(torch.full((3,), 2.0), same).tolist() == [1.0, 1.0, 1.0]
    assert normalise_from_max(torch.full((3,), 2.0), same).tolist() == [1.0, 1.0, 1.0]
