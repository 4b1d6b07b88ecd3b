import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton")
from epagcl.core.kernels.softplus import BLOCK, softplus_sum


@pytest.mark.parametrize("shape", [(1, 1), (7, 30), (3, BLOCK), (2, BLOCK + 1)])
def test_sum_and_derivative_equal_those_of_float64(device, shape):
    generator = torch.Generator().manual_seed(0)
    wide = 4 * torch.randn(shape[0], shape[1] + 5, generator=generator).to(device)
    s = wide[:, : shape[1]]  # whose rows are not contiguous
    s[0, 0] = 200.0  # e^s is no float32 number
    s[-1, -1] = -200.0 if s.numel() > 1 else 200.0
    exact, rest = s.double(), wide[:, shape[1] :].clone()
    kept = s.clone()
    expected = F.softplus(exact).sum()
    torch.testing.assert_close(softplus_sum(s, derivative=False).double(), expected, rtol=1e-6, atol=0)
    assert torch.equal(s, kept)
    torch.testing.assert_close(softplus_sum(s, derivative=True).double(), expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(s.double(), exact.sigmoid(), rtol=1e-6, atol=1e-7)
    assert torch.equal(wide[:, shape[1] :], rest)


@pytest.mark.parametrize("value", [-30.0, -18.0, -12.0, -7.0, -6.8])
def test_small_terms_are_not_lost(device, value):
    s = torch.full((2, 5), value, device=device)
    torch.testing.assert_close(
        softplus_sum(s, derivative=False).double(), F.softplus(s.double()).sum(), rtol=1e-4, atol=0
    )
