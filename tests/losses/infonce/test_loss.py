import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from epagcl.core.errors import InputError
from epagcl.core.hardware import force_bf16
from epagcl.distributed.group import Ranks
from epagcl.distributed.partition import Part
from epagcl.losses.infonce import loss as loss_module
from epagcl.losses.infonce.loss import Implementation, info_nce, info_nce_batched, info_nce_stacked
from tests.losses.infonce.examples import pair
from tests.ranks import on_ranks


def paper_loss(u, v, tau):
    """The paper's loss term by term: the mean of l(u_i, v_i) and l(v_i, u_i) over the 2N terms."""
    u, v = u.detach(), v.detach()
    n, total = len(u), 0.0

    def s(a, b):
        return float(F.cosine_similarity(a, b, dim=0)) / tau

    for a, b in ((u, v), (v, u)):
        for i in range(n):
            denominator = math.exp(s(a[i], b[i]))
            denominator += sum(math.exp(s(a[i], b[j])) + math.exp(s(a[i], a[j])) for j in range(n) if j != i)
            total -= math.log(math.exp(s(a[i], b[i])) / denominator)
    return total / (2 * n)


@pytest.mark.parametrize("n", [1, 2, 7])
@pytest.mark.parametrize("impl", ["auto", "tiled", "dense"])
def test_equals_the_paper_term_by_term(n, impl):
    u, v = pair(n, 5)
    assert info_nce(u, v, 0.3, impl=impl).item() == pytest.approx(paper_loss(u, v, 0.3), abs=1e-12)


def test_closed_forms():
    z = torch.ones(9, 4)
    assert info_nce(z, z, 0.5).item() == pytest.approx(math.log(17))  # all rows equal: log(2N − 1)
    u, v = pair(1, 4)
    assert info_nce(u, v, 0.1).item() == pytest.approx(0, abs=1e-12)  # one node has no negatives
    u, v = pair(20, 4)
    assert info_nce(u, v, 0.4) >= math.log(1 + 38 * math.exp(-2 / 0.4))


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
    dense = torch.autograd.grad(info_nce(*single, tau, impl="dense"), single)
    for a, b, c in zip(g32, g64, dense, strict=True):
        scale = b.norm()
        # No worse than PyTorch in float32 on the dense formula, plus a small constant.
        assert (a - b).norm() / scale <= (c - b).norm() / scale + 2e-5


def test_views_can_be_swapped_and_rows_can_be_scaled():
    u, v = pair(11, 6)
    assert info_nce(u, v, 0.2).item() == pytest.approx(info_nce(v, u, 0.2).item(), abs=1e-12)
    scale = torch.rand(11, 1, dtype=torch.float64) + 0.1
    assert info_nce(scale * u, v, 0.2).item() == pytest.approx(info_nce(u, v, 0.2).item(), abs=1e-12)


def test_the_gradient_scales_with_the_loss():
    u, v = pair(5, 3)
    (once,) = torch.autograd.grad(info_nce(u, v, 0.3), u)
    (thrice,) = torch.autograd.grad(3 * info_nce(u, v, 0.3), u)
    torch.testing.assert_close(thrice, 3 * once)


def test_half_precision_input_is_computed_in_float32():
    u, v = (t.detach().half() for t in pair(50, 16))
    assert info_nce(u, v, 0.05).dtype == torch.float32
    assert torch.isfinite(info_nce(u, v, 0.03))


def test_repeated_calls_are_bit_equal():
    u, v = pair(900, 16, dtype=torch.float32)
    results = []
    for _ in range(2):
        loss = info_nce(u, v, 0.3)
        results.append((loss, *torch.autograd.grad(loss, (u, v))))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


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


