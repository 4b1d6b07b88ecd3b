import pytest
import torch

from epagcl.core.sparse import SparseMatrix
from epagcl.data import check
from epagcl.data.graph import Graph
from epagcl.nn.encoders import GCN
from epagcl.views.masks import feature_masks
from epagcl.views.probabilities import edge_probabilities
from epagcl.views.sampling import Views, ViewSampler
from tests.nn.conftest import ACTIVATIONS


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


@pytest.mark.parametrize("widths", [(40, 64, 8), (40, 16, 24)])  # the first or the second layer multiplies by Â first
@pytest.mark.parametrize("sparse_features", [True, False])
@pytest.mark.parametrize("p_mask", [(0.0, 0.0), (0.3, 0.5)])
def test_one_pass_over_all_views_equals_one_pass_per_view(small_graph, widths, sparse_features, p_mask):
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


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("last", [True, False])
def test_gcn_equals_its_formula(small_graph, activation, last):
    graph = Graph.from_data(check(small_graph))
    encoder = GCN([40, 16, 8], activation, last=last)
    with torch.no_grad():
        for layer in encoder.layers:
            layer.bias.normal_()
    x, a = graph.x.to_dense(), graph.adjacency.to_dense()
    first, second = encoder.layers
    expected = a @ ACTIVATIONS[activation](a @ x @ first.weight + first.bias) @ second.weight + second.bias
    expected = ACTIVATIONS[activation](expected) if last else expected
    out = encoder(graph.x, graph.adjacency)
    torch.testing.assert_close(out, expected)
    assert (out < 0).any() == (not last or activation != "relu")
    weights = [parameter for layer in encoder.layers for parameter in layer.parameters()]
    grad = torch.randn(60, 8)
    torch.testing.assert_close(*(torch.autograd.grad(y, weights, grad) for y in (out, expected)), rtol=1e-4, atol=1e-5)
