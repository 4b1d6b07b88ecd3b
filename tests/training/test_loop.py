import csv
import logging
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

import epagcl
from epagcl import EPAGCL, training
from epagcl.core.errors import InputError, TrainingError
from epagcl.core.sparse import SparseMatrix
from epagcl.data import block_model
from epagcl.training.history import HEALTH, write_history
from tests.conftest import Largest

SMALL = {"hidden": 32, "dim": 16, "projection": 16, "device": "cpu"}


class Stop(Exception):
    """Stands for a kill between two epochs."""


def stop_at(epoch):
    def callback(row):
        if row["epoch"] == epoch:
            raise Stop

    return callback


def test_resume_is_bit_identical(tmp_path, small_graph, monkeypatch):
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0)
    checkpoint = tmp_path / "checkpoint.safetensors"
    whole = EPAGCL(epochs=9, **SMALL).fit(small_graph)
    with pytest.raises(Stop):
        EPAGCL(epochs=9, **SMALL).fit(small_graph, checkpoint=checkpoint, callback=stop_at(4))
    resumed = EPAGCL(epochs=9, **SMALL).fit(small_graph, checkpoint=checkpoint, resume=True)
    assert torch.equal(resumed.embed(small_graph), whole.embed(small_graph))
    assert [row["loss"] for row in resumed.history_] == [row["loss"] for row in whole.history_]
    assert [row["epoch"] for row in resumed.history_] == list(range(1, 10))
    seconds = [row["seconds"] for row in resumed.history_]
    assert seconds == sorted(seconds)
    assert list(tmp_path.iterdir()) == [checkpoint]  # nothing half-written beside it


def test_resume_without_checkpoint_starts_anew(tmp_path, small_graph):
    model = EPAGCL(epochs=2, **SMALL).fit(small_graph, checkpoint=tmp_path / "none", resume=True)
    assert len(model.history_) == 2


def test_resume_with_other_settings_is_refused(tmp_path, small_graph, monkeypatch):
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0)
    checkpoint = tmp_path / "c.safetensors"
    with pytest.raises(Stop):
        EPAGCL(epochs=5, **SMALL).fit(small_graph, checkpoint=checkpoint, callback=stop_at(2))
    with pytest.raises(InputError, match=r"was made with p_add=0.05, now p_add=0.2"):
        EPAGCL(epochs=5, p_add=0.2, **SMALL).fit(small_graph, checkpoint=checkpoint, resume=True)


def test_resume_on_another_graph_or_from_half_a_checkpoint_is_refused(tmp_path, small_graph, monkeypatch):
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0)
    checkpoint = tmp_path / "c.safetensors"
    with pytest.raises(Stop):
        EPAGCL(epochs=5, **SMALL).fit(small_graph, checkpoint=checkpoint, callback=stop_at(2))
    other = small_graph.clone()
    other.edge_index = other.edge_index[:, (other.edge_index != 5).all(0)]  # node 5 loses its edges
    with pytest.raises(InputError, match="was made with graph="):
        EPAGCL(epochs=5, **SMALL).fit(other, checkpoint=checkpoint, resume=True)
    checkpoint.write_bytes(checkpoint.read_bytes()[:100])
    with pytest.raises(InputError, match="not a whole checkpoint"):
        EPAGCL(epochs=5, **SMALL).fit(small_graph, checkpoint=checkpoint, resume=True)


def test_the_fingerprint_of_a_graph_does_not_depend_on_how_its_features_lie(small_graph):
    from epagcl.data import check
    from epagcl.data.graph import Graph

    standardised = small_graph.clone()
    x = small_graph.x.to_dense()
    standardised.x = (x - x.mean(0)) / x.std(0).clamp(min=1e-3)
    graphs = [Graph.from_data(check(data)) for data in (small_graph, standardised)]
    for graph in graphs:
        dense = graph.x if isinstance(graph.x, torch.Tensor) else graph.x.to_dense()
        sparse = SparseMatrix.from_torch(dense.to_sparse_csr())
        for x in (dense, sparse):
            assert Graph(x=x, pairs=graph.pairs, num_nodes=60).fingerprint == graph.fingerprint
        assert Graph(x=dense.flip(0), pairs=graph.pairs, num_nodes=60).fingerprint != graph.fingerprint
    assert graphs[0].fingerprint != graphs[1].fingerprint


