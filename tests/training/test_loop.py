import logging
import re

import pytest
import torch

from epagcl import EPAGCL
from epagcl.core.errors import InputError, TrainingError
from epagcl.data import block_model
from epagcl.training.loop import adam
from tests.conftest import Largest
from tests.training.common import BGRL, DGI, GCN, LEARNS, SMALL, STOPS, Squares, Stop, same_weights, stop_at


def test_callback_receives_one_row_per_epoch_in_order(device, small_graph, untimed_tiles):
    rows = []
    model = EPAGCL(epochs=30, **{**SMALL, "device": device.type}).fit(small_graph, callback=rows.append)
    assert [row["epoch"] for row in rows] == list(range(1, 31))
    assert rows == model.history_
    seconds = [row["seconds"] for row in rows]
    assert seconds == sorted(seconds)
    assert [row["epoch"] for row in rows if row["effective_rank"] is not None] == [25, 30]


def test_a_loss_that_is_not_finite_stops_with_advice(small_graph, monkeypatch):
    monkeypatch.setattr(EPAGCL, "loss", lambda self, network, *_: network.head[0].weight.sum() * float("nan"))
    with pytest.raises(TrainingError, match=r"the loss is nan at epoch 1; lower lr \(now 0.001\)"):
        EPAGCL(epochs=3, **SMALL).fit(small_graph)


def test_an_embedding_that_is_not_finite_stops_with_advice(small_graph, monkeypatch):
    monkeypatch.setattr(EPAGCL, "represent", lambda self, network, graph: torch.full((60, 16), float("inf")))
    with pytest.raises(TrainingError, match="the embedding is not finite at epoch 1; lower lr"):
        EPAGCL(epochs=1, **SMALL).fit(small_graph)


def test_a_collapsed_embedding_is_reported_when_first_seen_and_at_the_end(small_graph, monkeypatch, caplog):
    monkeypatch.setattr(EPAGCL, "represent", lambda self, network, graph: torch.ones(60, 16))
    with caplog.at_level(logging.WARNING, logger="epagcl"):
        EPAGCL(epochs=60, **SMALL).fit(small_graph)
    warning = "the embedding has collapsed (effective rank 1.00): lower lr"
    assert [warning in message for message in caplog.messages] == [True, True]
    assert caplog.messages[0].startswith("seed 0, epoch 25")  # when first measured, not at every measurement
    assert caplog.messages[1].startswith("seed 0, epoch 60")  # and again at the end


def test_a_healthy_run_logs_nothing(small_graph, caplog):
    EPAGCL(epochs=1, **SMALL).fit(small_graph)
    assert caplog.text == ""


def test_training_equals_an_explicit_loop_with_adam(small_graph):
    """Compares the training loop with an explicit loop of five lines."""
    from epagcl.data import check
    from epagcl.data.graph import Graph

    method = EPAGCL(epochs=3, lr=0.01, weight_decay=0.1, **SMALL)
    model = method.fit(small_graph)
    graph = Graph.from_data(check(small_graph))
    network, prepared = method.initial_network(), method.prepare(graph)
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01, weight_decay=0.1, fused=True)
    for epoch in range(3):
        optimiser.zero_grad()
        method.loss(network, graph, prepared, epoch).backward()
        optimiser.step()
    for a, b in zip(network.parameters(), model.network_.parameters(), strict=True):
        assert torch.equal(a, b)


def test_0_epochs_give_an_empty_history(small_graph):
    model = EPAGCL(epochs=0, **SMALL).fit(small_graph)
    assert model.history_ == []


class Calibrated(EPAGCL):
    """Counts its calibrations in a buffer of the network, and notes the epoch of each."""

    def build(self, num_features):
        self.calls = []
        network = super().build(num_features)
        network.register_buffer("calibrations", torch.zeros(()))
        return network

    def calibrate(self, network, graph):
        assert not torch.is_grad_enabled()
        assert not network.training
        assert graph.num_nodes == 60
        network.calibrations += 1
        self.calls.append("calibrate")

    def represent(self, network, graph):
        self.calls.append("represent")
        return super().represent(network, graph)


