import pytest
import torch
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from epagcl.core.randomness import Stream, uniform
from epagcl.data.checking import check
from epagcl.data.graph import Graph
from epagcl.methods import names
from epagcl.paper.variants.directions import (
    DirectedBGRL,
    DirectedCCASSG,
    DirectedGCA,
    DirectedGRACE,
    DirectedViews,
    SymmetricGREET,
)
from epagcl.views.sampling import drop_views

DIRECTED = (DirectedGRACE, DirectedGCA, DirectedBGRL, DirectedCCASSG)
SMALL = {"dim": 8, "epochs": 3, "device": "cpu"}


@pytest.fixture
def graph(small_graph):
    return Graph.from_data(check(small_graph))


def kept_directions(sampler, epoch):
    """Return the directions (target, source) that a view keeps, each drawn by its own number."""
    n = sampler.num_nodes
    i, j = sampler.counter // n, sampler.counter % n
    targets, sources = torch.cat([i, j]), torch.cat([j, i])
    u = uniform(targets * n + sources, sampler.seed, Stream.EDGES, epoch, sampler.view)
    kept = u < torch.cat([sampler.keep, sampler.keep])
    return targets[kept], sources[kept]


def test_a_view_is_the_directed_graph_of_its_draws_normalised_as_in_pyg(graph):
    views = DirectedViews(drop_views(graph.pairs, graph.num_nodes, (0.3, 0.6), seed=2))
    h = torch.randn(graph.num_nodes, 3)
    expected = []
    for sampler in views:
        target, source = kept_directions(sampler, 5)
        index, weight = gcn_norm(torch.stack([source, target]), None, graph.num_nodes, dtype=torch.float32)
        expected.append(torch.zeros(graph.num_nodes, 3).index_add_(0, index[1], weight[:, None] * h[index[0]]))
    torch.testing.assert_close(views.adjacency(5) @ h, torch.cat(expected))


def test_normalisation_by_sources_divides_by_the_messages_that_a_node_sends(graph):
    views = DirectedViews(drop_views(graph.pairs, graph.num_nodes, (0.5,), seed=2), by_source=True)
    n = graph.num_nodes
    a = torch.eye(n)
    a[kept_directions(views.samplers[0], 1)] = 1
    torch.testing.assert_close(views.adjacency(1) @ torch.eye(n), a / (a.sum(1)[:, None] * a.sum(0)[None, :]).sqrt())


def test_directions_are_kept_separately_and_with_their_probability(graph):
    views = DirectedViews(drop_views(graph.pairs, graph.num_nodes, (0.4,), seed=0))
    both = one = total = 0
    for epoch in range(40):
        a = (views.adjacency(epoch) @ torch.eye(graph.num_nodes)) > 0
        i, j = graph.pairs
        both, one, total = both + (a[i, j] & a[j, i]).sum(), one + (a[i, j] ^ a[j, i]).sum(), total + len(i)
    assert both / total == pytest.approx(0.36, abs=0.02)
    assert one / total == pytest.approx(0.48, abs=0.02)


def test_without_dropping_the_matrix_is_that_of_the_graph(graph):
    views = DirectedViews(drop_views(graph.pairs, graph.num_nodes, (0.0,), seed=0))
    torch.testing.assert_close(views.adjacency(0) @ torch.eye(graph.num_nodes), graph.adjacency.to_dense())


def test_gradients_flow_against_the_directions(graph):
    views = DirectedViews(drop_views(graph.pairs, graph.num_nodes, (0.5, 0.5), seed=0))
    matrix = views.adjacency(0)
    dense = (matrix @ torch.eye(graph.num_nodes)).detach()
    h = torch.randn(graph.num_nodes, 2, requires_grad=True)
    weights = torch.randn(2 * graph.num_nodes, 2)
    (gradient,) = torch.autograd.grad((matrix @ h * weights).sum(), h)
    torch.testing.assert_close(gradient, dense.T @ weights)


@pytest.mark.parametrize("cls", DIRECTED)
def test_methods_train_on_directed_views_and_embed_the_whole_graph(small_graph, cls):
    parent = cls.__mro__[1]
    ours, theirs = (
        kind(**SMALL, p_drop=0.4) if "p_drop" in kind().get_params() else kind(**SMALL) for kind in (cls, parent)
    )
    graph = Graph.from_data(check(small_graph))
    prepared = ours.prepare(graph)
    views = getattr(prepared, "views", prepared)
    assert isinstance(views, DirectedViews)
    assert views.by_source == (cls is DirectedCCASSG)
    z = ours.fit_embed(small_graph)
    assert z.shape == theirs.fit_embed(small_graph).shape
    assert not torch.equal(z, theirs.fit_embed(small_graph))
    assert names().count(cls.name) == 1  # it is not registered as a method


def test_symmetric_greet_has_one_draw_for_both_directions(graph):
    prepared = SymmetricGREET(**SMALL, k=3).prepare(graph)
    row, col, n = graph.pattern.row, graph.pattern.col.long(), graph.num_nodes
    draws = torch.zeros(n, n, dtype=torch.long)
    draws[row, col] = prepared.entries
    assert torch.equal(draws, draws.T)
    assert prepared.entries.unique().numel() == graph.pairs.shape[1] + n  # pairs, and a self-loop for each node
