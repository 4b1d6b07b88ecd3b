import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from epagcl.core.errors import InputError
from epagcl.losses.infonce.loss import info_nce, info_nce_batched
from epagcl.losses.infonce.tiled import tiled_loss
from tests.conftest import Largest


def pair(n, d, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, d, generator=generator, dtype=dtype, requires_grad=True) for _ in range(2)]


def as_the_paper_writes_it(u, v, tau):
    """l(u_i, v_i) and l(v_i, u_i) summed term by term, averaged over 2N."""
    u, v = u.detach(), v.detach()
    n, total = len(u), 0.0

    def s(a, b):
        return float(F.cosine_similarity(a, b, dim=0)) / tau

    for a, b in ((u, v), (v, u)):
        for i in range(n):
            below = math.exp(s(a[i], b[i]))
            below += sum(math.exp(s(a[i], b[j])) + math.exp(s(a[i], a[j])) for j in range(n) if j != i)
            total -= math.log(math.exp(s(a[i], b[i])) / below)
    return total / (2 * n)


@pytest.mark.parametrize("n", [1, 2, 7])
@pytest.mark.parametrize("impl", ["auto", "tiled", "dense"])
def test_equals_the_paper_term_by_term(n, impl):
    u, v = pair(n, 5)
    assert info_nce(u, v, 0.3, impl=impl).item() == pytest.approx(as_the_paper_writes_it(u, v, 0.3), abs=1e-12)


def test_closed_forms():
    z = torch.ones(9, 4)
    assert info_nce(z, z, 0.5).item() == pytest.approx(math.log(17))  # all rows equal: log(2N − 1)
    u, v = pair(1, 4)
    assert info_nce(u, v, 0.1).item() == pytest.approx(0, abs=1e-12)  # one node has no negatives
    u, v = pair(20, 4)
    assert info_nce(u, v, 0.4) >= math.log(1 + 38 * math.exp(-2 / 0.4))


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
def test_gradcheck(tau):
    u, v = pair(6, 4)
    assert torch.autograd.gradcheck(lambda u, v: tiled_loss(torch.cat([u, v]), tau, tile=5), (u, v))


@pytest.mark.parametrize("rows", ["random", "clustered", "nearly identical"])
@pytest.mark.parametrize("tau", [0.03, 0.07, 0.3, 1.0])
def test_float32_stays_close_to_float64(rows, tau):
    generator = torch.Generator().manual_seed(1)
    spread = {"random": 1.0, "clustered": 0.2, "nearly identical": 1e-3}[rows]
    centres = torch.randn(1 if rows == "nearly identical" else 5, 32, generator=generator)
    u, v = (
        centres[torch.arange(300) % len(centres)] + spread * torch.randn(300, 32, generator=generator) for _ in range(2)
    )
    exact = [t.double().requires_grad_() for t in (u, v)]
    single = [t.clone().requires_grad_() for t in (u, v)]
    loss64, loss32 = info_nce(*exact, tau, impl="dense"), info_nce(*single, tau)
    assert loss32.item() == pytest.approx(loss64.item(), rel=2e-6, abs=2e-6)
    g64, g32 = torch.autograd.grad(loss64, exact), torch.autograd.grad(loss32, single)
    twin = torch.autograd.grad(info_nce(*single, tau, impl="dense"), single)
    for a, b, c in zip(g32, g64, twin, strict=True):
        scale = b.norm()
        # no worse than PyTorch's own single precision on the dense formula, plus a small constant
        assert (a - b).norm() / scale <= (c - b).norm() / scale + 2e-5


def test_symmetry_and_scale():
    u, v = pair(11, 6)
    assert info_nce(u, v, 0.2).item() == pytest.approx(info_nce(v, u, 0.2).item(), abs=1e-12)
    scale = torch.rand(11, 1, dtype=torch.float64) + 0.1
    assert info_nce(scale * u, v, 0.2).item() == pytest.approx(info_nce(u, v, 0.2).item(), abs=1e-12)


