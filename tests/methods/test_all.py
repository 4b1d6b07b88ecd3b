"""Properties of every method in the registry."""

import copy
import importlib
import pickle
import re
from dataclasses import replace
from datetime import date

import pytest
import torch
from sklearn.base import clone
from torch_geometric.data import Data

import epagcl
from epagcl.core.errors import InputError
from epagcl.core.sparse import SparseMatrix
from epagcl.data import block_model, check
from epagcl.data.graph import Graph, row_normalise
from epagcl.data.splits import Split
from epagcl.methods.settings import TRAINING_SETTINGS
from epagcl.training.precision import LOSS_SCALE, half_activations
from tests.conftest import Largest

EVERY = epagcl.methods()
every_method = pytest.mark.parametrize("name", EVERY)
trained_method = pytest.mark.parametrize("name", [name for name in EVERY if epagcl.method(name).trained])
training_free = pytest.mark.parametrize("name", [name for name in EVERY if not epagcl.method(name).trained])
HALF = [name for name in EVERY if epagcl.method(name).half_activations]
self_supervised = pytest.mark.parametrize("name", [name for name in EVERY if not epagcl.method(name).supervised])

#: Small widths and counts, for the methods that have the setting.
SMALL = {
    "hidden": 8, "dim": 6, "projection": 7, "predictor": 7, "gate_hidden": 5, "heads": 2, "k": 3, "negatives": 2,
    "epochs": 4, "device": "cpu",
}  # fmt: skip
#: No masks and no dropout.
UNMASKED = {"p_mask": 0.0, "p_mask_1": 0.0, "p_mask_2": 0.0, "dropout": 0.0, "attention_dropout": 0.0}

#: How the names of parameters end that cancel: the bias before a batch norm has a gradient of zeros.
CANCELS = {"bgrl": ".gcn.bias"}
#: Parameters that cancel up to rounding: CCA-SSG subtracts the mean of each column, and so the last bias.
ROUNDED = {"cca-ssg": "encoder.layers.1.bias"}


def may_change(name, key, p):
    return p.requires_grad and not (name in CANCELS and key.endswith(CANCELS[name]))


def create(name, **settings):
    cls = epagcl.method(name)
    known = {field.name for field in cls.setting_fields()}
    return cls(**{key: value for key, value in {**SMALL, **settings}.items() if key in known})


def initialised(name, data, **settings):
    """Return a method, its untrained network in training mode, the graph, and the result of ``prepare``."""
    model = create(name, **{**settings, "epochs": 0}).fit(data)
    graph = Graph.from_data(check(data, quiet=True))
    return model, model.network_.train(), graph, model.prepare(graph)


def losses(model, network, graph, prepared, epoch):
    return [step.loss(network, graph, prepared, epoch) for step in model.steps()]


def split_in_thirds(model, data):
    """Return a split for supervised methods on graphs that are too small for a random one."""
    parts = torch.arange(data.num_nodes).tensor_split(3) if data.num_nodes > 2 else torch.arange(2).split(1)
    test = parts[2] if len(parts) > 2 else torch.empty(0, dtype=torch.long)
    return {"split": Split(parts[0], parts[1], test)} if model.supervised else {}


@trained_method
def test_aligned_features_change_no_loss(name):
    data = block_model(24, num_classes=2, num_features=9, topic_words=3, words_per_node=3)
    data.x = torch.rand(24, 9, generator=torch.Generator().manual_seed(0))  # dense
    model, network, graph, prepared = initialised(name, data, **(split_in_thirds(epagcl.method(name), data)))
    assert isinstance(graph.x, torch.Tensor)
    results = []
    for padded in (0, 7):
        graph.__dict__["aligned_x"] = torch.nn.functional.pad(graph.x, (0, padded))
        torch.manual_seed(0)
        values = losses(model, network, graph, prepared, 1)
        weights = {key: p for key, p in network.named_parameters() if p.requires_grad}
        gradients = torch.autograd.grad(sum(values), list(weights.values()), allow_unused=True)
        results.append((values, dict(zip(weights, gradients, strict=True))))
    torch.testing.assert_close(results[1][0], results[0][0])
    for key, ours in results[0][1].items():
        theirs = results[1][1][key]
        assert (ours is None) == (theirs is None)
        if ours is not None:
            smallest = 1e-5 if key == ROUNDED.get(name) else 1e-6
            torch.testing.assert_close(theirs, ours, rtol=1e-4, atol=smallest)


