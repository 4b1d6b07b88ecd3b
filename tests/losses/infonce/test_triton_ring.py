"""The ring loss by Triton's kernels, in the interpreter on several ranks."""

import pytest
import torch

pytest.importorskip("triton")

from epagcl.core.hardware import force_triton
from epagcl.distributed.group import Ranks
from epagcl.distributed.partition import Part
from epagcl.losses.infonce.dense import dense_loss
from epagcl.losses.infonce.loss import info_nce_stacked
from epagcl.losses.infonce.ring import HOME, RING, ring_bytes, ring_loss
from tests.conftest import interpreted
from tests.losses.infonce.test_ring import NODES, TAU, WIDTH, own_rows, rows, whole
from tests.ranks import on_ranks


def shares_and_gradients(ranks, cases, precision):
    results = []
    for sizes in cases:
        part = Part(ranks, NODES, sizes)
        ranks.sent.clear()
        x = own_rows(rows(torch.float32), part).requires_grad_()
        with force_triton(True):
            share = info_nce_stacked(x, TAU, precision=precision, part=part)
        share.backward()
        results.append((share.item(), x.grad, dict(ranks.sent)))
    return results


def expected():
    x = rows(torch.float32).double().requires_grad_()
    loss = dense_loss(x, TAU)
    loss.backward()
    return loss.item(), x.grad


@interpreted
@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "error", "cases"),
    [("fp32", 2e-5, [[12, 11], [20, 3], [23, 0]]), ("auto", 2e-3, [[12, 11]]), ("fp32", 2e-5, [[8, 8, 7], [0, 23, 0]])],
    ids=["two", "two-fp16", "three"],
)
def test_shares_and_gradients_equal_float64(precision, error, cases):
    loss, gradient = expected()
    for case in zip(*on_ranks(len(cases[0]), shares_and_gradients, cases, precision), strict=True):
        assert sum(share for share, _, _ in case) == pytest.approx(loss, rel=error)
        found = whole([grad for _, grad, _ in case]).double()
        assert (found - gradient).norm() <= error * gradient.norm()


@interpreted
@pytest.mark.slow
@pytest.mark.parametrize(("precision", "itemsize"), [("fp16", 2), ("fp32", 4)])
def test_rows_travel_in_the_precision_of_the_kernels(precision, itemsize):
    sizes, padded = [9, 8, 6], 16  # the width of a tile
    for rank, ((_, _, sent),) in enumerate(on_ranks(3, shares_and_gradients, [sizes], precision)):
        assert sent[RING] == ring_bytes(sizes, padded, rank, itemsize)[RING]
        assert sent[HOME] == ring_bytes(sizes, WIDTH, rank, itemsize)[HOME]


@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid value encountered in (add|matmul):RuntimeWarning")
@pytest.mark.usefixtures("untimed_tiles")
def test_one_rank_computes_the_loss_of_one_process(device):
    x = rows(torch.float32).to(device).requires_grad_()
    ring = ring_loss(x, TAU, Part(Ranks(0, 1), NODES), "fp32", triton=True)
    (gradient,) = torch.autograd.grad(ring, x)
    with force_triton(True):
        loss = info_nce_stacked(x, TAU, precision="fp32")
    torch.testing.assert_close(ring, loss, rtol=1e-6, atol=0)
    torch.testing.assert_close(gradient, torch.autograd.grad(loss, x)[0], rtol=1e-4, atol=1e-7)
    assert gradient.shape == (2 * NODES, WIDTH)
