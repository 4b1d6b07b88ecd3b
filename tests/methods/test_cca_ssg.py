import copy

import pytest
import torch

import epagcl
from epagcl.core.errors import InputError
from epagcl.data import check
from epagcl.data.graph import Graph
from epagcl.methods.cca_ssg import decorrelation_loss
from epagcl.views.masks import feature_mask
from tests.nn.dense import dense_product, perturbed

CCASSG = epagcl.method("cca-ssg")
SMALL = {"dim": 8, "device": "cpu"}


def rows(seed, n=11, dim=4):
    return torch.randn(n, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64, requires_grad=True)


def written_out(z1, z2, weight):
    """Return the loss by loops over columns: correlations are sums over nodes, divided by N."""
    n, dim = z1.shape
    columns = [[(z[:, k] - z[:, k].mean()) / z[:, k].std() for k in range(dim)] for z in (z1, z2)]
    loss = -sum(sum(a * b) / n for a, b in zip(*columns, strict=True))
    for view in columns:
        for i, a in enumerate(view):
            for j, b in enumerate(view):
                loss = loss + weight * (sum(a * b) / n - float(i == j)) ** 2
    return loss


@pytest.mark.parametrize("weight", [0.0, 1e-3, 0.7])
def test_loss_and_gradient_equal_an_explicit_computation(weight):
    z1, z2 = rows(0), rows(1)
    losses = decorrelation_loss(z1, z2, weight), written_out(z1, z2, weight)
    torch.testing.assert_close(*losses)
    torch.testing.assert_close(*(torch.autograd.grad(loss, (z1, z2)) for loss in losses))
    assert torch.autograd.gradcheck(lambda a, b: decorrelation_loss(a, b, weight), (z1, z2))


def test_loss_of_uncorrelated_columns():
    """Each view has half of a set of orthonormal columns of mean 0: no agreement, no redundancy."""
    n = 9
    q, _ = torch.linalg.qr(torch.cat([torch.ones(n, 1, dtype=torch.float64), rows(0, n, 6).detach()], 1))
    z1, z2 = q[:, 1:4], q[:, 4:7]
    diagonal = (n - 1) / n  # standard deviations divide by N − 1, correlations by N
    correlation = 2 * 3 * (1 - diagonal) ** 2
    assert decorrelation_loss(z1, z2, 0.5).item() == pytest.approx(0.5 * correlation)
    assert decorrelation_loss(z1, z1, 0.5).item() == pytest.approx(0.5 * correlation - 3 * diagonal)  # the minimum
    assert decorrelation_loss(z1, -z1, 0.5).item() == pytest.approx(0.5 * correlation + 3 * diagonal)


def test_loss_does_not_depend_on_mean_and_scale_of_columns():
    z1, z2 = rows(0).detach(), rows(1).detach()
    moved = z1 * torch.tensor([0.1, 3, 20, 1.0]) + torch.tensor([5, -3, 0, 0.1])
    torch.testing.assert_close(decorrelation_loss(moved, z2, 0.3), decorrelation_loss(z1, z2, 0.3))
    torch.testing.assert_close(decorrelation_loss(z2, z1, 0.3), decorrelation_loss(z1, z2, 0.3))


def test_a_constant_column_is_finite_and_has_a_gradient():
    z1, z2 = rows(0), rows(1)
    with torch.no_grad():
        z1[:, 1] = 3.0
    loss = decorrelation_loss(z1, z2, 0.1)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(z1.grad).all()
    others = [0, 2, 3]
    rest = decorrelation_loss(z1[:, others].detach(), z2[:, others].detach(), 0.0)
    torch.testing.assert_close(decorrelation_loss(z1, z2, 0.0), rest)  # it does not contribute to the agreement


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_the_loss_of_the_method_is_that_of_its_two_views(small_graph, layers):
    method = CCASSG(layers=layers, p_mask=0.3, decorrelation=0.05, **SMALL)
    graph = Graph.from_data(check(small_graph))
    network, views = method.build(40), method.prepare(graph)
    z, x = [], small_graph.x.to_dense()
    for view, sampler in enumerate(views):
        h, a = x * feature_mask(40, 0.3, seed=0, epoch=2, view=view), sampler.adjacency(2).to_dense()
        for number, layer in enumerate(network.encoder.layers, 1):
            h = a @ h @ layer.weight + layer.bias
            h = h.relu() if number < layers else h  # no activation after the last layer
        z.append(h)
    loss = method.loss(network, graph, views, 2)
    torch.testing.assert_close(loss, written_out(*z, 0.05), rtol=1e-4, atol=1e-4)
    assert len(network.encoder.layers) == layers


@pytest.mark.parametrize(
    ("encoder", "layers"), [("gcn", 2), ("residual", 1), ("residual", 3), ("pagerank", 1), ("scales", 1)]
)
def test_every_encoder_equals_its_dense_formula_in_float64(small_graph, encoder, layers, monkeypatch):
    monkeypatch.setattr("epagcl.nn.encoders.PRODUCTS", 40)
    method = CCASSG(encoder=encoder, layers=layers, p_mask=0.3, decorrelation=0.05, **SMALL)
    graph = Graph.from_data(check(small_graph))
    torch.manual_seed(0)
    network, views = perturbed(method.build(40)), method.prepare(graph)
    exact, z = copy.deepcopy(network).double(), []
    for view, sampler in enumerate(views):
        h = (small_graph.x.to_dense() * feature_mask(40, 0.3, seed=0, epoch=2, view=view)).double()
        for number, layer in enumerate(getattr(exact.encoder, "layers", [exact.encoder]), 1):
            h = dense_product(layer, h, sampler.adjacency(2).to_dense().double()) + layer.bias
            h = h.relu() if number < layers else h
        z.append(h)
    loss, expected = method.loss(network, graph, views, 2), written_out(*z, 0.05)
    torch.testing.assert_close(loss.double(), expected, rtol=1e-4, atol=1e-5)
    # The bias of the last layer has no gradient but rounding errors: the loss does not depend on means.
    gradients = torch.autograd.grad(loss, network.parameters())
    for ours, theirs in zip(gradients, torch.autograd.grad(expected, exact.parameters()), strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-3, atol=1e-4)


def test_both_views_have_the_same_rates_but_differ(small_graph):
    graph = Graph.from_data(check(small_graph))
    first, second = CCASSG(p_drop=0.4, **SMALL).prepare(graph)
    assert torch.equal(first.keep, second.keep)
    assert first.keep.unique().tolist() == pytest.approx([0.6])
    assert not torch.equal(first.kept(0), second.kept(0))


def test_training_makes_views_agree_and_columns_differ(small_graph):
    model = CCASSG(epochs=40, lr=0.01, decorrelation=0.05, **SMALL).fit(small_graph)
    losses = [row["loss"] for row in model.history_]
    assert losses[-1] < losses[0] - 1
    assert min(losses) > -8
    correlations = torch.corrcoef(model.embed(small_graph).T).fill_diagonal_(0)
    before = torch.corrcoef(CCASSG(epochs=0, **SMALL).fit_embed(small_graph).T).fill_diagonal_(0)
    assert correlations.abs().mean() < before.abs().mean()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"p_drop": 1.5}, "p_drop=1.5: a probability"),
        ({"decorrelation": -0.1}, "decorrelation=-0.1: must be at least 0"),
        ({"layers": 0}, "layers=0: must be at least 1"),
    ],
)
def test_invalid_settings_are_rejected(settings, message):
    with pytest.raises(InputError, match=message):
        CCASSG(**settings)