@pytest.mark.slow
def test_calibration_precedes_each_measurement_and_look(small_graph):
    model = Calibrated(epochs=60, **SMALL)
    model.fit(small_graph, look=(20, lambda epoch, z: model.calls.append(epoch)))
    look, measurement = ["calibrate", "represent"], ["calibrate", *["represent"] * 3]
    # Looks after epochs 20, 40 and 60, measurements after 25, 50 and 60; one calibration is enough for both at 60.
    assert model.calls == [*look, 20, *measurement, *look, 40, *measurement, *look, 60, *measurement[1:]]
    assert model.network_.calibrations == 5


@pytest.mark.parametrize("epochs", [0, 1, 7])
def test_calibration_ends_the_training(small_graph, epochs):
    model = Calibrated(epochs=epochs, **SMALL).fit(small_graph)
    assert model.calls == ["calibrate", *["represent"] * 3 * (epochs > 0)]
    assert model.network_.calibrations == 1
    assert not model.network_.training


def test_calibration_follows_the_restored_weights(easy_graph):
    class Last(DGI):
        def calibrate(self, network, graph):
            self.weights = {key: value.clone() for key, value in network.state_dict().items()}

    model = Last(**STOPS).fit(easy_graph)
    assert len(model.history_) < STOPS["epochs"]
    assert all(torch.equal(value, model.weights[key]) for key, value in model.network_.state_dict().items())


@pytest.mark.slow
def test_calibration_changes_no_weight_and_is_kept_by_a_checkpoint(tmp_path, small_graph, monkeypatch):
    monkeypatch.setattr("epagcl.training.checkpoint.CHECKPOINT_SECONDS", 0)
    whole = Calibrated(epochs=30, **SMALL).fit(small_graph)
    plain = EPAGCL(epochs=30, **SMALL).fit(small_graph)
    assert all(torch.equal(p, q) for p, q in zip(whole.network_.parameters(), plain.network_.parameters(), strict=True))
    with pytest.raises(Stop):
        Calibrated(epochs=30, **SMALL).fit(small_graph, checkpoint=tmp_path / "c", callback=stop_at(27))
    resumed = Calibrated(epochs=30, **SMALL).fit(small_graph, checkpoint=tmp_path / "c", resume=True)
    assert same_weights(resumed, whole)
    done = Calibrated(epochs=30, **SMALL).fit(small_graph, checkpoint=tmp_path / "c", resume=True)
    assert same_weights(done, whole)


def test_memory_of_training_is_linear(monkeypatch):
    """No tensor of a training step has the size of all pairs of nodes."""
    n = 3000
    data = block_model(n, seed=0)
    with Largest() as largest:
        EPAGCL(epochs=1, **SMALL).fit(data)
    assert largest.bytes < 4 * n * n / 8


def lowest(history, key="loss"):
    """Return the epoch with the lowest value, the earliest of equal ones."""
    values = [row[key] for row in history]
    return values.index(min(values)) + 1


def test_patience_stops_and_restores_the_weights_with_the_lowest_loss(easy_graph):
    model = DGI(**STOPS).fit(easy_graph)
    best = lowest(model.history_)
    assert 4 < len(model.history_) == best + 4 < 300
    # The loss of epoch k belongs to the weights after k − 1 epochs.
    assert same_weights(model, DGI(**{**STOPS, "epochs": best - 1, "patience": 0}).fit(easy_graph))
    endless = DGI(**{**STOPS, "epochs": len(model.history_), "patience": 0}).fit(easy_graph)
    assert [row["loss"] for row in endless.history_] == [row["loss"] for row in model.history_]
    assert not same_weights(model, endless)


def test_patience_stops_and_restores_the_weights_with_the_lowest_validation_loss(easy_graph):
    model = GCN(**LEARNS).fit(easy_graph)
    best = lowest(model.history_, "validation_loss")
    assert 4 < len(model.history_) == best + 4 < 300
    # The validation loss of epoch k belongs to the weights after k epochs.
    assert same_weights(model, GCN(**{**LEARNS, "epochs": best, "patience": 0}).fit(easy_graph))
    assert best != lowest(model.history_)  # the training loss does not decide


