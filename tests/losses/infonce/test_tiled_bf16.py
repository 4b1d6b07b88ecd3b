import pytest
import torch

from epagcl.losses.infonce.dense import dense_loss
from epagcl.losses.infonce.loss import info_nce_batched, info_nce_stacked
from epagcl.losses.infonce.tiled_bf16 import _slices, tiled_bf16_loss
from tests.conftest import Largest
from tests.losses.infonce.examples import stacked, value_and_gradient

pytestmark = pytest.mark.usefixtures("use_bf16")

# Bounds of the error against float64: of the loss, absolute; of the gradient, relative. Each E_ij has a relative error
# of at most 2⁻⁹ from its rounding, and 2⁻⁸/τ from that of its operands, most of which cancels in the sums.
VALUE = 3e-3
GRADIENT = {0.03: 1.5e-2, 0.1: 1e-2, 0.3: 8e-3, 1.0: 2e-3}


def errors(x, tau, groups=1, **options):
    value, gradient = value_and_gradient(lambda x: tiled_bf16_loss(x, tau, groups, **options), x)
    exact, exact_gradient = value_and_gradient(lambda x: dense_loss(x, tau, groups), x.double())
    return abs(value - exact), ((gradient - exact_gradient).norm() / exact_gradient.norm()).item()


@pytest.mark.parametrize("tau", GRADIENT)
@pytest.mark.parametrize("rows", ["random", "clustered", "nearly identical"])
@pytest.mark.parametrize("seed", [1, 2])
def test_errors_are_bounded(rows, tau, seed):
    value, gradient = errors(stacked(300, 64, rows, seed), tau, tile=128)
    assert value <= VALUE
    assert gradient <= GRADIENT[tau]


@pytest.mark.parametrize(("n", "d", "tile"), [(64, 3, 768), (65, 33, 128), (100, 2, 7), (77, 40, 153)])
def test_any_number_of_rows_and_columns(n, d, tile):
    value, gradient = errors(stacked(n, d), 0.3, tile=tile)
    assert value <= VALUE
    assert gradient <= GRADIENT[0.3]


@pytest.mark.parametrize("tile", [768, 50])
def test_groups_are_separate_losses(tile):
    value, gradient = errors(stacked(70, 24, groups=3), 0.3, 3, tile=tile)
    assert value <= VALUE
    assert gradient <= GRADIENT[0.3]


def test_bf16_does_not_depend_on_how_the_loss_is_called():
    x = stacked(96, 16)
    expected = tiled_bf16_loss(x, 0.3)
    for precision in ("bf16", "auto"):
        assert info_nce_stacked(x, 0.3, precision=precision) == expected
        assert info_nce_batched(x, 0.3, 96, torch.arange(96), precision=precision) == expected
    assert info_nce_stacked(x, 0.3) != expected  # the default is exact


@pytest.mark.parametrize("keep", [0, 2**30])
def test_kept_and_recomputed_tiles_are_bit_equal(monkeypatch, keep):
    x = stacked(80, 24).requires_grad_()
    (expected,) = torch.autograd.grad(tiled_bf16_loss(x, 0.3, tile=64), x)
    monkeypatch.setattr("epagcl.losses.infonce.tiled_bf16.KEEP_BYTES", keep)
    loss = tiled_bf16_loss(x, 0.3, tile=64)
    assert bool(loss.grad_fn.kept_tiles) == bool(keep)
    (first,) = torch.autograd.grad(loss, x, retain_graph=True)
    (second,) = torch.autograd.grad(loss, x, retain_graph=True)  # after the first has overwritten the kept tiles
    assert torch.equal(first, expected)
    assert torch.equal(second, expected)


def test_no_tiles_are_kept_without_gradient():
    with torch.no_grad():
        value = tiled_bf16_loss(stacked(80, 24), 0.3)
    assert value.grad_fn is None


@pytest.mark.slow
def test_nothing_of_size_n_squared_is_allocated():
    x = stacked(3000, 8).requires_grad_()
    with Largest() as largest:
        tiled_bf16_loss(x, 0.3).backward()
    assert largest.bytes <= 4 * 768**2


@pytest.mark.parametrize(("rows", "groups", "tile"), [(7, 1, 3), (12, 3, 2), (12, 2, 9), (4, 4, 1)])
def test_slices_cover_the_upper_triangle_of_each_group_once(rows, groups, tile):
    covered = torch.zeros(rows, rows)
    for i, j in _slices(rows, groups, tile):
        covered[i, j] += 1
    group = torch.arange(rows) // (rows // groups)
    same = group[:, None] == group[None]
    assert (covered[same.triu()] == 1).all()
    assert (covered[~same] == 0).all()
    assert covered.max() == 1
