import pytest
import torch
import torch.nn.functional as F
from torch_geometric.data import Data

from epagcl import EPAGCLPlus, Propagated, linear_evaluation
from epagcl.core.randomness import Stream, permutation
from epagcl.core.sparse import StackedMatrix
from epagcl.data import block_model, check
from epagcl.data.graph import Graph, row_normalise
from epagcl.losses.infonce.loss import info_nce
from epagcl.views.masks import feature_masks

SMALL = {"hidden": 8, "projection": 6, "dim": 12, "epochs": 3, "k": 3, "device": "cpu", "precision": "fp32"}


def graph_of(data):
    """Return the graph that EPAGCL+ trains on: feature rows of unit length."""
    checked = check(data, quiet=True)
    return Graph.from_data(checked.clone().update({"x": row_normalise(checked.x, "norm")}))


@pytest.fixture
def model(small_graph):
    return EPAGCLPlus(**SMALL, members=2).fit(small_graph)


def member_loss(model, branch, number, graph, views, masks, batches):
    """Return InfoNCE of one model by its formula, from the weights of one member and its two views."""
    layers = []
    x = graph.x.to_dense()
    adjacency = StackedMatrix([sampler.adjacency(1) for sampler in views.samplers[2 * number : 2 * number + 2]])
    for view in range(2):
        a = adjacency.parts[view].to_dense()
        h = x * masks[2 * number + view]
        encoder = branch.encoder
        slope = encoder.activation.weight[number]
        if hasattr(encoder, "layers"):
            for layer in encoder.layers:
                t = a @ h @ layer.weight[number] + h @ layer.root[number] + layer.bias[number]
                h = torch.where(t > 0, t, slope * t)
        else:
            weights = encoder.weight[number].split(encoder.widths, 1)
            identity = torch.eye(len(a))
            pagerank = 0.15 * torch.linalg.inv(identity - 0.85 * a)
            operators = [identity, a, a @ a, pagerank]
            t = torch.cat([s @ h @ w for s, w in zip(operators, weights, strict=True)], 1) + encoder.bias[number]
            h = torch.where(t > 0, t, slope * t)
        first, _, second = branch.head
        hidden = F.relu(h @ first.weight[number] + first.bias[number])
        layers.append(hidden @ second.weight[number] + second.bias[number])
    total = sum(len(nodes) * info_nce(layers[0][nodes], layers[1][nodes], model.temperature) for nodes in batches)
    return total / graph.num_nodes


def infomax_loss(network, graph):
    """Return the loss of DGI with a PageRank encoder by its formula, in epoch 1."""
    x, encoder = graph.x.to_dense(), network.encoder
    pagerank = 0.15 * torch.linalg.inv(torch.eye(60) - 0.85 * graph.adjacency.to_dense())
    order = permutation(60, 0, Stream.NEGATIVES, 1)
    hidden = [pagerank @ rows @ encoder.weight + encoder.bias for rows in (x, x[order])]
    h, corrupted = (torch.where(t > 0, t, encoder.activation.weight * t) for t in hidden)
    s = h.mean(0).sigmoid()
    true, false = network.discriminator(h, s), network.discriminator(corrupted, s)
    return (F.softplus(-true).mean() + F.softplus(false).mean()) / 2


