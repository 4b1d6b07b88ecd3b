"""The kernels for rectangles of own and visiting rows against float64."""

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton")

from epagcl.losses.infonce.triton_loss import PAD
from epagcl.losses.infonce.triton_ring import TritonProducts
from tests.losses.infonce.examples import every_precision
from tests.losses.infonce.test_triton_loss import GRADIENT, ROUNDING

pytestmark = [
    pytest.mark.usefixtures("poisoned_memory", "untimed_tiles"),
    pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:invalid value encountered in (add|matmul):RuntimeWarning"),
]

TAU = 0.3
SHAPES = [(1, 1, 3), (16, 32, 16), (37, 5, 20), (5, 37, 16), (33, 70, 33)]


def unit_rows(count, width, seed, device):
    rows = torch.randn(count, width, generator=torch.Generator().manual_seed(seed))
    return F.normalize(rows, dim=1).to(device)


def visiting(block):
    """The rows of another rank as they are received: in a buffer that zeros follow."""
    buffer = block.new_zeros(block.shape[0] + PAD, block.shape[1])
    buffer[: block.shape[0]] = block
    return buffer[: block.shape[0]]


def exponentials(z, y):
    return (z.double() @ y.double().T / TAU).exp()


@every_precision
@pytest.mark.parametrize(("n", "m", "d"), SHAPES)
def test_sums_of_rows_and_columns_equal_float64(device, n, m, d, precision):
    z, y = unit_rows(n, d, 0, device), unit_rows(m, d, 1, device)
    products, other = TritonProducts(TAU, precision), TritonProducts(TAU, precision)
    own, block = products.block(z), visiting(other.block(y))
    sums, visiting_sums = torch.ones(n, device=device), torch.ones(m, device=device)
    products.block_sums(own, block, sums, visiting_sums)
    e = exponentials(z, y)
    tolerance = {"rtol": 4 * ROUNDING[precision] / TAU + 2e-6, "atol": 0}
    torch.testing.assert_close(sums.double(), 1 + e.sum(1), **tolerance)
    torch.testing.assert_close(visiting_sums.double(), 1 + e.sum(0), **tolerance)


@every_precision
@pytest.mark.parametrize(("n", "m", "d"), SHAPES)
def test_gradients_of_rows_and_columns_equal_float64(device, n, m, d, precision):
    z, y = unit_rows(n, d, 2, device), unit_rows(m, d, 3, device)
    s, t = 30 + torch.arange(float(n), device=device), 30 + torch.arange(float(m), device=device)
    products, other = TritonProducts(TAU, precision), TritonProducts(TAU, precision)
    products.block(z)
    other.block(y)
    products.sums = s
    own = products.own(products.pack(z, 1 / s, None))
    visitor = products.unpack(other.pack(y, 1 / t, None))
    totals = [torch.zeros(n, d, device=device), torch.zeros(m, d, device=device)]
    products.block_gather(own, visitor, *totals)
    weight = exponentials(z, y) * (1 / s.double()[:, None] + 1 / t.double())
    for total, exact in zip(totals, (weight @ y.double(), weight.T @ z.double()), strict=True):
        gradient = products.gradient(total, None).double()
        assert (gradient - exact).norm() <= 2 * GRADIENT[precision] * exact.norm()


@pytest.mark.parametrize("rows", [slice(0, 20), slice(20, 41)])
def test_a_part_of_the_rows_is_not_disturbed_by_the_others(device, rows):
    z, y = unit_rows(41, 16, 4, device), unit_rows(7, 16, 5, device)
    products, other = TritonProducts(TAU, "fp32"), TritonProducts(TAU, "fp32")
    own, block = products.block(z), visiting(other.block(y))
    sums, visiting_sums = torch.zeros(41, device=device), torch.zeros(7, device=device)
    products.block_sums(own[rows], block, sums[rows], visiting_sums)
    e = exponentials(z[rows], y)
    torch.testing.assert_close(sums[rows].double(), e.sum(1), rtol=2e-6, atol=0)
    torch.testing.assert_close(visiting_sums.double(), e.sum(0), rtol=2e-6, atol=0)
    outside = torch.ones(41, dtype=torch.bool)
    outside[rows] = False
    assert (sums[outside.to(device)] == 0).all()
