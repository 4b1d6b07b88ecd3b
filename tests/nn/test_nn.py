import pytest
import torch
import torch.nn.functional as F
from torch_geometric.nn import GATConv, GCNConv

from epagcl.core.sparse import SparseMatrix
from epagcl.data import check
from epagcl.data.graph import Graph
from epagcl.nn.encoders import GCN
from epagcl.nn.heads import ProjectionHead
from epagcl.nn.layers import GATLayer, GCNLayer, PReLU
from epagcl.views.masks import feature_masks
from epagcl.views.probabilities import edge_probabilities
from epagcl.views.sampling import Views, ViewSampler
from tests.conftest import random_edges


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


ACTIVATIONS = {
    "prelu": lambda t: F.prelu(t, torch.tensor([0.25], dtype=t.dtype)),
    "relu": F.relu,
    "rrelu": lambda t: F.rrelu(t, training=False),  # as GCA calls it: the mean slope, (1/8 + 1/3)/2
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_are_torchs(activation):
    ours, theirs = PReLU(activation).double(), ACTIVATIONS[activation]
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(7, 5, generator=generator, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(5, generator=generator, dtype=torch.float64, requires_grad=True)
    with torch.no_grad():
        x[0, 0], bias[0] = 1.0, -1.0  # exactly 0
    outputs = ours(x * 1, bias), theirs(x + bias)
    torch.testing.assert_close(*outputs, rtol=1e-7, atol=1e-7)  # the slope is a float32 number
    grad = torch.randn(7, 5, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(*(torch.autograd.grad(y, (x, bias), grad) for y in outputs), rtol=1e-7, atol=1e-7)


def test_only_a_learned_slope_is_a_weight():
    assert [name for name, _ in PReLU().named_parameters()] == ["weight"]
    for activation, slope in (("relu", 0.0), ("rrelu", 11 / 48)):
        layer = PReLU(activation)
        assert list(layer.parameters()) == []
        assert layer.state_dict() == {}  # a constant is no part of a saved model
        assert layer.weight.item() == pytest.approx(slope)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("last", [True, False])
def test_gcn_written_out(small_graph, activation, last):
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


def attention_graph(n=9, isolated=2, density=0.3, seed=0):
    """Random pairs, of which the last nodes have none; the pattern of A + I and the same as a dense mask."""
    pairs = random_edges(n - isolated, density, seed)
    graph = Graph(x=torch.zeros(n, 1), pairs=pairs, num_nodes=n)
    mask = torch.eye(n, dtype=torch.bool)
    mask[pairs[0], pairs[1]] = mask[pairs[1], pairs[0]] = True
    return graph.pattern, mask


def attention(h, a1, a2, mask):
    """α of one head, a dense softmax."""
    score = F.leaky_relu((h @ a1)[:, None] + (h @ a2)[None, :], 0.2)
    return torch.where(mask, score, -torch.inf).softmax(1)


@pytest.mark.parametrize("heads", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_attention_is_a_dense_softmax_written_out(heads, seed):
    pattern, mask = attention_graph(seed=seed, density=0.2 + 0.2 * seed)
    torch.manual_seed(seed)
    layer = GATLayer(4, 5, heads).double()
    x = torch.randn(9, 4, dtype=torch.float64, requires_grad=True)
    h = (x @ layer.weight).view(9, heads, 5).transpose(0, 1)
    expected = torch.cat([attention(*part, mask) @ part[0] for part in zip(h, layer.a1, layer.a2, strict=True)])
    out = layer(x @ layer.weight, pattern)
    torch.testing.assert_close(out, expected)
    inputs, grad = (x, *layer.parameters()), torch.randn(heads * 9, 5, dtype=torch.float64)
    torch.testing.assert_close(*(torch.autograd.grad(y, inputs, grad) for y in (out, expected)))
    assert torch.autograd.gradcheck(lambda x: layer(x @ layer.weight, pattern), (x,))


@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_attention_sums_to_one_for_each_node_and_head(scale):
    pattern, _ = attention_graph()
    torch.manual_seed(0)
    layer = GATLayer(4, 5, 3)
    h = scale * torch.randn(9, 3, 5)
    h[:, :, -1] = 1.0  # a channel that the scores do not see: what comes out of it is Σ_j α_ij
    with torch.no_grad():
        layer.a1[:, -1] = layer.a2[:, -1] = 0
    sums = layer(h.flatten(1), pattern)[:, -1]
    torch.testing.assert_close(sums, torch.ones(27))


def test_without_scores_attention_is_the_mean_over_a_node_and_its_neighbours():
    pattern, mask = attention_graph()
    layer = GATLayer(4, 5, 2)
    with torch.no_grad():
        layer.a1.zero_()
        layer.a2.zero_()
    h = torch.randn(9, 2, 5)
    mean = mask.float() / mask.sum(1, keepdim=True)
    torch.testing.assert_close(layer(h.flatten(1), pattern).view(2, 9, 5), mean @ h.transpose(0, 1))


def test_an_isolated_node_attends_to_itself():
    pattern, mask = attention_graph(isolated=3)
    assert mask[-3:].sum() == 3
    h = torch.randn(9, 2, 5)
    out = GATLayer(4, 5, 2)(h.flatten(1), pattern).view(2, 9, 5)
    torch.testing.assert_close(out[:, -3:], h.transpose(0, 1)[:, -3:])


def test_dropped_attention_is_not_normalised_again():
    pattern, mask = attention_graph()
    layer = GATLayer(4, 5, 2)
    h = torch.randn(9, 2, 5)
    kept = torch.rand(2, pattern.col.numel()) < 0.5
    out = layer(h.flatten(1), pattern, lambda alpha: alpha * kept).view(2, 9, 5)
    for head in range(2):
        alpha = attention(h[:, head], layer.a1[head], layer.a2[head], mask)
        alpha = alpha * torch.zeros(9, 9).index_put((pattern.row, pattern.col), kept[head].float())
        torch.testing.assert_close(out[head], alpha @ h[:, head])


def test_attention_equals_pyg(small_graph):
    graph = Graph.from_data(check(small_graph))
    layer, theirs = GATLayer(40, 5, 3), GATConv(40, 5, heads=3, bias=False)
    with torch.no_grad():
        theirs.lin.weight.copy_(layer.weight.T)
        theirs.att_dst.copy_(layer.a1[None])  # the node that attends
        theirs.att_src.copy_(layer.a2[None])
    out = layer(graph.x @ layer.weight, graph.pattern).view(3, 60, 5).transpose(0, 1).flatten(1)
    torch.testing.assert_close(out, theirs(small_graph.x.to_dense(), small_graph.edge_index), rtol=1e-4, atol=1e-6)
