import copy
import math
import os
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

import epagcl
from epagcl.core.errors import InputError
from epagcl.core.sparse import SparseMatrix
from epagcl.data import check
from epagcl.data.graph import Graph
from epagcl.methods.bgrl import Predictor, bootstrap_loss
from epagcl.views.masks import feature_mask
from tests.nn.dense import dense_product

BGRL = epagcl.method("bgrl")
SMALL = {"hidden": 16, "dim": 8, "predictor": 12, "device": "cpu"}


def start(data, **settings):
    method = BGRL(**{**SMALL, **settings})
    graph = Graph.from_data(check(data))
    torch.manual_seed(0)
    network = method.build(40)
    with torch.no_grad():  # scales and shifts differ from their initial values
        for name, p in network.named_parameters():
            if name.endswith(("scale", "shift", "bias")):
                p.add_(0.3 * torch.randn_like(p))
    return method, graph, network, method.prepare(graph)


def encode(encoder, x, a, norm):
    """Return the output of one view in training mode, computed layer by layer."""
    for number, layer in enumerate(encoder.layers):
        if norm == "layer" and number > 0:
            weight = torch.cat(layer.gcn.weights)  # W and R of an output unit are standardised together
            weight = (weight - weight.mean(0)) / (weight.var(0, correction=0) + 1e-5).sqrt()
            inputs = (a @ x, x)[: len(layer.gcn.weights)]
            x = torch.cat(inputs, 1) @ weight + layer.gcn.bias
        else:
            x = dense_product(layer.gcn, x, a) + layer.gcn.bias
        axis = 0 if norm == "batch" else 1
        mean, var = x.mean(axis, keepdim=True), x.var(axis, correction=0, keepdim=True)
        x = (x - mean) / (var + 1e-5).sqrt() * layer.scale + layer.shift
        x = F.prelu(x, layer.activation.weight)
    return x


def cosine(q, z):
    return ((q / q.norm(dim=1, keepdim=True)) * (z / z.norm(dim=1, keepdim=True))).sum(1)


