import math

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton")

from epagcl.losses import neighbour_triton, neighbours
from epagcl.losses.infonce.tiles import Tiles
from epagcl.losses.neighbour_triton import neighbour_loss
from epagcl.losses.neighbours import neighbour_nce
from tests.conftest import Largest
from tests.losses.test_neighbours import dense_loss, example

pytestmark = [
    pytest.mark.usefixtures("poisoned_memory"),
    # numpy warns in the interpreter about rows past the end of a batch, which are computed but not stored
    pytest.mark.filterwarnings("ignore:overflow encountered in (cast|multiply|add|exp2):RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:invalid value encountered in (add|matmul):RuntimeWarning"),
]

# The relative error of rounding one number, and that of the gradient's norm: float32 sums in another order, or about 4
# roundings, of both factors and of both operands of the gradient's product.
ROUNDING = {"fp32": 2**-22, "fp16": 2**-11}
GRADIENT = {"fp32": 1e-5, "fp16": 2e-3}
every_precision = pytest.mark.parametrize("precision", list(GRADIENT))


def on(device, a, b, positives):
    """The example as float32 on the device of the kernels."""
    return *(x.detach().float().to(device).requires_grad_() for x in (a, b)), positives.to(device)


def fused(a, b, positives, temperature, size, precision, factor=1.0):
    """The loss by the kernels and its gradients, for rows in the order of their numbers."""
    unit = (F.normalize(x, dim=1) for x in (a, b))
    loss = neighbour_loss(*unit, positives, size, temperature, precision)
    return loss.detach().cpu(), [g.cpu() for g in torch.autograd.grad(factor * loss, (a, b))]


def assert_close(ours, expected, temperature, precision="fp32"):
    """Compare a loss and its gradients with those in float64."""
    (value, gradients), (exact, exact_gradients) = ours, expected
    assert value.item() == pytest.approx(exact.item(), rel=2e-6, abs=2e-6 + 2 * ROUNDING[precision] / temperature)
    for g, h in zip(gradients, exact_gradients, strict=True):
        assert g.dtype == torch.float32
        # Both sides may be 0 but for rounding: the term of a single row has norm 1/(τN‖x‖).
        assert (g - h).norm() <= GRADIENT[precision] * h.norm() + 1e-6


def exact(a, b, positives, temperature, batches):
    loss = dense_loss(a, b, positives, temperature, batches)
    return loss, torch.autograd.grad(loss, (a, b))


def check(device, n, k, d, size, precision="fp32", temperature=0.2, seed=0):
    a, b, positives = example(n, k, seed, d)
    ours = fused(*on(device, a, b, positives), temperature, size, precision)
    assert_close(ours, exact(a, b, positives, temperature, torch.arange(n).split(size)), temperature, precision)


@pytest.fixture(params=["32x32/4/1", "64x32/4/1", "64x64/4/1"])
def tiles(request, monkeypatch):
    """Each shape of tiles, which differ in the number of words of bits of a row or column."""
    monkeypatch.setattr(neighbour_triton, "tiles_for", lambda *_: Tiles.parse(request.param))


@every_precision
@pytest.mark.parametrize(("n", "k", "d", "size"), [(37, 5, 3, 37), (101, 5, 16, 33), (70, 0, 40, 70), (100, 5, 16, 29)])
def test_value_and_gradient_equal_float64(device, n, k, d, size, precision):
    check(device, n, k, d, size, precision)


@pytest.mark.parametrize(("n", "k", "size"), [(150, 5, 150), (150, 20, 71)])
def test_value_and_gradient_do_not_depend_on_the_tiles(device, tiles, n, k, size):
    check(device, n, k, 16, size)


@pytest.mark.parametrize(
    ("n", "k", "size"), [(1, 0, 1), (2, 0, 2), (2, 1, 2), (2, 1, 1), (3, 0, 3), (3, 1, 2), (3, 2, 3), (33, 32, 33)]
)
def test_small_batches_and_rows_without_negatives(device, n, k, size):
    check(device, n, k, 3, size)


@every_precision
def test_a_row_without_negatives_is_attracted_only_and_is_a_negative_of_others(device, precision):
    a, b, _ = example(12, 0, d=8)
    # Rows 0 and 6 have their whole batch as positives. The others list nodes of the other batch, which do not count.
    other = [6, 7, 8, 9, 10]
    positives = torch.tensor([[0, 1, 2, 3, 4, 5]] + [[i, *other] for i in range(1, 6)])
    positives = torch.cat([positives, (positives + 6) % 12])
    ours = fused(*on(device, a, b, positives), 0.1, 6, precision)
    assert_close(ours, exact(a, b, positives, 0.1, torch.arange(12).split(6)), 0.1, precision)


@pytest.mark.parametrize("size", [5, 40, 64, 90, 0])
def test_batches_in_an_order_equal_plain_pytorch(device, use_triton, size):
    a, b, positives = on(device, *example(90, 5, d=12))
    order = torch.randperm(90, generator=torch.Generator().manual_seed(1)).to(device)
    results = []
    for triton in (True, False):
        use_triton(triton)
        loss = neighbour_nce(a, b, positives, 0.2, size, order)
        results.append((loss.detach().cpu(), [g.cpu() for g in torch.autograd.grad(loss, (a, b))]))
    assert_close(*results, 0.2)


