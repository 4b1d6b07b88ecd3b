import pytest
import torch
import torch.nn.functional as F

from epagcl.core.hardware import has_bf16
from epagcl.distributed.group import Ranks
from epagcl.distributed.partition import Part
from epagcl.losses.infonce.dense import dense_loss
from epagcl.losses.infonce.ring import HOME, RING, _entries, meeting, ring_bytes, ring_loss
from tests.ranks import on_ranks

NODES, WIDTH, TAU = 23, 8, 0.4
#: Numbers of nodes of the ranks, by number of ranks.
PARTITIONS = {
    1: [[23]],
    2: [[12, 11], [20, 3], [23, 0]],
    3: [[8, 8, 7], [0, 23, 0]],
    4: [[6, 6, 6, 5], [1, 0, 15, 7]],
    5: [[5, 5, 5, 4, 4]],
}


def rows(dtype=torch.float64):
    return torch.randn(2 * NODES, WIDTH, generator=torch.Generator().manual_seed(1), dtype=dtype)


def own_rows(x, part):
    """The rows of both views of the nodes of a rank."""
    return torch.cat([view[part.rows] for view in x.chunk(2)])


def whole(parts):
    """The rows of all nodes, first one view, then the other."""
    views = zip(*(part.chunk(2) for part in parts), strict=True)
    return torch.cat([torch.cat(view) for view in views])


def shares_and_gradients(ranks, cases, precision, tile, dtype):
    """The share of this rank, its gradient and its traffic, for each partition."""
    results = []
    for sizes in cases:
        part = Part(ranks, NODES, sizes)
        ranks.sent.clear()
        x = own_rows(rows(dtype), part).requires_grad_()
        share = ring_loss(x, TAU, part, precision, tile)
        share.backward()
        results.append((share.item(), x.grad, dict(ranks.sent)))
    return results


@pytest.mark.slow
@pytest.mark.parametrize("size", PARTITIONS)
def test_shares_and_gradients_equal_the_dense_loss(size):
    x = rows().requires_grad_()
    expected = dense_loss(x, TAU)
    expected.backward()
    for case in zip(*on_ranks(size, shares_and_gradients, PARTITIONS[size], "fp32", 5, torch.float64), strict=True):
        assert sum(share for share, _, _ in case) == pytest.approx(expected.item(), rel=1e-12)
        torch.testing.assert_close(whole([grad for _, grad, _ in case]), x.grad, rtol=1e-10, atol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("size", [3, 4])
def test_traffic_equals_the_closed_form(size):
    cases = PARTITIONS[size]
    for rank, results in enumerate(on_ranks(size, shares_and_gradients, cases, "fp32", 768, torch.float32)):
        for sizes, (_, _, sent) in zip(cases, results, strict=True):
            assert {RING: sent.get(RING, 0), HOME: sent.get(HOME, 0)} == ring_bytes(sizes, WIDTH, rank)


@pytest.mark.slow
@pytest.mark.skipif(not has_bf16(torch.device("cpu")), reason="a CPU without bf16 instructions")
def test_bf16_is_close_to_float32():
    x = rows(torch.float32).requires_grad_()
    expected = dense_loss(x, TAU)
    expected.backward()
    results = [case for (case,) in on_ranks(3, shares_and_gradients, [[8, 8, 7]], "bf16", 16, torch.float32)]
    assert sum(share for share, _, _ in results) == pytest.approx(expected.item(), rel=5e-3)
    gradient = whole([grad for _, grad, _ in results])
    assert F.cosine_similarity(gradient.flatten(), x.grad.flatten(), dim=0) > 0.9995


@pytest.mark.parametrize("size", range(1, 8))
def test_every_product_is_computed_once(size):
    sizes = [1 + rank % 3 for rank in range(size)]
    starts = [2 * sum(sizes[:rank]) for rank in range(size)]
    seen = torch.zeros(2 * sum(sizes), 2 * sum(sizes), dtype=torch.int64)
    for rank in range(size):
        own = slice(starts[rank], starts[rank] + 2 * sizes[rank])
        seen[own, own] += 1
        for step in range(1, size // 2 + 1):
            rows, columns = meeting(rank, step, sizes)
            i = torch.arange(rows.start, rows.stop) + starts[rank]
            j = torch.arange(columns.start, columns.stop) + starts[(rank - step) % size]
            seen[i[:, None], j] += 1
            seen[j[:, None], i] += 1
    assert (seen == 1).all()


def test_one_rank_sends_nothing():
    x = rows().requires_grad_()
    part = Part(Ranks(0, 1), NODES)
    loss = ring_loss(x, TAU, part, tile=7)
    loss.backward()
    expected = dense_loss(y := rows().requires_grad_(), TAU)
    expected.backward()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(x.grad, y.grad)
    assert part.ranks.sent.total() == 0


@pytest.mark.parametrize("sizes", [[5], [4, 3], [3, 2, 2], [2, 2, 2, 2]])
def test_the_ranks_share_the_products_of_the_upper_triangle(sizes):
    nodes = sum(sizes)
    counts = [_entries(Part(Ranks(rank, len(sizes)), nodes, sizes)) for rank in range(len(sizes))]
    assert sum(counts) == 2 * nodes**2  # half of the (2N)² similarities
