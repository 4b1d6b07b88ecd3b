import logging

import pytest
import torch

from epagcl.core import hardware
from epagcl.core.errors import InputError
from epagcl.core.hardware import force_bf16, force_triton, fused_sigmoid, has_bf16, has_triton, resolve_device

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
    hardware.triton_failure.cache_clear()
    yield use
    hardware._triton_works.cache_clear()
    hardware.triton_failure.cache_clear()


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


def test_bf16_can_be_forced_on_and_off_on_cpus_only():
    with force_bf16(True):
        assert has_bf16(CPU)
        assert not has_bf16(torch.device("cuda"))
        with force_bf16(False):
            assert not has_bf16(CPU)
        assert has_bf16(CPU)


@pytest.fixture
def instructions(monkeypatch):
    """Set the answers of PyTorch about the CPU, and ask it for them."""

    def use(avx512_bf16, amx_tile):
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", avx512_bf16, raising=False)
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", amx_tile, raising=False)
        return hardware._cpu_has_bf16()

    hardware._cpu_has_bf16.cache_clear()
    yield use
    hardware._cpu_has_bf16.cache_clear()


def test_cpus_without_the_instructions_have_no_bf16(instructions):
    assert not instructions(lambda: False, lambda: False)


def test_versions_of_torch_that_cannot_tell_have_no_bf16(instructions):
    assert not instructions(None, None)


def test_an_operator_that_fails_or_is_wrong_is_not_used(instructions, monkeypatch):
    def fail(*_):
        raise RuntimeError("no such operator")

    for operator in (fail, lambda a, b, bias: torch.ones(32, 32)):
        hardware._cpu_has_bf16.cache_clear()
        monkeypatch.setattr(hardware, "fused_sigmoid", operator)
        assert not instructions(lambda: True, lambda: False)


def test_fused_sigmoid_equals_the_exponential_below_minus_16(use_bf16):
    a, b = (torch.randn(n, 64, generator=torch.Generator().manual_seed(n)).bfloat16() / 8 for n in (40, 56))
    bias = torch.full((56,), -20.0).bfloat16()
    exact = (a.double() @ b.double().T - 20).exp()
    torch.testing.assert_close(fused_sigmoid(a, b, bias).double(), exact, rtol=2**-8, atol=0)
