import pytest
import torch
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.core.sparse import SparseMatrix, StackedMatrix
from epagcl.data import check
from epagcl.data.graph import Graph
from epagcl.nn import encoders
from epagcl.nn.encoders import (
    ENCODERS,
    GCN,
    PAGERANK,
    SCALES,
    ScalesEncoder,
    ScalesLayer,
    build_encoder,
    build_layer,
    check_layers,
)
from epagcl.views.masks import feature_masks
from epagcl.views.probabilities import edge_probabilities
from epagcl.views.sampling import Views, ViewSampler
from tests.conftest import random_edges
from tests.nn.conftest import ACTIVATIONS
from tests.nn.dense import dense_encoder, dense_product, perturbed


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
    torch.manual_seed(0)  # some outputs are negative: eight random biases can all be positive
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


def member_views(graph, members, seed=0):
    """Return two views per member of a graph."""
    p = edge_probabilities(graph.pairs, graph.num_nodes, 0.3, 0.1).to(graph.device)
    return Views(ViewSampler(p, graph.num_nodes, seed=seed, view=view) for view in range(2 * members))


@pytest.mark.parametrize("sparse_features", [True, False])
@pytest.mark.parametrize("hidden", [None, 16, 64])  # 64: the first layer multiplies dense features by Â first
@pytest.mark.parametrize("name", ENCODERS)
def test_encoders_equal_their_formulas(small_graph, name, hidden, sparse_features, monkeypatch):
    monkeypatch.setattr(encoders, "PRODUCTS", 40)
    graph = Graph.from_data(check(small_graph))
    dense = graph.x.to_dense()
    x = SparseMatrix.from_torch(dense.to_sparse()) if sparse_features else dense
    encoder = perturbed(build_encoder(name, 40, hidden, 10))
    ours = encoder(x, graph.adjacency)
    expected = dense_encoder(encoder.double(), dense.double(), graph.adjacency.to_dense().double())
    torch.testing.assert_close(ours.double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sparse_features", [True, False])
@pytest.mark.parametrize("p_mask", [(0.0, 0.0), (0.3, 0.5)])
@pytest.mark.parametrize("hidden", [16, 64])
@pytest.mark.parametrize("name", ENCODERS)
def test_one_pass_over_views_equals_one_pass_per_view_for_all_encoders(
    small_graph, name, hidden, p_mask, sparse_features
):
    graph = Graph.from_data(check(small_graph))
    x = graph.x.to_dense()
    x = SparseMatrix.from_torch(x.to_sparse()) if sparse_features else x
    views = member_views(graph, 1)
    masks = feature_masks(40, p_mask, seed=0, epoch=3, device="cpu")
    encoder = build_encoder(name, 40, hidden, 10)
    together = encoder(x, views.adjacency(3), masks)
    single = [
        encoder(x, sampler.adjacency(3), None if masks is None else masks[view : view + 1])
        for view, sampler in enumerate(views)
    ]
    torch.testing.assert_close(together, torch.cat(single))
    grad = torch.randn_like(together)
    gradients = [torch.autograd.grad(z, encoder.parameters(), grad) for z in (together, torch.cat(single))]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


def member(encoder, name, hidden, number):
    """Return one member of an encoder as an encoder of its own."""
    single = build_encoder(name, 40, hidden, 10)
    state = encoder.state_dict()
    single.load_state_dict({key: value[number].view_as(single.state_dict()[key]) for key, value in state.items()})
    return single


@pytest.mark.parametrize("sparse_features", [True, False])
@pytest.mark.parametrize("p_mask", [(0.0, 0.0), (0.3, 0.5)])
@pytest.mark.parametrize("name", ENCODERS)
def test_members_together_equal_each_member_alone(small_graph, name, p_mask, sparse_features, device, use_triton):
    compare_members(small_graph, name, p_mask, sparse_features, device, use_triton, triton=device.type != "cpu")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["residual", "scales"])
def test_members_together_equal_each_member_alone_by_kernels(small_graph, name, device, use_triton):
    pytest.importorskip("triton")
    tiny = Data(x=small_graph.x.to_dense()[:7], edge_index=random_edges(7, 0.5, seed=0), num_nodes=7)
    compare_members(tiny, name, (0.3, 0.5), True, device, use_triton, triton=True)


def compare_members(data, name, p_mask, sparse_features, device, use_triton, *, triton):
    """Compare outputs and gradients of three members in one pass with those of each member alone."""
    n, members, hidden = data.num_nodes, 3, 16
    graph = Graph.from_data(check(data, quiet=True), device)
    x = graph.x.to_dense()
    x = SparseMatrix.from_torch(x.to_sparse()) if sparse_features else x
    use_triton(triton)
    torch.manual_seed(0)
    encoder = build_encoder(name, 40, hidden, 10, members=members).to(device)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    singles = [member(encoder, name, hidden, k).to(device) for k in range(members)]
    views = member_views(graph, members)
    masks = feature_masks(40, p_mask * members, seed=0, epoch=3, device=device)
    together = encoder(x, views.adjacency(3), masks)
    grad = torch.randn_like(together)
    gradients = dict(zip(encoder.state_dict(), torch.autograd.grad(together, encoder.parameters(), grad), strict=True))
    embedding = encoder(x, graph.adjacency)  # one adjacency matrix for all members
    use_triton(False)
    for k, single in enumerate(singles):
        rows = slice(2 * k * n, 2 * (k + 1) * n)
        adjacency = StackedMatrix([sampler.adjacency(3) for sampler in views.samplers[2 * k : 2 * k + 2]])
        alone = single(x, adjacency, None if masks is None else masks[2 * k : 2 * k + 2])
        torch.testing.assert_close(together[rows], alone, rtol=1e-4, atol=1e-5)
        for (key, value), expected in zip(
            gradients.items(), torch.autograd.grad(alone, single.parameters(), grad[rows]), strict=True
        ):
            torch.testing.assert_close(value[k].view_as(expected), expected, rtol=1e-3, atol=1e-4, msg=key)
        rows = slice(k * n, (k + 1) * n)
        torch.testing.assert_close(embedding[rows], single(x, graph.adjacency), rtol=1e-4, atol=1e-5)


