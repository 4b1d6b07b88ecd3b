import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from epagcl.core.hardware import ALIGNED
from epagcl.losses.infonce.dense import dense_loss
from epagcl.losses.infonce.loss import info_nce
from epagcl.losses.infonce.tiled import tiled_loss, upper_tiles
from tests.conftest import Largest
from tests.losses.infonce.examples import pair, stacked, value_and_gradient


@given(
    n=st.integers(1, 23), d=st.integers(1, 9), tile=st.integers(1, 50), tau=st.floats(0.03, 2), seed=st.integers(0, 99)
)
@settings(max_examples=80, deadline=None)
def test_tiles_of_any_size_equal_dense_in_value_and_gradient(n, d, tile, tau, seed):
    u, v = pair(n, d, seed)
    ours, dense = tiled_loss(torch.cat([u, v]), tau, tile=tile), info_nce(u, v, tau, impl="dense")
    torch.testing.assert_close(ours, dense, rtol=1e-10, atol=1e-10)
    for a, b in zip(torch.autograd.grad(ours, (u, v)), torch.autograd.grad(dense, (u, v)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("tau", [0.03, 0.3, 1.0])
def test_gradient_by_finite_differences(tau):
    u, v = pair(6, 4)
    assert torch.autograd.gradcheck(lambda u, v: tiled_loss(torch.cat([u, v]), tau, tile=5), (u, v))


@pytest.mark.parametrize("keep", [0, 2**30])
def test_kept_and_recomputed_tiles_are_bit_equal(monkeypatch, keep):
    u, v = pair(40, 6)
    z = torch.cat([u, v])
    (expected,) = torch.autograd.grad(tiled_loss(z, 0.3, tile=16), z, retain_graph=True)
    monkeypatch.setattr("epagcl.losses.infonce.tiled.KEEP_BYTES", keep)
    loss = tiled_loss(z, 0.3, tile=16)
    (first,) = torch.autograd.grad(loss, z, retain_graph=True)
    (second,) = torch.autograd.grad(loss, z, retain_graph=True)  # after the first has overwritten the kept tiles
    assert torch.equal(first, expected)
    assert torch.equal(second, expected)


def test_large_graphs_keep_no_tiles(monkeypatch):
    monkeypatch.setattr("epagcl.losses.infonce.tiled.KEEP_BYTES", 10_000)
    u, v = pair(100, 4)
    loss = info_nce(u, v, 0.3)
    assert loss.grad_fn.kept_tiles == []
    u, v = pair(10, 4)
    assert len(info_nce(u, v, 0.3).grad_fn.kept_tiles) == 1


@pytest.mark.slow
def test_nothing_of_size_n_squared_is_allocated():
    n, d = 3000, 8
    u, v = pair(n, d, dtype=torch.float32)
    with Largest() as ours:
        torch.autograd.grad(info_nce(u, v, 0.3), (u, v))
    with Largest() as dense:
        torch.autograd.grad(info_nce(u, v, 0.3, impl="dense"), (u, v))
    assert dense.bytes >= 4 * (2 * n) ** 2  # so the measurement sees such arrays
    assert ours.bytes <= 4 * 768**2


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize(("rows", "tile"), [(1, 4), (7, 3), (8, 4), (5, 9)])
def test_upper_tiles_cover_the_upper_triangle_once(rows, tile, fresh, device):
    covered = torch.zeros(rows, rows)
    buffers = set()
    for i, j, buffer in upper_tiles(torch.zeros(rows, 2, device=device), tile, fresh=fresh):
        covered[i, j] += 1
        assert buffer.shape == covered[i, j].shape
        buffers.add(buffer.data_ptr())
        assert device.type == "cpu" or fresh or buffer.stride(0) % ALIGNED == 0
    assert (covered[torch.triu(torch.ones(rows, rows)) == 1] == 1).all()
    assert covered.max() == 1
    assert fresh or len(buffers) == 1


@pytest.mark.parametrize("tile", [None, 5])  # small groups as one batched product, and large ones by tiles
def test_groups_equal_dense_in_value_and_gradient(tile):
    x = stacked(7, 4, groups=3).double()
    value, gradient = value_and_gradient(lambda x: tiled_loss(x, 0.3, 3, tile), x)
    expected, expected_gradient = value_and_gradient(lambda x: dense_loss(x, 0.3, 3), x)
    assert value == pytest.approx(expected, abs=1e-12)
    torch.testing.assert_close(gradient, expected_gradient)
