"""What holds for every method of the registry."""

import importlib

import pytest
import torch
from torch_geometric.data import Data

import epagcl
from epagcl import training
from epagcl.core.errors import InputError
from epagcl.data import block_model, check
from epagcl.data.graph import Graph, row_normalise
from epagcl.data.splits import Split
from tests.conftest import Largest

EVERY = epagcl.methods()
every_method = pytest.mark.parametrize("name", EVERY)
self_supervised = pytest.mark.parametrize("name", [name for name in EVERY if not epagcl.method(name).supervised])

#: Small widths and few of everything, for those methods that have such a setting.
SMALL = {
    "hidden": 8, "dim": 6, "projection": 7, "predictor": 7, "gate_hidden": 5, "heads": 2, "k": 3, "negatives": 2,
    "epochs": 4, "device": "cpu",
}  # fmt: skip
#: Nothing random is done to features and layers.
UNMASKED = {"p_mask": 0.0, "p_mask_1": 0.0, "p_mask_2": 0.0, "dropout": 0.0, "attention_dropout": 0.0}


def made(name, **settings):
    cls = epagcl.method(name)
    known = {field.name for field in cls.setting_fields()}
    return cls(**{key: value for key, value in {**SMALL, **settings}.items() if key in known})


def started(name, data, **settings):
    """A method, its initial network in training, the graph, and what is prepared."""
    model = made(name, **{**settings, "epochs": 0}).fit(data)
    graph = Graph.from_data(check(data, quiet=True))
    return model, model.network_.train(), graph, model.prepare(graph)


def losses(model, network, graph, prepared, epoch):
    return [step.loss(network, graph, prepared, epoch) for step in model.steps()]


def split_in_thirds(model, data):
    """For supervised methods on graphs too small for a random split."""
    parts = torch.arange(data.num_nodes).tensor_split(3) if data.num_nodes > 2 else torch.arange(2).split(1)
    test = parts[2] if len(parts) > 2 else torch.empty(0, dtype=torch.long)
    return {"split": Split(parts[0], parts[1], test)} if model.supervised else {}


@every_method
def test_says_what_it_is(name):
    cls = epagcl.method(name)
    assert cls.name == name
    for text in (cls.title, cls.paper, cls.cost_note, cls.summary()):
        assert text == text.strip() != ""
    assert cls.summary().endswith((".", ":"))
    assert any(year in cls.paper for year in map(str, range(2014, 2026)))
    assert "time" in cls.cost_note
    assert "memory" in cls.cost_note
    assert all(field.metadata["meaning"] for field in cls.setting_fields())
    assert ("labels" in cls.cost_note) == cls.supervised


@every_method
def test_the_gradient_reaches_every_parameter_in_the_steps_of_its_group(small_graph, name):
    model, network, graph, prepared = started(name, small_graph)
    groups = model.parameters(network)
    trainable = {id(p) for p in network.parameters() if p.requires_grad}
    listed = [id(p) for group in groups for p in group["params"]]
    assert sorted(listed) == sorted(trainable)  # each in one group, and no other
    reached = {}
    for step in model.steps():
        names = dict(network.named_parameters())
        for epoch in range(3):  # where one draw leaves a weight alone, another does not
            network.zero_grad()
            step.loss(network, graph, prepared, epoch).backward()
            for key, p in names.items():
                if p.grad is not None and p.grad.abs().sum() > 0:
                    assert torch.isfinite(p.grad).all()
                    reached.setdefault(key, set()).add(step.group)
    unreached = {key for key, p in network.named_parameters() if p.requires_grad} - set(reached)
    assert unreached == set()
    for number, group in enumerate(groups):
        for key, p in network.named_parameters():
            if any(p is q for q in group["params"]):
                assert reached[key] & {None, number}, f"{key}: no step moves it"


@every_method
def test_training_moves_every_trainable_parameter(small_graph, name):
    before = dict(started(name, small_graph)[1].named_parameters())
    trained = made(name, patience=0, lr=0.01).fit(small_graph).network_
    still = [key for key, p in trained.named_parameters() if p.requires_grad and torch.equal(p, before[key])]
    assert still == []


