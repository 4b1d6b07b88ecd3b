import pytest
import torch

pytest.importorskip("triton")

from epagcl.core.kernels import launch
from epagcl.core.kernels.columns import column_sums

pytestmark = pytest.mark.usefixtures("poisoned_memory")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("shape", [(1, 1), (7, 5), (90, 33), (3, 40, 130), (2, 9, 600)])
def test_sums_are_float32(device, shape, dtype):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(device, dtype)
    torch.testing.assert_close(column_sums(x), x.double().sum(-2).float(), rtol=1e-5, atol=1e-5)


def test_several_tiles_per_program(device, monkeypatch):
    monkeypatch.setattr(launch, "PROGRAMS", 2)
    x = torch.randn(2, 301, 64, generator=torch.Generator().manual_seed(0)).to(device)
    torch.testing.assert_close(column_sums(x), x.double().sum(1).float(), rtol=1e-5, atol=1e-5)


def test_rows_that_are_not_contiguous(device):
    x = torch.arange(12.0, device=device).view(3, 4)
    assert column_sums(x.T).tolist() == x.sum(1).tolist()