def test_a_killed_process_resumes_to_the_same_embeddings(tmp_path):
    command = [sys.executable, "-m", "epagcl", "train", "demo", "--epochs", "14", "--hidden", "64", "--device", "cpu"]
    command += ["--dim", "32", "--projection", "32"]
    command += ["--runs", "1", "--quiet"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([*command, "--out", str(tmp_path / "whole")], check=True, env=env)
    env["EPAGCL_CHECKPOINT_SECONDS"] = "0"
    process = subprocess.Popen([*command, "--out", str(tmp_path / "killed")], env=env)
    checkpoint = tmp_path / "killed" / "checkpoint.safetensors"
    deadline = time.monotonic() + 60
    while not checkpoint.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert checkpoint.exists()
    assert not (tmp_path / "killed" / "embeddings.npy").exists()
    subprocess.run([*command, "--out", str(tmp_path / "killed"), "--resume"], check=True, env=env)
    whole, resumed = (np.load(tmp_path / name / "embeddings.npy") for name in ("whole", "killed"))
    assert np.array_equal(whole, resumed)
    assert not checkpoint.exists()


def test_a_loss_that_is_no_number_stops_with_advice(small_graph, monkeypatch):
    monkeypatch.setattr(EPAGCL, "loss", lambda self, network, *_: network.head[0].weight.sum() * float("nan"))
    with pytest.raises(TrainingError, match=r"the loss is nan at epoch 1; lower lr \(now 0.001\)"):
        EPAGCL(epochs=3, **SMALL).fit(small_graph)


def test_an_embedding_that_is_no_number_stops_with_advice(small_graph, monkeypatch):
    monkeypatch.setattr(EPAGCL, "represent", lambda self, network, graph: torch.full((60, 16), float("inf")))
    with pytest.raises(TrainingError, match="the embedding is not finite at epoch 1; lower lr"):
        EPAGCL(epochs=1, **SMALL).fit(small_graph)


def test_a_collapsed_embedding_is_said(small_graph, monkeypatch, caplog):
    monkeypatch.setattr(EPAGCL, "represent", lambda self, network, graph: torch.ones(60, 16))
    with caplog.at_level(logging.WARNING, logger="epagcl"):
        EPAGCL(epochs=60, **SMALL).fit(small_graph)
    words = "the embedding has collapsed (effective rank 1.00): lower lr"
    assert [words in message for message in caplog.messages] == [True, True]
    assert caplog.messages[0].startswith("seed 0, epoch 25")  # when it is first seen, not every time it is measured
    assert caplog.messages[1].startswith("seed 0, epoch 60")  # and at the end


def test_a_healthy_run_says_nothing(small_graph, caplog):
    EPAGCL(epochs=1, **SMALL).fit(small_graph)
    assert caplog.text == ""


def test_adam_is_torchs(small_graph):
    """The loop against five lines written out."""
    from epagcl.data import check
    from epagcl.data.graph import Graph

    method = EPAGCL(epochs=3, lr=0.01, weight_decay=0.1, **SMALL)
    model = method.fit(small_graph)
    graph = Graph.from_data(check(small_graph))
    network, prepared = method._initial_network(), method.prepare(graph)
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01, weight_decay=0.1, fused=True)
    for epoch in range(3):
        optimiser.zero_grad()
        method.loss(network, graph, prepared, epoch).backward()
        optimiser.step()
    for a, b in zip(network.parameters(), model.network_.parameters(), strict=True):
        assert torch.equal(a, b)


def test_untrained(small_graph):
    model = EPAGCL(epochs=0, **SMALL).fit(small_graph)
    assert model.history_ == []


def test_history_file(tmp_path, small_graph):
    model = EPAGCL(epochs=3, **SMALL).fit(small_graph)
    write_history(model.history_, tmp_path / "history.csv")
    with open(tmp_path / "history.csv") as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    assert float(rows[2]["loss"]) == model.history_[2]["loss"]
    assert rows[0]["effective_rank"] == ""
    assert float(rows[2]["effective_rank"]) > 1