@every_method
def test_seed_decides_everything(small_graph, name):
    first, again = (made(name, seed=3).fit_embed(small_graph) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.allclose(first, made(name, seed=4).fit_embed(small_graph))
    assert first.dtype == torch.float32
    assert first.shape[0] == 60


@every_method
def test_the_global_generator_is_left_alone(small_graph, name):
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    made(name, epochs=1).fit(small_graph)
    assert torch.equal(torch.rand(3), expected)


@every_method
def test_save_and_load(tmp_path, small_graph, name):
    model = made(name).fit(small_graph)
    model.save(tmp_path / "run")
    loaded = epagcl.load_model(tmp_path / "run", device="cpu")
    assert type(loaded) is type(model)
    assert loaded.get_params() == model.get_params()
    assert torch.equal(loaded.embed(small_graph), model.embed(small_graph))


@every_method
def test_embeds_an_unseen_graph_but_not_one_with_other_columns(small_graph, name):
    model = made(name).fit(small_graph)
    other = block_model(80, num_classes=3, num_features=40, topic_words=10, words_per_node=6, seed=9)
    del other.y
    z = model.embed(other)
    assert z.shape == (80, model.embed(small_graph).shape[1])
    assert torch.isfinite(z).all()
    assert torch.equal(z, model.embed(other))
    with pytest.raises(InputError, match="the graph has 50 feature columns, the model was trained on 40"):
        model.embed(block_model(80, num_features=50, topic_words=10))


@every_method
def test_the_embedding_does_not_depend_on_the_order_of_nodes(small_graph, name):
    model = made(name).fit(small_graph)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    moved = Data(x=small_graph.x.to_dense()[order], edge_index=torch.argsort(order)[small_graph.edge_index])
    torch.testing.assert_close(model.embed(moved), model.embed(small_graph)[order], rtol=1e-4, atol=1e-5)


@every_method
def test_a_dead_feature_column_changes_nothing(small_graph, name):
    x = small_graph.x.to_dense() * (0.5 + torch.rand(60, 40, generator=torch.Generator().manual_seed(0)))
    narrow, wide = small_graph.clone(), small_graph.clone()
    narrow.x, wide.x = x, torch.cat([torch.zeros(60, 1), x], 1)
    model, network, graph, prepared = started(name, narrow, **UNMASKED)
    _, wider, wide_graph, wide_prepared = started(name, wide, **UNMASKED)
    changed = 0
    with torch.no_grad():
        for p, q in zip(network.parameters(), wider.parameters(), strict=True):
            if p.shape == q.shape:
                q.copy_(p)
            else:  # the column's weights come first, whatever they are
                (axis,) = [k for k in range(p.dim()) if p.shape[k] != q.shape[k]]
                q.copy_(torch.cat([torch.full_like(p.narrow(axis, 0, 1), 3.0), p], axis))
                changed += 1
    assert changed > 0
    expected = losses(model, network, graph, prepared, 1)
    torch.testing.assert_close(losses(model, wider, wide_graph, wide_prepared, 1), expected, rtol=1e-4, atol=1e-5)
    z = model.represent(network.eval(), graph)
    torch.testing.assert_close(model.represent(wider.eval(), wide_graph), z, rtol=1e-4, atol=1e-5)


ODD = {
    "two nodes": Data(x=torch.eye(2), edge_index=torch.tensor([[0], [1]])),
    "complete": Data(x=torch.eye(6), edge_index=torch.triu_indices(6, 6, 1)),
    "isolated": Data(x=torch.eye(7), edge_index=torch.tensor([[0, 1], [1, 2]])),
    "star": Data(x=torch.eye(7), edge_index=torch.tensor([[0] * 6, [1, 2, 3, 4, 5, 6]])),
    "two components": Data(x=torch.eye(6), edge_index=torch.tensor([[0, 1, 3, 4], [1, 2, 4, 5]])),
    "equal features": Data(x=torch.ones(6, 3), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])),
    "rows without features": Data(
        x=torch.eye(6) * (torch.arange(6) < 3), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    ),
}


@every_method
@pytest.mark.parametrize("kind", ODD)
def test_odd_graphs_train(name, kind):
    data = ODD[kind].clone()
    data.y = torch.arange(data.num_nodes) % 2
    model = made(name)
    z = model.fit_embed(data, **split_in_thirds(model, data))
    assert len(model.history_) == 4
    assert torch.isfinite(z).all()
    assert all(torch.isfinite(value).all() for value in model.network_.state_dict().values())


