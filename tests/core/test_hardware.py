import logging

import pytest
import torch

from epagcl.core import hardware
from epagcl.core.errors import InputError
from epagcl.core.hardware import force_triton, has_triton, resolve_device

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("cuda", "mps", "expected"), [(True, False, "cuda"), (False, True, "cpu"), (False, False, "cpu")]
)
def test_auto_is_cuda_if_available_and_never_mps(monkeypatch, cuda, mps, expected):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert resolve_device("auto") == torch.device(expected)


def test_devices_by_name(monkeypatch):
    assert resolve_device("cpu") == CPU
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert resolve_device("cuda:1") == torch.device("cuda", 1)


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "mps", "tpu"])
def test_an_unavailable_device_is_an_error(monkeypatch, device):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(InputError, match=f"device='{device}' is not available here; use auto or cpu"):
        resolve_device(device)


def test_triton_does_not_run_on_a_cpu():
    assert not has_triton(CPU)


def test_triton_can_be_forced_on_and_off():
    with force_triton(True):
        assert has_triton(CPU)
        with force_triton(False):
            assert not has_triton(CPU)
            assert not has_triton(torch.device("cuda"))
        assert has_triton(CPU)
    assert not has_triton(CPU)


def test_an_error_ends_forced_triton():
    def fail():
        with force_triton(True):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not has_triton(CPU)


@pytest.fixture
def gpu(monkeypatch):
    """A GPU that does not exist, of a chosen compute capability."""

    def use(capability):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)

    hardware._triton_works.cache_clear()
    yield use
    hardware._triton_works.cache_clear()


def test_old_gpus_have_no_triton(gpu):
    gpu((7, 0))
    assert not has_triton(torch.device("cuda"))


def test_without_the_package_there_is_no_triton(gpu, monkeypatch):
    gpu((9, 0))
    monkeypatch.setattr(hardware, "find_spec", lambda name: None)
    assert not has_triton(torch.device("cuda"))


def test_kernels_that_do_not_compile_are_a_warning_and_plain_torch_is_used(gpu, monkeypatch, caplog):
    pytest.importorskip("triton")
    gpu((9, 0))

    def zeros(*_, **__):
        raise RuntimeError("no C compiler\nand more lines")

    monkeypatch.setattr(torch, "zeros", zeros)
    with caplog.at_level(logging.WARNING, logger="epagcl"):
        assert not has_triton(torch.device("cuda"))
    assert "Triton does not work here (no C compiler); falling back to plain PyTorch" in caplog.text