def test_memory_of_training_is_linear(monkeypatch):
    """No tensor of a training step is larger than its tiles and its parameters-by-nodes arrays."""
    n = 3000
    data = block_model(n, seed=0)
    with Largest() as largest:
        EPAGCL(epochs=1, **SMALL).fit(data)
    assert largest.bytes < 4 * n * n / 8


DGI, BGRL, GCN = (epagcl.method(name) for name in ("dgi", "bgrl", "gcn"))
STOPS = {"dim": 8, "epochs": 300, "lr": 0.01, "patience": 4, "device": "cpu"}
LEARNS = {"hidden": 8, "epochs": 300, "lr": 0.05, "patience": 4, "device": "cpu"}


@pytest.fixture
def easy_graph():
    """Classes that can be learned, so that the lowest validation loss is not the first."""
    return block_model(150, num_classes=3, num_features=40, topic_words=10, topic_share=0.7, seed=1)


def lowest(history, key="loss"):
    """Epoch of the lowest value, the earliest of equals."""
    values = [row[key] for row in history]
    return values.index(min(values)) + 1


def same_weights(a, b):
    a, b = a.network_.state_dict(), b.network_.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def test_patience_stops_and_takes_the_weights_that_gave_the_lowest_loss(easy_graph):
    model = DGI(**STOPS).fit(easy_graph)
    best = lowest(model.history_)
    assert 4 < len(model.history_) == best + 4 < 300
    # The loss of epoch k is that of the weights after k − 1 epochs.
    assert same_weights(model, DGI(**{**STOPS, "epochs": best - 1, "patience": 0}).fit(easy_graph))
    endless = DGI(**{**STOPS, "epochs": len(model.history_), "patience": 0}).fit(easy_graph)
    assert [row["loss"] for row in endless.history_] == [row["loss"] for row in model.history_]
    assert not same_weights(model, endless)


def test_validation_stops_and_takes_the_weights_with_the_lowest_validation_loss(easy_graph):
    model = GCN(**LEARNS).fit(easy_graph)
    best = lowest(model.history_, "validation_loss")
    assert 4 < len(model.history_) == best + 4 < 300
    # The validation loss of epoch k is that of the weights after k epochs.
    assert same_weights(model, GCN(**{**LEARNS, "epochs": best, "patience": 0}).fit(easy_graph))
    assert best != lowest(model.history_)  # and it is not the loss that decides


def test_the_last_epoch_comes_before_patience_runs_out(easy_graph):
    for cls, settings, key, late in ((DGI, STOPS, "loss", 1), (GCN, LEARNS, "validation_loss", 0)):
        model = cls(**{**settings, "epochs": 9, "patience": 100}).fit(easy_graph)
        assert len(model.history_) == 9
        best = lowest(model.history_, key)
        assert same_weights(model, cls(**{**settings, "epochs": best - late, "patience": 0}).fit(easy_graph))


@pytest.mark.parametrize(("cls", "settings"), [(DGI, STOPS), (GCN, LEARNS)], ids=["loss", "validation"])
def test_resume_with_patience_is_bit_identical(tmp_path, easy_graph, monkeypatch, cls, settings):
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0)
    whole = cls(**settings).fit(easy_graph)
    epochs = len(whole.history_)
    for stop in (2, epochs - 5, epochs - 2, epochs):  # before the best, at it, while waiting, when all is done
        checkpoint = tmp_path / f"{stop}.safetensors"
        with pytest.raises(Stop):
            cls(**settings).fit(easy_graph, checkpoint=checkpoint, callback=stop_at(stop))
        resumed = cls(**settings).fit(easy_graph, checkpoint=checkpoint, resume=True)
        assert same_weights(resumed, whole)
        for key in whole.history_[0].keys() - {"seconds"}:
            assert [row[key] for row in resumed.history_] == [row[key] for row in whole.history_]