def test_grad_output_scales():
    u, v = pair(5, 3)
    (once,) = torch.autograd.grad(info_nce(u, v, 0.3), u)
    (thrice,) = torch.autograd.grad(3 * info_nce(u, v, 0.3), u)
    torch.testing.assert_close(thrice, 3 * once)


def test_half_precision_input_is_computed_in_float32():
    u, v = (t.detach().half() for t in pair(50, 16))
    assert info_nce(u, v, 0.05).dtype == torch.float32
    assert torch.isfinite(info_nce(u, v, 0.03))


def test_repeats_are_bit_equal():
    u, v = pair(900, 16, dtype=torch.float32)
    results = []
    for _ in range(2):
        loss = info_nce(u, v, 0.3)
        results.append((loss, *torch.autograd.grad(loss, (u, v))))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("keep", [0, 2**30])
def test_kept_and_recomputed_tiles_agree_to_the_bit(monkeypatch, keep):
    u, v = pair(40, 6)
    z = torch.cat([u, v])
    (expected,) = torch.autograd.grad(tiled_loss(z, 0.3, tile=16), z, retain_graph=True)
    monkeypatch.setattr("epagcl.losses.infonce.tiled.KEEP_BYTES", keep)
    loss = tiled_loss(z, 0.3, tile=16)
    (first,) = torch.autograd.grad(loss, z, retain_graph=True)
    (second,) = torch.autograd.grad(loss, z, retain_graph=True)  # after the kept tiles are used up
    assert torch.equal(first, expected)
    assert torch.equal(second, expected)


def test_large_graphs_keep_no_tiles(monkeypatch):
    monkeypatch.setattr("epagcl.losses.infonce.tiled.KEEP_BYTES", 10_000)
    u, v = pair(100, 4)
    loss = info_nce(u, v, 0.3)
    assert loss.grad_fn.kept == []
    u, v = pair(10, 4)
    assert len(info_nce(u, v, 0.3).grad_fn.kept) == 1


def test_nothing_of_size_n_squared_is_allocated():
    n, d = 3000, 8
    u, v = pair(n, d, dtype=torch.float32)
    with Largest() as ours:
        torch.autograd.grad(info_nce(u, v, 0.3), (u, v))
    with Largest() as dense:
        torch.autograd.grad(info_nce(u, v, 0.3, impl="dense"), (u, v))
    assert dense.bytes >= 4 * (2 * n) ** 2  # the measurement sees what it should
    assert ours.bytes <= 4 * 768**2


@given(n=st.integers(1, 20), batch=st.integers(1, 24), seed=st.integers(0, 50))
@settings(max_examples=40, deadline=None)
def test_batched_is_info_nce_inside_each_batch(n, batch, seed):
    u, v = pair(n, 4, seed)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    expected = sum(info_nce(u[part], v[part], 0.3, impl="dense") * len(part) for part in order.split(batch)) / n
    ours = info_nce_batched(torch.cat([u, v]), 0.3, batch, order)
    torch.testing.assert_close(ours, expected)
    for a, b in zip(torch.autograd.grad(ours, (u, v)), torch.autograd.grad(expected, (u, v)), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda u, v: info_nce(u, v, 0.01), "temperature=0.01: must be at least 0.03"),
        (lambda u, v: info_nce(u, v[:2]), "both must be"),
        (lambda u, v: info_nce(u, v, impl="fast"), "choose one of auto, triton, tiled, dense"),
        (lambda u, v: info_nce_batched(torch.cat([u, v]), 0.3, 0, torch.arange(3)), "batch_size=0"),
        (lambda u, v: info_nce_batched(torch.cat([u, v]), 0.3, 2, torch.arange(2)), "an order of 2 nodes for 6 rows"),
    ],
)
def test_wrong_arguments_name_the_fix(call, message):
    with pytest.raises(InputError, match=message):
        call(*pair(3, 2))
