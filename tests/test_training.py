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

from epagcl import EPAGCL, training
from epagcl.data import block_model
from epagcl.errors import InputError, TrainingError
from epagcl.training import write_history
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
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))  # another order of the same sums
    graphs = [Graph.from_data(check(data)) for data in (small_graph, standardised)]
    for graph in graphs:
        dense = graph.x if isinstance(graph.x, torch.Tensor) else graph.x.to_dense()
        moved = Graph(x=dense[order], pairs=graph.pairs, num_nodes=60)
        assert moved.fingerprint == graph.fingerprint
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
