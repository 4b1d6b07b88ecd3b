import math

import pytest
import torch
from torch_geometric.data import Data

import epagcl
from epagcl.core.errors import InputError
from epagcl.core.randomness import Stream, other_nodes
from epagcl.core.sparse import SparseMatrix
from epagcl.data import block_model, check
from epagcl.data.graph import Graph
from epagcl.losses import edges
from epagcl.methods.gmi import GMI, neighbour_mean, score_loss
from tests.conftest import Largest
from tests.nn.dense import dense_product

SMALL = {"dim": 16, "device": "cpu"}


def softplus(t):
    return math.log1p(math.exp(t))


def prepared(data, **settings):
    method = GMI(**{**SMALL, **settings})
    graph = Graph.from_data(check(data))
    torch.manual_seed(0)
    return method, graph, method.prepare(graph), method.build(graph.num_features)


def dense_loss(method, network, graph, epoch):
    """Return the three terms from dense matrices."""
    x, n = graph.x.to_dense(), graph.num_nodes
    a = torch.zeros(n, n)
    a[graph.pairs[0], graph.pairs[1]] = a[graph.pairs[1], graph.pairs[0]] = 1

    def prelu(t, module):
        return torch.nn.functional.prelu(t, module.weight)

    tilde = a + torch.eye(n)
    scale = tilde.sum(1).rsqrt()
    hat = scale[:, None] * tilde * scale
    h = x
    for layer, activation in zip(network.layers, network.activations, strict=True):
        h = prelu(dense_product(layer, h, hat) + layer.bias, activation)
    m = prelu(a / a.sum(1).clamp(min=1)[:, None] @ x @ network.layers[0].weight, network.mean_activation)
    t1 = torch.sigmoid(h @ (x @ network.own.weight).T + network.own.bias)  # [i, j]
    t2 = torch.sigmoid((h @ network.neighbours.weight @ m.T).T + network.neighbours.bias)
    loss = 0.0
    for term, (weight, t) in enumerate([(method.alpha, t1), (method.beta, t2)]):
        others = other_nodes(n, method.negatives, method.seed, Stream.NEGATIVES, epoch, term)
        negative = torch.stack([t[torch.arange(n), other] for other in others])
        j = torch.log1p(torch.exp(-t.diagonal())).mean() + torch.log1p(torch.exp(negative)).mean()
        loss = loss + weight * j
    s, e = h @ h.T, tilde.sum() / 2
    cross_entropy = (n * n - e) / e * tilde * torch.log1p(torch.exp(-s)) + (1 - tilde) * torch.log1p(torch.exp(s))
    return loss + method.gamma * n * n / (n * n - e) * cross_entropy.mean()


@pytest.mark.parametrize(
    ("encoder", "layers"), [("gcn", 1), ("gcn", 2), ("residual", 1), ("residual", 2), ("pagerank", 1), ("scales", 1)]
)
@pytest.mark.parametrize(("num_features", "kind"), [(40, torch.Tensor), (400, SparseMatrix)])
def test_loss_is_the_formula(encoder, layers, num_features, kind, monkeypatch):
    monkeypatch.setattr("epagcl.nn.encoders.PRODUCTS", 40)
    data = block_model(60, num_classes=3, num_features=num_features, topic_words=10, words_per_node=6, seed=3)
    method, graph, mean, network = prepared(
        data, encoder=encoder, layers=layers, alpha=0.7, beta=0.9, gamma=1.3, negatives=3
    )
    assert isinstance(graph.x, kind)
    with torch.no_grad():  # make scores and slopes differ
        network.own.weight.mul_(30)
        network.neighbours.weight.mul_(30)
        for slope, module in enumerate([*network.activations, network.mean_activation]):
            module.weight.fill_(0.1 + 0.2 * slope)
    ours, expected = method.loss(network, graph, mean, 4), dense_loss(method, network, graph, 4)
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)
    parameters = list(network.parameters())
    ours, expected = (torch.autograd.grad(loss, parameters) for loss in (ours, expected))
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-6)