def test_best_weights_are_restored_if_the_last_epoch_comes_before_patience_runs_out(easy_graph):
    for cls, settings, key, late in ((DGI, STOPS, "loss", 1), (GCN, LEARNS, "validation_loss", 0)):
        model = cls(**{**settings, "epochs": 9, "patience": 100}).fit(easy_graph)
        assert len(model.history_) == 9
        best = lowest(model.history_, key)
        assert same_weights(model, cls(**{**settings, "epochs": best - late, "patience": 0}).fit(easy_graph))


def test_methods_with_decoupled_decay_use_adamw(easy_graph):
    bgrl, dgi = BGRL(hidden=8, dim=8, predictor=8, weight_decay=0.1), DGI(dim=8, weight_decay=0.1)
    for method, kind in ((bgrl, torch.optim.AdamW), (dgi, torch.optim.Adam)):
        optimiser = adam(method, method.build(40), torch.device("cpu"))
        assert type(optimiser) is kind
        assert [group["weight_decay"] for group in optimiser.param_groups] == [0.1]
        assert [group["initial_lr"] for group in optimiser.param_groups] == [method.lr]


def test_decoupled_decay_shrinks_weights_without_gradient():
    method = BGRL(hidden=8, dim=8, predictor=8, weight_decay=0.1, lr=0.5)
    network = method.build(40)
    optimiser = adam(method, network, torch.device("cpu"))
    trained = [p for p in network.parameters() if p.requires_grad]
    before = [p.detach().clone() for p in trained]
    for p in trained:
        p.grad = torch.zeros_like(p)
    optimiser.step()
    for p, old in zip(trained, before, strict=True):
        torch.testing.assert_close(p.detach(), old * (1 - 0.5 * 0.1))


def test_negative_patience_is_rejected():
    with pytest.raises(InputError, match="patience=-1"):
        EPAGCL(patience=-1)


def looked(model, data, every):
    """Train a model; return it with the embeddings of all looks."""
    seen = {}
    model.fit(data, look=(every, lambda epoch, z: seen.update({epoch: z})))
    return model, seen


@pytest.mark.parametrize("epochs", [9, 10, 3])
def test_a_look_sees_the_result_of_a_shorter_training_and_changes_nothing(small_graph, epochs):
    model, seen = looked(EPAGCL(epochs=epochs, **SMALL), small_graph, every=4)
    assert list(seen) == list(range(4, epochs + 1, 4))
    for epoch, z in seen.items():
        assert not z.requires_grad
        assert torch.equal(z, EPAGCL(epochs=epoch, **SMALL).fit_embed(small_graph))
    plain = EPAGCL(epochs=epochs, **SMALL).fit(small_graph)
    assert same_weights(model, plain)
    for key in ("epoch", "loss", "effective_rank"):
        assert [row[key] for row in model.history_] == [row[key] for row in plain.history_]


@pytest.mark.parametrize(("cls", "settings"), [(DGI, STOPS), (GCN, LEARNS)], ids=["loss", "validation"])
def test_looks_until_patience_runs_out(easy_graph, cls, settings):
    plain = cls(**settings).fit(easy_graph)
    epochs = len(plain.history_)
    for every in (7, epochs):  # the second puts a look at the last epoch
        model, seen = looked(cls(**settings), easy_graph, every)
        assert list(seen) == list(range(every, epochs + 1, every))
        assert same_weights(model, plain)
    # A look sees the weights of its epoch, not the final weights.
    assert not torch.equal(seen[epochs], model.embed(easy_graph))
    if not cls.has_validation_loss:  # with a validation loss, the best weights are restored in any case
        assert torch.equal(seen[epochs], cls(**{**settings, "epochs": epochs, "patience": 0}).fit_embed(easy_graph))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("capture", ["on", "off"])
