import pytest
import torch
import torch.nn.functional as F
from torch_geometric.nn import GATConv, GCNConv

from epagcl.core.sparse import SparseMatrix
from epagcl.data import check
from epagcl.data.graph import Graph
from epagcl.nn.layers import GATLayer, GCNLayer, PReLU, add_bias, glorot, per_view, transform
from tests.conftest import random_edges
from tests.nn.conftest import ACTIVATIONS


def test_gcn_layer_equals_pyg(small_graph):
    graph = Graph.from_data(check(small_graph))
    layer, theirs = GCNLayer(40, 8), GCNConv(40, 8)
    with torch.no_grad():
        theirs.lin.weight.copy_(layer.weight.T)
        layer.bias.uniform_()
        theirs.bias.copy_(layer.bias)
    torch.testing.assert_close(
        layer(graph.x, graph.adjacency), theirs(small_graph.x.to_dense(), small_graph.edge_index)
    )


@pytest.mark.parametrize("widths", [(40, 8), (40, 64)])  # (40, 64): dense features are multiplied by Â first
def test_a_root_weight_adds_a_linear_layer(small_graph, widths):
    graph = Graph.from_data(check(small_graph))
    layer, x, a = GCNLayer(*widths, root=True).double(), graph.x.to_dense().double(), graph.adjacency.to_dense()
    adjacency = SparseMatrix.from_torch(a.double().to_sparse())
    expected = a.double() @ x @ layer.weight + x @ layer.root + layer.bias
    torch.testing.assert_close(layer(x, adjacency), expected)
    replaced = layer.product(x, adjacency, weight=2 * layer.weight, root=-layer.root)
    torch.testing.assert_close(replaced, 2 * (a.double() @ x @ layer.weight) - x @ layer.root)
    assert [tuple(weight.shape) for weight in layer.weights] == [widths, widths]


@pytest.mark.parametrize(
    ("out_features", "dense", "training", "first"),
    [(41, True, False, True), (40, True, False, False), (21, True, True, True), (20, True, True, False),
     (41, False, True, False)],
)  # fmt: skip
def test_dense_features_are_multiplied_by_the_adjacency_first_if_that_costs_less(
    small_graph, out_features, dense, training, first
):
    graph = Graph.from_data(check(small_graph))
    layer, x = GCNLayer(40, out_features), graph.x
    if not dense:
        x = SparseMatrix.from_torch(x.to_sparse_csr())
    with torch.set_grad_enabled(training):
        aggregated = layer.aggregated(x, graph.adjacency)
    assert (aggregated is not None) == first
    if aggregated is not None:
        torch.testing.assert_close(aggregated, graph.adjacency.to_dense() @ x)
        known = layer.product(x, graph.adjacency, aggregated=2 * aggregated)
        torch.testing.assert_close(known, 2 * layer.product(x, graph.adjacency))


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("masked", [False, True])
def test_columns_of_zeros_after_the_features_change_nothing(members, masked):
    x = torch.randn(5, 3, dtype=torch.float64)
    weight = torch.randn(members, 3, 2, dtype=torch.float64).squeeze(0).requires_grad_()
    mask = (torch.rand(2 * members, 3) > 0.3).double() if masked else None
    results = []
    for features in (x, F.pad(x, (0, 13))):
        product = transform(features, weight, mask, 2 * members if masked else members, 5)
        results.append((product, *torch.autograd.grad(product.square().sum(), weight)))
    for plain, padded in zip(*results, strict=True):
        torch.testing.assert_close(plain, padded)
    assert results[0][0].shape == (10 * members if masked else 5 * members, 2)


@pytest.mark.parametrize("columns", [2, 4, 7, 17])
def test_features_of_another_width_are_refused(columns):
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        transform(torch.ones(5, columns), torch.ones(3, 2))