def test_the_feature_score_lies_between_its_bounds():
    least, most = softplus(-1) + softplus(0), softplus(0) + softplus(1)
    assert (least, most) == pytest.approx((1.0064, 2.0064), abs=5e-5)
    generator = torch.Generator().manual_seed(0)
    zero, others = torch.zeros(1), other_nodes(50, 5, 0)
    for scale in (0.1, 1.0, 100.0):
        a, b = (scale * torch.randn(50, 8, generator=generator) for _ in range(2))
        assert least - 1e-6 <= score_loss(a, b, zero, others).item() <= most + 1e-6
    rows = 100 * torch.eye(50)
    assert score_loss(rows, rows, zero - 50, others).item() == pytest.approx(least)  # positives and negatives separated
    assert score_loss(rows, -rows, zero + 50, others).item() == pytest.approx(most)  # all pairs misclassified


def test_zero_weights_score_one_half(small_graph):
    chance = softplus(-0.5) + softplus(0.5)
    assert chance == pytest.approx(1.4482, abs=5e-5)
    method, graph, mean, network = prepared(small_graph, gamma=0.0)
    with torch.no_grad():
        network.own.weight.zero_()
        network.neighbours.weight.zero_()
    assert method.loss(network, graph, mean, 0).item() == pytest.approx(1.8 * chance, rel=1e-6)


def test_negatives_are_other_nodes_sampled_uniformly_in_each_epoch():
    n, method, graph = 7, GMI(**SMALL), Graph.from_data(check(block_model(7, num_classes=2, seed=0)))
    draws = torch.stack([method._others(graph, 5, epoch, term) for epoch in range(400) for term in (0, 1)])
    assert (draws != torch.arange(n)).all()
    assert (draws.sort(-1).values == torch.arange(n)).all()  # each is a permutation
    assert not torch.equal(draws[0::2], draws[1::2])  # the terms sample independently
    assert not torch.equal(draws[0], draws[2])
    counts = torch.stack([torch.bincount(draws[:, :, i].flatten(), minlength=n) for i in range(n)])
    expected = 4000 / (n - 1)  # standard deviation about 24
    assert ((counts - expected).abs() < 5 * math.sqrt(expected))[~torch.eye(n, dtype=torch.bool)].all()


def test_neighbour_mean_has_rows_of_sum_one_or_zero(small_graph):
    graph = Graph.from_data(check(small_graph))
    mean = neighbour_mean(graph).to_dense()
    degree = torch.bincount(graph.pairs.flatten(), minlength=60)
    assert (degree == 0).any()
    assert (mean.diagonal() == 0).all()
    torch.testing.assert_close(mean.sum(1), (degree > 0).float())
    assert torch.equal((mean > 0).sum(1), degree)


def test_the_sampled_edge_term_estimates_the_exact_one(small_graph):
    method, graph, mean, network = prepared(small_graph)
    sampled = GMI(**SMALL, edge_pairs=20)
    exact = method.loss(network, graph, mean, 0)
    with torch.no_grad():
        estimates = torch.stack([sampled.loss(network, graph, mean, epoch) for epoch in range(50)])
    # The first two terms are near chance and hardly change between epochs.
    assert estimates.mean().item() == pytest.approx(exact.item(), rel=1e-3)
    assert estimates.std() > 0


@pytest.mark.parametrize("settings", [{}, {"layers": 1}, {"edge_pairs": 3}], ids=str)
def test_gradient_reaches_every_parameter(small_graph, settings):
    method, graph, mean, network = prepared(small_graph, **settings)
    method.loss(network, graph, mean, 0).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in network.parameters())


@pytest.mark.slow
def test_training_lowers_the_loss_and_keeps_a_high_rank():
    data = block_model(300, seed=5)
    for settings in ({}, {"edge_pairs": 5}):
        model = GMI(epochs=60, lr=5e-3, patience=0, **settings, **SMALL).fit(data)
        losses = [row["loss"] for row in model.history_]
        assert losses[-1] < losses[0] - 0.3
        assert model.history_[-1]["effective_rank"] > 3