def test_blocks_of_epochs_on_a_gpu_end_at_a_look(small_graph, capture):
    settings = {**SMALL, "device": "cuda", "capture": capture}
    model, seen = looked(EPAGCL(epochs=60, **settings), small_graph, every=7)
    assert list(seen) == list(range(7, 61, 7))
    for epoch, z in seen.items():
        assert torch.equal(z.cpu(), EPAGCL(epochs=epoch, **settings).fit_embed(small_graph))
    assert same_weights(model, EPAGCL(epochs=60, **settings).fit(small_graph))


@pytest.mark.parametrize("block", [3, 8, 1000])
@pytest.mark.parametrize(("cls", "settings"), [(DGI, STOPS), (GCN, LEARNS)], ids=["loss", "validation"])
def test_blocks_of_several_epochs_stop_early_at_the_same_epoch(easy_graph, monkeypatch, cls, settings, block):
    plain = cls(**settings).fit(easy_graph)
    monkeypatch.setattr("epagcl.training.loop.FIRST_BLOCK", block)
    model, seen = looked(cls(**settings), easy_graph, every=7)
    assert same_weights(model, plain)
    assert list(seen) == list(range(7, len(plain.history_) + 1, 7))
    for key in plain.history_[0].keys() - {"seconds"}:
        assert [row[key] for row in model.history_] == [row[key] for row in plain.history_]


def test_epochs_after_an_early_stop_may_be_anything(easy_graph, monkeypatch):
    """Losses of a block after the epoch at which patience ran out are not read."""
    epochs = len(DGI(**STOPS).fit(easy_graph).history_)
    monkeypatch.setattr("epagcl.training.loop.FIRST_BLOCK", 1000)
    original = DGI.loss

    def loss(self, network, graph, prepared, epoch):
        value = original(self, network, graph, prepared, epoch)
        return value if epoch < epochs else value * float("nan")

    monkeypatch.setattr(DGI, "loss", loss)
    monkeypatch.setattr("epagcl.training.loop.next_measurement", lambda epoch: 1000)
    assert len(DGI(**STOPS).fit(easy_graph).history_) == epochs


def test_a_resumed_training_reports_a_collapse_again(tmp_path, small_graph, monkeypatch, caplog):
    monkeypatch.setattr("epagcl.training.checkpoint.CHECKPOINT_SECONDS", 0)
    monkeypatch.setattr(EPAGCL, "represent", lambda self, network, graph: torch.ones(60, 16))
    settings = {"epochs": 130, **SMALL, "hidden": 4, "dim": 4, "projection": 4}
    with caplog.at_level(logging.WARNING, logger="epagcl"):
        with pytest.raises(Stop):
            EPAGCL(**settings).fit(small_graph, checkpoint=tmp_path / "c", callback=stop_at(30))
        EPAGCL(**settings).fit(small_graph, checkpoint=tmp_path / "c", resume=True)
    assert [message.split(":")[0] for message in caplog.messages] == [
        f"seed 0, epoch {epoch}" for epoch in (25, 50, 130)
    ]


class Broken(Squares):
    """Gradients that are never finite, of a loss that is."""

    half_activations = True

    def loss(self, network, *args):
        weight = network.encoder.layers[0].weight
        if weight.requires_grad:
            weight.register_hook(lambda gradient: gradient * float("nan"))
        return super().loss(network, *args)


@pytest.mark.usefixtures("half_on_small_graphs")
def test_gradients_that_are_never_finite_end_the_training(small_graph, use_triton, device):
    use_triton(True)
    with pytest.raises(TrainingError, match=r"gradients overflow fp16 up to epoch \d+; lower lr .* precision='tf32'"):
        Broken(epochs=40, **{**SMALL, "device": str(device)}).fit(small_graph)


@pytest.mark.usefixtures("half_on_small_graphs")
def test_skipped_steps_are_reported_at_the_end(small_graph, use_triton, device, monkeypatch, caplog):
    use_triton(True)
    monkeypatch.setattr(Squares, "overflow", 2)
    model = Squares(epochs=9, **{**SMALL, "device": str(device)}).fit(small_graph)
    assert len(model.history_) == 9
    (message,) = [record.getMessage() for record in caplog.records if "skipped" in record.getMessage()]
    assert re.fullmatch(r"seed 0: \d steps? skipped because gradients overflowed fp16; .*", message)
