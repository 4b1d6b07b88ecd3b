"""Properties that GCN and GAT share."""

import logging

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import epagcl
from epagcl.core.errors import InputError
from epagcl.core.randomness import Stream, dropout
from epagcl.core.sparse import SparseMatrix
from epagcl.data import block_model, check
from epagcl.data.graph import Graph
from epagcl.data.splits import Split, random_split

SMALL = {"hidden": 8, "epochs": 8, "lr": 0.02, "device": "cpu"}

methods = pytest.mark.parametrize("cls", [epagcl.method("gcn"), epagcl.method("gat")], ids=["gcn", "gat"])


@pytest.fixture
def graph_data():
    """150 nodes whose classes can be learned."""
    return block_model(150, num_classes=3, num_features=40, topic_words=10, topic_share=0.7, seed=1)


def relabelled(data, y):
    changed = data.clone()
    changed.y = y
    return changed


def same_model(a, b, data):
    losses = [[(row["loss"], row["validation_loss"]) for row in model.history_] for model in (a, b)]
    return losses[0] == losses[1] and torch.equal(a.embed(data), b.embed(data))


@methods
def test_test_labels_are_not_read(graph_data, cls):
    split = random_split(graph_data.y, seed=3)
    model = cls(**SMALL).fit(graph_data, split=split)
    for change in (lambda y: (y + 1) % 3, lambda y: y + 50, lambda y: torch.full_like(y, -1)):
        y = graph_data.y.clone()
        y[split.test] = change(y[split.test])
        assert same_model(model, cls(**SMALL).fit(relabelled(graph_data, y), split=split), graph_data)
    y = graph_data.y.clone()
    y[split.train[0]] = (y[split.train[0]] + 1) % 3
    assert not same_model(model, cls(**SMALL).fit(relabelled(graph_data, y), split=split), graph_data)


@methods
def test_the_default_split_is_the_random_one_of_the_seed(graph_data, cls):
    model = cls(**SMALL, seed=2).fit(graph_data)
    assert same_model(model, cls(**SMALL, seed=2).fit(graph_data, split=random_split(graph_data.y, seed=2)), graph_data)
    assert not same_model(model, cls(**SMALL, seed=2).fit(graph_data, split=random_split(graph_data.y)), graph_data)


@methods
def test_losses_are_cross_entropies_on_training_and_validation_nodes(graph_data, cls):
    split = random_split(graph_data.y)
    model = cls(**{**SMALL, "epochs": 3, "patience": 0}).fit(graph_data, split=split)
    graph = Graph.from_data(check(graph_data))
    network, targets = model.initial_network(), model.prepare(graph)
    # The loss of the first epoch, under its dropout, belongs to the initial weights; validation follows the step.
    loss = -model.logits(network, graph, 0)[split.train].log_softmax(1)[range(15), graph_data.y[split.train]].mean()
    assert model.history_[0]["loss"] == pytest.approx(loss.item())
    torch.testing.assert_close(model.loss(network, graph, targets, 0), loss)
    probability = model.embed(graph_data).softmax(1)[split.val, graph_data.y[split.val]]
    assert model.history_[-1]["validation_loss"] == pytest.approx(-probability.log().mean().item(), rel=1e-5)


@pytest.mark.slow
@methods
def test_classes_are_learned_and_keep_their_numbers(graph_data, cls, tmp_path):
    numbers = torch.tensor([3, 7, 9])
    data = relabelled(graph_data, numbers[graph_data.y])
    split = random_split(data.y, (0.4, 0.2))
    model = cls(**{**SMALL, "epochs": 60, "lr": 0.05}).fit(data, split=split)
    assert model.classes_ == [3, 7, 9]
    predicted = model.predict(data)
    assert predicted.dtype == torch.int64
    assert set(predicted.tolist()) == {3, 7, 9}
    assert (predicted == data.y)[split.test].double().mean() > 0.7
    assert torch.equal(predicted, numbers[model.embed(data).argmax(1)])
    plain = cls(**{**SMALL, "epochs": 60, "lr": 0.05}).fit(graph_data, split=split)
    assert torch.equal(plain.predict(graph_data), model.embed(data).argmax(1))

    model.save(tmp_path)
    loaded = epagcl.load_model(tmp_path, device="cpu")
    assert loaded.classes_ == [3, 7, 9]
    assert torch.equal(loaded.predict(data), predicted)
    unseen = block_model(90, num_classes=3, num_features=40, topic_words=10, seed=5)
    assert set(loaded.predict(unseen).tolist()) <= {3, 7, 9}


