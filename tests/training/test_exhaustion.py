"""Out of memory: one line that says what to lower, with the checkpoint kept."""

import pytest
import torch

from epagcl import DGI, EPAGCL, EPAGCLPlus
from epagcl.core.errors import OutOfMemory, TrainingError
from epagcl.training import checkpoint as checkpoints
from epagcl.training.exhaustion import memory_advice
from tests.training.common import SMALL, same_weights

FULL = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.\nGPU 0 has a total capacity of 1 GiB"),
    MemoryError("Unable to allocate 3 GiB"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:114] data. DefaultCPUAllocator: can't allocate memory: you tried to"),
]


@pytest.mark.parametrize("error", FULL, ids=["cuda", "numpy", "cpu"])
def test_a_full_memory_in_an_epoch_keeps_the_checkpoint_and_can_be_resumed(small_graph, tmp_path, monkeypatch, error):
    monkeypatch.setattr(checkpoints, "CHECKPOINT_SECONDS", 0.0)
    file, loss = tmp_path / "c.safetensors", EPAGCL.loss

    def full(self, network, graph, prepared, epoch):
        if int(epoch) == 3:
            raise error
        return loss(self, network, graph, prepared, epoch)

    whole = EPAGCL(epochs=5, **SMALL).fit(small_graph)
    with monkeypatch.context() as patched:
        patched.setattr(EPAGCL, "loss", full)
        with pytest.raises(OutOfMemory) as caught:
            EPAGCL(epochs=5, **SMALL).fit(small_graph, checkpoint=file)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("out of memory (")
    assert "; set batch_size=1024 (now 0, all nodes), or lower hidden (now " in message
    assert message.endswith(f"; or free memory and resume: {file} is kept")
    resumed = EPAGCL(epochs=5, **SMALL).fit(small_graph, checkpoint=file, resume=True)
    assert same_weights(whole, resumed)


def test_a_full_memory_while_embedding(small_graph, monkeypatch):
    model = DGI(epochs=1, dim=16, device="cpu").fit(small_graph)
    monkeypatch.setattr(DGI, "represent", lambda *_: torch.empty(0).new_empty(2**60))
    with pytest.raises(OutOfMemory, match=r"^out of memory \(.*; lower dim \(now 16\)$"):
        model.embed(small_graph)


def test_other_errors_pass():
    for error in (RuntimeError("shapes cannot be multiplied"), TrainingError("the loss is nan"), ValueError("x")):
        with pytest.raises(type(error), match=str(error)), memory_advice({}):
            raise error


def test_advice_follows_the_settings():
    settings = {**EPAGCLPlus(batch_size=64).settings(), "edge_pairs": 0}
    with pytest.raises(OutOfMemory) as caught, memory_advice(settings):
        raise MemoryError
    assert str(caught.value) == (
        "out of memory; set edge_pairs=1024 (now 0, all nodes), or lower batch_size (now 64) or members (now 2) or "
        "hidden (now 256) or projection (now 128) or dim (now 256)"
    )
    with pytest.raises(OutOfMemory, match=r"^out of memory; use a larger machine$"), memory_advice({"layers": 1}):
        raise MemoryError
