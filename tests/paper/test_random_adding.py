import pytest
import torch

import epagcl
from epagcl.data.checking import check
from epagcl.data.graph import Graph
from epagcl.methods import names
from epagcl.paper.random_adding import RandomAdding
from epagcl.views.probabilities import edge_weights
from tests.paper.conftest import SMALL


@pytest.fixture(scope="module")
def graph():
    return Graph.from_data(check(epagcl.load("demo"), quiet=True))


def test_as_many_pairs_as_epagcl_would_add_and_others_every_time(graph):
    model = RandomAdding(**SMALL, p_add=0.05, p_drop_1=0.0, p_drop_2=0.0, seed=1)
    views = model.prepare(graph).views
    present = graph.pairs[0] * graph.num_nodes + graph.pairs[1]
    wanted = 0.05 * edge_weights(graph.pairs, graph.num_nodes).candidates.shape[1]
    assert torch.equal(views.pairs(0, view=0), present.sort().values)  # nothing is added to the first view
    added = []
    for epoch in range(5):
        pairs = views.pairs(epoch, view=1)
        assert torch.isin(present, pairs).all()
        new = pairs[~torch.isin(pairs, present)]
        assert (new // graph.num_nodes < new % graph.num_nodes).all()
        assert new.numel() == pytest.approx(wanted, rel=0.03)
        added.append(new)
    assert torch.cat(added).unique().numel() > 0.98 * sum(a.numel() for a in added)
    assert torch.equal(views.pairs(3, view=1), model.prepare(graph).views.pairs(3, view=1))


def test_both_views_get_pairs_of_their_own(graph):
    views = RandomAdding(**SMALL, add_to="both", p_drop_1=0.0, p_drop_2=0.0).prepare(graph).views
    first, second = (views.pairs(0, view) for view in range(2))
    assert 0 < torch.isin(first, second).sum() < min(first.numel(), second.numel())


def test_pairs_are_drawn_alike(graph):
    views = RandomAdding(**SMALL, p_add=0.9, p_drop_1=0.0, p_drop_2=0.0).prepare(graph).views
    present = graph.pairs[0] * graph.num_nodes + graph.pairs[1]
    drawn = torch.cat([views.pairs(epoch, view=1) for epoch in range(30)])
    drawn = drawn[~torch.isin(drawn, present)]
    ends = torch.cat([drawn // graph.num_nodes, drawn % graph.num_nodes])
    counts = torch.bincount(ends, minlength=graph.num_nodes).double()
    assert float(counts.std()) == pytest.approx(float(counts.mean()) ** 0.5, rel=0.1)  # Poisson: no node is preferred


def test_edges_are_dropped_as_epagcl_drops_them(graph):
    settings = {**SMALL, "drop": "uniform", "p_add": 0.0}
    blind, usual = (kind(**settings).prepare(graph).views for kind in (RandomAdding, epagcl.EPAGCL))
    for view, sampler in enumerate(usual):
        assert torch.equal(blind.pairs(2, view), sampler.counter[sampler.kept(2)].sort().values)


def test_it_trains_and_is_no_method_to_choose():
    data = epagcl.load("demo")
    model = RandomAdding(**SMALL, add_to="both")
    assert torch.equal(model.fit_embed(data), RandomAdding(**SMALL, add_to="both").fit_embed(data))
    assert epagcl.method("epagcl") is epagcl.EPAGCL
    assert names().count("epagcl") == 1
