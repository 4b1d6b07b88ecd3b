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
from epagcl.methods import dgi
from epagcl.nn.encoders import ENCODERS
from tests.nn.dense import dense_encoder, perturbed

DGI = epagcl.method("dgi")
SMALL = {"dim": 8, "device": "cpu"}


def start(data, **settings):
    method = DGI(**{**SMALL, **settings})
    torch.manual_seed(0)
    network = method.build(40)
    with torch.no_grad():  # initial values would make some terms vanish
        network.encoder.layers[0].bias.normal_()
        network.discriminator.bias.fill_(0.2)
        network.discriminator.weight.normal_()
    return method, Graph.from_data(check(data)), network


def encode(network, x, a):
    (layer,) = network.encoder.layers
    return F.prelu(a @ x @ layer.weight + layer.bias, network.encoder.activation.weight)


@pytest.mark.parametrize("sparse", [False, True])
def test_loss_and_gradient_equal_an_explicit_computation(small_graph, sparse):
    method, graph, network = start(small_graph, seed=4)
    x, a = small_graph.x.to_dense(), graph.adjacency.to_dense()
    if sparse:
        graph = Graph(x=SparseMatrix.from_torch(x.to_sparse()), pairs=graph.pairs, num_nodes=60)
    order = permutation(60, 4, Stream.NEGATIVES, 3)
    h, corrupted = encode(network, x, a), encode(network, x[order], a)
    s = h.mean(0).sigmoid()
    weight, bias = network.discriminator.weight, network.discriminator.bias
    total = sum(torch.log(1 + torch.exp(-(h[i] @ weight @ s + bias))) for i in range(60))
    total = total + sum(torch.log(1 + torch.exp(corrupted[i] @ weight @ s + bias)) for i in range(60))
    expected = (total / 120)[0]
    loss = method.loss(network, graph, None, 3)
    torch.testing.assert_close(loss, expected)
    gradients = [torch.autograd.grad(value, network.parameters()) for value in (loss, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_every_encoder_equals_its_dense_formula_in_float64(small_graph, encoder, sparse, monkeypatch):
    monkeypatch.setattr("epagcl.nn.encoders.PRODUCTS", 40)
    method, graph = DGI(**SMALL, seed=4, encoder=encoder), Graph.from_data(check(small_graph))
    torch.manual_seed(0)
    network = perturbed(method.build(40))
    x, a = small_graph.x.to_dense(), graph.adjacency.to_dense().double()
    if sparse:
        graph = Graph(x=SparseMatrix.from_torch(x.to_sparse()), pairs=graph.pairs, num_nodes=60)
    exact, order = copy.deepcopy(network).double(), permutation(60, 4, Stream.NEGATIVES, 3)
    h, corrupted = (dense_encoder(exact.encoder, rows, a) for rows in (x.double(), x.double()[order]))
    scores = exact.discriminator.weight @ h.mean(0).sigmoid()
    logits = torch.cat([h @ scores, corrupted @ scores]) + exact.discriminator.bias
    expected = F.binary_cross_entropy_with_logits(logits, torch.arange(2).flip(0).repeat_interleave(60).double())
    loss = method.loss(network, graph, None, 3)
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-6)
    gradients = torch.autograd.grad(loss, network.parameters())
    for ours, theirs in zip(gradients, torch.autograd.grad(expected, exact.parameters()), strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(method.represent(network, graph).double(), h, rtol=1e-4, atol=1e-5)


def test_negatives_permute_the_rows_differently_in_each_epoch(small_graph, monkeypatch):
    method, graph, network = start(small_graph)
    orders = []
    monkeypatch.setattr(dgi, "permute_rows", lambda h, order: orders.append(order) or h[order])
    losses = [method.loss(network, graph, None, epoch).item() for epoch in range(4)]
    for order in orders:
        assert torch.equal(order.sort().values, torch.arange(60))
    assert len({tuple(order.tolist()) for order in orders}) == 4
    assert len(set(losses)) == 4


def test_the_identity_permutation_gives_equal_scores(small_graph, monkeypatch):
    method, graph, network = start(small_graph)
    monkeypatch.setattr(dgi, "permutation", lambda n, *_, device: torch.arange(n, device=device))
    seen = []
    monkeypatch.setattr(dgi, "summary_loss", lambda *scores: seen.append(scores) or torch.zeros(()))
    method.loss(network, graph, None, 0)
    ((positive, negative, _),) = seen
    assert torch.equal(positive, negative)
    assert positive.std() > 0.01


def test_a_zero_discriminator_gives_a_loss_of_log_2(small_graph):
    method, graph, network = start(small_graph)
    with torch.no_grad():
        network.discriminator.weight.zero_()
        network.discriminator.bias.zero_()
    assert method.loss(network, graph, None, 0).item() == pytest.approx(math.log(2))


def test_training_starts_at_chance_and_ends_below(small_graph):
    model = DGI(**{**SMALL, "epochs": 60, "lr": 0.01, "patience": 0}).fit(small_graph)
    losses = [row["loss"] for row in model.history_]
    assert losses[0] == pytest.approx(math.log(2), abs=0.02)
    assert losses[-1] < 0.6


def test_the_embedding_is_the_hidden_layer_of_the_unmodified_graph(small_graph):
    model = DGI(epochs=2, **SMALL).fit(small_graph)
    a = Graph.from_data(check(small_graph)).adjacency.to_dense()
    torch.testing.assert_close(model.embed(small_graph), encode(model.network_, small_graph.x.to_dense(), a).detach())


def test_published_settings_are_the_defaults():
    method = DGI()
    assert (method.dim, method.lr, method.weight_decay, method.patience, method.epochs) == (512, 1e-3, 0, 20, 10_000)
    with pytest.raises(InputError, match="dim=0: must be at least 1"):
        DGI(dim=0)