@every_method
def test_name_title_paper_cost_and_settings_are_documented(name):
    cls = epagcl.method(name)
    assert cls.name == name
    for text in (cls.title, cls.paper, cls.cost_note, cls.summary()):
        assert text == text.strip() != ""
    assert cls.summary().endswith((".", ":"))
    (year,) = map(int, re.findall(r"\b\d{4}\b", cls.paper))
    assert 2014 <= year <= date.today().year
    assert "time" in cls.cost_note
    assert "memory" in cls.cost_note
    assert all(field.metadata["meaning"] for field in cls.setting_fields())
    assert ("labels" in cls.cost_note) == cls.supervised


@trained_method
def test_the_gradient_reaches_every_parameter_in_a_step_of_its_group(small_graph, name):
    model, network, graph, prepared = initialised(name, small_graph)
    groups = model.parameters(network)
    trainable = {id(p) for p in network.parameters() if p.requires_grad}
    listed = [id(p) for group in groups for p in group["params"]]
    assert sorted(listed) == sorted(trainable)  # each parameter is in exactly one group
    reached = {}
    for step in model.steps():
        names = dict(network.named_parameters())
        for epoch in range(3):  # a random draw may leave a weight without gradient
            network.zero_grad()
            step.loss(network, graph, prepared, epoch).backward()
            for key, p in names.items():
                if p.grad is not None and p.grad.abs().sum() > 0:
                    assert torch.isfinite(p.grad).all()
                    reached.setdefault(key, set()).add(step.group)
    unreached = {key for key, p in network.named_parameters() if may_change(name, key, p)} - set(reached)
    assert unreached == set()
    for number, group in enumerate(groups):
        for key, p in network.named_parameters():
            if any(p is q for q in group["params"]) and may_change(name, key, p):
                assert reached[key] & {None, number}, f"{key}: no step updates it"


@trained_method
def test_training_changes_every_trainable_parameter(small_graph, name):
    before = dict(initialised(name, small_graph)[1].named_parameters())
    trained = create(name, patience=0, lr=0.01).fit(small_graph).network_
    still = [key for key, p in trained.named_parameters() if may_change(name, key, p) and torch.equal(p, before[key])]
    assert still == []


@every_method
def test_the_seed_determines_the_result(small_graph, name):
    first, again = (create(name, seed=3).fit_embed(small_graph) for _ in range(2))
    assert torch.equal(first, again)
    other = create(name, seed=4).fit_embed(small_graph)
    assert torch.allclose(first, other) == (not epagcl.method(name).trained)
    assert first.dtype == torch.float32
    assert first.shape[0] == 60


@every_method
def test_the_global_generator_is_not_used(small_graph, name):
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    create(name, epochs=1).fit(small_graph)
    assert torch.equal(torch.rand(3), expected)


@every_method
def test_save_and_load(tmp_path, small_graph, name):
    model = create(name).fit(small_graph)
    model.save(tmp_path / "run")
    loaded = epagcl.load_model(tmp_path / "run", device="cpu")
    assert type(loaded) is type(model)
    assert loaded.get_params() == model.get_params()
    assert torch.equal(loaded.embed(small_graph), model.embed(small_graph))


@every_method
def test_unseen_graphs_are_embedded_unless_their_columns_differ(small_graph, name):
    model = create(name).fit(small_graph)
    other = block_model(80, num_classes=3, num_features=40, topic_words=10, words_per_node=6, seed=9)
    del other.y
    z = model.embed(other)
    assert z.shape == (80, model.embed(small_graph).shape[1])
    assert torch.isfinite(z).all()
    assert torch.equal(z, model.embed(other))
    with pytest.raises(InputError, match="the graph has 50 feature columns, the model was trained on 40"):
        model.embed(block_model(80, num_features=50, topic_words=10))