@methods
def test_nodes_without_a_label_are_left_out(graph_data, cls):
    split = random_split(graph_data.y)
    y = graph_data.y.clone()
    hidden = torch.cat([split.train[:4], split.val[:5]])
    y[hidden] = -1
    fewer = Split(split.train[4:], split.val[5:], split.test)
    blank = relabelled(graph_data, y)
    a, b = cls(**SMALL).fit(blank, split=split), cls(**SMALL).fit(graph_data, split=fewer)
    assert same_model(a, b, graph_data)
    assert -1 not in a.predict(blank)


@methods
@pytest.mark.parametrize(
    "change", [lambda y: y[:, None], lambda y: y.double(), lambda y: y.int()], ids=["column", "float", "int32"]
)
def test_labels_of_the_graph_are_accepted_in_any_form(graph_data, cls, change):
    split = random_split(graph_data.y)
    model = cls(**SMALL).fit(graph_data, split=split)
    other = cls(**SMALL).fit(relabelled(graph_data, change(graph_data.y)), split=split)
    assert [(type(c), c) for c in other.classes_] == [(int, 0), (int, 1), (int, 2)]
    assert other.predict(graph_data).dtype == torch.int64
    assert same_model(model, other, graph_data)


@methods
def test_a_missing_label_may_be_nan(graph_data, cls):
    y = graph_data.y.double()
    y[::7] = torch.nan  # as in a table with empty cells
    blank = relabelled(graph_data, torch.where(y.isnan(), -1, y).long())
    assert same_model(cls(**SMALL).fit(relabelled(graph_data, y)), cls(**SMALL).fit(blank), graph_data)


@methods
def test_errors_without_labels(graph_data, cls):
    with pytest.raises(InputError, match=f"{cls.name} learns from labels, .* has none; set data.y or give y="):
        cls(**SMALL).fit(relabelled(graph_data, None))
    split = random_split(graph_data.y)
    for part in (split.train, split.val):
        y = graph_data.y.clone()
        y[part] = -1
        with pytest.raises(InputError, match="no labelled training or no labelled validation nodes; give another"):
            cls(**SMALL).fit(relabelled(graph_data, y), split=split)
    few = relabelled(graph_data, torch.where(torch.arange(150) < 4, graph_data.y, -1))
    with pytest.raises(InputError, match="4 labelled nodes at ratios"):
        cls(**SMALL).fit(few)


@methods
@pytest.mark.parametrize("p", [-0.1, 1.0])
def test_invalid_dropout_is_rejected(cls, p):
    with pytest.raises(InputError, match=f"dropout={p}: must be at least 0 and below 1"):
        cls(dropout=p)
    with pytest.raises(InputError, match="hidden=0: must be at least 1"):
        cls(hidden=0)


@methods
def test_dropout_of_features_applies_to_their_entries(graph_data, cls):
    x = graph_data.x.to_dense()
    weight = torch.randn(40, 5)
    model = cls(dropout=0.4, seed=6)
    dense = model.dropped_product(x, weight, 3)
    torch.testing.assert_close(dense, dropout(x, 0.4, 6, Stream.DROPOUT, 3, 0) @ weight)
    sparse = SparseMatrix.from_torch(x.to_sparse())
    thinned = SparseMatrix(sparse.rowptr, sparse.col, dropout(sparse.value, 0.4, 6, Stream.DROPOUT, 3, 0), sparse.shape)
    torch.testing.assert_close(model.dropped_product(sparse, weight, 3), thinned @ weight)
    assert thinned.value.count_nonzero().item() == pytest.approx(0.6 * sparse.value.numel(), rel=0.1)
    for features in (x, sparse):
        torch.testing.assert_close(model.dropped_product(features, weight, None), x @ weight)
    assert not torch.equal(model.dropped(x, 3, 0), model.dropped(x, 3, 1))


@methods
def test_dropout_is_off_in_evaluation(graph_data, cls):
    model = cls(**SMALL).fit(graph_data)
    graph = Graph.from_data(check(graph_data))
    assert torch.equal(model.embed(graph_data), model.embed(graph_data))
    with torch.no_grad():
        assert not torch.allclose(model.logits(model.network_, graph, 0), model.embed(graph_data))
        none = {"dropout": 0.0} | ({"attention_dropout": 0.0} if cls.name == "gat" else {})
        torch.testing.assert_close(
            model.set_params(**none).logits(model.network_, graph, 0), model.embed(graph_data), rtol=0, atol=0
        )