@pytest.mark.slow
def test_several_panels_equal_one(device, monkeypatch):
    a, b, positives = on(device, *example(300, 7, d=8))
    value, gradients = fused(a, b, positives, 0.2, 200, "fp16")
    monkeypatch.setattr(neighbour_triton, "PANEL_WORDS", 1)
    again, again_gradients = fused(a, b, positives, 0.2, 200, "fp16")
    assert torch.equal(value, again)
    assert all(torch.equal(g, h) for g, h in zip(gradients, again_gradients, strict=True))


def test_repeated_runs_are_bit_equal(device):
    a, b, positives = on(device, *example(120, 5, d=16))
    (value, gradients), (again, again_gradients) = (fused(a, b, positives, 0.2, 50, "fp16") for _ in range(2))
    assert torch.equal(value, again)
    assert all(torch.equal(g, h) for g, h in zip(gradients, again_gradients, strict=True))


def test_gradient_is_multiplied_by_the_gradient_of_the_loss(device):
    a, b, positives = on(device, *example(40, 5, d=16))
    gradients, threefold = (fused(a, b, positives, 0.2, 40, "fp32", factor)[1] for factor in (1.0, -3.0))
    for g, h in zip(gradients, threefold, strict=True):
        torch.testing.assert_close(-3 * g, h)


@every_precision
def test_positives_do_not_round_off_the_sum_over_negatives(device, precision):
    """At τ = 0.03, e^{1/τ} of the positives is 10²⁹ times e^{−1/τ} of the negatives."""
    a = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]], device=device, requires_grad=True)
    positives = torch.tensor([[0, 1], [1, 0], [2, 3], [3, 2]], device=device)
    value, gradients = fused(a, a, positives, 0.03, 4, precision)
    expected = math.log(2) - 2 / 0.03
    assert value.item() == pytest.approx(expected, rel=2 * ROUNDING[precision] + 1e-6)
    assert all(torch.isfinite(g).all() for g in gradients)


@pytest.mark.parametrize(("setting", "precision"), [("highest", "fp32"), ("high", "fp16"), ("medium", "fp16")])
def test_the_precision_is_that_of_products(device, use_triton, monkeypatch, setting, precision):
    seen = []
    monkeypatch.setattr(neighbour_triton, "neighbour_loss", lambda *arguments: seen.append(arguments[-1]))
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: setting)
    use_triton(True)
    neighbour_nce(*on(device, *example(4, 1)), 0.2)
    assert seen == [precision]


@pytest.mark.skipif(not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="torch before 2.9")
@pytest.mark.parametrize(("setting", "precision"), [("ieee", "fp32"), ("tf32", "fp16")])
def test_the_precision_is_that_of_products_if_set_the_newer_way(setting, precision):
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    try:
        matmul.fp32_precision = setting
        assert neighbours._matmul_precision() == precision
    finally:
        matmul.fp32_precision = before


def test_float64_and_wide_rows_are_computed_in_plain_pytorch(device, use_triton, monkeypatch):
    monkeypatch.setattr(neighbour_triton, "neighbour_loss", None)
    use_triton(True)
    a, b, positives = example(5, 1)
    neighbour_nce(a.to(device), b.to(device), positives.to(device), 0.2)
    neighbour_nce(*on(device, *example(5, 1, d=257)), 0.2)


@pytest.mark.parametrize("shared_memory", [64, 99, 163, 227])
@pytest.mark.parametrize("precision", list(GRADIENT))
def test_tiles_divide_the_padding_and_whole_words(device, monkeypatch, shared_memory, precision):
    monkeypatch.setattr(neighbour_triton, "_shared_memory", lambda _: shared_memory * 1024)
    assert neighbour_triton.max_width(device) == (128 if shared_memory == 64 else 256)
    for width in (16, 128, 256):
        tiles = neighbour_triton.tiles_for(width, precision, device)
        assert neighbour_triton.PAD % tiles.rows == neighbour_triton.PAD % tiles.columns == 0
        assert tiles.rows % 32 == tiles.columns % 32 == 0


def test_nothing_of_size_n_squared_is_allocated(device):
    n, d = 400, 8
    a, b, positives = on(device, *example(n, 0, d=d))
    with Largest() as largest:
        fused(a, b, positives, 0.2, n, "fp16")
    assert largest.bytes <= 4 * 2 * (n + neighbour_triton.PAD) * 16  # the operands, padded to 16 columns


@pytest.mark.parametrize("size", [1, 127, 128, 700, 5000])
def test_panels_cover_all_rows_in_limited_memory(monkeypatch, size):
    monkeypatch.setattr(neighbour_triton, "PANEL_WORDS", 2**15)
    panels = neighbour_triton._Panels(torch.arange(5000)[:, None], size)
    rows = [row for first, num_rows in panels for row in range(first, first + num_rows)]
    assert rows == list(range(size))
    least = min(neighbour_triton.PAD, size)  # rows of a panel
    for first, num_rows in panels:
        assert first % neighbour_triton.PAD == 0
        words = panels.batches * num_rows * neighbour_triton._num_words(size)
        assert num_rows == least or words <= 2**15
