import math

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton")

from epagcl.core.errors import InputError
from epagcl.losses.infonce import loss as losses
from epagcl.losses.infonce import triton_loss
from epagcl.losses.infonce.dense import dense_loss
from epagcl.losses.infonce.loss import PRECISIONS, info_nce, info_nce_batched
from epagcl.losses.infonce.tiles import Tiles
from epagcl.losses.infonce.triton_loss import Operands, gather, row_sums
from epagcl.losses.infonce.triton_loss import triton_loss as fused_loss
from tests.conftest import Largest

pytestmark = [
    pytest.mark.usefixtures("poisoned_memory", "untimed_tiles"),
    # numpy, in the interpreter, on rows past a group's end, which are computed and not stored
    pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:invalid value encountered in (add|matmul):RuntimeWarning"),
]

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="Triton's interpreter has no products of bfloat16")
every_precision = pytest.mark.parametrize(
    "precision", [pytest.param(p, marks=needs_gpu) if p == "bf16" else p for p in PRECISIONS]
)

# Relative distance of a number from its neighbour's midpoint. fp32 is two halves of fp16: 22 bits.
ROUNDING = {"fp32": 2**-22, "tf32": 2**-11, "fp16": 2**-11, "bf16": 2**-8}
# A similarity is at most 1/τ and both its factors are rounded, the errors of many entries with both signs; float32's
# own errors, of sums of exponentials, come on top.
FLOAT32_VALUE = 2e-6
# Relative error of the gradient in its norm. fp32: what a float32 sum in another order may differ by. The others:
# about 4 roundings, of both factors and of both operands of the gradient's product.
GRADIENT = {"fp32": 2e-5, "tf32": 2e-3, "fp16": 2e-3, "bf16": 1.6e-2}
# Clusters at low temperature: e^{s} turns an error of s into one of 1/τ times its size.
GRADIENT_SHARP = {"fp32": 2e-5, "tf32": 5e-3, "fp16": 5e-3, "bf16": 4e-2}
# Nearly identical rows: the gradient is a difference of nearly equal numbers, lost to any rounding of the rows. No
# worse than this many times what float64 makes of rows rounded so.
NO_WORSE = 3


def stacked(n, d, rows="random", seed=1, groups=1, device="cpu"):
    """Rows of both views, ``[groups·2n, d]``."""
    generator = torch.Generator().manual_seed(seed)
    spread = {"random": 1.0, "clustered": 0.2, "nearly identical": 1e-3}[rows]
    centres = torch.randn(1 if rows == "nearly identical" else 5, d, generator=generator)
    centre = centres[torch.arange(n) % len(centres)].repeat(2 * groups, 1)
    return (centre + spread * torch.randn(groups * 2 * n, d, generator=generator)).to(device)


def value_and_gradient(loss, x):
    x = x.detach().clone().requires_grad_()
    value = loss(x)
    return value.item(), *torch.autograd.grad(value, x)


def relative_error(gradient, exact):
    return ((gradient.double() - exact).norm() / exact.norm()).item()


def check(x, tau, groups, precision, tolerance):
    """Value and gradient against the formula in float64."""
    value, gradient = value_and_gradient(lambda x: fused_loss(x, tau, groups, precision), x)
    exact, exact_gradient = value_and_gradient(lambda x: dense_loss(x, tau, groups), x.double())
    assert value == pytest.approx(exact, rel=FLOAT32_VALUE, abs=FLOAT32_VALUE + 2 * ROUNDING[precision] / tau)
    assert gradient.dtype == torch.float32
    if x.shape[0] == 2 * groups:  # without negatives it is 0, the difference of two terms of this size
        term = 2 / (tau * x.shape[0]) / x.norm(dim=1)
        assert gradient.norm() <= tolerance * term.norm()
    else:
        assert relative_error(gradient, exact_gradient) <= tolerance


@every_precision
@pytest.mark.parametrize(("n", "d"), [(1, 3), (2, 16), (7, 3), (37, 20), (64, 16), (100, 33)])
def test_value_and_gradient_equal_float64(device, n, d, precision):
    check(stacked(n, d, device=device), 0.3, 1, precision, GRADIENT[precision])


@every_precision
@pytest.mark.parametrize("rows", ["random", "clustered"])
@pytest.mark.parametrize("tau", [0.05, 0.3, 1.0])
def test_temperatures(device, rows, tau, precision):
    tolerance = GRADIENT_SHARP if rows == "clustered" and tau == 0.05 else GRADIENT
    check(stacked(37, 20, rows, device=device), tau, 1, precision, tolerance[precision])


