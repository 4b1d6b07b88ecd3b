import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton")

from epagcl.core.kernels.unit import unit_rows
from tests.core.kernels.matrices import assert_rounded_once

pytestmark = pytest.mark.usefixtures("poisoned_memory")


def with_gradient(normalise, x, grad):
    x = x.clone().requires_grad_()
    unit = normalise(x)
    return unit.detach(), torch.autograd.grad(unit, x, grad)[0]


@pytest.mark.parametrize(("rows", "width"), [(1, 1), (7, 3), (5, 128), (3, 256), (4, 700)])
def test_rows_and_gradient_equal_double_precision(device, rows, width):
    generator = torch.Generator().manual_seed(rows * width)
    x, grad = (torch.randn(rows, width, generator=generator).to(device) for _ in range(2))
    ours = with_gradient(unit_rows, x, grad)
    exact = with_gradient(lambda x: F.normalize(x, dim=1), x.double(), grad.double())
    for mine, expected in zip(ours, exact, strict=True):
        torch.testing.assert_close(mine.double(), expected, rtol=1e-5, atol=1e-6)


def test_rows_without_length_and_their_gradient_are_those_of_torch(device):
    x = torch.ones(4, 3, device=device)
    x[1], x[2] = 0, 1e-14
    grad = torch.arange(12.0, device=device).view(4, 3)
    ours, torchs = (with_gradient(f, x, grad) for f in (unit_rows, lambda x: F.normalize(x, dim=1)))
    for mine, expected in zip(ours, torchs, strict=True):
        torch.testing.assert_close(mine, expected)
    assert (ours[0][1] == 0).all()


def test_rows_that_are_not_contiguous(device):
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(0)).to(device)
    torch.testing.assert_close(unit_rows(x.T), F.normalize(x.T, dim=1))


def test_half_precision_is_rounded_once(device):
    x, grad = (torch.randn(5, 128, generator=torch.Generator().manual_seed(k)).half().to(device) for k in range(2))
    ours = with_gradient(unit_rows, x, grad)
    exact = with_gradient(lambda x: F.normalize(x, dim=1), x.double(), grad.double())
    for mine, expected in zip(ours, exact, strict=True):
        assert_rounded_once(mine, expected, atol=1e-6)