@pytest.mark.parametrize("norm", ["batch", "layer"])
@pytest.mark.parametrize(
    ("encoder", "layers"),
    [("gcn", 1), ("gcn", 2), ("gcn", 3), ("residual", 1), ("residual", 3), ("pagerank", 1), ("scales", 1)],
)
def test_loss_and_gradient_equal_an_explicit_computation(small_graph, norm, encoder, layers, monkeypatch):
    monkeypatch.setattr("epagcl.nn.encoders.PRODUCTS", 40)
    method, graph, network, views = start(small_graph, norm=norm, encoder=encoder, layers=layers)
    assert [layer.gcn.weight.shape[1] for layer in network.encoder.layers] == [16] * (layers - 1) + [8]
    x = small_graph.x.to_dense()
    q, z = [], []
    for view, (sampler, p) in enumerate(zip(views, (0.2, 0.1), strict=True)):
        a, masked = sampler.adjacency(4).to_dense(), x * feature_mask(40, p, seed=0, epoch=4, view=view)
        q.append(network.predictor(encode(network.encoder, masked, a, norm)))
        z.append(encode(network.target, masked, a, norm).detach())
    expected = 2 - cosine(q[0], z[1]).mean() - cosine(q[1], z[0]).mean()
    loss = method.loss(network, graph, views, 4)
    torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-5)
    trained = [p for p in network.parameters() if p.requires_grad]
    gradients = [torch.autograd.grad(value, trained) for value in (loss, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("encoder", ["gcn", "residual"])
def test_both_networks_share_the_product_of_adjacency_and_dense_features(small_graph, encoder, monkeypatch):
    method, graph, network, views = start(small_graph, encoder=encoder, hidden=48)  # 40 columns are fewer than 48
    widths, kind = [], type(views.adjacency(4))
    multiply = kind.__matmul__
    monkeypatch.setattr(kind, "__matmul__", lambda a, h: widths.append(h.shape[1]) or multiply(a, h))
    loss = method.loss(network, graph, views, 4)
    assert widths.count(40) == 1
    sparse = replace(graph, x=SparseMatrix.from_torch(graph.x.to_sparse_csr()))
    torch.testing.assert_close(loss, method.loss(network, sparse, views, 4))
    assert widths.count(40) == 1  # sparse features are multiplied by the weights first


@pytest.mark.parametrize("views", [1, 2])
def test_each_view_is_normalised_by_its_own_statistics(small_graph, views):
    _, _, network, _ = start(small_graph)
    layer = network.encoder.layers[0]
    x = torch.randn(60 * views, 16) * torch.arange(1, views + 1).repeat_interleave(60)[:, None]
    with torch.no_grad():
        layer.scale.fill_(1.0)
    out = layer._normalise(x, 60)
    for part, given in zip(out.split(60), x.split(60), strict=True):
        torch.testing.assert_close(part.mean(0), torch.zeros(16), rtol=0, atol=1e-5)
        torch.testing.assert_close(part.var(0, correction=0), torch.ones(16), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(part, (given - given.mean(0)) / given.std(0, correction=0), rtol=1e-3, atol=1e-3)
    # Evaluation uses nearly the statistics of the last view, since new ones have momentum 0.99.
    mean, var = torch.zeros(16), torch.ones(16)
    for given in x.split(60):
        mean, var = 0.01 * mean + 0.99 * given.mean(0), 0.01 * var + 0.99 * given.var(0)
    torch.testing.assert_close(layer.mean, mean)
    torch.testing.assert_close(layer.var, var)
    network.eval()
    torch.testing.assert_close(layer._normalise(x, 60), (x - mean) / (var + 1e-5).sqrt())


@pytest.fixture(params=[False, True], ids=["torch", "triton"])
def kernels(request, use_triton):
    """Compute the norm and its activation by plain PyTorch or by kernels."""
    if request.param:
        pytest.importorskip("triton")
        if os.environ.get("TRITON_INTERPRET") != "1":
            pytest.skip("these graphs are on the CPU, where only Triton's interpreter runs kernels")
    use_triton(request.param)
    return request.param


def products(layer, num_nodes=60):
    """Replace the graph convolution of a layer by given products; return a function of them, and random products."""
    layer.gcn.product = lambda x, adjacency, mask: x
    adjacency = SimpleNamespace(shape=(num_nodes, num_nodes))
    x = torch.randn(2 * num_nodes, 16, generator=torch.Generator().manual_seed(5))
    return (lambda x: layer(x.clone(), adjacency, None)), x


@pytest.mark.usefixtures("kernels")
def test_the_bias_has_no_effect_in_training_but_on_the_running_mean(small_graph):
    _, _, network, _ = start(small_graph)
    layer = network.encoder.layers[0]
    forward, x = products(layer)
    before, mean, var = layer.mean.clone(), layer.mean.clone(), layer.var.clone()
    out = forward(x)
    for view in x.split(60):
        mean, var = 0.01 * mean + 0.99 * (view + layer.gcn.bias).mean(0), 0.01 * var + 0.99 * view.var(0)
    torch.testing.assert_close((layer.mean, layer.var), (mean.detach(), var))
    (gradient,) = torch.autograd.grad(out.square().sum(), layer.gcn.bias)
    assert torch.equal(gradient, torch.zeros(16))
    with torch.no_grad():
        layer.gcn.bias.add_(7.0)
        layer.mean.copy_(before)
    assert torch.equal(forward(x), out)
    torch.testing.assert_close(layer.mean, mean.detach() + 7 * 0.9999)


@pytest.mark.usefixtures("kernels")
def test_evaluation_normalises_products_and_bias_by_running_statistics(small_graph):
    _, _, network, _ = start(small_graph)
    layer = network.encoder.layers[0]
    forward, x = products(layer)
    forward(x)
    network.eval()
    statistics = [t.clone() for t in (layer.mean, layer.var)]
    expected = F.batch_norm(x + layer.gcn.bias, *statistics, layer.scale, layer.shift)
    torch.testing.assert_close(forward(x), F.prelu(expected, layer.activation.weight))
    assert all(map(torch.equal, statistics, (layer.mean, layer.var)))


def test_training_moves_no_bias_before_a_batch_norm(small_graph):
    model = BGRL(**{**SMALL, "hidden": 4, "dim": 3}, epochs=2, lr=0.01).fit(small_graph)
    assert not any(layer.gcn.bias.any() for layer in model.network_.encoder.layers)
    model = BGRL(**{**SMALL, "hidden": 4, "dim": 3}, epochs=2, lr=0.01, norm="layer").fit(small_graph)
    assert all(layer.gcn.bias.any() for layer in model.network_.encoder.layers)


@pytest.mark.usefixtures("kernels")
def test_a_view_of_one_row_cannot_be_normalised(small_graph):
    _, _, network, _ = start(small_graph)
    forward, x = products(network.encoder.layers[0], num_nodes=1)
    with pytest.raises(ValueError, match=r"more than 1 value per channel when training, got input size .*\[1, 16\]"):
        forward(x)


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ["gcn", "residual"])
def test_kernels_equal_plain_torch(small_graph, use_triton, encoder):
    pytest.importorskip("triton")
    if os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("these graphs are on the CPU, where only Triton's interpreter runs kernels")
    results = []
    for on in (False, True):
        use_triton(on)
        method, graph, network, views = start(small_graph, encoder=encoder)
        loss = method.loss(network, graph, views, torch.tensor(4))
        gradients = torch.autograd.grad(loss, [p for p in network.parameters() if p.requires_grad])
        results.append((loss, *gradients, *network.buffers()))
    assert len(results[0]) > len(gradients) + 4  # the statistics of two layers in two networks
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)


def test_the_predictor_equals_that_of_earlier_versions():
    torch.manual_seed(0)
    ours = Predictor(8, 12)
    torch.manual_seed(0)
    earlier = torch.nn.Sequential(torch.nn.Linear(8, 12), torch.nn.PReLU(), torch.nn.Linear(12, 8))
    states = [module.state_dict() for module in (ours, earlier)]
    assert list(states[0]) == list(states[1])
    assert all(map(torch.equal, *(state.values() for state in states)))
    h = torch.randn(5, 8)
    given = h.clone()
    outputs = [module(h) for module in (ours, earlier)]
    torch.testing.assert_close(*outputs)
    assert torch.equal(h, given)
    gradients = [
        torch.autograd.grad(y.square().sum(), list(m.parameters()))
        for y, m in zip(outputs, (ours, earlier), strict=True)
    ]
    torch.testing.assert_close(*gradients)


def test_layer_norm_standardises_all_weights_but_the_first(small_graph):
    _, graph, network, _ = start(small_graph, norm="layer", layers=3)
    assert [layer.standardise for layer in network.encoder.layers] == [False, True, True]
    z = network.encoder(graph.x, graph.adjacency)
    with torch.no_grad():  # standardisation removes scale and shift of each output unit
        for layer in network.encoder.layers[1:]:
            layer.gcn.weight.mul_(3.0).add_(torch.randn(layer.gcn.weight.shape[1]))
    torch.testing.assert_close(network.encoder(graph.x, graph.adjacency), z, rtol=1e-3, atol=1e-3)
    assert {name.split(".")[-1] for name, _ in network.encoder.named_buffers()} == set()  # no running statistics


def test_the_target_has_its_own_initial_weights_and_no_gradient(small_graph):
    method, graph, network, views = start(small_graph)
    pairs = list(zip(network.encoder.layers, network.target.layers, strict=True))
    assert not any(torch.equal(online.gcn.weight, target.gcn.weight) for online, target in pairs)
    method.loss(network, graph, views, 0).backward()
    assert all(p.grad is None and not p.requires_grad for p in network.target.parameters())
    (group,) = method.parameters(network)
    assert {id(p) for p in group["params"]} == {
        id(p) for part in (network.encoder, network.predictor) for p in part.parameters()
    }


@pytest.mark.parametrize(("momentum", "copies"), [(1.0, False), (0.0, True)])
def test_momentum_1_keeps_the_target_and_momentum_0_copies_the_encoder(small_graph, momentum, copies):
    method, graph, network, views = start(small_graph, momentum=momentum)
    method.loss(network, graph, views, 0)  # both see the same views, but their running statistics differ
    before = copy.deepcopy(network.target)
    method.after_epoch(network, 0)
    expected = network.encoder if copies else before
    assert all(map(torch.equal, network.target.parameters(), expected.parameters()))
    assert all(map(torch.equal, network.target.buffers(), before.buffers()))  # statistics are not averaged
    assert not any(map(torch.equal, network.target.buffers(), network.encoder.buffers()))


def test_the_target_is_a_moving_average(small_graph):
    method, _, network, _ = start(small_graph, momentum=0.9, epochs=100)
    before = [p.clone() for p in network.target.parameters()]
    for epoch in (30, torch.tensor(30)):
        with torch.no_grad():
            for p, old in zip(network.target.parameters(), before, strict=True):
                p.copy_(old)
        method.after_epoch(network, epoch)
        m = 1 - 0.1 * (1 + math.cos(math.pi * 0.3)) / 2
        for p, old, online in zip(network.target.parameters(), before, network.encoder.parameters(), strict=True):
            torch.testing.assert_close(p, m * old + (1 - m) * online)


def test_schedules_of_learning_rate_and_momentum():
    method = BGRL(epochs=10_000, lr=5e-4)
    momentum = [method.target_momentum(torch.tensor(t)).item() for t in (0, 5000, 10_000)]
    assert momentum == pytest.approx([0.99, 0.995, 1.0], abs=1e-6)
    factor = [method.lr_factor(torch.tensor(t)).item() for t in (0, 1, 500, 999, 1000, 5500, 10_000)]
    assert factor == pytest.approx([0, 0.001, 0.5, 0.999, 1, 0.5, 0], abs=1e-6)
    rates = torch.stack([method.lr_factor(torch.tensor(t)) for t in range(0, 10_001, 100)])
    assert (rates[:11].diff() > 0).all()
    assert (rates[10:].diff() < 0).all()


@pytest.mark.parametrize("epochs", [0, 1, 2, 9])
def test_schedules_of_very_few_epochs_are_finite(epochs):
    method = BGRL(epochs=epochs)
    for t in range(epochs + 1):
        assert 0 <= method.lr_factor(torch.tensor(t)) <= 1
        assert 0.99 - 1e-6 <= method.target_momentum(torch.tensor(t)) <= 1


def test_training_equals_an_explicit_loop(small_graph):
    settings = {"epochs": 20, "lr": 0.01, "weight_decay": 0.1, "momentum": 0.8}
    model = BGRL(**SMALL, **settings).fit(small_graph)
    method, graph = BGRL(**SMALL, **settings), Graph.from_data(check(small_graph))
    method.num_features_ = 40
    network, views = method.initial_network(), method.prepare(graph)
    trained = [*network.encoder.parameters(), *network.predictor.parameters()]
    optimiser = torch.optim.AdamW(trained, weight_decay=0.1, fused=True)
    for t in range(20):
        optimiser.param_groups[0]["lr"] = float(0.01 * method.lr_factor(torch.tensor(t)))
        optimiser.zero_grad()
        loss = method.loss(network, graph, views, t)
        loss.backward()
        optimiser.step()
        assert loss.item() == model.history_[t]["loss"]
        towards = 1 - method.target_momentum(torch.tensor(t))
        with torch.no_grad():  # after the step of the optimiser
            for target, online in zip(network.target.parameters(), network.encoder.parameters(), strict=True):
                target.lerp_(online, towards)
    assert all(map(torch.equal, model.network_.state_dict().values(), network.state_dict().values()))
    assert model.history_[-1]["loss"] < model.history_[0]["loss"]


def stacked(seed=0, n=7, dim=5):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(2 * n, dim, generator=generator, dtype=torch.float64) for _ in range(2)]


