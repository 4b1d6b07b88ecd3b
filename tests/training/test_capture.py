from types import SimpleNamespace

import pytest
import torch

from epagcl import EPAGCL
from epagcl.distributed import Part, Ranks
from epagcl.training.capture import SMALL as MAX_NODES
from epagcl.training.capture import reason_not_to_capture


@pytest.mark.parametrize(
    ("setting", "device", "num_nodes", "reason"),
    [
        ("on", "cpu", 10, "no CUDA graphs on cpu"),
        ("off", "cuda", 10, "capture = off"),
        ("auto", "cuda", MAX_NODES, ""),
        ("auto", "cuda", MAX_NODES + 1, "above 65,536 nodes"),
        ("on", "cuda", MAX_NODES + 1, ""),
    ],
)
def test_reasons_not_to_capture(monkeypatch, setting, device, num_nodes, reason):
    monkeypatch.setattr("epagcl.training.capture.has_triton", lambda device: device.type == "cuda")
    graph = SimpleNamespace(device=torch.device(device), num_nodes=num_nodes, part=None)
    answer = reason_not_to_capture(EPAGCL(capture=setting), graph)
    assert answer.startswith(reason)
    assert bool(answer) == bool(reason)


def test_nothing_is_captured_without_triton(monkeypatch):
    monkeypatch.setattr("epagcl.training.capture.has_triton", lambda _: False)
    graph = SimpleNamespace(device=torch.device("cuda"), num_nodes=10, part=None)
    assert reason_not_to_capture(EPAGCL(capture="on"), graph).startswith("without Triton")


def test_nothing_is_captured_on_several_ranks():
    graph = SimpleNamespace(device=torch.device("cuda"), num_nodes=10, part=Part(Ranks(0, 2), 10))
    assert reason_not_to_capture(EPAGCL(capture="on"), graph).startswith("several ranks")
