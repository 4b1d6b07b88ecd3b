import math

import pytest
import torch

pytest.importorskip("triton")

from epagcl.losses.infonce.dense import dense_loss
from epagcl.losses.infonce.loss import MIN_TEMPERATURE, info_nce, info_nce_batched
from epagcl.losses.infonce.triton_loss import triton_loss as fused_loss
from tests.conftest import Largest
from tests.losses.infonce.examples import every_precision, stacked, value_and_gradient

pytestmark = [
    pytest.mark.usefixtures("poisoned_memory", "untimed_tiles"),
    # numpy warns in the interpreter about rows past the end of a group, which are computed but not stored
    pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:invalid value encountered in (add|matmul):RuntimeWarning"),
]

# The relative error of rounding one number. fp32 is two fp16 halves, which have 22 bits.
ROUNDING = {"fp32": 2**-22, "tf32": 2**-11, "fp16": 2**-11, "bf16": 2**-8}
# A similarity is at most 1/τ, and both its factors are rounded, with errors of both signs over many entries. This is
# the additional error of float32 in the sums of exponentials.
FLOAT32_VALUE = 2e-6
# The relative error of the gradient's norm. For fp32 it is the difference between float32 sums in different orders. For
# the others it is about 4 roundings: of both factors and of both operands of the gradient's product.
GRADIENT = {"fp32": 2e-5, "tf32": 2e-3, "fp16": 2e-3, "bf16": 1.6e-2}
# For clusters at a low temperature e^{s} multiplies an error of s by 1/τ.
GRADIENT_SHARP = {"fp32": 2e-5, "tf32": 5e-3, "fp16": 5e-3, "bf16": 4e-2}
# For nearly identical rows the gradient is a difference of nearly equal numbers, lost to any rounding of the rows. The
# error may be this many times that of float64 on rounded rows.
ROUNDED_ROWS = 3


def relative_error(gradient, exact):
    return ((gradient.double() - exact).norm() / exact.norm()).item()


def check_against_float64(x, tau, groups, precision, tolerance):
    """Compare value and gradient with the formula in float64."""
    value, gradient = value_and_gradient(lambda x: fused_loss(x, tau, groups, precision), x)
    exact, exact_gradient = value_and_gradient(lambda x: dense_loss(x, tau, groups), x.double())
    assert value == pytest.approx(exact, rel=FLOAT32_VALUE, abs=FLOAT32_VALUE + 2 * ROUNDING[precision] / tau)
    assert gradient.dtype == torch.float32
    if x.shape[0] == 2 * groups:  # without negatives it is 0, the difference of two terms of this size
        term = 2 / (tau * x.shape[0]) / x.norm(dim=1)
        assert gradient.norm() <= tolerance * term.norm()
    else:
        assert relative_error(gradient, exact_gradient) <= tolerance


@pytest.mark.slow
@every_precision
@pytest.mark.parametrize(("n", "d"), [(1, 3), (2, 16), (7, 3), (37, 20), (64, 16), (100, 33)])
def test_value_and_gradient_equal_float64(device, n, d, precision):
    check_against_float64(stacked(n, d, device=device), 0.3, 1, precision, GRADIENT[precision])


@every_precision
@pytest.mark.parametrize("rows", ["random", "clustered"])
@pytest.mark.parametrize("tau", [0.05, 0.3, 1.0])
def test_value_and_gradient_at_several_temperatures(device, rows, tau, precision):
    tolerance = GRADIENT_SHARP if rows == "clustered" and tau == 0.05 else GRADIENT
    check_against_float64(stacked(37, 20, rows, device=device), tau, 1, precision, tolerance[precision])


@every_precision
@pytest.mark.parametrize("tau", [0.05, 0.3, 1.0])
def test_nearly_identical_rows_lose_no_more_than_by_rounding(device, tau, precision):
    x = stacked(37, 20, "nearly identical", device=device)
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}.get(precision, torch.float16)
    if precision == "fp32":  # compared with float32 products, which round as well
        _, rounded = value_and_gradient(lambda x: dense_loss(x, tau), x)
    else:
        _, rounded = value_and_gradient(lambda x: dense_loss(x, tau), x.to(dtype).double())
    _, exact = value_and_gradient(lambda x: dense_loss(x, tau), x.double())
    check_against_float64(x, tau, 1, precision, ROUNDED_ROWS * relative_error(rounded, exact) + GRADIENT["fp32"])


@every_precision
@pytest.mark.parametrize(("n", "d"), [(1, 3), (7, 5), (16, 16), (25, 20)])
def test_groups_are_separate_losses(device, n, d, precision):
    check_against_float64(stacked(n, d, groups=3, device=device), 0.3, 3, precision, GRADIENT[precision])


@every_precision
def test_rows_wider_than_one_slice_of_the_gradient(device, precision):
    check_against_float64(stacked(9, 140, device=device), 0.3, 1, precision, GRADIENT[precision])


@every_precision
def test_the_lowest_temperature_is_in_range(device, precision):
    x = stacked(20, 8, "clustered", device=device)
    value, gradient = value_and_gradient(lambda x: fused_loss(x, MIN_TEMPERATURE, 1, precision), x)
    assert math.isfinite(value)
    assert torch.isfinite(gradient).all()