@every_precision
@pytest.mark.parametrize("tau", [0.05, 0.3, 1.0])
def test_nearly_identical_rows_lose_what_rounding_loses(device, tau, precision):
    x = stacked(37, 20, "nearly identical", device=device)
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}.get(precision, torch.float16)
    if precision == "fp32":  # float32's products, which round too
        _, twin = value_and_gradient(lambda x: dense_loss(x, tau), x)
    else:
        _, twin = value_and_gradient(lambda x: dense_loss(x, tau), x.to(dtype).double())
    _, exact = value_and_gradient(lambda x: dense_loss(x, tau), x.double())
    check(x, tau, 1, precision, NO_WORSE * relative_error(twin, exact) + GRADIENT["fp32"])


@every_precision
@pytest.mark.parametrize(("n", "d"), [(1, 3), (7, 5), (16, 16), (25, 20)])
def test_groups_are_losses_of_their_own(device, n, d, precision):
    check(stacked(n, d, groups=3, device=device), 0.3, 3, precision, GRADIENT[precision])


@every_precision
def test_rows_wider_than_a_slice_of_the_gradient(device, precision):
    check(stacked(9, 140, device=device), 0.3, 1, precision, GRADIENT[precision])


@every_precision
def test_lowest_temperature_stays_in_range(device, precision):
    x = stacked(20, 8, "clustered", device=device)
    value, gradient = value_and_gradient(lambda x: fused_loss(x, losses.MIN_TEMPERATURE, 1, precision), x)
    assert math.isfinite(value)
    assert torch.isfinite(gradient).all()


@every_precision
def test_closed_forms(device, precision):
    same = torch.ones(18, 4, device=device)
    assert fused_loss(same, 0.5, 1, precision).item() == pytest.approx(math.log(17), abs=1e-5)
    one = fused_loss(stacked(1, 4, device=device), 0.1, 1, precision).item()
    assert one == pytest.approx(0, abs=1e-5)  # no negatives: both terms see the same rounded rows
    orthogonal = torch.tensor([[1.0, 0], [0, 1], [1, 0], [0, 1]], device=device)  # positives equal
    expected = math.log(math.exp(2) + 2) - 2
    assert fused_loss(orthogonal, 0.5, 1, precision).item() == pytest.approx(
        expected, abs=4 * ROUNDING[precision] + 1e-6
    )


@every_precision
def test_zero_rows_stay_finite(device, precision):
    x = stacked(20, 6, device=device)
    x[[0, 5, 25]] = 0
    x[[7, 27]] = 0  # a pair
    value, gradient = value_and_gradient(lambda x: fused_loss(x, 0.3, 1, precision), x)
    exact, exact_gradient = value_and_gradient(lambda x: dense_loss(x, 0.3), x.double())
    assert value == pytest.approx(exact, abs=FLOAT32_VALUE + 2 * ROUNDING[precision] / 0.3)
    others = x.any(dim=1)
    assert torch.isfinite(gradient).all()
    assert relative_error(gradient[others], exact_gradient[others]) <= GRADIENT[precision]


@every_precision
def test_the_scale_of_a_row_does_not_matter(device, precision):
    x = stacked(12, 6, device=device)
    scale = 10.0 ** torch.linspace(-6, 6, 24, device=device)[:, None]
    value, gradient = value_and_gradient(lambda x: fused_loss(x, 0.3, 1, precision), x)
    scaled, scaled_gradient = value_and_gradient(lambda x: fused_loss(x, 0.3, 1, precision), scale * x)
    assert scaled == pytest.approx(value, abs=2 * ROUNDING[precision])
    assert relative_error(scaled_gradient * scale, gradient.double()) <= GRADIENT[precision]


@every_precision
def test_repeats_are_bit_equal(device, precision):
    x = stacked(37, 20, device=device)
    (a, da), (b, db) = (value_and_gradient(lambda x: fused_loss(x, 0.3, 1, precision), x) for _ in range(2))
    assert a == b
    assert torch.equal(da, db)


def test_grad_output_scales(device):
    x = stacked(9, 6, device=device)
    _, once = value_and_gradient(lambda x: fused_loss(x, 0.3, 1, "fp32"), x)
    _, thrice = value_and_gradient(lambda x: 3 * fused_loss(x, 0.3, 1, "fp32"), x)
    torch.testing.assert_close(thrice, 3 * once)


def test_a_second_backward_is_the_first(device):
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


def exact_sums(x, tau, groups):
    z = F.normalize(x.double(), dim=1).view(groups, -1, x.shape[1])
    e = (z @ z.transpose(1, 2) / tau).exp()
    e.diagonal(dim1=1, dim2=2).zero_()
    return z, e, e.sum(2)


