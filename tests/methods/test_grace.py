import math

import pytest
import torch
import torch.nn.functional as F

import epagcl
from epagcl.core.errors import InputError
from epagcl.data import check
from epagcl.data.graph import Graph

GRACE = epagcl.method("grace")
SMALL = {"hidden": 16, "dim": 8, "projection": 12, "device": "cpu"}


def prepared(data, **settings):
    method = GRACE(**{**SMALL, **settings})
    graph = Graph.from_data(check(data))
    return method, graph, method.prepare(graph)


def dense_view(sampler, epoch, n):
    """Return Â of a view from its pairs."""
    a = torch.eye(n)
    i, j = sampler.pairs(epoch)
    a[i, j] = a[j, i] = 1
    scale = a.sum(1).rsqrt()
    return scale[:, None] * a * scale


def nt_xent(z, temperature):
    """Return the loss of the stacked 2N rows as a cross-entropy whose class is the row in the other view."""
    z = F.normalize(z, dim=1)
    s = (z @ z.T / temperature).fill_diagonal_(-torch.inf)
    return F.cross_entropy(s, torch.arange(z.shape[0]).roll(z.shape[0] // 2))


@pytest.mark.parametrize("activation", ["prelu", "relu", "rrelu"])
def test_loss_equals_an_explicit_computation(small_graph, activation):
    method, graph, (views, _) = prepared(small_graph, activation=activation, temperature=0.4, p_mask_1=0.3)
    network = method.build(40)
    slope = {"prelu": 0.25, "relu": 0.0, "rrelu": 11 / 48}[activation]
    x, first, second = graph.x.to_dense(), *network.encoder.layers
    h = []
    for view, (sampler, p) in enumerate(zip(views, (0.3, 0.1), strict=True)):
        a = dense_view(sampler, 5, 60)
        mask = epagcl.views.masks.feature_mask(40, p, seed=0, epoch=5, view=view)
        t = F.leaky_relu(a @ (x * mask) @ first.weight + first.bias, slope)
        h.append(F.leaky_relu(a @ t @ second.weight + second.bias, slope))
    into, _, out = network.head
    expected = nt_xent(out(F.elu(into(torch.cat(h)))), 0.4)  # the projection head has an ELU
    torch.testing.assert_close(method.loss(network, graph, method.prepare(graph), 5), expected)


def test_views_drop_every_pair_at_the_same_rate(small_graph):
    _, graph, (views, p_masks) = prepared(small_graph, p_drop_1=0.2, p_drop_2=0.6)
    present = {tuple(pair) for pair in graph.pairs.T.tolist()}
    for sampler, rate in zip(views, (0.2, 0.6), strict=True):
        assert {tuple(pair) for pair in sampler.pairs(0).T.tolist()} < present  # nothing is added
        kept = torch.stack([sampler.kept(epoch) for epoch in range(1000)]).double().mean(0)
        sigma = math.sqrt(rate * (1 - rate) / 1000)
        assert ((kept - (1 - rate)).abs() < 5 * sigma).all()
    assert p_masks == (0.1, 0.1)


def test_without_augmentation_both_views_are_the_graph(small_graph):
    off = {"p_drop_1": 0.0, "p_drop_2": 0.0, "p_mask_1": 0.0, "p_mask_2": 0.0}
    method, graph, augmentation = prepared(small_graph, **off)
    network = method.build(40)
    z = network.head(network.encoder(graph.x, graph.adjacency))
    losses = [method.loss(network, graph, augmentation, epoch) for epoch in (0, 7)]
    torch.testing.assert_close(losses[0], nt_xent(torch.cat([z, z]), 0.3))
    assert losses[0] == losses[1]


def test_equal_rows_give_a_loss_of_log_2n_minus_1(small_graph):
    method, graph, augmentation = prepared(small_graph)
    network = method.build(40)
    with torch.no_grad():
        network.head[2].weight.zero_()
        network.head[2].bias.fill_(1.0)
    assert method.loss(network, graph, augmentation, 0).item() == pytest.approx(math.log(2 * 60 - 1))


def test_the_loss_does_not_depend_on_the_norm_of_projections(small_graph):
    method, graph, augmentation = prepared(small_graph)
    network = method.build(40)
    loss = method.loss(network, graph, augmentation, 0)
    with torch.no_grad():
        network.head[2].weight.mul_(7)
        network.head[2].bias.mul_(7)
    torch.testing.assert_close(method.loss(network, graph, augmentation, 0), loss)
    assert loss > math.log(1 + (2 * 60 - 2) * math.exp(-2 / 0.3))


def test_the_embedding_is_the_output_of_the_encoder_on_the_unmodified_graph(small_graph):
    model = GRACE(epochs=2, **SMALL).fit(small_graph)
    graph = Graph.from_data(check(small_graph))
    torch.testing.assert_close(
        model.embed(small_graph), model.network_.encoder(graph.x, graph.adjacency).detach(), rtol=0, atol=0
    )


def test_epagcl_with_uniform_dropping_alone_has_the_same_views(small_graph):
    _, graph, (views, _) = prepared(small_graph)
    other = epagcl.EPAGCL(drop="uniform", p_add=0.0, **SMALL).prepare(graph)
    for ours, theirs in zip(views, other.views, strict=True):
        assert torch.equal(ours.pairs(3), theirs.pairs(3))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"p_drop_2": -0.1}, "p_drop_2=-0.1: a probability"),
        ({"p_mask_1": 1.1}, "p_mask_1=1.1: a probability"),
        ({"temperature": 0.01}, "temperature=0.01: must be at least 0.03"),
        ({"activation": "gelu"}, "activation='gelu': choose one of prelu, relu, rrelu"),
        ({"hidden": 0}, "hidden=0: must be at least 1"),
        ({"batch_size": -1}, "batch_size=-1: must be at least 0"),
    ],
)
def test_invalid_settings_are_rejected(settings, message):
    with pytest.raises(InputError, match=message):
        GRACE(**settings)