@every_method
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_and_pickles_of_a_trained_model_embed_alike(small_graph, name, copied):
    model = create(name).fit(small_graph)
    assert torch.equal(copied(model).embed(small_graph), model.embed(small_graph))


@every_method
def test_new_nodes_are_embedded_beside_the_old_ones(small_graph, name):
    # EPAGCL+ also joins nodes with their nearest neighbours, wherever they are; k = 0 leaves them out.
    model = create(name, **({"k": 0} if name == "epagcl+" else {})).fit(small_graph)
    x, edges = small_graph.x.to_dense(), small_graph.edge_index
    grown = Data(x=torch.cat([x, x[:2]]), edge_index=torch.cat([edges, torch.tensor([[60, 5], [5, 60]])], 1))
    z, before = model.embed(grown), model.embed(small_graph)
    assert z.shape == (62, before.shape[1])
    assert torch.isfinite(z).all()
    assert not torch.allclose(z[5], before[5])  # a new neighbour changes a node
    far = Data(x=torch.cat([x, x[:2]]), edge_index=torch.cat([edges, torch.tensor([[60, 61], [61, 60]])], 1))
    torch.testing.assert_close(model.embed(far)[:60], before, rtol=1e-4, atol=1e-5)


@every_method
def test_the_embedding_does_not_depend_on_the_order_of_nodes(small_graph, name):
    model = create(name).fit(small_graph)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    moved = Data(x=small_graph.x.to_dense()[order], edge_index=torch.argsort(order)[small_graph.edge_index])
    torch.testing.assert_close(model.embed(moved), model.embed(small_graph)[order], rtol=1e-4, atol=1e-5)


