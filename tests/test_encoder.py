import torch
from torch_geometric.nn import GCNConv

from epagcl.data import check
from epagcl.data.graph import Graph
from epagcl.encoder import GCN, GCNLayer, PReLU, ProjectionHead


def test_layer_equals_pyg(small_graph):
    graph = Graph.from_data(check(small_graph))
    layer, theirs = GCNLayer(40, 8), GCNConv(40, 8)
    with torch.no_grad():
        theirs.lin.weight.copy_(layer.weight.T)
        layer.bias.uniform_()
        theirs.bias.copy_(layer.bias)
    torch.testing.assert_close(
        layer(graph.x, graph.adjacency), theirs(small_graph.x.to_dense(), small_graph.edge_index)
    )


def test_mask_on_weights_is_mask_on_features(small_graph):
    graph = Graph.from_data(check(small_graph))
    mask = (torch.arange(40) % 3 > 0).float()
    encoder = GCN([40, 16, 8])
    masked = graph.x.to_dense() * mask
    torch.testing.assert_close(encoder(graph.x, graph.adjacency, mask[None]), encoder(masked, graph.adjacency))


def test_without_edges_a_gcn_is_an_mlp():
    x = torch.randn(5, 4)
    graph = Graph(x=x, pairs=torch.empty(2, 0, dtype=torch.long), num_nodes=5)
    encoder = GCN([4, 6, 3])
    expected = x
    for layer in encoder.layers:
        expected = encoder.activation(expected @ layer.weight + layer.bias)
    torch.testing.assert_close(encoder(graph.x, graph.adjacency), expected)


def test_relabelling_nodes_permutes_the_output(small_graph):
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    number = torch.argsort(order)
    moved = small_graph.clone()
    moved.x = small_graph.x.to_dense()[order]
    moved.edge_index = number[small_graph.edge_index]
    encoder = GCN([40, 16, 8])
    outputs = [encoder(g.x, g.adjacency) for g in (Graph.from_data(check(d)) for d in (small_graph, moved))]
    torch.testing.assert_close(outputs[1], outputs[0][order])


def test_sizes_and_shared_slope():
    encoder = GCN([10, 512, 256])
    assert [tuple(layer.weight.shape) for layer in encoder.layers] == [(10, 512), (512, 256)]
    assert encoder.activation.weight.tolist() == [0.25]
    assert [tuple(p.shape) for p in ProjectionHead(256, 64).parameters()] == [(64, 256), (64,), (256, 64), (256,)]


def test_prelu_is_torchs():
    ours, theirs = PReLU().double(), torch.nn.PReLU().double()
    x = torch.randn(7, 5, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(ours(x), theirs(x))
    assert torch.autograd.gradcheck(lambda x, _: ours(x), (x, ours.weight))
    gradients = [torch.autograd.grad(layer(x).square().sum(), (x, layer.weight)) for layer in (ours, theirs)]
    torch.testing.assert_close(*gradients)