@methods
def test_relabelling_nodes_permutes_the_result_of_training(graph_data, cls):
    order = torch.randperm(150, generator=torch.Generator().manual_seed(0))
    number = torch.argsort(order)
    moved = graph_data.clone()
    moved.x, moved.y = graph_data.x.to_dense()[order], graph_data.y[order]
    moved.edge_index = number[graph_data.edge_index]
    split = random_split(graph_data.y)
    moved_split = Split(*(number[part].sort().values for part in (split.train, split.val, split.test)))
    none = {**SMALL, "dropout": 0.0} | ({"attention_dropout": 0.0} if cls.name == "gat" else {})
    a, b = cls(**none).fit(graph_data, split=split), cls(**none).fit(moved, split=moved_split)
    torch.testing.assert_close(b.embed(moved), a.embed(graph_data)[order], rtol=1e-3, atol=1e-4)


@methods
def test_two_classes_are_not_reported_as_a_collapse(cls, caplog):
    """Logits of two separable classes have rank 2 at most, which is not a failure."""
    data = block_model(120, num_classes=2, num_features=40, topic_words=10, topic_share=0.9, homophily=0.95, seed=1)
    split = random_split(data.y, (0.4, 0.2))
    with caplog.at_level(logging.WARNING, logger="epagcl"):
        model = cls(**{**SMALL, "epochs": 60, "lr": 0.05}).fit(data, split=split)
    assert (model.predict(data) == data.y)[split.test].double().mean() > 0.75
    assert "collapsed" not in caplog.text


@methods
def test_the_validation_loss_chooses_the_epoch(graph_data, cls):
    split = random_split(graph_data.y)
    model = cls(**{**SMALL, "epochs": 40, "lr": 0.1}).fit(graph_data, split=split)
    best = min(row["validation_loss"] for row in model.history_)
    loss = F.cross_entropy(model.embed(graph_data)[split.val], graph_data.y[split.val])
    assert loss.item() == pytest.approx(best, rel=1e-5)


@methods
def test_predict_before_fit_raises(graph_data, cls):
    with pytest.raises(InputError, match=r"is not trained; call fit\(data\) first"):
        cls(**SMALL).predict(graph_data)


@methods
def test_a_split_may_be_plain_node_numbers_or_masks(graph_data, cls):
    split = random_split(graph_data.y, seed=3)
    model = cls(**SMALL).fit(graph_data, split=split)
    parts = split.train, split.val, split.test
    masks = [torch.zeros(150, dtype=torch.bool).index_fill(0, part, True) for part in parts]
    for form in (parts, parts[:2], Split(*masks), [part.numpy() for part in parts], masks[:2]):
        assert same_model(model, cls(**SMALL).fit(graph_data, split=form), graph_data)
    with pytest.raises(InputError, match="split: a Tensor is not a split"):
        cls(**SMALL).fit(graph_data, split=split.train)
    with pytest.raises(InputError, match=r"split.val: node 150 is out of range; nodes are 0 to 149"):
        cls(**SMALL).fit(graph_data, split=(split.train, [150]))


@methods
def test_labels_may_be_given_separately_from_the_graph(graph_data, cls):
    model = cls(**SMALL).fit(graph_data)
    bare = relabelled(graph_data, None)
    names = [None if c < 0 else "abc"[c] for c in graph_data.y.tolist()]
    for y in (graph_data.y, graph_data.y.numpy(), graph_data.y.tolist(), names):
        assert same_model(model, cls(**SMALL).fit(bare, y), bare)
    assert "y" not in bare or bare.y is None
    # The labels of the graph take precedence.
    assert same_model(model, cls(**SMALL).fit(graph_data, (graph_data.y + 1) % 3), graph_data)
    z = cls(**SMALL).fit_transform(bare, graph_data.y)
    assert np.array_equal(z, model.transform(graph_data))
    with pytest.raises(InputError, match="y: 20 labels for 150 nodes; give one per node"):
        cls(**SMALL).fit(bare, graph_data.y[:20])


class Stop(Exception):
    """Simulates a kill between two epochs."""


@methods
def test_resume_with_another_split_or_other_labels_is_rejected(graph_data, cls, tmp_path, monkeypatch):
    monkeypatch.setattr("epagcl.training.checkpoint.CHECKPOINT_SECONDS", 0)
    split, checkpoint = random_split(graph_data.y), tmp_path / "c.safetensors"

    def stop(row):
        if row["epoch"] == 3:
            raise Stop

    with pytest.raises(Stop):
        cls(**SMALL).fit(graph_data, split=split, checkpoint=checkpoint, callback=stop)
    changed = relabelled(graph_data, (graph_data.y + 1) % 3)
    for data, part in ((graph_data, random_split(graph_data.y, seed=1)), (changed, split)):
        with pytest.raises(InputError, match="made with"):
            cls(**SMALL).fit(data, split=part, checkpoint=checkpoint, resume=True)
