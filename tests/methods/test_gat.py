import pytest
import torch
import torch.nn.functional as F
from torch_geometric.data import Data

import epagcl
from epagcl.core.errors import InputError
from epagcl.core.randomness import Stream, dropout
from epagcl.data import check
from epagcl.data.graph import Graph

GAT = epagcl.method("gat")
SMALL = {"hidden": 4, "heads": 3, "out_heads": 2, "epochs": 5, "device": "cpu"}


def start(data, **settings):
    model = GAT(**{**SMALL, **settings, "epochs": 0}).fit(data)
    with torch.no_grad():
        for p in (model.network_.bias1, model.network_.bias2):
            p.normal_(generator=torch.Generator().manual_seed(p.numel()))
    return model, model.network_, Graph.from_data(check(data))


def dense_layer(layer, h, graph, drop):
    """Return ``[heads, N, dim]`` by a softmax over the rows of A + I; ``drop`` acts on the entries of stacked heads."""
    row, col = graph.pattern.row, graph.pattern.col
    h = h.view(-1, layer.heads, layer.dim).transpose(0, 1)
    score = torch.full((layer.heads, graph.num_nodes, graph.num_nodes), -torch.inf)
    left, right = ((h * a[:, None]).sum(2) for a in (layer.a1, layer.a2))
    score[:, row, col] = F.leaky_relu(left[:, row] + right[:, col], 0.2)
    alpha = score.softmax(2)
    kept = torch.zeros_like(alpha)
    kept[:, row, col] = drop(torch.ones(layer.heads, row.numel()))
    return (alpha * kept) @ h


@pytest.mark.parametrize("epoch", [None, 3])
@pytest.mark.parametrize("out_heads", [1, 2])
def test_logits_equal_an_explicit_computation(small_graph, epoch, out_heads):
    model, network, graph = start(small_graph, dropout=0.4, attention_dropout=0.3, out_heads=out_heads)

    def drop(place, p):
        return (lambda x: x) if epoch is None else lambda x: dropout(x, p, 0, Stream.DROPOUT, epoch, place)

    x = drop(0, 0.4)(small_graph.x.to_dense())
    h = dense_layer(network.layer1, x @ network.layer1.weight, graph, drop(1, 0.3))
    h = F.elu(torch.cat(list(h), 1) + network.bias1)  # heads concatenated
    h = dense_layer(network.layer2, drop(2, 0.4)(h) @ network.layer2.weight, graph, drop(3, 0.3))
    expected = h.mean(0) + network.bias2  # heads averaged
    logits = model.logits(network, graph, epoch)
    torch.testing.assert_close(logits, expected)
    gradients = [torch.autograd.grad(y.square().sum(), network.parameters()) for y in (logits, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)


def test_zero_scores_average_over_a_node_and_its_neighbours(small_graph):
    model, network, graph = start(small_graph)
    with torch.no_grad():
        for layer in (network.layer1, network.layer2):
            layer.a1.zero_()
            layer.a2.zero_()
    mean = (graph.adjacency.to_dense() != 0).float()
    mean = mean / mean.sum(1, keepdim=True)
    h = F.elu(mean @ small_graph.x.to_dense() @ network.layer1.weight + network.bias1)
    expected = (mean @ h @ network.layer2.weight).view(60, 2, 3).mean(1) + network.bias2
    torch.testing.assert_close(model.embed(small_graph), expected.detach())


def test_an_isolated_node_is_a_perceptron(small_graph):
    lonely = small_graph.clone()
    lonely.edge_index = small_graph.edge_index[:, (small_graph.edge_index != 5).all(0)]
    model, network, _ = start(lonely)
    h = F.elu(small_graph.x.to_dense()[5] @ network.layer1.weight + network.bias1)
    expected = (h @ network.layer2.weight).view(2, 3).mean(0) + network.bias2
    torch.testing.assert_close(model.embed(lonely)[5], expected.detach())


def test_relabelling_nodes_permutes_the_scores(small_graph):
    model, _, _ = start(small_graph)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    moved = Data(x=small_graph.x.to_dense()[order], edge_index=torch.argsort(order)[small_graph.edge_index])
    torch.testing.assert_close(model.embed(moved), model.embed(small_graph)[order])


def test_attention_depends_on_the_receiving_node(small_graph):
    model, network, _ = start(small_graph)
    before = model.embed(small_graph)
    with torch.no_grad():
        for layer in (network.layer1, network.layer2):
            layer.a1.data, layer.a2.data = layer.a2.data.clone(), layer.a1.data.clone()
    assert (model.embed(small_graph) - before).abs().max() > 1e-4


def test_sizes_and_published_settings(small_graph):
    _, network, _ = start(small_graph)
    assert {name: tuple(p.shape) for name, p in network.named_parameters()} == {
        "layer1.weight": (40, 12),
        "layer1.a1": (3, 4),
        "layer1.a2": (3, 4),
        "bias1": (12,),
        "layer2.weight": (12, 6),
        "layer2.a1": (2, 3),
        "layer2.a2": (2, 3),
        "bias2": (3,),
    }
    method = GAT()
    assert (method.hidden, method.heads, method.out_heads, method.lr, method.weight_decay) == (8, 8, 1, 0.005, 5e-4)
    assert (method.dropout, method.attention_dropout, method.patience) == (0.6, 0.6, 100)
    for settings, message in (
        ({"attention_dropout": 1.0}, "attention_dropout=1.0: must be at least 0 and below 1"),
        ({"heads": 0}, "heads=0: must be at least 1"),
        ({"out_heads": 0}, "out_heads=0: must be at least 1"),
    ):
        with pytest.raises(InputError, match=message):
            GAT(**settings)