@every_precision
def test_closed_forms(device, precision):
    same = torch.ones(18, 4, device=device)
    assert fused_loss(same, 0.5, 1, precision).item() == pytest.approx(math.log(17), abs=1e-5)
    one = fused_loss(stacked(1, 4, device=device), 0.1, 1, precision).item()
    assert one == pytest.approx(0, abs=1e-5)  # no negatives: both terms see the same rounded rows
    orthogonal = torch.tensor([[1.0, 0], [0, 1], [1, 0], [0, 1]], device=device)  # the positives are equal
    expected = math.log(math.exp(2) + 2) - 2
    assert fused_loss(orthogonal, 0.5, 1, precision).item() == pytest.approx(
        expected, abs=4 * ROUNDING[precision] + 1e-6
    )


@every_precision
def test_zero_rows_give_finite_values(device, precision):
    x = stacked(20, 6, device=device)
    x[[0, 5, 25]] = 0
    x[[7, 27]] = 0  # both rows of one node
    value, gradient = value_and_gradient(lambda x: fused_loss(x, 0.3, 1, precision), x)
    exact, exact_gradient = value_and_gradient(lambda x: dense_loss(x, 0.3), x.double())
    assert value == pytest.approx(exact, abs=FLOAT32_VALUE + 2 * ROUNDING[precision] / 0.3)
    others = x.any(dim=1)
    assert torch.isfinite(gradient).all()
    assert relative_error(gradient[others], exact_gradient[others]) <= GRADIENT[precision]


@every_precision
def test_the_loss_does_not_depend_on_the_scale_of_a_row(device, precision):
    x = stacked(12, 6, device=device)
    scale = 10.0 ** torch.linspace(-6, 6, 24, device=device)[:, None]
    value, gradient = value_and_gradient(lambda x: fused_loss(x, 0.3, 1, precision), x)
    scaled, scaled_gradient = value_and_gradient(lambda x: fused_loss(x, 0.3, 1, precision), scale * x)
    assert scaled == pytest.approx(value, abs=2 * ROUNDING[precision])
    assert relative_error(scaled_gradient * scale, gradient.double()) <= GRADIENT[precision]


@every_precision
def test_repeated_calls_are_bit_equal(device, precision):
    x = stacked(37, 20, device=device)
    (a, da), (b, db) = (value_and_gradient(lambda x: fused_loss(x, 0.3, 1, precision), x) for _ in range(2))
    assert a == b
    assert torch.equal(da, db)


def test_the_gradient_scales_with_the_loss(device):
    x = stacked(9, 6, device=device)
    _, once = value_and_gradient(lambda x: fused_loss(x, 0.3, 1, "fp32"), x)
    _, thrice = value_and_gradient(lambda x: 3 * fused_loss(x, 0.3, 1, "fp32"), x)
    torch.testing.assert_close(thrice, 3 * once)


def test_a_second_backward_equals_the_first(device):
    x = stacked(9, 6, device=device).requires_grad_()
    loss = fused_loss(x, 0.3, 1, "fp32")
    (first,), (second,) = (torch.autograd.grad(loss, x, retain_graph=True) for _ in range(2))
    assert torch.equal(first, second)


def test_rows_need_not_be_contiguous(device):
    x = stacked(9, 6, device=device)
    apart = torch.stack([x, -x], dim=2)[:, :, 0]
    assert not apart.is_contiguous()
    for a, b in zip(*(value_and_gradient(lambda x: fused_loss(x, 0.3, 1, "fp32"), t) for t in (x, apart)), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


@pytest.mark.slow
def test_nothing_of_size_n_squared_is_allocated(device):
    n = 150
    x = stacked(n, 8, device=device)
    with Largest() as ours:
        value_and_gradient(lambda x: fused_loss(x, 0.3, 1, "fp32"), x)
    with Largest() as dense:
        value_and_gradient(lambda x: dense_loss(x, 0.3), x)
    assert dense.bytes >= 4 * (2 * n) ** 2  # so the measurement sees such arrays
    padded = 512  # rows, including the padding
    assert ours.bytes <= 2 * 2 * 16 * padded  # both halves of the operands, 16 columns of fp16


@every_precision
def test_info_nce_with_triton(device, precision):
    u, v = stacked(12, 5, device=device).chunk(2)
    expected = dense_loss(torch.cat([u, v]).double(), 0.3).item()
    value = info_nce(u, v, 0.3, impl="triton", precision=precision)
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(expected, abs=FLOAT32_VALUE + 2 * ROUNDING[precision] / 0.3)
    half = info_nce(u.half(), v.half(), 0.3, impl="triton", precision=precision)
    assert half.item() == pytest.approx(expected, abs=5e-3)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("batch_size", [2, 5, 23, 40])
def test_batched_equals_the_other_implementations(device, batch_size, precision):
    z = stacked(23, 6, device=device)
    order = torch.randperm(23, generator=torch.Generator().manual_seed(0)).to(device)
    value, gradient = value_and_gradient(
        lambda z: info_nce_batched(z, 0.3, batch_size, order, impl="triton", precision=precision), z
    )
    for impl in ("tiled", "dense"):
        other, other_gradient = value_and_gradient(
            lambda z, i=impl: info_nce_batched(z, 0.3, batch_size, order, impl=i), z
        )
        assert value == pytest.approx(other, abs=FLOAT32_VALUE + 2 * ROUNDING[precision] / 0.3)
        assert relative_error(gradient, other_gradient.double()) <= GRADIENT[precision]
