import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from epagcl import EPAGCL
from epagcl.core.errors import InputError
from epagcl.core.sparse import SparseMatrix
from epagcl.training.checkpoint import tensor_digest
from tests.training.common import BGRL, DGI, GCN, LEARNS, SMALL, STOPS, Squares, Stop, same_weights, stop_at


def test_resume_is_bit_identical(tmp_path, small_graph, monkeypatch):
    monkeypatch.setattr("epagcl.training.checkpoint.CHECKPOINT_SECONDS", 0)
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
    assert list(tmp_path.iterdir()) == [checkpoint]  # no temporary file is left


@pytest.mark.usefixtures("half_on_small_graphs")
def test_resume_restores_the_scale_of_the_loss(tmp_path, small_graph, monkeypatch, use_triton, device):
    settings = {**SMALL, "device": str(device)}
    monkeypatch.setattr("epagcl.training.checkpoint.CHECKPOINT_SECONDS", 0)
    monkeypatch.setattr(Squares, "overflow", 2)  # from this epoch on, gradients overflow until the scale is small
    use_triton(True)
    checkpoint = tmp_path / "checkpoint.safetensors"
    whole = Squares(epochs=9, **settings).fit(small_graph)
    with pytest.raises(Stop):
        Squares(epochs=9, **settings).fit(small_graph, checkpoint=checkpoint, callback=stop_at(5))
    assert load_file(checkpoint)["scaler.scale"] < 4096
    copy = tmp_path / "copy.safetensors"
    shutil.copy(checkpoint, copy)
    resumed = Squares(epochs=9, **settings).fit(small_graph, checkpoint=checkpoint, resume=True)
    assert same_weights(resumed, whole)
    use_triton(False)  # as on a CPU, where activations are float32
    continued = Squares(epochs=9, **settings).fit(small_graph, checkpoint=copy, resume=True)
    assert len(continued.history_) == 9
    if device.type == "cpu":  # a GPU runs the remaining epochs without a look at the time
        assert "scaler.scale" not in load_file(copy)


def test_resume_without_a_checkpoint_starts_from_the_beginning(tmp_path, small_graph):
    model = EPAGCL(epochs=2, **SMALL).fit(small_graph, checkpoint=tmp_path / "none", resume=True)
    assert len(model.history_) == 2


def test_resume_with_other_settings_is_rejected(tmp_path, small_graph, monkeypatch):
    monkeypatch.setattr("epagcl.training.checkpoint.CHECKPOINT_SECONDS", 0)
    checkpoint = tmp_path / "c.safetensors"
    with pytest.raises(Stop):
        EPAGCL(epochs=5, **SMALL).fit(small_graph, checkpoint=checkpoint, callback=stop_at(2))
    with pytest.raises(InputError, match=r"made with p_add=0.05, now p_add=0.2"):
        EPAGCL(epochs=5, p_add=0.2, **SMALL).fit(small_graph, checkpoint=checkpoint, resume=True)


@pytest.mark.parametrize(
    ("earlier", "other", "message"),
    [
        # a checkpoint from before the setting existed
        ({"encoder": None}, {"encoder": "residual"}, "made with encoder=gcn, now encoder=residual"),
        # a checkpoint with the former value of a setting
        ({"drop": "eq7", "add": "eq7"}, {"drop": "text"}, "made with drop=eq9, now drop=text"),
    ],
)
def test_a_checkpoint_of_an_earlier_version_resumes(tmp_path, small_graph, monkeypatch, earlier, other, message):
    monkeypatch.setattr("epagcl.training.checkpoint.CHECKPOINT_SECONDS", 0)
    checkpoint = tmp_path / "c.safetensors"
    identity = EPAGCL.identity

    def earlier_identity(self):
        settings = identity(self) | earlier
        return {name: value for name, value in settings.items() if name not in earlier or value is not None}

    with monkeypatch.context() as context:
        context.setattr(EPAGCL, "identity", earlier_identity)
        with pytest.raises(Stop):
            EPAGCL(epochs=5, **SMALL).fit(small_graph, checkpoint=checkpoint, callback=stop_at(2))
    resumed = EPAGCL(epochs=5, **SMALL).fit(small_graph, checkpoint=checkpoint, resume=True)
    assert same_weights(resumed, EPAGCL(epochs=5, **SMALL).fit(small_graph))
    with pytest.raises(InputError, match=message):
        EPAGCL(epochs=5, **other, **SMALL).fit(small_graph, checkpoint=checkpoint, resume=True)


