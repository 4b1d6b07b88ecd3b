import copy
import math

import pytest
import torch
import torch.nn.functional as F

import epagcl
from epagcl.core.errors import InputError
from epagcl.core.randomness import Stream, permutation
from epagcl.core.sparse import SparseMatrix
from epagcl.data import check
from epagcl.data.graph import Graph
from tests.nn.dense import dense_encoder

MVGRL = epagcl.method("mvgrl")
SMALL = {"dim": 8, "device": "cpu"}


@pytest.fixture(autouse=True)
def exact(monkeypatch):
    """Use a small tolerance, for the comparison with dense matrices."""
    monkeypatch.setattr("epagcl.methods.mvgrl.TOLERANCE", 1e-6)


def start(data, **settings):
    method = MVGRL(**{**SMALL, **settings})
    torch.manual_seed(0)
    network = method.build(40)
    with torch.no_grad():
        for encoder, slope in ((network.graph_encoder, 0.1), (network.diffusion_encoder, 0.4)):
            encoder.layers[0].bias.normal_()
            encoder.activation.weight.fill_(slope)
        network.discriminator.bias.fill_(0.2)
        network.discriminator.weight.normal_()
    return method, Graph.from_data(check(data)), network


def dense_diffusion(graph, kind):
    n = graph.num_nodes
    eye = torch.eye(n, dtype=torch.float64)
    a = torch.zeros(n, n, dtype=torch.float64)
    a[graph.pairs[0], graph.pairs[1]] = a[graph.pairs[1], graph.pairs[0]] = 1
    if kind == "ppr":
        scale = (a.sum(1) + 1).rsqrt()
        return (0.2 * torch.linalg.inv(eye - 0.8 * scale[:, None] * (a + eye) * scale)).float()
    degree = a.sum(0)
    walk = a / degree.clamp(min=1) + torch.diag((degree == 0).double())
    return torch.matrix_exp(5 * (walk - eye)).float()


def encode(encoder, x, s):
    (layer,) = encoder.layers
    return F.prelu(s @ x @ layer.weight + layer.bias, encoder.activation.weight)