@pytest.mark.parametrize("batch_size", [0, 16])
def test_the_loss_is_the_sum_of_the_losses_of_all_models(small_graph, model, batch_size, monkeypatch):
    monkeypatch.setattr("epagcl.nn.encoders.PRODUCTS", 40)
    model.set_params(batch_size=batch_size)
    graph, network = graph_of(small_graph), model.network_
    prepared = model.prepare(graph)
    ours = model.loss(network, graph, prepared, 1)
    masks = feature_masks(40, prepared.p_masks, seed=0, epoch=1, device="cpu").chunk(2)
    order = permutation(60, 0, Stream.BATCHES, 1)
    batches = order.split(15) if batch_size else [torch.arange(60)]  # 60 nodes in batches of at most 16: 4 of 15
    expected = sum(
        member_loss(model, branch, number, graph, prepared.views, mask, batches)
        for branch, mask in zip((network.residual, network.scales), masks, strict=True)
        for number in range(2)
    )
    expected = expected + infomax_loss(network.infomax, graph)
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)
    parameters = list(network.parameters())
    gradients = [torch.autograd.grad(loss, parameters) for loss in (ours, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-4)


def test_members_do_not_influence_each_other(small_graph):
    """Disturbing the weights of one member leaves the training of the other unchanged."""
    plain, disturbed = (EPAGCLPlus(**{**SMALL, "epochs": 0}, members=2).fit(small_graph) for _ in range(2))
    graph = graph_of(small_graph)
    gradients = []
    for model, scale in ((plain, 1.0), (disturbed, 3.0)):
        with torch.no_grad():
            for name, parameter in model.network_.named_parameters():
                if not name.startswith("infomax"):
                    parameter[1] *= scale
        loss = model.loss(model.network_, graph, model.prepare(graph), 0)
        named = dict(model.network_.named_parameters())
        of_all = zip(named, torch.autograd.grad(loss, list(named.values())), strict=True)
        gradients.append([g if name.startswith("infomax") else g[0] for name, g in of_all])
    torch.testing.assert_close(*gradients)


def test_fewer_numbers_are_the_first_columns_of_more(small_graph):
    few, many = (EPAGCLPlus(**{**SMALL, "dim": dim}).fit_embed(small_graph) for dim in (5, 20))
    torch.testing.assert_close(few, many[:, :5], rtol=1e-3, atol=1e-4)


def test_new_nodes_elsewhere_do_not_move_the_others(small_graph):
    """Without nearest neighbours, a second component of the graph does not change the embedding of the first."""
    model = EPAGCLPlus(**SMALL | {"k": 0}).fit(small_graph)
    n = small_graph.num_nodes
    grown = Data(
        x=torch.cat([small_graph.x.to_dense()] * 2),
        edge_index=torch.cat([small_graph.edge_index, small_graph.edge_index + n], 1),
        num_nodes=2 * n,
    )
    z = model.embed(small_graph)
    torch.testing.assert_close(model.embed(grown), torch.cat([z, z]), rtol=1e-4, atol=1e-5)


def test_views_add_neighbours_of_two_hops_and_drop_by_alpha(small_graph, model):
    graph = graph_of(small_graph)
    prepared = model.prepare(graph)
    edges = set(map(tuple, graph.pairs.T.tolist()))
    assert [sampler.view for sampler in prepared.views] == [0, 1, 2, 3]
    for sampler in prepared.views:
        pairs = torch.stack([sampler.counter // 60, sampler.counter % 60]).T.tolist()
        keep = dict(zip(map(tuple, pairs), sampler.keep.tolist(), strict=True))
        added = {pair: p for pair, p in keep.items() if pair not in edges}
        assert edges <= set(keep)
        assert 0 < len(added) <= 60 * 3
        assert list(added.values()) == pytest.approx([0.1] * len(added))
    drop = 1 - prepared.views.samplers[0].keep[: len(edges)]
    assert drop.mean() == pytest.approx(0.3, abs=0.02)
    assert prepared.p_masks == (0.3, 0.4, 0.3, 0.4, 0.6, 0.6, 0.6, 0.6)
    assert len(model.views(graph).samplers) == 2


def test_one_member_works(small_graph):
    assert EPAGCLPlus(**SMALL, members=1).fit_embed(small_graph).isfinite().all()


@pytest.mark.slow
def test_it_beats_raw_and_propagated_features_on_a_block_model():
    data = block_model(600, num_classes=4, num_features=300, topic_words=40, words_per_node=8, average_degree=6, seed=1)
    settings = {"hidden": 64, "projection": 32, "dim": 64, "epochs": 60, "device": "cpu"}
    accuracy = {
        name: linear_evaluation(z, data.y, runs=5).mean
        for name, z in (
            ("raw", data.x),
            ("propagated", Propagated(dim=64, device="cpu").fit_embed(data)),
            ("plus", EPAGCLPlus(**settings).fit_embed(data)),
        )
    }
    assert accuracy["raw"] < accuracy["propagated"] < accuracy["plus"]
