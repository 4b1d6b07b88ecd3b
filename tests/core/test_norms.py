import pytest
import torch

from epagcl.core import norms
from epagcl.core.norms import inverse_norms, unit_rows
from epagcl.core.sparse import SparseMatrix


@pytest.mark.parametrize("scale", [1e-25, 1.0, 1e25])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("some", [True, False])
def test_norms_equal_float64_at_every_scale(monkeypatch, scale, sparse, some):
    monkeypatch.setattr(norms, "CHUNK", 10)  # several chunks
    x = torch.randn(9, 6, generator=torch.Generator().manual_seed(0))
    x[4] = 0
    columns = (torch.arange(6) % 2).float() if some else torch.ones(6)
    x = (x * (x > 0)).double().mul(scale).float()
    expected = 1 / (x.double() * columns).norm(dim=1)
    expected[expected.isinf()] = 0
    ours = inverse_norms(SparseMatrix.from_torch(x.to_sparse_csr()) if sparse else x, columns if some else None)
    torch.testing.assert_close(ours[:, 0].double(), expected, rtol=1e-6, atol=0)
    assert ours[4] == 0


def test_unit_rows_have_length_1_and_the_gradient_of_torch():
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(unit_rows(x).square().sum(1), torch.ones(5, dtype=torch.float64))
    assert torch.autograd.gradcheck(unit_rows, x)


def test_unit_rows_by_kernels_equal_those_of_torch(device, use_triton):
    pytest.importorskip("triton")
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0)).to(device)
    plain = unit_rows(x)
    use_triton(True)
    torch.testing.assert_close(unit_rows(x), plain)
