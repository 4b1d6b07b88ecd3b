from types import SimpleNamespace

import pytest
import torch

from epagcl import EPAGCL
from epagcl.training.capture import SMALL as MAX_NODES
from epagcl.training.capture import matmul_precision, reason_not_to_capture


@pytest.mark.parametrize(
    ("setting", "device", "num_nodes", "reason"),
    [
        ("on", "cpu", 10, "no CUDA graphs on cpu"),
        ("off", "cuda", 10, "capture = off"),
        ("auto", "cuda", MAX_NODES, ""),
        ("auto", "cuda", MAX_NODES + 1, "above 32,768 nodes"),
        ("on", "cuda", MAX_NODES + 1, ""),
    ],
)
def test_reasons_not_to_capture(monkeypatch, setting, device, num_nodes, reason):
    monkeypatch.setattr("epagcl.training.capture.has_triton", lambda device: device.type == "cuda")
    graph = SimpleNamespace(device=torch.device(device), num_nodes=num_nodes)
    answer = reason_not_to_capture(EPAGCL(capture=setting), graph)
    assert answer.startswith(reason)
    assert bool(answer) == bool(reason)


def test_nothing_is_captured_without_triton(monkeypatch):
    monkeypatch.setattr("epagcl.training.capture.has_triton", lambda _: False)
    graph = SimpleNamespace(device=torch.device("cuda"), num_nodes=10)
    assert reason_not_to_capture(EPAGCL(capture="on"), graph).startswith("without Triton")


@pytest.mark.parametrize(
    ("precision", "expected"), [("fp32", "highest"), ("tf32", "high"), ("fp16", "high"), ("auto", "high")]
)
def test_matmul_precision_follows_the_setting_and_is_restored(monkeypatch, precision, expected):
    before = torch.get_float32_matmul_precision()
    for triton in (True, False, True):
        monkeypatch.setattr("epagcl.training.capture.has_triton", lambda _, triton=triton: triton)
        with matmul_precision(precision, torch.device("cuda")):
            assert torch.get_float32_matmul_precision() == (expected if triton else "highest")
        assert torch.get_float32_matmul_precision() == before


def test_matmul_precision_restores_the_newer_setting_of_torch(monkeypatch):
    matmul = torch.backends.cuda.matmul
    if not hasattr(matmul, "fp32_precision"):
        return  # torch before 2.9 has one way to say it
    monkeypatch.setattr("epagcl.training.capture.has_triton", lambda _: True)
    before = matmul.fp32_precision
    try:
        matmul.fp32_precision = "tf32"
        for _ in range(3):
            with matmul_precision("fp32", torch.device("cuda")):
                assert matmul.fp32_precision == "ieee"
            assert matmul.fp32_precision == "tf32"
    finally:
        matmul.fp32_precision = before
