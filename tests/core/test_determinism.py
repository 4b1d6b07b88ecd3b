"""Deterministic operations: what is switched on, what is refused, and that everything is restored."""

import os

import pytest
import torch

from epagcl.core import determinism, sparse
from epagcl.core.determinism import CUBLAS_VALUE, CUBLAS_VARIABLE, deterministic, is_deterministic
from epagcl.core.errors import InputError
from epagcl.core.sparse import SparseMatrix, StackedMatrix, _multiply_in_order
from epagcl.losses.infonce import tiles


@pytest.fixture
def on_a_gpu(monkeypatch):
    """Pretend that there is a GPU with Triton, on which CUDA was not used yet."""
    monkeypatch.setattr(determinism, "has_triton", lambda device: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setenv(CUBLAS_VARIABLE, "")


def test_on_a_gpu_the_switches_are_set_and_restored(on_a_gpu):
    filled = torch.utils.deterministic.fill_uninitialized_memory
    with deterministic("cuda"):
        assert is_deterministic()
        assert not torch.utils.deterministic.fill_uninitialized_memory
        assert os.environ[CUBLAS_VARIABLE] == CUBLAS_VALUE
    assert not is_deterministic()
    assert torch.utils.deterministic.fill_uninitialized_memory == filled
    with pytest.raises(KeyError), deterministic("cuda"):
        raise KeyError
    assert not is_deterministic()


def test_what_cannot_be_deterministic_is_refused(on_a_gpu, monkeypatch):
    with pytest.raises(InputError, match="equal bits on mps; use device=cpu"), deterministic("mps"):
        pass
    monkeypatch.setattr(determinism, "has_triton", lambda device: False)
    with pytest.raises(InputError, match="on a GPU this needs Triton"), deterministic("cuda"):
        pass
    monkeypatch.setenv(CUBLAS_VARIABLE, ":0:0")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    with (
        pytest.raises(InputError, match=rf"CUDA is in use already; set {CUBLAS_VARIABLE}=:4096:8"),
        deterministic("cuda"),
    ):
        pass
    monkeypatch.setenv(CUBLAS_VARIABLE, ":16:8")  # the user's choice, which is deterministic too
    with pytest.raises(InputError, match="needs Triton"), deterministic("cuda"):
        pass
    assert os.environ[CUBLAS_VARIABLE] == ":16:8"


def test_tiles_are_not_chosen_by_time(on_a_gpu, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "some GPU")
    monkeypatch.setattr(tiles, "fastest", lambda *_: pytest.fail("timed"))
    with deterministic("cuda"):
        chosen = tiles.tiles_for("sums", "fp16", 64, 1000, torch.device("cuda"), lambda tiles: torch.zeros(0))
    assert str(chosen) == tiles.SAFE
    measured = tiles._read(tiles.MEASURED)
    gpu = next(iter(measured))
    key = next(key for key in measured[gpu] if key.endswith("small"))
    kernel, precision, width, _ = key.split()
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: gpu)
    with deterministic("cuda"):
        chosen = tiles.tiles_for(
            kernel, precision, int(width), 1000, torch.device("cuda"), lambda tiles: torch.zeros(0)
        )
    assert str(chosen) == measured[gpu][key]


def test_the_product_without_cusparse_is_the_same_product(use_triton, monkeypatch):
    torch.manual_seed(0)
    parts = [SparseMatrix.from_torch((torch.rand(6, 5) * (torch.rand(6, 5) < 0.5)).to_sparse()) for _ in range(2)]
    stacked, shared, blocks = StackedMatrix(parts), torch.rand(5, 3), torch.rand(10, 3)
    expected = torch.cat([part.to_dense() @ shared for part in parts])
    with pytest.raises(InputError, match=r"no deterministic sparse product of torch\.float32 without Triton"):
        _multiply_in_order(stacked, shared, 2, 1)
    if torch.cuda.is_available():
        pytest.skip("only Triton's interpreter accepts CPU tensors")
    use_triton(True)
    torch.testing.assert_close(_multiply_in_order(stacked, shared, 2, 1), expected)
    expected = torch.cat([part.to_dense() @ block for part, block in zip(parts, blocks.split(5), strict=True)])
    torch.testing.assert_close(_multiply_in_order(stacked, blocks, 2, 2), expected)
    with pytest.raises(InputError, match=r"sparse product of torch\.float64"):
        _multiply_in_order(stacked, shared.double(), 2, 1)
    assert sparse.has_triton(torch.device("cpu"))