@pytest.mark.parametrize("root", [False, True])
def test_a_layer_aggregates_by_a_function_in_place_of_the_adjacency(small_graph, root):
    graph = Graph.from_data(check(small_graph))
    layer, x = GCNLayer(40, 8, root=root), graph.x.to_dense()
    out = layer.aggregate(layer.project(graph.x), lambda h: 3 * h.flip(0))
    expected = 3 * (x @ layer.weight).flip(0) + (x @ layer.root if root else 0)
    torch.testing.assert_close(out, expected)


def test_a_bias_of_several_members_is_added_to_their_blocks():
    product, bias = torch.randn(6, 4), torch.randn(3, 4)
    assert torch.equal(add_bias(product, bias), product + bias.repeat_interleave(2, 0))
    assert torch.equal(add_bias(product, bias[0]), product + bias[0])


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("views", [1, 2])
@pytest.mark.parametrize("masked", [False, True])
def test_weights_of_views_are_the_masked_weights_of_their_members(members, views, masked):
    weight = glorot(5, 4, members)
    mask = (torch.rand(members * views, 5) < 0.5).float() if masked else None
    out = per_view(weight, mask, members * views)
    if not masked and (members == 1 or views == 1):
        assert out is weight  # shared by all views
        return
    assert out.shape == (members * views, 5, 4)
    for view, w in enumerate(out):
        expected = weight if members == 1 else weight[view // views]
        assert torch.equal(w, expected if mask is None else mask[view][:, None] * expected)


def test_members_of_an_activation_have_their_own_slope_and_bias():
    layer = PReLU(members=3).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([0.1, 0.5, 2.0]))
    x = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    out = layer(x * 1, bias)
    parts = zip(x.chunk(3), bias, layer.weight, strict=True)
    expected = torch.cat([F.prelu(part + b, slope) for part, b, slope in parts])
    torch.testing.assert_close(out, expected)
    grad = torch.randn(6, 4, dtype=torch.float64)
    inputs = (x, bias, layer.weight)
    torch.testing.assert_close(*(torch.autograd.grad(y, inputs, grad) for y in (out, expected)))


def test_prelu_equals_torch():
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


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_equal_torch(activation):
    ours, theirs = PReLU(activation).double(), ACTIVATIONS[activation]
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(7, 5, generator=generator, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(5, generator=generator, dtype=torch.float64, requires_grad=True)
    with torch.no_grad():
        x[0, 0], bias[0] = 1.0, -1.0  # exactly 0
    outputs = ours(x * 1, bias), theirs(x + bias)
    torch.testing.assert_close(*outputs, rtol=1e-7, atol=1e-7)  # the slope is a float32
    grad = torch.randn(7, 5, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(*(torch.autograd.grad(y, (x, bias), grad) for y in outputs), rtol=1e-7, atol=1e-7)


def test_only_a_learned_slope_is_a_parameter():
    assert [name for name, _ in PReLU().named_parameters()] == ["weight"]
    for activation, slope in (("relu", 0.0), ("rrelu", 11 / 48)):
        layer = PReLU(activation)
        assert list(layer.parameters()) == []
        assert layer.state_dict() == {}  # a constant is not saved with a model
        assert layer.weight.item() == pytest.approx(slope)


def attention_graph(n=9, isolated=2, density=0.3, seed=0):
    """Return the pattern of A + I of a random graph whose last nodes are isolated, and the same as a dense mask."""
    pairs = random_edges(n - isolated, density, seed)
    graph = Graph(x=torch.zeros(n, 1), pairs=pairs, num_nodes=n)
    mask = torch.eye(n, dtype=torch.bool)
    mask[pairs[0], pairs[1]] = mask[pairs[1], pairs[0]] = True
    return graph.pattern, mask


def attention(h, a1, a2, mask):
    """Return α of one head by a dense softmax."""
    score = F.leaky_relu((h @ a1)[:, None] + (h @ a2)[None, :], 0.2)
    return torch.where(mask, score, -torch.inf).softmax(1)


@pytest.mark.parametrize("heads", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_attention_equals_a_dense_softmax(heads, seed):
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
    h[:, :, -1] = 1.0  # a channel without influence on the scores: its output is Σ_j α_ij
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


def test_attention_is_not_normalised_again_after_dropout():
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
