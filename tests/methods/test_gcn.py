import pytest
import torch
import torch.nn.functional as F
from torch_geometric.data import Data

import epagcl
from epagcl.core.randomness import Stream, dropout
from epagcl.data import block_model, check
from epagcl.data.graph import Graph
from epagcl.data.splits import Split, random_split
from tests.conftest import random_edges

GCN = epagcl.method("gcn")
SMALL = {"hidden": 8, "epochs": 5, "lr": 0.02, "device": "cpu"}


def start(data, **settings):
    model = GCN(**{**SMALL, **settings, "epochs": 0}).fit(data)
    with torch.no_grad():
        for p in model.network_.parameters():
            p.add_(0.1 * torch.randn(p.shape, generator=torch.Generator().manual_seed(p.numel())))
    return model, model.network_, Graph.from_data(check(data))


@pytest.mark.parametrize("epoch", [None, 3])
def test_logits_equal_an_explicit_computation(small_graph, epoch):
    model, network, graph = start(small_graph, dropout=0.4)
    a, h = graph.adjacency.to_dense(), small_graph.x.to_dense()
    drop = (lambda x, place: x) if epoch is None else lambda x, p: dropout(x, 0.4, 0, Stream.DROPOUT, epoch, p)
    h = F.relu(a @ drop(h, 0) @ network.layer1.weight + network.layer1.bias)
    expected = a @ drop(h, 1) @ network.layer2.weight + network.layer2.bias
    logits = model.logits(network, graph, epoch)
    torch.testing.assert_close(logits, expected)
    gradients = [torch.autograd.grad(y.square().sum(), network.parameters()) for y in (logits, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)


def test_without_edges_it_is_a_two_layer_perceptron(small_graph):
    model, network, graph = start(small_graph)
    lonely = Graph(x=graph.x, pairs=graph.pairs[:, :0], num_nodes=60)
    x = small_graph.x.to_dense()
    h = F.relu(x @ network.layer1.weight + network.layer1.bias)
    torch.testing.assert_close(model.logits(network, lonely, None), h @ network.layer2.weight + network.layer2.bias)


def test_relabelling_nodes_permutes_the_scores(small_graph):
    model, _, _ = start(small_graph)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    moved = Data(x=small_graph.x.to_dense()[order], edge_index=torch.argsort(order)[small_graph.edge_index])
    torch.testing.assert_close(model.embed(moved), model.embed(small_graph)[order])


@pytest.mark.parametrize("seed", range(3))
def test_the_root_of_the_degrees_is_an_eigenvector_of_the_adjacency(seed):
    pairs = random_edges(12, 0.3, seed)
    graph = Graph(x=torch.zeros(15, 1), pairs=pairs, num_nodes=15)
    root = (torch.bincount(pairs.flatten(), minlength=15) + 1.0).sqrt()[:, None]
    torch.testing.assert_close(graph.adjacency @ root, root)


def test_only_the_weights_of_the_first_layer_decay(small_graph):
    model, network, _ = start(small_graph, weight_decay=0.3)
    decayed, others = model.parameters(network)
    assert [id(p) for p in decayed["params"]] == [id(network.layer1.weight)]
    assert {id(p) for p in others["params"]} == {
        id(p) for p in (network.layer1.bias, network.layer2.weight, network.layer2.bias)
    }
    assert others["weight_decay"] == 0


def test_training_equals_adam_on_cross_entropy_and_half_the_squared_weights(small_graph):
    split = random_split(small_graph.y)
    model = GCN(**{**SMALL, "weight_decay": 0.3, "patience": 0}).fit(small_graph, split=split)
    graph, network = Graph.from_data(check(small_graph)), model.initial_network()
    optimiser = torch.optim.Adam(network.parameters(), lr=0.02, fused=True)
    for epoch in range(5):
        logits = model.logits(network, graph, epoch)
        loss = F.cross_entropy(logits[split.train], small_graph.y[split.train])
        assert loss.item() == pytest.approx(model.history_[epoch]["loss"], rel=1e-4)
        optimiser.zero_grad()
        (loss + 0.3 / 2 * network.layer1.weight.square().sum()).backward()
        optimiser.step()
    for a, b in zip(model.network_.parameters(), network.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)


def test_one_training_and_one_validation_node_suffice():
    data = Data(x=torch.eye(2), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([1, 0]))
    split = Split(torch.tensor([0]), torch.tensor([1]), torch.empty(0, dtype=torch.long))
    model = GCN(**SMALL).fit(data, split=split)
    z = model.embed(data)
    assert torch.isfinite(z).all()
    torch.testing.assert_close(z[0], z[1])  # both nodes receive the mean of both


def test_training_on_labels_improves_the_accuracy():
    data = block_model(150, num_classes=3, num_features=40, topic_words=10, topic_share=0.7, seed=1)
    split = random_split(data.y, (0.4, 0.2))
    model = GCN(hidden=16, lr=0.05, device="cpu").fit(data, split=split)
    assert (model.predict(data) == data.y)[split.test].double().mean() > 0.8