def test_resume_on_another_graph_or_from_an_incomplete_checkpoint_is_rejected(tmp_path, small_graph, monkeypatch):
    monkeypatch.setattr("epagcl.training.checkpoint.CHECKPOINT_SECONDS", 0)
    checkpoint = tmp_path / "c.safetensors"
    with pytest.raises(Stop):
        EPAGCL(epochs=5, **SMALL).fit(small_graph, checkpoint=checkpoint, callback=stop_at(2))
    other = small_graph.clone()
    other.edge_index = other.edge_index[:, (other.edge_index != 5).all(0)]  # node 5 has no edges
    with pytest.raises(InputError, match="made with graph="):
        EPAGCL(epochs=5, **SMALL).fit(other, checkpoint=checkpoint, resume=True)
    checkpoint.write_bytes(checkpoint.read_bytes()[:100])
    with pytest.raises(InputError, match="not a complete checkpoint"):
        EPAGCL(epochs=5, **SMALL).fit(small_graph, checkpoint=checkpoint, resume=True)


def test_fingerprint_of_a_graph_does_not_depend_on_the_layout_of_its_features(small_graph):
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


@pytest.mark.long
def test_a_killed_process_resumes_to_the_same_embeddings(tmp_path):
    command = [sys.executable, "-m", "epagcl", "train", "demo", "--method", "epagcl", "--epochs", "14", "--quiet"]
    command += [
        "--hidden",
        "64",
        "--dim",
        "32",
        "--projection",
        "32",
        "--device",
        "cpu",
        "--runs",
        "1",
        "--map",
        "none",
    ]
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


@pytest.mark.parametrize(("cls", "settings"), [(DGI, STOPS), (GCN, LEARNS)], ids=["loss", "validation"])
def test_resume_with_patience_is_bit_identical(tmp_path, easy_graph, monkeypatch, cls, settings):
    monkeypatch.setattr("epagcl.training.checkpoint.CHECKPOINT_SECONDS", 0)
    whole = cls(**settings).fit(easy_graph)
    epochs = len(whole.history_)
    for stop in (2, epochs - 5, epochs - 2, epochs):  # before the best epoch, at it, while waiting, after the stop
        checkpoint = tmp_path / f"{stop}.safetensors"
        with pytest.raises(Stop):
            cls(**settings).fit(easy_graph, checkpoint=checkpoint, callback=stop_at(stop))
        resumed = cls(**settings).fit(easy_graph, checkpoint=checkpoint, resume=True)
        assert same_weights(resumed, whole)
        for key in whole.history_[0].keys() - {"seconds"}:
            assert [row[key] for row in resumed.history_] == [row[key] for row in whole.history_]


def test_a_schedule_and_a_moving_target_resume_bit_identically(tmp_path, easy_graph, monkeypatch):
    monkeypatch.setattr("epagcl.training.checkpoint.CHECKPOINT_SECONDS", 0)
    settings = {"hidden": 8, "dim": 8, "predictor": 8, "epochs": 20, "device": "cpu"}
    checkpoint = tmp_path / "c.safetensors"
    whole = BGRL(**settings).fit(easy_graph)
    with pytest.raises(Stop):
        BGRL(**settings).fit(easy_graph, checkpoint=checkpoint, callback=stop_at(7))
    assert same_weights(BGRL(**settings).fit(easy_graph, checkpoint=checkpoint, resume=True), whole)


def rewrite(checkpoint, settings=None, tensors=None, **entries):
    """Write a checkpoint again with other content and a valid checksum."""
    with safe_open(checkpoint, framework="pt") as file:
        metadata = {**file.metadata(), **entries}
    if settings is not None:
        metadata["settings"] = json.dumps(settings(json.loads(metadata["settings"])))
    state = load_file(checkpoint)
    state = state if tensors is None else tensors(state)
    del metadata["sha256"]
    metadata["sha256"] = tensor_digest(state, json.dumps(metadata, sort_keys=True))
    save_file(state, checkpoint, metadata)


def rename_settings(checkpoint, names):
    """Rename settings in the metadata of a checkpoint."""
    rewrite(checkpoint, lambda settings: {names.get(key, key): value for key, value in settings.items()})


def test_a_checkpoint_with_the_old_name_of_a_setting_resumes(tmp_path, small_graph, monkeypatch):
    monkeypatch.setattr("epagcl.training.checkpoint.CHECKPOINT_SECONDS", 0)
    settings = {**SMALL, "epochs": 5, "feature_scaling": "row-sum"}
    checkpoint = tmp_path / "c.safetensors"
    whole = EPAGCL(**settings).fit(small_graph)
    with pytest.raises(Stop):
        EPAGCL(**settings).fit(small_graph, checkpoint=checkpoint, callback=stop_at(2))
    rename_settings(checkpoint, {"feature_scaling": "features"})
    assert same_weights(EPAGCL(**settings).fit(small_graph, checkpoint=checkpoint, resume=True), whole)
    with pytest.raises(InputError, match=r"made with feature_scaling=row-sum, now feature_scaling=given"):
        EPAGCL(**{**settings, "feature_scaling": "given"}).fit(small_graph, checkpoint=checkpoint, resume=True)


