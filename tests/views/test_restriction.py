import numpy as np
import pytest
import torch

from epagcl.data import block_model, check
from epagcl.data.graph import Graph
from epagcl.data.large import Arrays, LargeGraph
from epagcl.views import restriction
from epagcl.views.probabilities import edge_weights
from epagcl.views.restriction import restricted_weights, survey_edges, weight_range
from epagcl.views.sampling import ViewSampler


def example(seed=0, weights=False, **options):
    data = block_model(150, num_features=20, topic_words=5, seed=seed, **{"average_degree": 6, **options})
    if weights:
        i, j = data.edge_index.sort(dim=0).values
        data.edge_weight = 1.0 + (i + j) % 3
    data = check(data, quiet=True)
    return Graph.from_data(data), LargeGraph(Arrays.from_data(data))


def range_of(w):
    return pytest.approx((float(w.min()), float(w.mean()), float(w.max())))


@pytest.mark.parametrize("first_ends", [2, 256])
@pytest.mark.parametrize("seed", range(4))
def test_the_survey_has_the_ranges_of_algorithm_1(monkeypatch, seed, first_ends):
    monkeypatch.setattr(restriction, "FIRST_ENDS", first_ends)
    graph, large = example(seed, average_degree=(3, 6, 12, 20)[seed])
    weights, survey = edge_weights(graph.pairs, 150), survey_edges(large)
    assert tuple(survey.drop) == range_of(weights.w_drop)
    assert tuple(survey.add) == range_of(weights.w_add)


def test_weighted_edges_have_the_range_of_their_weighted_alpha():
    graph, large = example(weights=True)
    weights = edge_weights(graph.pairs, 150, edge_weight=graph.weight)
    assert tuple(survey_edges(large, candidates=False).drop) == pytest.approx(tuple(range_of(weights.w_drop).expected))


def test_a_complete_graph_has_no_candidates():
    _, col = (~np.eye(6, dtype=bool)).nonzero()
    large = LargeGraph(Arrays(np.arange(7) * 5, col, None, np.eye(6, dtype=np.float32)))
    survey = survey_edges(large)
    assert tuple(survey.add) == (0.0, 0.0, 0.0)
    weights = restricted_weights(large.subgraph(np.arange(4)), survey)
    assert weights.candidates.shape == (2, 0)
    assert weights.probabilities(0.3, 0.1).drop.tolist() == pytest.approx([0.3] * 6)


@pytest.mark.parametrize("seed", range(3))
def test_the_view_of_a_subgraph_is_that_part_of_the_view_of_the_whole_graph(seed):
    graph, large = example(seed, average_degree=10)
    whole = ViewSampler(edge_weights(graph.pairs, 150).probabilities(0.4, 0.2), 150, seed=3, view=1)
    nodes = np.sort(np.random.default_rng(seed).permutation(150)[:70])
    part = large.subgraph(nodes, survey_edges(large))
    probabilities = restricted_weights(part, part.survey).probabilities(0.4, 0.2)
    sampler = ViewSampler(probabilities, 70, seed=3, view=1, origin=part.origin)
    for epoch in range(3):
        found = {tuple(pair) for pair in nodes[sampler.pairs(epoch)].T.tolist()}
        inside = {tuple(pair) for pair in whole.pairs(epoch).T.tolist() if set(pair) <= set(nodes.tolist())}
        assert found == inside
        assert len(found) > 20


def test_the_range_of_nothing_is_zero():
    assert tuple(weight_range([])) == (0.0, 0.0, 0.0)
    assert tuple(weight_range([torch.empty(0), torch.tensor([2.0])])) == (2.0, 2.0, 2.0)


def test_the_best_pair_may_be_beyond_the_first_ends(monkeypatch):
    monkeypatch.setattr(restriction, "FIRST_ENDS", 3)
    for seed in range(30):
        graph, large = example(seed, average_degree=8)
        assert tuple(survey_edges(large).add) == range_of(edge_weights(graph.pairs, 150).w_add)