def test_each_member_has_its_own_initial_weights():
    encoder = build_encoder("residual", 5, 4, 3, members=2)
    assert [tuple(p.shape) for p in encoder.layers[0].parameters()] == [(2, 5, 4), (2, 5, 4), (2, 4)]
    assert not torch.equal(*encoder.layers[0].weight)
    assert encoder.activation.weight.tolist() == [0.25, 0.25]


def test_scales_share_the_width():
    assert ScalesEncoder(5, 10).widths == [3, 3, 2, 2]
    assert build_encoder("pagerank", 5, 4, 10).scales == (PAGERANK,)


def test_an_unknown_encoder_is_an_error():
    with pytest.raises(InputError, match=r"encoder='gat': choose one of gcn, residual, pagerank, scales"):
        build_encoder("gat", 5, 4, 3)
    with pytest.raises(InputError, match=r"encoder='gat': choose one of gcn, residual, pagerank, scales"):
        build_layer("gat", 5, 4)


def test_without_a_hidden_width_there_is_one_layer():
    assert [tuple(p.shape) for p in build_encoder("gcn", 5, None, 3).parameters()] == [(5, 3), (3,), (1,)]
    assert [tuple(p.shape) for p in build_encoder("residual", 5, None, 3).parameters()] == [(5, 3), (5, 3), (3,), (1,)]


@pytest.mark.parametrize("name", ENCODERS)
def test_only_encoders_of_several_scales_have_one_layer(name):
    check_layers(name, 1)
    if name not in SCALES:
        check_layers(name, 3)
        return
    with pytest.raises(InputError, match=f"encoder='{name}', layers=3: this encoder has one layer; set layers=1"):
        check_layers(name, 3)


@pytest.mark.parametrize("name", ENCODERS)
def test_a_layer_by_name_is_the_first_layer_of_the_encoder_without_activation(small_graph, name, monkeypatch):
    monkeypatch.setattr(encoders, "PRODUCTS", 40)
    graph = Graph.from_data(check(small_graph))
    layer = perturbed(build_layer(name, 40, 10))
    assert isinstance(layer, ScalesLayer) == (name in SCALES)
    product, out = layer.product(graph.x, graph.adjacency), layer(graph.x, graph.adjacency)
    torch.testing.assert_close(product + layer.bias, out)
    expected = dense_product(layer.double(), graph.x.to_dense().double(), graph.adjacency.to_dense().double())
    torch.testing.assert_close(product.double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sparse_features", [True, False])
@pytest.mark.parametrize("p_mask", [(0.0, 0.0), (0.3, 0.5)])
@pytest.mark.parametrize("hidden", [None, 16, 64])
@pytest.mark.parametrize("name", ENCODERS)
def test_projecting_and_propagating_is_the_forward_pass(small_graph, name, hidden, p_mask, sparse_features):
    graph = Graph.from_data(check(small_graph))
    x = graph.x.to_dense()
    x = SparseMatrix.from_torch(x.to_sparse()) if sparse_features else x
    adjacency = member_views(graph, 1).adjacency(3)
    masks = feature_masks(40, p_mask, seed=0, epoch=3, device="cpu")
    encoder = perturbed(build_encoder(name, 40, hidden, 10))
    projected = encoder.project(x, masks)
    width = 10 if hidden is None or name in SCALES else hidden
    assert projected.shape == (60 if masks is None else 120, width * (2 if name == "residual" else 1))
    outputs = encoder.propagate(projected, adjacency), encoder(x, adjacency, masks)
    torch.testing.assert_close(*outputs, rtol=1e-4, atol=1e-5)
    grad = torch.randn_like(outputs[0])
    gradients = [torch.autograd.grad(z, encoder.parameters(), grad) for z in outputs]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("hidden", [None, 16])
@pytest.mark.parametrize("name", ENCODERS)
def test_permuting_projected_rows_permutes_the_features(small_graph, name, hidden):
    graph = Graph.from_data(check(small_graph))
    x, order = graph.x.to_dense(), torch.randperm(60, generator=torch.Generator().manual_seed(0))
    encoder = perturbed(build_encoder(name, 40, hidden, 10))
    projected = encoder.project(x)
    both = encoder.propagate(torch.cat([projected, projected[order]]), graph.adjacency)
    expected = torch.cat([encoder(x, graph.adjacency), encoder(x[order], graph.adjacency)])
    torch.testing.assert_close(both, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ENCODERS)
def test_members_are_projected_into_blocks_of_rows(small_graph, name):
    graph = Graph.from_data(check(small_graph))
    encoder = perturbed(build_encoder(name, 40, 16, 10, members=3))
    out = encoder.propagate(encoder.project(graph.x), graph.adjacency)
    torch.testing.assert_close(out, encoder(graph.x, graph.adjacency), rtol=1e-4, atol=1e-5)