def test_the_interval_comes_from_the_environment(tmp_path, small_graph, monkeypatch):
    checkpoint = tmp_path / "c.safetensors"
    monkeypatch.setenv("EPAGCL_CHECKPOINT_SECONDS", "3600")
    EPAGCL(epochs=2, **SMALL).fit(small_graph, checkpoint=checkpoint)
    assert not checkpoint.exists()
    monkeypatch.setenv("EPAGCL_CHECKPOINT_SECONDS", "0")
    EPAGCL(epochs=2, **SMALL).fit(small_graph, checkpoint=checkpoint)
    assert checkpoint.exists()
    monkeypatch.setenv("EPAGCL_CHECKPOINT_SECONDS", "soon")
    with pytest.raises(InputError, match="EPAGCL_CHECKPOINT_SECONDS='soon': give a number of seconds"):
        EPAGCL(epochs=2, **SMALL).fit(small_graph, checkpoint=checkpoint)


@pytest.fixture
def interrupted(tmp_path, small_graph, monkeypatch):
    """Return the checkpoint of an interrupted training, and a function that resumes it."""
    monkeypatch.setattr("epagcl.training.checkpoint.CHECKPOINT_SECONDS", 0)
    checkpoint = tmp_path / "c.safetensors"
    with pytest.raises(Stop):
        EPAGCL(epochs=5, **SMALL).fit(small_graph, checkpoint=checkpoint, callback=stop_at(2))
    return checkpoint, lambda: EPAGCL(epochs=5, **SMALL).fit(small_graph, checkpoint=checkpoint, resume=True)


def test_every_changed_byte_is_noticed(interrupted):
    checkpoint, resume = interrupted
    whole = checkpoint.read_bytes()
    for place in np.random.default_rng(0).integers(0, len(whole), 40):
        damaged = bytearray(whole)
        damaged[place] ^= 0x11
        checkpoint.write_bytes(damaged)
        with pytest.raises(InputError, match=r"c\.safetensors: "):
            resume()


def test_a_checkpoint_with_changed_features_is_rejected(interrupted, small_graph):
    checkpoint, _ = interrupted
    other = small_graph.clone()
    other.x = small_graph.x.to_dense()
    other.x[7] *= -1  # sums of absolute values stay the same
    with pytest.raises(InputError, match="made with graph=60-"):
        EPAGCL(epochs=5, **SMALL).fit(other, checkpoint=checkpoint, resume=True)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda state: {**state, "optimiser.0.exp_avg": torch.zeros(1)}, r"optimiser.0.exp_avg is \(1,\)"),
        (lambda state: {**state, "optimiser.0.step": torch.zeros(3)}, r"optimiser.0.step is \(3,\)"),
        (lambda state: {**state, "optimiser.99.step": torch.zeros(())}, "list index out of range"),
        (lambda state: {**state, "other": torch.zeros(1)}, "other does not belong"),
        (lambda state: {k: v for k, v in state.items() if k != "optimiser.1.step"}, "optimiser.1.step does not belong"),
        (lambda state: {k: v.half() if "network" in k else v for k, v in state.items()}, ".*torch.float16"),
    ],
)
def test_tensors_are_verified_before_they_are_used(interrupted, change, reason):
    checkpoint, resume = interrupted
    rewrite(checkpoint, tensors=change)
    with pytest.raises(InputError, match=f"damaged \\({reason}.*; remove it, or start over$"):
        resume()


@pytest.mark.parametrize("history", ["[]x", "[1, 2]", '[{"epoch": 2}]', '[{"epoch": 1}, {"epoch": 2}]'])
def test_the_history_is_verified(interrupted, history):
    checkpoint, resume = interrupted
    rewrite(checkpoint, history=history)
    with pytest.raises(InputError, match=r"c\.safetensors: damaged "):
        resume()


def test_checkpoints_of_earlier_versions_are_refused_in_one_line(interrupted):
    checkpoint, resume = interrupted
    rewrite(checkpoint, lambda settings: {**settings, "graph": "60-100-40-00c4b9d3a2f0a1b7-1.245e+04"})
    with pytest.raises(InputError, match="of an earlier version, which does not identify its graph; start over"):
        resume()
    with safe_open(checkpoint, framework="pt") as file:
        metadata = {key: value for key, value in file.metadata().items() if key != "sha256"}
    save_file(load_file(checkpoint), checkpoint, metadata)
    with pytest.raises(InputError, match="of an earlier version, without a checksum; start over"):
        resume()