@every_method
def test_a_dead_feature_column_changes_nothing(small_graph, name):
    x = small_graph.x.to_dense() * (0.5 + torch.rand(60, 40, generator=torch.Generator().manual_seed(0)))
    narrow, wide = small_graph.clone(), small_graph.clone()
    narrow.x, wide.x = x, torch.cat([torch.zeros(60, 1), x], 1)
    model, network, graph, prepared = initialised(name, narrow, **UNMASKED)
    _, wider, wide_graph, wide_prepared = initialised(name, wide, **UNMASKED)
    changed = 0
    with torch.no_grad():
        for p, q in zip(network.parameters(), wider.parameters(), strict=True):
            if p.shape == q.shape:
                q.copy_(p)
            else:  # the weights of the new column come first
                (axis,) = [k for k in range(p.dim()) if p.shape[k] != q.shape[k]]
                q.copy_(torch.cat([torch.full_like(p.narrow(axis, 0, 1), 3.0), p], axis))
                changed += 1
    assert changed > 0 or not model.trained
    expected = losses(model, network, graph, prepared, 1)
    torch.testing.assert_close(losses(model, wider, wide_graph, wide_prepared, 1), expected, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        outputs = []
        for one, its_graph in ((network, graph), (wider, wide_graph)):
            model.calibrate(one.eval(), its_graph)
            outputs.append(model.represent(one, its_graph))
    torch.testing.assert_close(*outputs, rtol=1e-4, atol=1e-5)


DEGENERATE = {
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
@pytest.mark.parametrize("kind", DEGENERATE)
def test_degenerate_graphs_train(name, kind):
    data = DEGENERATE[kind].clone()
    data.y = torch.arange(data.num_nodes) % 2
    model = create(name)
    z = model.fit_embed(data, **split_in_thirds(model, data))
    assert len(model.history_) == 4 * model.trained
    assert torch.isfinite(z).all()
    assert all(torch.isfinite(value).all() for value in model.network_.state_dict().values())


@self_supervised
def test_labels_are_not_read(small_graph, name):
    blind, scrambled = small_graph.clone(), small_graph.clone()
    del blind.y
    scrambled.y = scrambled.y.flip(0)
    results = [create(name).fit_embed(data) for data in (small_graph, blind, scrambled)]
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


@trained_method
def test_an_epoch_as_a_tensor_is_the_same_epoch(small_graph, name):
    model, network, graph, prepared = initialised(name, small_graph)
    for epoch in (0, 3):
        assert losses(model, network, graph, prepared, epoch) == losses(
            model, network, graph, prepared, torch.tensor(epoch)
        )
    states = []
    for epoch in (3, torch.tensor(3)):
        _, network, *_ = initialised(name, small_graph)
        model.after_epoch(network, epoch)
        states.append(network.state_dict())
    assert all(torch.equal(value, states[1][key]) for key, value in states[0].items())


@trained_method
def test_an_epoch_depends_only_on_its_number_and_the_seed(small_graph, name):
    model, network, graph, prepared = initialised(name, small_graph)
    first = [losses(model, network, graph, prepared, epoch) for epoch in (0, 1)]
    again = [losses(model, network, graph, prepared, epoch) for epoch in (1, 0)]
    assert first == again[::-1]
    assert all(a != b for a, b in zip(*first, strict=True))  # and epochs differ


class Stop(Exception):
    """Simulates a kill between two epochs."""


@trained_method
def test_resume_is_bit_identical(tmp_path, small_graph, monkeypatch, name):
    monkeypatch.setattr("epagcl.training.checkpoint.CHECKPOINT_SECONDS", 0)
    checkpoint = tmp_path / "checkpoint.safetensors"
    whole = create(name, epochs=7).fit(small_graph)

    def stop(row):
        if row["epoch"] == 3:
            raise Stop

    with pytest.raises(Stop):
        create(name, epochs=7).fit(small_graph, checkpoint=checkpoint, callback=stop)
    resumed = create(name, epochs=7).fit(small_graph, checkpoint=checkpoint, resume=True)
    states = whole.network_.state_dict(), resumed.network_.state_dict()
    assert all(torch.equal(value, states[1][key]) for key, value in states[0].items())
    assert [row["loss"] for row in resumed.history_] == [row["loss"] for row in whole.history_]


@every_method
def test_untrained(small_graph, name):
    model = create(name, epochs=0).fit(small_graph)
    assert model.history_ == []
    assert torch.isfinite(model.embed(small_graph)).all()


@training_free
def test_a_method_without_training_has_no_settings_of_training_and_no_loss(tmp_path, small_graph, name):
    cls, calls = epagcl.method(name), []
    settings = {field.name for field in cls.setting_fields()}
    assert not settings & set(TRAINING_SETTINGS)
    assert settings == set(cls().get_params()) == set(clone(cls()).get_params())
    for setting in TRAINING_SETTINGS:
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{setting}'"):
            cls(**{setting: 1})
    model = create(name).fit(
        small_graph, checkpoint=tmp_path / "checkpoint", callback=calls.append, look=(1, lambda *_: calls.append(1))
    )
    assert (model.epochs, model.history_, model.steps(), calls) == (0, [], [], [])
    assert not (tmp_path / "checkpoint").exists()
    assert not any(p.requires_grad for p in model.network_.parameters())


@every_method
@pytest.mark.parametrize("sparse", [True, False])
def test_feature_scaling_equals_scaling_the_features_beforehand(small_graph, name, sparse):
    x = small_graph.x.to_dense() * (0.5 + torch.rand(60, 40, generator=torch.Generator().manual_seed(0)))
    x[4] = 0
    given, divided = small_graph.clone(), small_graph.clone()
    given.x = x.to_sparse_csr() if sparse else x
    divided.x = row_normalise(given.x)
    model = create(name, feature_scaling="row-sum").fit(given)
    assert torch.equal(model.embed(given), create(name, feature_scaling="given").fit_embed(divided))


#: Block sizes, reduced so that a block is smaller than all pairs of the test graph.
BLOCKS = {
    "epagcl.losses.infonce.tiled.TILE": {"cpu": 128},
    "epagcl.losses.edges.TILE": {"cpu": 128},
    "epagcl.losses.neighbours.PANEL": 2**16,
    "epagcl.methods.greet.BLOCK": 2**16,
    "epagcl.methods.epagcl_plus.COMPONENTS": 8,
    "epagcl.methods.mixture.COMPONENTS": 8,
    "epagcl.core.neighbours.ROWS": 64,
}


@every_method
def test_no_tensor_has_the_size_of_all_pairs_of_nodes(monkeypatch, name):
    for place, size in BLOCKS.items():
        module, _, constant = place.rpartition(".")
        monkeypatch.setattr(importlib.import_module(module), constant, size)
    n = 700
    data = block_model(n, num_classes=3, num_features=200, topic_words=20, words_per_node=6, seed=0)
    model, network, _, _ = initialised(name, data)
    graph = Graph.from_data(check(data))
    with Largest() as largest:
        prepared = model.prepare(graph)
        with torch.no_grad():
            model.calibrate(network, graph)
        for loss in losses(model, network, graph, prepared, 0):
            loss.backward()
        with torch.no_grad():
            model.represent(network.eval(), graph)
    assert 4 * n * 6 < largest.bytes < 4 * n * n / 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sparse"), [*((name, True) for name in HALF), ("bgrl", False), ("grace", True), ("grace", False)]
)
def test_half_precision_activations_change_gradients_by_their_rounding(name, sparse, device, use_triton):
    pytest.importorskip("triton")
    data = block_model(24, num_classes=2, num_features=9, topic_words=3, words_per_node=3)
    model, network, graph, _ = initialised(name, data, precision="fp32", batch_size=0, members=1)
    x = graph.x.to_dense()
    x = SparseMatrix.from_torch(x.to_sparse()) if sparse else x
    graph = replace(graph, x=x.to(device), pairs=graph.pairs.to(device))
    network = network.to(device)
    use_triton(True)
    prepared = model.prepare(graph)
    epoch = torch.tensor(3, device=device)  # in which no activation changes its sign by rounding
    trained = [p for p in network.parameters() if p.requires_grad]
    loss = model.loss(network, graph, prepared, epoch)
    gradients = torch.autograd.grad(loss, trained, allow_unused=True)
    with half_activations(device):
        half_loss = model.loss(network, graph, prepared, epoch)
    assert half_loss.dtype == torch.float32
    torch.testing.assert_close(half_loss, loss, rtol=2e-3, atol=0)
    scaled = torch.autograd.grad(half_loss * LOSS_SCALE, trained, allow_unused=True)
    both = [(a / LOSS_SCALE, b) for a, b in zip(scaled, gradients, strict=True) if b is not None]
    assert all(a.dtype == torch.float32 for a, _ in both)
    length = torch.cat([b.flatten() for _, b in both]).norm()
    errors = [(a - b).norm() for a, b in both]
    assert max(errors) > 0
    for error, (_, expected) in zip(errors, both, strict=True):  # some gradients are small sums of large numbers
        assert error < 0.03 * expected.norm() + 1e-3 * length


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("grace", {"encoder": "residual"}),
        ("grace", {"dim": 528, "batch_size": 10}),  # plain torch computes the loss of wide rows
        ("bgrl", {"encoder": "residual", "norm": "layer"}),
        ("gca", {"p_mask_1": 0.0, "p_mask_2": 0.0}),
    ],
)
@pytest.mark.usefixtures("half_on_small_graphs")
def test_half_precision_works_with_other_settings(name, settings, device, use_triton, monkeypatch):
    pytest.importorskip("triton")
    data = block_model(24, num_classes=2, num_features=9, topic_words=3, words_per_node=3)
    use_triton(True)
    values = []
    monkeypatch.setattr(epagcl.method(name), "half_activations", True)
    for precision in ("fp32", "auto"):
        model = create(name, precision=precision, epochs=2, device=str(device), **settings).fit(data)
        values.append([row["loss"] for row in model.history_])
    assert values[1] == pytest.approx(values[0], rel=1e-2)
    assert values[1] != values[0]


def test_a_subclass_that_replaces_the_loss_has_to_allow_half_precision_again():
    plain = type("Plain", (epagcl.method("bgrl"),), {})
    other = type("Other", (plain,), {"loss": lambda *_: None})
    allowed = type("Allowed", (other,), {"half_activations": True, "loss": lambda *_: None})
    assert [cls.half_activations for cls in (plain, other, allowed)] == [True, False, True]