def test_published_settings_are_the_defaults():
    model = GMI()
    assert (model.epochs, model.lr, model.weight_decay, model.patience) == (550, 1e-3, 0.0, 20)
    assert (model.layers, model.dim, model.negatives, model.edge_pairs) == (2, 512, 5, 0)
    assert (model.alpha, model.beta, model.gamma) == (0.8, 1.0, 1.0)
    assert epagcl.method("gmi") is GMI


def test_the_epoch_may_be_a_tensor(small_graph):
    method, graph, mean, network = prepared(small_graph, edge_pairs=4)
    first, second, again = (method.loss(network, graph, mean, epoch) for epoch in (1, 2, torch.tensor(2)))
    assert torch.equal(second, again)
    assert not torch.equal(first, second)


def test_the_seed_determines_the_result(small_graph):
    a, b = (GMI(epochs=4, seed=3, **SMALL).fit_embed(small_graph) for _ in range(2))
    assert torch.equal(a, b)
    assert not torch.equal(a, GMI(epochs=4, seed=4, **SMALL).fit_embed(small_graph))


def test_labels_are_not_read(small_graph):
    blind = small_graph.clone()
    del blind.y
    scrambled = small_graph.clone()
    scrambled.y = scrambled.y.flip(0)
    results = [GMI(epochs=3, **SMALL).fit_embed(data) for data in (small_graph, blind, scrambled)]
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


def test_a_dead_feature_column_changes_nothing(small_graph):
    wide = small_graph.clone()
    wide.x = torch.cat([small_graph.x.to_dense(), torch.zeros(60, 1)], dim=1)
    method, graph, mean, network = prepared(small_graph)
    _, wide_graph, wide_mean, wider = prepared(wide)
    with torch.no_grad():
        for name, p in network.named_parameters():
            q = wider.get_parameter(name)
            q.copy_(torch.cat([p, torch.ones(1, p.shape[1])]) if q.shape != p.shape else p)
    torch.testing.assert_close(
        method.loss(wider, wide_graph, wide_mean, 1), method.loss(network, graph, mean, 1), rtol=1e-5, atol=1e-6
    )


def test_isolated_nodes_complete_graphs_and_two_nodes_train():
    complete = Data(x=torch.eye(5), edge_index=torch.triu_indices(5, 5, 1))
    two = Data(x=torch.eye(2), edge_index=torch.tensor([[0], [1]]))
    isolated = Data(x=torch.eye(6), edge_index=torch.tensor([[0, 1], [1, 2]]))
    for data in (complete, two, isolated):
        for settings in ({}, {"layers": 1, "edge_pairs": 2}):
            z = GMI(epochs=2, **SMALL, **settings).fit_embed(data)
            assert torch.isfinite(z).all()


def test_save_and_load(tmp_path, small_graph):
    model = GMI(epochs=2, layers=1, **SMALL).fit(small_graph)
    model.save(tmp_path / "run")
    loaded = epagcl.load_model(tmp_path / "run", device="cpu")
    assert isinstance(loaded, GMI)
    assert loaded.get_params() == model.get_params()
    assert torch.equal(loaded.embed(small_graph), model.embed(small_graph))


def test_embeds_unseen_graphs(small_graph):
    model = GMI(epochs=2, **SMALL).fit(small_graph)
    z = model.embed(block_model(80, num_classes=3, num_features=40, topic_words=10, seed=9))
    assert z.shape == (80, 16)
    assert z.dtype == torch.float32


@pytest.mark.parametrize("edge_pairs", [0, 3])
def test_no_tensor_of_all_pairs_in_training(monkeypatch, edge_pairs):
    n = 600
    monkeypatch.setitem(edges.TILE, "cpu", 64)
    data = block_model(n, seed=1)
    with Largest() as largest:
        GMI(epochs=1, edge_pairs=edge_pairs, **SMALL).fit(data)
    assert largest.bytes < 4 * n * n / 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": -1.0}, "alpha=-1.0: must be at least 0"),
        ({"negatives": 0}, "negatives=0: must be at least 1"),
        ({"layers": 0}, "layers=0: must be at least 1"),
        ({"edge_pairs": -1}, "edge_pairs=-1: must be at least 0"),
    ],
)
def test_invalid_settings_are_rejected(settings, message):
    with pytest.raises(InputError, match=message):
        GMI(**settings)