@pytest.mark.parametrize("kind", ["ppr", "heat"])
@pytest.mark.parametrize("sparse", [False, True])
def test_loss_and_gradient_equal_an_explicit_computation(small_graph, kind, sparse):
    method, graph, network = start(small_graph, diffusion=kind, seed=4)
    x, matrices = small_graph.x.to_dense(), (graph.adjacency.to_dense(), dense_diffusion(graph, kind))
    if sparse:
        graph = Graph(x=SparseMatrix.from_torch(x.to_sparse()), pairs=graph.pairs, num_nodes=60)
    encoders = network.graph_encoder, network.diffusion_encoder
    order = permutation(60, 4, Stream.NEGATIVES, 3)
    h1, h2 = (encode(e, x, m) for e, m in zip(encoders, matrices, strict=True))
    c1, c2 = (encode(e, x[order], m) for e, m in zip(encoders, matrices, strict=True))
    s1, s2 = h1.mean(0).sigmoid(), h2.mean(0).sigmoid()
    weight, bias = network.discriminator.weight, network.discriminator.bias
    logits = torch.cat([h @ weight @ s + bias for h, s in ((h2, s1), (h1, s2), (c2, s1), (c1, s2))])
    targets = torch.cat([torch.ones(120), torch.zeros(120)])
    expected = F.binary_cross_entropy_with_logits(logits, targets)
    loss = method.loss(network, graph, method.prepare(graph), 3)
    torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-5)
    gradients = [torch.autograd.grad(value, network.parameters()) for value in (loss, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", ["ppr", "heat"])
@pytest.mark.parametrize("encoder", ["gcn", "residual"])
def test_every_encoder_equals_its_dense_formula_in_float64(small_graph, encoder, kind):
    method, graph, network = start(small_graph, encoder=encoder, diffusion=kind, seed=4)
    exact, x = copy.deepcopy(network).double(), small_graph.x.to_dense().double()
    encoders = exact.graph_encoder, exact.diffusion_encoder
    matrices = graph.adjacency.to_dense().double(), dense_diffusion(graph, kind).double()
    order = permutation(60, 4, Stream.NEGATIVES, 3)
    (h1, h2), (c1, c2) = (
        [dense_encoder(e, rows, m) for e, m in zip(encoders, matrices, strict=True)] for rows in (x, x[order])
    )
    s1, s2 = (exact.discriminator.weight @ h.mean(0).sigmoid() for h in (h1, h2))
    logits = torch.cat([h1 @ s2, h2 @ s1, c1 @ s2, c2 @ s1]) + exact.discriminator.bias
    expected = F.binary_cross_entropy_with_logits(logits, torch.arange(2).flip(0).repeat_interleave(120).double())
    loss = method.loss(network, graph, method.prepare(graph), 3)
    torch.testing.assert_close(loss.double(), expected, rtol=1e-4, atol=1e-5)
    gradients = torch.autograd.grad(loss, network.parameters())
    for ours, theirs in zip(gradients, torch.autograd.grad(expected, exact.parameters()), strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(method.represent(network, graph).double(), h1 + h2, rtol=1e-4, atol=1e-4)


def test_swapping_views_and_encoders_keeps_the_loss(small_graph):
    method, graph, network = start(small_graph)
    swapped = method.build(40)
    swapped.load_state_dict(network.state_dict())
    swapped.graph_encoder, swapped.diffusion_encoder = swapped.diffusion_encoder, swapped.graph_encoder
    mirrored = Graph(x=graph.x, pairs=graph.pairs, num_nodes=60)
    dense = dense_diffusion(graph, "ppr")
    mirrored.__dict__["whole_adjacency"] = SparseMatrix.from_torch(((dense + dense.T) / 2).to_sparse())
    loss = method.loss(network, graph, method.prepare(graph), 2)
    torch.testing.assert_close(
        method.loss(swapped, mirrored, graph.adjacency.__matmul__, 2), loss, rtol=1e-4, atol=1e-5
    )
    others = method.loss(swapped, graph, method.prepare(graph), 2)  # swapping only the encoders changes the loss
    assert abs(others - loss) > 1e-3


def test_the_two_views_share_only_the_discriminator(small_graph):
    method, graph, network = start(small_graph)
    (h1, _), (h2, _) = (h.chunk(2) for h in network(graph, method.prepare(graph), torch.arange(60)))
    assert torch.autograd.grad(h1.sum(), network.diffusion_encoder.parameters(), allow_unused=True)[0].abs().sum() == 0
    names = {name.split(".")[0] for name, _ in network.named_parameters()}
    assert names == {"graph_encoder", "diffusion_encoder", "discriminator"}
    assert not torch.equal(network.graph_encoder.layers[0].weight, network.diffusion_encoder.layers[0].weight)
    assert h2.shape == h1.shape == (60, 8)


def test_a_zero_discriminator_gives_a_loss_of_log_2(small_graph):
    method, graph, network = start(small_graph)
    with torch.no_grad():
        network.discriminator.weight.zero_()
        network.discriminator.bias.zero_()
    assert method.loss(network, graph, method.prepare(graph), 0).item() == pytest.approx(math.log(2))


@pytest.mark.parametrize("kind", ["ppr", "heat"])
def test_the_embedding_is_the_sum_of_both_views(small_graph, kind):
    model = MVGRL(epochs=2, diffusion=kind, **SMALL).fit(small_graph)
    graph, x = Graph.from_data(check(small_graph)), small_graph.x.to_dense()
    network = model.network_
    expected = encode(network.graph_encoder, x, graph.adjacency.to_dense())
    expected = expected + encode(network.diffusion_encoder, x, dense_diffusion(graph, kind))
    torch.testing.assert_close(model.embed(small_graph), expected.detach(), rtol=1e-4, atol=1e-4)


def test_training_lowers_the_loss(small_graph):
    losses = [row["loss"] for row in MVGRL(**SMALL, epochs=60, lr=0.01, patience=0).fit(small_graph).history_]
    assert losses[0] == pytest.approx(math.log(2), abs=0.02)
    assert losses[-1] < 0.6


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 1.0}, "alpha=1.0: must lie between 0 and 1"),
        ({"alpha": 1e-8}, "alpha=1e-08: .* at least 0.0001"),  # would take 10⁵ products
        ({"diffusion": "heat", "t": 0.0}, "t=0.0: must be above 0 and at most 100"),
    ],
)
def test_invalid_diffusions_are_rejected(small_graph, settings, message):
    with pytest.raises(InputError, match=message):
        MVGRL(**SMALL, **settings).fit(small_graph)
    with pytest.raises(InputError, match="diffusion='walk': choose one of ppr, heat"):
        MVGRL(diffusion="walk")
