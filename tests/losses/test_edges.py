import math

import pytest
import torch
from torch_geometric.data import Data

from epagcl.core.randomness import other_nodes
from epagcl.data import check
from epagcl.data.graph import Graph
from epagcl.losses import edges
from epagcl.losses.edges import edge_loss
from tests.conftest import Largest, random_edges


def pattern_of(n, density=0.2, seed=0):
    return Graph.from_data(check(Data(x=torch.eye(n), edge_index=random_edges(n, density, seed)))).pattern


def embeddings(n, d, seed=0, dtype=torch.float64):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=dtype, requires_grad=True)


def dense_edge_loss(h, pattern):
    """L_E as in the authors' code: w₂·mean(−w₁ t log p − (1 − t) log(1 − p)) with p = σ(hhᵀ), over all N² pairs."""
    n = h.shape[0]
    t = torch.zeros(n, n, dtype=h.dtype).index_put((pattern.row, pattern.col), torch.ones((), dtype=h.dtype))
    p = (h @ h.T).sigmoid()
    num_edges = t.sum() / 2
    w1, w2 = (n * n - num_edges) / num_edges, n * n / (n * n - num_edges)
    return w2 * (-w1 * t * p.log() - (1 - t) * (1 - p).log()).mean()


def value_and_gradient(loss, h):
    value = loss(h)
    return value, *torch.autograd.grad(value, h)


@pytest.mark.parametrize(("n", "tile"), [(37, 8), (37, 36), (37, 37), (40, 8), (2, 1), (5, 768)])
def test_tiles_equal_the_dense_formula(monkeypatch, n, tile):
    monkeypatch.setitem(edges.TILE, "cpu", tile)
    h, pattern = embeddings(n, 6), pattern_of(n)
    expected = value_and_gradient(lambda h: dense_edge_loss(h, pattern), h)
    ours = value_and_gradient(lambda h: edge_loss(h, pattern), h)
    torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("n", "tile"), [(37, 8), (37, 37), (40, 24)])
def test_the_kernel_equals_the_dense_formula(monkeypatch, device, use_triton, n, tile):
    pytest.importorskip("triton")
    use_triton(True)
    monkeypatch.setitem(edges.TILE, device.type, tile)
    data = check(Data(x=torch.eye(n), edge_index=random_edges(n, 0.2, 0)))
    h, pattern = embeddings(n, 6, dtype=torch.float32), Graph.from_data(data, device).pattern
    expected = value_and_gradient(lambda h: dense_edge_loss(h.double(), pattern_of(n)).float(), h)
    h = h.detach().to(device).requires_grad_()
    ours = value_and_gradient(lambda h: edge_loss(h, pattern), h)
    torch.testing.assert_close([t.cpu() for t in ours], list(expected), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(edge_loss(h.detach(), pattern), ours[0].detach(), rtol=1e-6, atol=0)


def test_two_nodes_and_one_edge_computed_by_hand():
    # t is 1 for all four pairs, so E' = 2, w₁ = 1, w₂ = 2: twice the mean of log(1 + e^-s), where s = 1, 2, 2, 4.
    h = torch.tensor([[1.0], [2.0]], dtype=torch.float64, requires_grad=True)
    pattern = Graph.from_data(check(Data(x=torch.eye(2), edge_index=torch.tensor([[0], [1]])))).pattern
    sp, sigmoid = (lambda s: math.log1p(math.exp(s))), (lambda s: 1 / (1 + math.exp(-s)))
    value, gradient = value_and_gradient(lambda h: edge_loss(h, pattern), h)
    assert value.item() == pytest.approx((sp(-1) + sp(-4) + 2 * sp(-2)) / 2)
    expected = [-(sigmoid(-1) * 1 + sigmoid(-2) * 2), -(sigmoid(-2) * 1 + sigmoid(-4) * 2)]
    assert gradient.flatten().tolist() == pytest.approx(expected)
    others = other_nodes(2, 1, 0)  # each node has one other node, so the estimate is exact
    torch.testing.assert_close(edge_loss(h, pattern, others), value)


def test_sampling_all_other_nodes_is_exact():
    n = 23
    h, pattern = embeddings(n, 5), pattern_of(n)
    others = (torch.arange(n) + torch.arange(1, n)[:, None]) % n
    expected = value_and_gradient(lambda h: edge_loss(h, pattern), h)
    ours = value_and_gradient(lambda h: edge_loss(h, pattern, others), h)
    torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-12)


def test_the_sampled_loss_is_unbiased():
    n, draws = 12, 1000
    h, pattern = embeddings(n, 3).detach(), pattern_of(n)
    values = torch.stack([edge_loss(h, pattern, other_nodes(n, 2, 5, epoch)) for epoch in range(draws)])
    error = values.std() / math.sqrt(draws)
    assert error > 0
    assert abs(values.mean() - edge_loss(h, pattern)) < 4 * error


def test_float32_is_close_to_float64_and_large_products_are_finite():
    h, pattern = embeddings(50, 8, dtype=torch.float32), pattern_of(50)
    expected = value_and_gradient(lambda h: dense_edge_loss(h.double(), pattern).float(), h)
    torch.testing.assert_close(value_and_gradient(lambda h: edge_loss(h, pattern), h), expected, rtol=1e-5, atol=1e-6)
    for others in (None, other_nodes(50, 3, 0)):
        value, gradient = value_and_gradient(lambda h, others=others: edge_loss(100 * h, pattern, others), h)
        assert value.isfinite()
        assert gradient.isfinite().all()
        assert (gradient != 0).any(dim=1).all()  # log(p + 1e-10) would have no gradient here


def test_the_gradient_scales_and_rows_need_not_be_contiguous():
    h, pattern = embeddings(20, 4), pattern_of(20)
    loss = edge_loss(h, pattern)
    (once,) = torch.autograd.grad(loss, h, retain_graph=True)
    (thrice,) = torch.autograd.grad(3 * loss, h)
    torch.testing.assert_close(thrice, 3 * once)
    wide = torch.cat([h, h], 1).detach().requires_grad_()  # its right half is not contiguous
    torch.testing.assert_close(edge_loss(wide[:, 4:], pattern), loss.detach())


@pytest.mark.parametrize("pairs", [0, 3])
def test_nothing_of_size_n_squared_is_allocated(monkeypatch, pairs):
    n, tile = 600, 64
    monkeypatch.setitem(edges.TILE, "cpu", tile)
    h, pattern = embeddings(n, 8, dtype=torch.float32), pattern_of(n, density=0.005)
    others = other_nodes(n, pairs, 0) if pairs else None
    with Largest() as ours:
        value_and_gradient(lambda h: edge_loss(h, pattern, others), h)
    with Largest() as dense:
        value_and_gradient(lambda h: dense_edge_loss(h, pattern), h)
    assert dense.bytes >= 4 * n * n  # so the measurement sees such arrays
    entries = pattern.col.numel()
    assert ours.bytes <= 8 * max(tile**2, n * 8, pairs * n, entries * 8)
    assert ours.bytes < 4 * n * n / 8