def member_rows(members, n, d=4, seed=0):
    """Return the projections of several members, each with both views below each other."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(members * 2 * n, d, generator=generator, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("impl", ["auto", "tiled", "dense"])
@pytest.mark.parametrize("members", [1, 2, 5])
def test_the_loss_of_several_members_is_the_mean_of_their_losses(members, impl):
    z = member_rows(members, 9)
    ours = info_nce_stacked(z, 0.3, members=members, impl=impl)
    expected = sum(info_nce(*part.chunk(2), 0.3, impl="dense") for part in z.chunk(members)) / members
    torch.testing.assert_close(ours, expected)
    torch.testing.assert_close(*(torch.autograd.grad(loss, z) for loss in (ours, expected)))


@pytest.mark.parametrize("batch", [1, 4, 9, 12])  # 4: the last batch is smaller
@pytest.mark.parametrize("members", [1, 2, 3])
def test_the_batched_loss_of_several_members_is_the_mean_of_their_losses(members, batch):
    z, order = member_rows(members, 9), torch.randperm(9, generator=torch.Generator().manual_seed(1))
    ours = info_nce_batched(z, 0.3, batch, order, members=members)
    expected = sum(info_nce_batched(part, 0.3, batch, order) for part in z.chunk(members)) / members
    torch.testing.assert_close(ours, expected)
    torch.testing.assert_close(*(torch.autograd.grad(loss, z) for loss in (ours, expected)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda u, v: info_nce(u, v, 0.01), "temperature=0.01: must be at least 0.03"),
        (lambda u, v: info_nce(u, v[:2]), r"z1 and z2 have the shapes \(3, 2\) and \(2, 2\); both must be \[N, d\]"),
        (lambda u, v: info_nce(u[:0], v[:0]), r"both must be \[N, d\] with N ≥ 1"),
        (lambda u, v: info_nce(u[0], v[0]), r"both must be \[N, d\] with N ≥ 1"),
        (lambda u, v: info_nce_stacked(u, 0.3), r"z has the shape \(3, 2\); it must be \[2N, d\]"),
        (
            lambda u, v: info_nce_stacked(torch.cat([u, v]), 0.3, members=2),
            r"z has the shape \(6, 2\); it must be \[2·2N, d\]",
        ),
        (
            lambda u, v: info_nce_batched(torch.cat([u, v, u, v]), 0.3, 2, torch.arange(6), members=2),
            "order has 6 nodes for 12 rows of z",
        ),
        (lambda u, v: info_nce(u, v, math.nan), "temperature=nan: must be at least 0.03"),
        (lambda u, v: info_nce(u, v, impl="fast"), "choose one of auto, triton, tiled, dense"),
        (lambda u, v: info_nce_batched(torch.cat([u, v]), 0.3, 0, torch.arange(3)), "batch_size=0"),
        (
            lambda u, v: info_nce_batched(torch.cat([u, v]), 0.3, 2, torch.arange(2)),
            "order has 2 nodes for 6 rows of z",
        ),
    ],
)
def test_errors_name_the_argument_and_the_fix(call, message):
    with pytest.raises(InputError, match=message):
        call(*pair(3, 2))


@pytest.fixture
def calls(monkeypatch):
    """The implementations that are called, each with its precision."""
    recorded = []

    def spy(name):
        def loss(x, temperature, groups, precision):
            recorded.append((name, precision))
            return x.sum() * 0

        return loss

    spies = {
        name: Implementation(spy(name), precisions) for name, (_, precisions) in loss_module.IMPLEMENTATIONS.items()
    }
    monkeypatch.setattr(loss_module, "IMPLEMENTATIONS", spies)
    return recorded


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
def test_auto_takes_triton_where_it_runs(calls, use_triton, has_triton, width, dtype, precision, expected):
    use_triton(has_triton)
    z = torch.ones(4, width, dtype=dtype)
    info_nce(z, z, precision=precision)
    info_nce_batched(z, 0.3, 2, torch.arange(2), precision=precision)
    assert calls == [expected, expected]


def test_auto_on_a_cpu_is_tiled(calls):
    info_nce(torch.ones(3, 2), torch.ones(3, 2))
    assert calls == [("tiled", "fp32")]


@pytest.mark.parametrize(
    ("precision", "dtype", "rows", "expected"),
    [
        ("auto", torch.float32, 128, "bf16"),
        ("bf16", torch.float32, 128, "bf16"),
        ("bf16", torch.float16, 128, "bf16"),
        ("bf16", torch.float64, 128, "fp32"),
        ("bf16", torch.float32, 126, "fp32"),  # too few rows
        ("fp16", torch.float32, 128, "fp32"),  # at least the requested precision
        ("tf32", torch.float32, 128, "fp32"),
        ("fp32", torch.float32, 128, "fp32"),
    ],
)
def test_bf16_is_used_on_cpus_that_have_it(calls, precision, dtype, rows, expected):
    z = torch.ones(rows // 2, 4, dtype=dtype)
    for on in (True, False):
        with force_bf16(on):
            info_nce(z, z, precision=precision)
    assert calls == [("tiled", expected), ("tiled", "fp32")]


@pytest.mark.parametrize(
    ("impl", "precision", "message"),
    [
        ("triton", "fp8", "precision='fp8': triton supports fp32, tf32, fp16, bf16, or auto"),
        ("tiled", "fp16", "precision='fp16': tiled supports fp32, bf16, or auto"),
        ("dense", "tf32", "precision='tf32': dense supports fp32, or auto"),
        ("auto", "fp8", "precision='fp8'"),
    ],
)
def test_an_unsupported_precision_is_an_error_with_the_supported_ones(impl, precision, message):
    z = torch.ones(3, 2)
    with pytest.raises(InputError, match=message):
        info_nce(z, z, impl=impl, precision=precision)


def test_input_that_triton_does_not_support_is_an_error(device, monkeypatch):
    z = torch.randn(4, 3, device=device)
    with pytest.raises(InputError, match="impl='triton' does not support float64; use impl='auto' or 'tiled'"):
        info_nce(z.double(), z.double(), impl="triton")
    wide = torch.randn(2, 513, device=device)
    with pytest.raises(InputError, match="impl='triton' does not support rows wider than 512"):
        info_nce(wide, wide, impl="triton")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(InputError, match="needs the package triton and an NVIDIA GPU, not cpu; use impl='auto'"):
        info_nce(z.cpu(), z.cpu(), impl="triton")


def _batched_shares(ranks, z, order, batch_size):
    part = Part(ranks, order.numel())
    own = torch.cat([view[part.rows] for view in z.chunk(2)])
    return info_nce_batched(own, 0.3, batch_size, order, part=part).item()


@pytest.mark.slow
def test_the_shares_of_the_ranks_add_up_to_the_batched_loss():
    generator = torch.Generator().manual_seed(0)
    z, order = torch.randn(2 * 23, 4, generator=generator, dtype=torch.float64), torch.randperm(23, generator=generator)
    expected = info_nce_batched(z, 0.3, 4, order).item()
    assert sum(on_ranks(3, _batched_shares, z, order, 4)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
def test_the_only_rank_has_the_whole_loss_of_all_members(members, dtype):
    z = torch.randn(members * 2 * 7, 4, generator=torch.Generator().manual_seed(0)).to(dtype)
    found = info_nce_stacked(z, 0.3, members=members, precision="fp32", part=Part(Ranks(0, 1), 7))
    expected = info_nce_stacked(z.double(), 0.3, members=members)
    assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert found.item() == pytest.approx(expected.item(), rel={torch.float64: 1e-12}.get(dtype, 1e-5))


def test_a_rank_without_bf16_computes_in_fp32():
    z = torch.randn(2 * 70, 4, generator=torch.Generator().manual_seed(0))
    with force_bf16(False):
        found = info_nce_stacked(z, 0.3, precision="bf16", part=Part(Ranks(0, 1), 70))
    assert found.item() == pytest.approx(info_nce_stacked(z.double(), 0.3).item(), rel=1e-6)


def test_ranks_check_the_temperature():
    part = Part(Ranks(0, 1), 2)
    with pytest.raises(InputError, match=r"temperature=0\.01"):
        info_nce_stacked(torch.eye(4), 0.01, part=part)


def test_batches_check_the_temperature():
    with pytest.raises(InputError, match="temperature"):
        info_nce_batched(torch.eye(4), 0.01, 2, torch.arange(2))


def test_batches_of_ranks_check_the_temperature_before_rows_are_sent(monkeypatch):
    monkeypatch.setattr(loss_module, "_own_batches", lambda *arguments: pytest.fail("rows were sent"))
    with pytest.raises(InputError, match="temperature"):
        info_nce_batched(torch.eye(4), 0.01, 2, torch.arange(2), part=Part(Ranks(0, 1), 2))