@pytest.mark.parametrize("tiles", [(16, 16), (32, 16), (32, 32), (64, 16), (64, 64), (128, 32)])
@pytest.mark.parametrize("groups", [1, 3])
def test_row_sums_of_any_tile(device, tiles, groups):
    x = stacked(75 // groups, 5, groups=groups, device=device)
    expected = exact_sums(x, 0.3, groups)[2].flatten().float()
    operands = Operands(x, 0.3, groups, "fp32")
    for symmetric in (True, False):
        sums = row_sums(operands, Tiles(*tiles, 4, 1), symmetric)
        torch.testing.assert_close(sums, expected, rtol=5e-6, atol=0)


@every_precision
@pytest.mark.parametrize("size", [1, 16, 24, 33])  # one tile, whole tiles, ragged ones
def test_symmetry_changes_the_order_of_sums_only(device, size, precision):
    operands = Operands(stacked(size, 7, device=device), 0.3, 1, precision)
    half, whole = (row_sums(operands, Tiles(32, 16, 4, 1), symmetric) for symmetric in (True, False))
    torch.testing.assert_close(half, whole, rtol=2e-6, atol=0)


@pytest.mark.parametrize("symmetric", [True, False])
def test_rows_of_many_chunks(device, monkeypatch, symmetric):
    monkeypatch.setattr(triton_loss, "CHUNKS", 10**6)  # as on a GPU with many multiprocessors: chunks of 256 columns
    x = stacked(301, 4, device=device)
    sums = row_sums(Operands(x, 0.3, 1, "fp32"), Tiles(64, 64, 4, 1), symmetric)
    torch.testing.assert_close(sums, exact_sums(x, 0.3, 1)[2].flatten().float(), rtol=5e-6, atol=0)


@pytest.mark.parametrize("groups", [1, 2])
def test_rows_of_more_than_one_round(device, monkeypatch, groups):
    monkeypatch.setattr(triton_loss, "BLOCKS_PER_ROUND", 2)
    x = stacked(84 // groups, 16, groups=groups, device=device)
    sums = row_sums(Operands(x, 0.3, groups, "fp32"), Tiles(32, 32, 4, 1))
    torch.testing.assert_close(sums, exact_sums(x, 0.3, groups)[2].flatten().float(), rtol=5e-6, atol=0)


@pytest.mark.parametrize("tiles", [(32, 16), (16, 32), (32, 64), (64, 64)])
@pytest.mark.parametrize(("n", "d", "groups"), [(32, 5, 1), (37, 20, 1), (13, 5, 3)])
def test_gather_of_any_tile_in_any_number_of_parts(device, tiles, n, d, groups):
    x = stacked(n, d, groups=groups, device=device)
    z, e, sums = exact_sums(x, 0.3, groups)
    weight = e * (1 / sums[:, :, None] + 1 / sums[:, None, :])
    expected = (weight @ z).flatten(0, 1).float()
    operands = Operands(x, 0.3, groups, "fp32")
    for parts in (1, 2, 5):
        out = gather(operands, sums.flatten().float(), Tiles(*tiles, 4, 1), parts)
        assert out.shape == (parts, groups * 2 * n, d)
        torch.testing.assert_close(out.sum(0) / operands.scale, expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize(("n", "groups"), [(37, 1), (32, 1), (20, 2)])
@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("columns", [16, 32, 48])
def test_gather_in_rounds_is_gather_at_once(device, monkeypatch, n, groups, parts, columns):
    x = stacked(n, 5, groups=groups, device=device)
    operands = Operands(x, 0.3, groups, "fp32")
    sums = exact_sums(x, 0.3, groups)[2].flatten().float()
    seeds_per_batch = gather(operands, sums, Tiles(32, 16, 4, 1), parts).sum(0)
    monkeypatch.setattr(triton_loss, "FP32_COLUMNS", columns)
    in_rounds = gather(operands, sums, Tiles(32, 16, 4, 1), parts).sum(0)
    torch.testing.assert_close(in_rounds, seeds_per_batch, rtol=1e-5, atol=1e-6 * seeds_per_batch.abs().max().item())


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_gather_chooses_its_number_of_parts(device, precision):
    x = stacked(70, 5, device=device)
    operands = Operands(x, 0.3, 1, precision)
    sums = row_sums(operands, Tiles(32, 16, 4, 1))
    one, chosen = (gather(operands, sums, Tiles(32, 16, 4, 1), parts).sum(0) for parts in (1, 0))
    torch.testing.assert_close(chosen, one, rtol=1e-4, atol=1e-5 * one.abs().max().item())


def test_parts_fill_the_processors():
    for blocks, tiles, processors in ((1, 1, 132), (3, 8, 132), (10, 100, 132), (132, 100, 132), (140, 100, 132)):
        parts = triton_loss._parts(blocks, tiles, processors)
        assert 1 <= parts <= max(1, min(triton_loss.MOST_PARTS, tiles // 8))
    assert triton_loss._parts(132, 100, 132) == 1  # one wave is full already
    assert triton_loss._parts(66, 100, 132) == 2


def test_nothing_of_size_n_squared_is_allocated(device):
    n = 150
    x = stacked(n, 8, device=device)
    with Largest() as ours:
        value_and_gradient(lambda x: fused_loss(x, 0.3, 1, "fp32"), x)
    with Largest() as dense:
        value_and_gradient(lambda x: dense_loss(x, 0.3), x)
    assert dense.bytes >= 4 * (2 * n) ** 2  # the measurement sees what it should
    padded = 512  # rows, with room for a tile that reads past the last
    assert ours.bytes <= 2 * 2 * 16 * padded  # both halves of the operands, 16 columns of fp16


@every_precision
def test_info_nce_goes_through(device, precision):
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
        twin, twin_gradient = value_and_gradient(
            lambda z, i=impl: info_nce_batched(z, 0.3, batch_size, order, impl=i), z
        )
        assert value == pytest.approx(twin, abs=FLOAT32_VALUE + 2 * ROUNDING[precision] / 0.3)
        assert relative_error(gradient, twin_gradient.double()) <= GRADIENT[precision]


@pytest.fixture
def chosen(monkeypatch):
    """Which implementation is called, and with which precision."""
    calls = []

    def spy(name):
        def loss(x, temperature, groups, precision):
            calls.append((name, precision))
            return x.sum() * 0

        return loss

    spies = {name: (spy(name), precisions) for name, (_, precisions) in losses.IMPLEMENTATIONS.items()}
    monkeypatch.setattr(losses, "IMPLEMENTATIONS", spies)
    return calls


@pytest.mark.parametrize(
    ("has_triton", "width", "dtype", "precision", "expected"),
    [
        (False, 4, torch.float32, "fp32", ("tiled", "fp32")),
        (False, 4, torch.float32, "fp16", ("tiled", "fp32")),
        (False, 4, torch.float32, "auto", ("tiled", "fp32")),
        (True, 4, torch.float32, "fp32", ("triton", "fp32")),
        (True, 4, torch.float32, "tf32", ("triton", "tf32")),
        (True, 4, torch.float32, "auto", ("triton", "fp16")),
        (True, 4, torch.float16, "auto", ("triton", "fp16")),
        (True, 512, torch.float32, "bf16", ("triton", "bf16")),
        (True, 513, torch.float32, "fp16", ("tiled", "fp32")),
        (True, 4, torch.float64, "fp32", ("tiled", "fp32")),
        (True, 4, torch.float64, "auto", ("tiled", "fp32")),
    ],
)
def test_auto_takes_triton_where_it_runs(chosen, use_triton, has_triton, width, dtype, precision, expected):
    use_triton(has_triton)
    z = torch.ones(4, width, dtype=dtype)
    info_nce(z, z, precision=precision)
    info_nce_batched(z, 0.3, 2, torch.arange(2), precision=precision)
    assert chosen == [expected, expected]


def test_auto_on_a_cpu_is_tiled(chosen):
    info_nce(torch.ones(3, 2), torch.ones(3, 2))
    assert chosen == [("tiled", "fp32")]


@pytest.mark.parametrize(
    ("impl", "precision", "message"),
    [
        ("triton", "fp8", "precision='fp8': triton has fp32, tf32, fp16, bf16, or auto"),
        ("tiled", "fp16", "precision='fp16': tiled has fp32, or auto"),
        ("dense", "tf32", "precision='tf32': dense has fp32, or auto"),
        ("auto", "fp8", "precision='fp8'"),
    ],
)
def test_a_wrong_precision_names_those_there_are(impl, precision, message):
    z = torch.ones(3, 2)
    with pytest.raises(InputError, match=message):
        info_nce(z, z, impl=impl, precision=precision)


def test_what_triton_cannot_do_is_said(device, monkeypatch):
    z = torch.randn(4, 3, device=device)
    with pytest.raises(InputError, match="impl='triton' has no float64; use impl='auto' or 'tiled'"):
        info_nce(z.double(), z.double(), impl="triton")
    wide = torch.randn(2, 513, device=device)
    with pytest.raises(InputError, match="impl='triton' has no rows wider than 512"):
        info_nce(wide, wide, impl="triton")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(InputError, match="needs the package triton and an NVIDIA GPU, not cpu; use impl='auto'"):
        info_nce(z.cpu(), z.cpu(), impl="triton")