def test_a_schedule_and_a_moving_target_resume_bit_identically(tmp_path, easy_graph, monkeypatch):
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0)
    settings = {"hidden": 8, "dim": 8, "predictor": 8, "epochs": 20, "device": "cpu"}
    checkpoint = tmp_path / "c.safetensors"
    whole = BGRL(**settings).fit(easy_graph)
    with pytest.raises(Stop):
        BGRL(**settings).fit(easy_graph, checkpoint=checkpoint, callback=stop_at(7))
    assert same_weights(BGRL(**settings).fit(easy_graph, checkpoint=checkpoint, resume=True), whole)


def test_the_history_of_a_method_that_validates(tmp_path, easy_graph):
    model = GCN(**{**LEARNS, "epochs": 3}).fit(easy_graph)
    assert list(model.history_[0]) == ["epoch", "loss", "seconds", *HEALTH, "validation_loss"]
    write_history(model.history_, tmp_path / "history.csv")
    with open(tmp_path / "history.csv") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["validation_loss"]) for row in rows] == [row["validation_loss"] for row in model.history_]
    assert all(0 < float(row["validation_loss"]) < 5 for row in rows)


def test_adamw_where_a_method_asks_for_it(easy_graph):
    bgrl, dgi = BGRL(hidden=8, dim=8, predictor=8, weight_decay=0.1), DGI(dim=8, weight_decay=0.1)
    for method, kind in ((bgrl, torch.optim.AdamW), (dgi, torch.optim.Adam)):
        optimiser = training.adam(method, method.build(40), torch.device("cpu"))
        assert type(optimiser) is kind
        assert [group["weight_decay"] for group in optimiser.param_groups] == [0.1]
        assert [group["initial_lr"] for group in optimiser.param_groups] == [method.lr]


def test_decoupled_decay_shrinks_weights_whatever_their_gradient():
    method = BGRL(hidden=8, dim=8, predictor=8, weight_decay=0.1, lr=0.5)
    network = method.build(40)
    optimiser = training.adam(method, network, torch.device("cpu"))
    trained = [p for p in network.parameters() if p.requires_grad]
    before = [p.detach().clone() for p in trained]
    for p in trained:
        p.grad = torch.zeros_like(p)
    optimiser.step()
    for p, old in zip(trained, before, strict=True):
        torch.testing.assert_close(p.detach(), old * (1 - 0.5 * 0.1))


def test_negative_patience_is_refused():
    with pytest.raises(InputError, match="patience=-1"):
        EPAGCL(patience=-1)


def looked(model, data, every):
    """A trained model, and what was seen on the way."""
    seen = {}
    model.fit(data, look=(every, lambda epoch, z: seen.update({epoch: z})))
    return model, seen


@pytest.mark.parametrize("epochs", [9, 10, 3])
def test_looks_see_what_a_shorter_training_gives_and_change_nothing(small_graph, epochs):
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
def test_looks_before_patience_runs_out(easy_graph, cls, settings):
    plain = cls(**settings).fit(easy_graph)
    epochs = len(plain.history_)
    for every in (7, epochs):  # the last look is at the last epoch too
        model, seen = looked(cls(**settings), easy_graph, every)
        assert list(seen) == list(range(every, epochs + 1, every))
        assert same_weights(model, plain)
    # The weights of the epoch itself, not those that training ends with.
    assert not torch.equal(seen[epochs], model.embed(easy_graph))
    if not cls.has_validation_loss:  # where it does, the best are taken even so
        assert torch.equal(seen[epochs], cls(**{**settings, "epochs": epochs, "patience": 0}).fit_embed(easy_graph))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("capture", ["on", "off"])
def test_blocks_of_epochs_on_a_gpu_end_where_there_is_a_look(small_graph, capture):
    settings = {**SMALL, "device": "cuda", "capture": capture}
    model, seen = looked(EPAGCL(epochs=60, **settings), small_graph, every=7)
    assert list(seen) == list(range(7, 61, 7))
    for epoch, z in seen.items():
        assert torch.equal(z.cpu(), EPAGCL(epochs=epoch, **settings).fit_embed(small_graph))
    assert same_weights(model, EPAGCL(epochs=60, **settings).fit(small_graph))
