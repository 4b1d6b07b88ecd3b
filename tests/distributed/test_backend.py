import os
import socket

import pytest
import torch
from torch.distributed import HashStore

from epagcl.core.errors import InputError
from epagcl.core.hardware import prefer_cpu, resolve_device
from epagcl.distributed.backend import GLOO, NCCL, choose_backend
from tests.distributed.test_group import OPTIONS, losses, start


@pytest.fixture
def machine(monkeypatch):
    """A machine with some GPUs, on which torchrun has started some ranks; returns the selected GPUs."""

    def make(gpus, ranks, local=0):
        selected = []
        monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
        monkeypatch.setattr(torch.cuda, "set_device", selected.append)
        environment = {"RANK": local, "WORLD_SIZE": 2, "LOCAL_RANK": local, "LOCAL_WORLD_SIZE": ranks}
        for name, value in environment.items():
            monkeypatch.setenv(name, str(value))
        return selected

    return make


def store(*flags):
    """The store of two ranks, of which the others have said whether they have a GPU."""
    result = HashStore()
    for rank, flag in enumerate(flags):
        if flag is not None:
            result.set(f"gpu/{rank}", flag)
    return result


def test_a_rank_takes_the_gpu_with_its_local_number(machine):
    selected = machine(gpus=2, ranks=2, local=1)
    assert choose_backend("auto", store("1"), 1, 2) == NCCL
    assert choose_backend("cuda", store("1"), 1, 2) == NCCL
    assert choose_backend("cpu", store("1"), 1, 2) == GLOO
    assert selected == [1, 1]


def test_more_ranks_than_gpus_use_the_cpu_and_say_so(machine, caplog):
    selected = machine(gpus=1, ranks=2)
    assert choose_backend("auto", store(None, "0"), 0, 2) == GLOO
    assert caplog.messages == [
        "2 ranks on a machine with 1 GPU: all ranks use the CPU; start one rank per GPU to use GPUs"
    ]
    assert selected == []
    with pytest.raises(InputError, match="2 ranks on a machine with 1 GPUs; start at most 1, or use device='cpu'"):
        choose_backend("cuda", store(None, "0"), 0, 2)


def test_all_ranks_follow_one_without_a_gpu(machine, caplog):
    machine(gpus=2, ranks=1)
    assert choose_backend("auto", store(None, "0"), 0, 2) == GLOO
    assert caplog.messages == ["no GPU for rank 1: all ranks use the CPU; start one rank per GPU to use GPUs"]


def test_no_line_where_there_is_no_gpu(machine, caplog):
    machine(gpus=0, ranks=2)
    assert choose_backend("auto", store(None, "0"), 0, 2) == GLOO
    assert caplog.messages == []


def test_auto_is_the_cpu_where_it_is_preferred(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with prefer_cpu(False):
        assert resolve_device("auto").type == "cuda"
    with prefer_cpu():
        assert resolve_device("auto").type == "cpu"
        assert resolve_device("cuda").type == "cuda"


def free_port():
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return listener.getsockname()[1]


def nccl_losses(folder, size):
    """The losses of EPAGCL on some ranks that share one GPU by NCCL.

    NCCL refuses two ranks on one GPU of a machine. With different host ids they are on different machines to it, and
    talk by sockets.
    """
    command = ["-m", "epagcl", "train", "demo", *OPTIONS, "--projection", "64", "--device", "cuda"]
    shared = {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0] or "0"}
    shared |= {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", "EPAGCL_RANK_TIMEOUT": "120"}
    options = {"ranks": 1, "machines": size, "endpoint": f"localhost:{free_port()}", **shared}
    machines = [start(folder, *command, **options, NCCL_HOSTID=f"machine-{rank}") for rank in range(size)]
    errors = [machine.communicate(timeout=240)[1] for machine in machines]
    assert [machine.returncode for machine in machines] == [0] * size, "\n".join(errors)
    return losses(folder / "run")


@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="NCCL needs a GPU")
def test_ranks_with_nccl_have_the_losses_of_one_process(tmp_path):
    expected = None
    for size in (1, 2, 3):
        folder = tmp_path / str(size)
        folder.mkdir()
        found = nccl_losses(folder, size)
        expected = expected or found
        assert found[0] == pytest.approx(expected[0], rel=1e-5)
        assert found == pytest.approx(expected, rel=2e-3)  # Adam turns rounding errors into steps
