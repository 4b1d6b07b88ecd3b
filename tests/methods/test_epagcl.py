import math

import numpy as np
import pytest
import torch
from sklearn.base import clone

import epagcl
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
def test_the_ablation_is_a_matter_of_settings(small_graph, settings, adds, drops):
    _, graph, (samplers, _) = prepared(small_graph, **{"p_add": 0.3, **settings})
    present = {tuple(pair) for pair in graph.pairs.T.tolist()}
    assert tuple(bool(pairs(sampler) - present) for sampler in samplers) == adds
    assert tuple(bool(present - pairs(sampler)) for sampler in samplers) == drops


def test_loss_is_info_nce_of_the_two_projected_views(small_graph):
    method, graph, views = prepared(small_graph, p_mask_1=0.0, p_mask_2=0.0, temperature=0.2)
    network = method.build(graph.num_features)
    z1, z2 = (network.head(network.encoder(graph.x, view.adjacency(3))) for view in views.views)
    expected = epagcl.info_nce(z1, z2, 0.2, impl="dense")
    torch.testing.assert_close(method.loss(network, graph, views, 3), expected)


def test_gradient_reaches_every_parameter(small_graph):
    method, graph, views = prepared(small_graph)
    network = method.build(graph.num_features)
    method.loss(network, graph, views, 0).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in network.parameters())


def test_one_batch_of_all_nodes_is_the_full_loss(small_graph):
    method, graph, views = prepared(small_graph)
    network = method.build(graph.num_features)
    batched = EPAGCL(**SMALL, batch_size=60).loss(network, graph, views, 2)
    torch.testing.assert_close(batched, method.loss(network, graph, views, 2))
    assert EPAGCL(**SMALL, batch_size=7).loss(network, graph, views, 2) < batched  # log 2B for log 2N


def test_training_lowers_the_loss_and_keeps_many_directions():
    data = block_model(400, seed=5)
    model = EPAGCL(epochs=60, **SMALL).fit(data)
    losses = [row["loss"] for row in model.history_]
    assert losses[0] == pytest.approx(math.log(2 * 400), abs=0.5)
    assert losses[-1] < losses[0] - 0.7
    assert model.history_[-1]["effective_rank"] > 4


def test_seed_decides_everything(small_graph):
    a, b = (EPAGCL(epochs=4, seed=3, **SMALL).fit_embed(small_graph) for _ in range(2))
    assert torch.equal(a, b)
    assert not torch.equal(a, EPAGCL(epochs=4, seed=4, **SMALL).fit_embed(small_graph))


def test_global_generator_is_left_alone(small_graph):
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


def test_save_and_load(tmp_path, small_graph):
    model = EPAGCL(epochs=2, temperature=0.4, **SMALL).fit(small_graph)
    model.save(tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["config.toml", "model.safetensors"]
    loaded = epagcl.load_model(tmp_path / "run", device="cpu")
    assert isinstance(loaded, EPAGCL)
    assert loaded.get_params() == model.get_params()
    assert torch.equal(loaded.embed(small_graph), model.embed(small_graph))


def test_load_model_says_what_is_missing(tmp_path):
    with pytest.raises(InputError, match=r"config\.toml: no such file"):
        epagcl.load_model(tmp_path)


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


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"p_drop_1": 1.5}, "p_drop_1=1.5: a probability lies between 0 and 1"),
        ({"temperature": 0.01}, "temperature=0.01: must be at least 0.03"),
        ({"epochs": -1}, "epochs=-1"),
        ({"epochs": 2.5}, "epochs=2.5: must be a whole number"),
        ({"drop": "best"}, "drop='best': choose one of eq7, text, uniform"),
        ({"device": "tpu"}, "device='tpu': choose one of auto, cpu, cuda, mps"),
        ({"dim": 0}, "must be at least 1"),
        ({"lr": 0.0}, "lr=0.0: must be positive"),
    ],
)
def test_wrong_settings_name_the_fix(settings, message):
    with pytest.raises(InputError, match=message):
        EPAGCL(**settings)


def test_settings_are_checked_again_when_changed(small_graph):
    model = EPAGCL(**SMALL)
    with pytest.raises(InputError, match="epochs=-3"):
        model.set_params(epochs=-3).fit(small_graph)
    taken = EPAGCL(seed=np.int64(3), lr=np.float32(0.5))
    assert (type(taken.seed), type(taken.lr)) == (int, float)


def test_a_damaged_model_is_one_line(tmp_path, small_graph):
    EPAGCL(epochs=0, **SMALL).fit(small_graph).save(tmp_path)
    text = (tmp_path / "config.toml").read_text()
    (tmp_path / "config.toml").write_text(text.replace("dim = 16", "dim = 17"))
    with pytest.raises(InputError, match=r"not the weights that config\.toml"):
        epagcl.load_model(tmp_path)
    (tmp_path / "config.toml").write_text(text.replace("dim = 16", "dmi = 16"))
    with pytest.raises(InputError, match="epagcl has no setting 'dmi'"):
        epagcl.load_model(tmp_path)
    (tmp_path / "config.toml").write_text(text)
    (tmp_path / "model.safetensors").write_bytes(b"half")
    with pytest.raises(InputError, match=r"not the weights that config\.toml"):
        epagcl.load_model(tmp_path)


def test_published_name_and_registry():
    assert "epagcl" in epagcl.methods()
    assert epagcl.method("EPAGCL") is EPAGCL
    with pytest.raises(InputError, match="no method 'node2vec'; there are bgrl, cca-ssg, "):
        epagcl.method("node2vec")
    with pytest.raises(InputError, match=r"no method 'gracee'; did you mean grace\?"):
        epagcl.method("gracee")


def test_numpy_sees_the_embedding(small_graph):
    assert np.asarray(EPAGCL(epochs=0, **SMALL).fit_embed(small_graph)).shape == (60, 16)