@self_supervised
def test_labels_are_not_read(small_graph, name):
    blind, scrambled = small_graph.clone(), small_graph.clone()
    del blind.y
    scrambled.y = scrambled.y.flip(0)
    results = [made(name).fit_embed(data) for data in (small_graph, blind, scrambled)]
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


@every_method
def test_an_epoch_as_a_tensor_is_the_same_epoch(small_graph, name):
    model, network, graph, prepared = started(name, small_graph)
    for epoch in (0, 3):
        assert losses(model, network, graph, prepared, epoch) == losses(
            model, network, graph, prepared, torch.tensor(epoch)
        )
    states = []
    for epoch in (3, torch.tensor(3)):
        _, network, *_ = started(name, small_graph)
        model.after_epoch(network, epoch)
        states.append(network.state_dict())
    assert all(torch.equal(value, states[1][key]) for key, value in states[0].items())


@every_method
def test_an_epoch_depends_on_its_number_and_the_seed_alone(small_graph, name):
    model, network, graph, prepared = started(name, small_graph)
    first = [losses(model, network, graph, prepared, epoch) for epoch in (0, 1)]
    again = [losses(model, network, graph, prepared, epoch) for epoch in (1, 0)]
    assert first == again[::-1]
    assert all(a != b for a, b in zip(*first, strict=True))  # and each draws anew


class Stop(Exception):
    """Stands for a kill between two epochs."""


@every_method
def test_resume_is_bit_identical(tmp_path, small_graph, monkeypatch, name):
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0)
    checkpoint = tmp_path / "checkpoint.safetensors"
    whole = made(name, epochs=7).fit(small_graph)

    def stop(row):
        if row["epoch"] == 3:
            raise Stop

    with pytest.raises(Stop):
        made(name, epochs=7).fit(small_graph, checkpoint=checkpoint, callback=stop)
    resumed = made(name, epochs=7).fit(small_graph, checkpoint=checkpoint, resume=True)
    states = whole.network_.state_dict(), resumed.network_.state_dict()
    assert all(torch.equal(value, states[1][key]) for key, value in states[0].items())
    assert [row["loss"] for row in resumed.history_] == [row["loss"] for row in whole.history_]


@every_method
def test_untrained(small_graph, name):
    model = made(name, epochs=0).fit(small_graph)
    assert model.history_ == []
    assert torch.isfinite(model.embed(small_graph)).all()


@every_method
@pytest.mark.parametrize("sparse", [True, False])
def test_features_divided_by_their_rows_are_those_given_divided(small_graph, name, sparse):
    x = small_graph.x.to_dense() * (0.5 + torch.rand(60, 40, generator=torch.Generator().manual_seed(0)))
    x[4] = 0
    given, divided = small_graph.clone(), small_graph.clone()
    given.x = x.to_sparse_csr() if sparse else x
    divided.x = row_normalise(given.x)
    model = made(name, features="row-sum").fit(given)
    assert torch.equal(model.embed(given), made(name).fit_embed(divided))


#: Blocks that are larger than this test's graph on purpose: enough to keep a machine busy.
BLOCKS = {
    "epagcl.losses.infonce.tiled.TILE": {"cpu": 128},
    "epagcl.losses.infonce.loss.edges.TILE": {"cpu": 128},
    "epagcl.losses.infonce.loss.neighbours.PANEL": 2**16,
    "epagcl.methods.greet.BLOCK": 2**16,
}


@every_method
def test_nothing_as_large_as_the_pairs_of_nodes_is_made(monkeypatch, name):
    for place, size in BLOCKS.items():
        module, _, constant = place.rpartition(".")
        monkeypatch.setattr(importlib.import_module(module), constant, size)
    n = 700
    data = block_model(n, num_classes=3, num_features=200, topic_words=20, words_per_node=6, seed=0)
    model, network, _, _ = started(name, data)
    graph = Graph.from_data(check(data))
    with Largest() as largest:
        prepared = model.prepare(graph)
        for loss in losses(model, network, graph, prepared, 0):
            loss.backward()
        with torch.no_grad():
            model.represent(network.eval(), graph)
    assert 4 * n * 6 < largest.bytes < 4 * n * n / 3
