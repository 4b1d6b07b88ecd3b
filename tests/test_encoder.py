import pytest
import torch
from torch_geometric.nn import GCNConv

from epagcl.data import check
from epagcl.data.graph import Graph
from epagcl.encoder import GCN, GCNLayer, PReLU, ProjectionHead
from epagcl.sparse import SparseMatrix
from epagcl.views import Views, ViewSampler, edge_probabilities, feature_masks


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
        expected = encoder.activation(expected @ layer.weight, layer.bias)
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
    bias = torch.randn(5, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(ours(x.detach().clone(), bias), theirs(x + bias))
    assert torch.autograd.gradcheck(lambda x, bias, _: ours(x * 1, bias), (x, bias, ours.weight))
    gradients = [
        torch.autograd.grad(y.square().sum(), (x, bias, layer.weight))
        for layer, y in ((ours, ours(x * 1, bias)), (theirs, theirs(x + bias)))
    ]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("widths", [(40, 64, 8), (40, 16, 24)])  # Â comes first in the first layer, in the second
@pytest.mark.parametrize("sparse_features", [True, False])
@pytest.mark.parametrize("p_mask", [(0.0, 0.0), (0.3, 0.5)])
def test_views_go_through_together_as_one_by_one(small_graph, widths, sparse_features, p_mask):
    graph = Graph.from_data(check(small_graph))
    x = graph.x.to_dense()
    x = SparseMatrix.from_torch(x.to_sparse()) if sparse_features else x
    p = edge_probabilities(graph.pairs, 60, 0.3, 0.1)
    views = Views(ViewSampler(p, 60, seed=0, view=view) for view in range(2))
    masks = feature_masks(40, p_mask, seed=0, epoch=3, device="cpu")
    encoder = GCN(widths)
    together = encoder(x, views.adjacency(3), masks)
    single = [
        encoder(x, sampler.adjacency(3), None if masks is None else masks[view : view + 1])
        for view, sampler in enumerate(views)
    ]
    torch.testing.assert_close(together, torch.cat(single))
    grad = torch.randn(120, widths[-1])
    gradients = [torch.autograd.grad(z, encoder.parameters(), grad) for z in (together, torch.cat(single))]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)