def test_bootstrap_loss_equals_its_formula_and_has_bounds():
    q, z = stacked()
    (q1, q2), (z1, z2) = q.chunk(2), z.chunk(2)
    torch.testing.assert_close(bootstrap_loss(q, z), 2 - cosine(q1, z2).mean() - cosine(q2, z1).mean())
    other = torch.cat([z2, z1])  # the targets
    assert bootstrap_loss(other, z).item() == pytest.approx(0, abs=1e-12)
    assert bootstrap_loss(-other, z).item() == pytest.approx(4)
    for seed in range(20):
        assert 0 <= bootstrap_loss(*stacked(seed)) <= 4


def test_bootstrap_loss_does_not_depend_on_the_norm_of_rows():
    q, z = stacked()
    factor = torch.linspace(0.1, 9, 14, dtype=torch.float64)[:, None]
    for scaled in ((q * factor, z), (q, z * factor)):
        torch.testing.assert_close(bootstrap_loss(*scaled), bootstrap_loss(q, z))


def test_the_embedding_is_the_output_of_the_online_encoder_in_evaluation_mode(small_graph):
    model = BGRL(epochs=3, **SMALL).fit(small_graph)
    graph, network = Graph.from_data(check(small_graph)), model.network_
    x, a = small_graph.x.to_dense(), graph.adjacency.to_dense()
    for layer in network.encoder.layers:
        x = a @ x @ layer.gcn.weight + layer.gcn.bias
        x = (x - layer.mean) / (layer.var + 1e-5).sqrt() * layer.scale + layer.shift
        x = F.prelu(x, layer.activation.weight)
    before = {key: value.clone() for key, value in network.state_dict().items()}
    torch.testing.assert_close(model.embed(small_graph), x.detach(), rtol=1e-4, atol=1e-5)
    assert all(torch.equal(value, before[key]) for key, value in network.state_dict().items())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"momentum": 1.5}, "momentum=1.5: a probability"),
        ({"norm": "group"}, "norm='group': choose one of batch, layer"),
        ({"layers": 0}, "layers=0: must be at least 1"),
        ({"predictor": 0}, "predictor=0: must be at least 1"),
    ],
)
def test_invalid_settings_are_rejected(settings, message):
    with pytest.raises(InputError, match=message):
        BGRL(**settings)
