import math

import numpy as np
import pytest
import torch
from sklearn.base import clone

from epagcl import EPAGCL
from epagcl.core.errors import InputError
from epagcl.data import block_model, check
from epagcl.data.graph import Graph

SMALL = {"hidden": 32, "dim": 16, "projection": 16, "device": "cpu"}


def prepared(data, **settings):
    method = EPAGCL(**{**SMALL, **settings})
    graph = Graph.from_data(check(data))
    return method, graph, method.prepare(graph)


def pairs(sampler, epoch=0):
    return {tuple(pair) for pair in sampler.pairs(epoch).T.tolist()}


def test_views_follow_algorithm_2(small_graph):
    _, graph, ((first, second), _) = prepared(small_graph, p_add=0.3)
    present = {tuple(pair) for pair in graph.pairs.T.tolist()}
    assert pairs(first) < present  # the first view only drops
    assert pairs(second) - present  # the second adds too
    assert present - pairs(second)


@pytest.mark.parametrize(
    ("settings", "adds", "drops"),
    [
        ({"add_to": "both"}, (True, True), (True, True)),
        ({"p_add": 0.0}, (False, False), (True, True)),
        ({"p_add": 0.0, "drop": "uniform"}, (False, False), (True, True)),
        ({"p_drop_1": 0.0, "p_drop_2": 0.0}, (False, True), (False, False)),
        ({"add": "uniform", "drop": "uniform", "add_to": "both"}, (True, True), (True, True)),
    ],
    ids=["add to both views", "drop only", "random drop", "add only", "random add"],
)
def test_the_ablation_is_available_by_settings(small_graph, settings, adds, drops):
    _, graph, (samplers, _) = prepared(small_graph, **{"p_add": 0.3, **settings})
    present = {tuple(pair) for pair in graph.pairs.T.tolist()}
    assert tuple(bool(pairs(sampler) - present) for sampler in samplers) == adds
    assert tuple(bool(present - pairs(sampler)) for sampler in samplers) == drops


def test_gradient_reaches_every_parameter(small_graph):
    method, graph, views = prepared(small_graph)
    network = method.build(graph.num_features)
    method.loss(network, graph, views, 0).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in network.parameters())


def test_training_lowers_the_loss_and_keeps_a_high_rank():
    data = block_model(400, seed=5)
    model = EPAGCL(epochs=60, **SMALL).fit(data)
    losses = [row["loss"] for row in model.history_]
    assert losses[0] == pytest.approx(math.log(2 * 400), abs=0.5)
    assert losses[-1] < losses[0] - 0.7
    assert model.history_[-1]["effective_rank"] > 4


def test_the_seed_determines_the_result(small_graph):
    a, b = (EPAGCL(epochs=4, seed=3, **SMALL).fit_embed(small_graph) for _ in range(2))
    assert torch.equal(a, b)
    assert not torch.equal(a, EPAGCL(epochs=4, seed=4, **SMALL).fit_embed(small_graph))


def test_the_global_generator_is_not_used(small_graph):
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    EPAGCL(epochs=1, **SMALL).fit(small_graph)
    assert torch.equal(torch.rand(3), expected)


def test_labels_are_not_read(small_graph):
    blind = small_graph.clone()
    del blind.y
    scrambled = small_graph.clone()
    scrambled.y = scrambled.y.flip(0)
    results = [EPAGCL(epochs=3, **SMALL).fit_embed(data) for data in (small_graph, blind, scrambled)]
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


def test_a_dead_feature_column_changes_nothing(small_graph):
    wide = small_graph.clone()
    x = small_graph.x.to_dense()
    wide.x = torch.cat([x, torch.zeros(60, 1)], dim=1)
    method, graph, views = prepared(small_graph)
    _, wide_graph, wide_views = prepared(wide)
    network, wider = method.build(40), method.build(41)
    with torch.no_grad():
        for name, p in network.named_parameters():
            q = wider.get_parameter(name)
            q.copy_(torch.cat([p, torch.ones(1, p.shape[1])]) if q.shape != p.shape else p)
    torch.testing.assert_close(
        method.loss(wider, wide_graph, wide_views, 1), method.loss(network, graph, views, 1), rtol=1e-5, atol=1e-6
    )


def test_isolated_nodes_complete_graphs_and_two_nodes_train():
    from torch_geometric.data import Data

    complete = Data(x=torch.eye(5), edge_index=torch.triu_indices(5, 5, 1))
    two = Data(x=torch.eye(2), edge_index=torch.tensor([[0], [1]]))
    isolated = Data(x=torch.eye(6), edge_index=torch.tensor([[0, 1], [1, 2]]))
    for data in (complete, two, isolated):
        for settings in ({}, {"p_drop_1": 1.0, "p_drop_2": 1.0}, {"p_mask_1": 1.0}):
            z = EPAGCL(epochs=2, **SMALL, **settings).fit_embed(data)
            assert torch.isfinite(z).all()


def test_embeds_unseen_graphs_and_nodes(small_graph):
    model = EPAGCL(epochs=2, **SMALL).fit(small_graph)
    other = block_model(80, num_classes=3, num_features=40, topic_words=10, seed=9)
    z = model.embed(other)
    assert z.shape == (80, 16)
    assert z.dtype == torch.float32
    with pytest.raises(InputError, match="the graph has 50 feature columns, the model was trained on 40"):
        model.embed(block_model(80, num_features=50, topic_words=10))


def test_embedding_does_not_depend_on_dense_or_sparse_features(small_graph):
    model = EPAGCL(epochs=2, **SMALL).fit(small_graph)
    dense = small_graph.clone()
    dense.x = small_graph.x.to_dense()
    torch.testing.assert_close(model.embed(dense), model.embed(small_graph))


def test_scikit_learn_conventions():
    model = EPAGCL(p_add=0.2, seed=4)
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(lr=0.1).lr == 0.1
    assert repr(EPAGCL(p_add=0.2)) == "EPAGCL(p_add=0.2)"
    with pytest.raises(TypeError):
        EPAGCL(200)
    with pytest.raises(InputError, match=r"not trained; call fit\(data\) first"):
        EPAGCL().embed(None)


def test_the_embedding_converts_to_numpy(small_graph):
    assert np.asarray(EPAGCL(epochs=0, **SMALL).fit_embed(small_graph)).shape == (60, 16)
