import gc

import pytest
import torch

from epagcl.core import cuda_graphs
from epagcl.core.cuda_graphs import repeat

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")


def powers(times, device):
    """Return M^times v, computed by products in place."""
    matrix = torch.tensor([[1.0, 1.0], [1.0, 0.0]], device=device)
    vector = torch.tensor([1.0, 0.0], device=device)

    def step():
        calls.append(None)
        vector.copy_(matrix @ vector)

    calls = []
    repeat(step, times, vector.device)
    assert len(calls) == (times if vector.device.type == "cpu" else min(times, 2))  # the second call is captured
    return vector.tolist()


def test_a_function_is_called_as_often_as_asked_for():
    assert powers(0, "cpu") == [1, 0]
    assert powers(10, "cpu") == [89, 55]  # Fibonacci's numbers


@needs_gpu
@pytest.mark.parametrize(("times", "expected"), [(0, [1, 0]), (1, [1, 1]), (2, [2, 1]), (10, [89, 55])])
def test_replays_give_the_same_numbers(device, times, expected):
    assert powers(times, device) == expected


@needs_gpu
def test_a_function_that_waits_for_the_device_is_called_each_time(device):
    total = torch.zeros((), device=device)
    seen = []

    def add():
        total.add_(1)
        seen.append(total.item())

    repeat(add, 4, total.device)
    assert seen == [1, 2, 3, 4]
    assert powers(10, device) == [89, 55]  # a failed capture leaves nothing behind


@needs_gpu
def test_the_memory_of_earlier_graphs_is_bounded(device, monkeypatch):
    powers(3, device)
    step = max(cuda_graphs._reserved.values())
    monkeypatch.setattr(cuda_graphs, "MAX_RESERVED", 4 * step)
    torch.cuda.synchronize()
    before = torch.cuda.memory_reserved()
    for _ in range(50):
        powers(3, device)
    assert torch.cuda.memory_reserved() <= before + 6 * step
    assert max(cuda_graphs._reserved.values()) <= 6 * step
    assert gc.isenabled()
