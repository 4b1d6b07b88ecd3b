import pytest
import torch

import epagcl
from epagcl.core.sparse import StackedMatrix
from epagcl.data.checking import check
from epagcl.data.graph import Graph
from epagcl.methods import names
from epagcl.paper.variants.random_adding import RandomAdding
from epagcl.report.structure import structure
from epagcl.views.probabilities import edge_weights
from epagcl.views.sampling import Views, ViewSampler
from tests.paper.conftest import SMALL


@pytest.fixture(scope="module")
def graph():
    return Graph.from_data(check(epagcl.load("demo"), quiet=True))


def keys(views, epoch, view):
    """Return i·N + j for each pair of a view."""
    sampler = views.samplers[view]
    i, j = sampler.pairs(epoch)
    return i * sampler.num_nodes + j


def test_the_number_of_added_pairs_is_that_of_epagcl_and_they_differ_every_time(graph):
    model = RandomAdding(**SMALL, p_add=0.05, p_drop_1=0.0, p_drop_2=0.0, seed=1)
    views = model.prepare(graph).views
    present = graph.pairs[0] * graph.num_nodes + graph.pairs[1]
    wanted = 0.05 * edge_weights(graph.pairs, graph.num_nodes).candidates.shape[1]
    assert torch.equal(keys(views, 0, 0), present.sort().values)  # the first view gets no pairs
    added = []
    for epoch in range(5):
        pairs = keys(views, epoch, 1)
        assert torch.isin(present, pairs).all()
        new = pairs[~torch.isin(pairs, present)]
        assert (new // graph.num_nodes < new % graph.num_nodes).all()
        assert new.numel() == pytest.approx(wanted, rel=0.03)
        added.append(new)
    assert torch.cat(added).unique().numel() > 0.98 * sum(a.numel() for a in added)
    assert torch.equal(keys(views, 3, 1), keys(model.prepare(graph).views, 3, 1))


def test_both_views_get_different_pairs(graph):
    views = RandomAdding(**SMALL, add_to="both", p_drop_1=0.0, p_drop_2=0.0).prepare(graph).views
    first, second = (keys(views, 0, view) for view in range(2))
    assert 0 < torch.isin(first, second).sum() < min(first.numel(), second.numel())


def test_pairs_are_drawn_uniformly(graph):
    views = RandomAdding(**SMALL, p_add=0.9, p_drop_1=0.0, p_drop_2=0.0).prepare(graph).views
    present = graph.pairs[0] * graph.num_nodes + graph.pairs[1]
    drawn = torch.cat([keys(views, epoch, 1) for epoch in range(30)])
    drawn = drawn[~torch.isin(drawn, present)]
    ends = torch.cat([drawn // graph.num_nodes, drawn % graph.num_nodes])
    counts = torch.bincount(ends, minlength=graph.num_nodes).double()
    assert float(counts.std()) == pytest.approx(float(counts.mean()) ** 0.5, rel=0.1)  # Poisson: no node is preferred


def test_edges_are_dropped_as_epagcl_drops_them(graph):
    settings = {**SMALL, "drop": "uniform", "p_add": 0.0}
    random, usual = (kind(**settings).prepare(graph).views for kind in (RandomAdding, epagcl.EPAGCL))
    for view, sampler in enumerate(usual):
        assert torch.equal(keys(random, 2, view), sampler.counter[sampler.kept(2)].sort().values)


def test_training_is_reproducible_and_the_class_is_not_registered():
    data = epagcl.load("demo")
    model = RandomAdding(**SMALL, add_to="both")
    assert torch.equal(model.fit_embed(data), RandomAdding(**SMALL, add_to="both").fit_embed(data))
    assert epagcl.method("epagcl") is epagcl.EPAGCL
    assert names().count("epagcl") == 1


def test_views_have_the_interface_of_other_methods(graph):
    views = RandomAdding(**SMALL, add_to="both", p_add=0.3).views(graph)
    assert isinstance(views, Views)
    assert all(isinstance(sampler, ViewSampler) for sampler in views)
    stacked = views.adjacency(4)
    assert stacked.views == 2
    for sampler, matrix in zip(views, stacked.parts, strict=True):
        pairs = sampler.pairs(4)
        a = torch.eye(graph.num_nodes)
        a[pairs[0], pairs[1]] = a[pairs[1], pairs[0]] = 1
        scale = a.sum(1).rsqrt()
        torch.testing.assert_close(matrix.to_dense(), scale[:, None] * a * scale)


def test_a_report_can_draw_the_views():
    data = epagcl.load("demo")
    views = structure(data, RandomAdding(**SMALL, p_drop_1=0.0, p_drop_2=0.0))["views"]
    first, second = views["samples"]
    assert set(first["edges"]) == {views["edges"]}  # the first view gets no pairs
    assert min(second["edges"]) > views["edges"]


def test_matrices_are_stacked_with_triton_too(graph, use_triton):
    views = RandomAdding(**SMALL).views(graph)
    use_triton(True)
    assert isinstance(views.adjacency(0), StackedMatrix)
