import pytest
import torch

from epagcl.core.errors import InputError
from epagcl.core.hardware import has_triton, resolve_device


def test_devices():
    assert resolve_device("cpu").type == "cpu"
    assert resolve_device("auto").type in ("cpu", "cuda", "mps")
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="device='cuda' is not available here; use auto or cpu"):
            resolve_device("cuda")


def test_triton_is_for_gpus():
    assert not has_triton(torch.device("cpu"))
