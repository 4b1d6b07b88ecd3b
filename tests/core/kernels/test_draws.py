import pytest
import torch

pytest.importorskip("triton")

from epagcl.core.hashing import fold, hash64
from epagcl.core.kernels import launch
from epagcl.core.kernels.draws import hash_stream, view_weights
from epagcl.core.kernels.launch import RowChunks
from epagcl.core.randomness import Stream, dropout, other_nodes, permutation, uniform, uniform64
from epagcl.core.sparse import SparseMatrix, rowptr_of
from epagcl.views.masks import feature_masks
from epagcl.views.probabilities import EdgeProbabilities, edge_probabilities
from epagcl.views.sampling import Views, ViewSampler
from tests.conftest import random_edges
from tests.core.kernels.matrices import dense_of, two_views

pytestmark = pytest.mark.usefixtures("poisoned_memory")


@pytest.mark.parametrize("epoch", [0, 1, 199, 2**40])
@pytest.mark.parametrize("before", [(), (5,), (2**62, Stream.EDGES)])
@pytest.mark.parametrize("after", [(), (0,), (1,), (2**40 + 3,)])
def test_hash_stream_hashes_the_folded_stream(device, epoch, before, after):
    counter = torch.tensor([0, 1, 2**31, 2**62 + 7, -1, -(2**63)], device=device)
    expected = hash64(counter ^ fold((*before, epoch, *after)))
    assert torch.equal(hash_stream(counter, before, torch.tensor(epoch, device=device), after), expected)


def test_at_most_one_word_follows_the_epoch(device):
    counter = torch.arange(3, device=device)
    with pytest.raises(AssertionError, match="at most one integer after the epoch"):
        hash_stream(counter, (7,), torch.tensor(0, device=device), (1, 2))


@pytest.mark.parametrize("shape", [(0,), (1,), (1024,), (1025,), (40, 60)])
def test_hash_stream_accepts_counters_of_any_shape(device, shape):
    counter = torch.arange(torch.Size(shape).numel(), device=device).view(shape)
    epoch = torch.tensor(3, device=device)
    assert torch.equal(hash_stream(counter, (7,), epoch, (1,)), hash64(counter ^ fold((7, 3, 1))))


def test_an_epoch_changed_in_place_gives_new_draws(device):
    counter, epoch = torch.arange(50, device=device), torch.tensor(3, device=device)
    hash_stream(counter, (7,), epoch)
    epoch.fill_(4)
    assert torch.equal(hash_stream(counter, (7,), epoch), hash64(counter ^ fold((7, 4))))


def test_draws_by_the_kernel_equal_draws_in_plain_torch(device, use_triton):
    counter, epoch = torch.arange(300, device=device), torch.tensor(11, device=device)
    expected = (
        uniform(counter, 3, Stream.EDGES, 11, 1),
        uniform64(counter, 3, 11),
        permutation(300, 3, Stream.BATCHES, 11, device=device),
        feature_masks(40, (0.3, 0.0), seed=3, epoch=11, device=device),
    )
    use_triton(True)
    draws = (
        uniform(counter, 3, Stream.EDGES, epoch, 1),
        uniform64(counter, 3, epoch),
        permutation(300, 3, Stream.BATCHES, epoch, device=device),
        feature_masks(40, (0.3, 0.0), seed=3, epoch=epoch, device=device),
    )
    assert all(torch.equal(a, b) for a, b in zip(draws, expected, strict=True))


def test_other_nodes_and_dropout_by_the_kernel_equal_plain_torch(device, use_triton):
    x, epoch = torch.rand(40, 3, device=device), torch.tensor(11, device=device)
    streams = [(3, Stream.NEGATIVES, e, 1) for e in (11, epoch)]
    expected = other_nodes(31, 4, *streams[0], device=device), dropout(x, 0.4, *streams[0])
    use_triton(True)
    draws = other_nodes(31, 4, *streams[1], device=device), dropout(x, 0.4, *streams[1])
    assert all(torch.equal(a, b) for a, b in zip(draws, expected, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("num_nodes", "p_drop", "p_add", "isolated"),
    [(2, 0.5, 0.5, 0), (17, 0.3, 0.0, 0), (20, 0.4, 0.3, 3), (12, 1.0, 0.0, 0), (12, 1.0, 0.6, 2), (9, 0.0, 0.9, 0)],
)
def test_weights_on_the_fixed_pattern_equal_the_compacted_views(device, use_triton, num_nodes, p_drop, p_add, isolated):
    views = two_views(num_nodes, p_drop, p_add, isolated=isolated, seed=num_nodes, device=device)
    for epoch in (0, 1, 57):
        use_triton(False)
        expected = dense_of(views.adjacency(epoch))
        use_triton(True)
        for number in (epoch, torch.tensor(epoch, device=device)):
            adjacency = views.adjacency(number)
            torch.testing.assert_close(dense_of(adjacency), expected)
            assert adjacency.symmetric
            assert adjacency.T is adjacency
    if p_drop == 1 and p_add == 0:
        assert torch.equal(expected, torch.eye(num_nodes, device=device).repeat(2, 1))


@pytest.mark.slow
def test_views_with_rows_longer_than_a_chunk(device, use_triton, monkeypatch):
    monkeypatch.setattr(launch, "MAX_CHUNK", 4)
    views = two_views(16, 0.3, 0.2, density=0.6, device=device)
    use_triton(False)
    expected = dense_of(views.adjacency(5))
    use_triton(True)
    adjacency = views.adjacency(5)
    assert adjacency.chunks.long_row.numel() > 10
    torch.testing.assert_close(dense_of(adjacency), expected)


def test_views_of_different_pairs_share_the_union_of_their_patterns(device, use_triton):
    none = torch.empty(2, 0, dtype=torch.long)
    one, other = torch.tensor([[0, 1], [1, 2]]), torch.tensor([[0, 2], [3, 3]])
    views = Views(
        ViewSampler(EdgeProbabilities(pairs, torch.zeros(2), none, torch.empty(0)).to(device), 5, seed=0, view=view)
        for view, pairs in enumerate((one, other))
    )
    use_triton(True)
    first, second = dense_of(views.adjacency(0)).cpu().split(5)
    for dense, pairs in ((first, one), (second, other)):
        assert dense.triu(1).nonzero().T.tolist() == pairs.tolist()


def test_the_pattern_of_the_views_is_symmetric_and_always_has_loops(device):
    pattern, keep = two_views(20, 0.4, 0.3, device=device)._pattern
    for k in keep:
        dense = dense_of(SparseMatrix(pattern.rowptr, pattern.col, k, pattern.shape))
        assert torch.equal(dense, dense.T)
        assert (dense.diagonal() > 1).all()


def test_view_weights_of_a_path_computed_by_hand(device):
    # The path 0 - 1 - 2. The first view has all pairs, the second none.
    row, col = torch.tensor([[0, 0, 1, 1, 1, 2, 2], [0, 1, 0, 1, 2, 1, 2]], device=device)
    sure = torch.where(row == col, 2.0, 1.0)
    keep = torch.stack([sure, torch.where(row == col, 2.0, 0.0)])
    chunks = RowChunks.from_rowptr(rowptr_of(row, 3))
    epoch = torch.tensor(0, device=device)
    chunks, columns, weight = view_weights(chunks, col.int(), keep, (0, Stream.EDGES), epoch)
    r = 6**-0.5
    assert chunks.count.tolist() == [[2, 3, 2], [1, 1, 1]]
    # In each row the entries of the view come first.
    assert columns.tolist() == [[0, 1, 0, 1, 2, 1, 2], [0, 1, 1, 0, 2, 2, 1]]
    torch.testing.assert_close(weight[0].cpu(), torch.tensor([1 / 2, r, r, 1 / 3, r, r, 1 / 2]))
    assert weight[1].tolist() == [1, 0, 1, 0, 0, 1, 0]


@pytest.mark.slow
def test_gradient_through_the_views_equals_that_of_csr(device, use_triton):
    views = two_views(18, 0.4, 0.3, isolated=2, device=device)
    for rows in (18, 36):
        h = torch.randn(rows, 7, device=device, requires_grad=True)
        grad = torch.randn(36, 7, device=device)
        results = []
        for on in (False, True):
            use_triton(on)
            product = views.adjacency(3) @ h
            results.append((product, *torch.autograd.grad(product, h, grad)))
        torch.testing.assert_close(*results)


def test_weighted_views_equal_those_without_triton(device, use_triton):
    edges = random_edges(12, 0.3, 1).to(device)
    p = edge_probabilities(edges, 14, 0.3, 0.2).to(device)
    weight = torch.rand(p.pairs.shape[1], generator=torch.Generator().manual_seed(0)).to(device) + 0.5
    views = Views(ViewSampler(p, 14, seed=3, view=view, weight=weight) for view in range(2))
    h = torch.randn(28, 3, generator=torch.Generator().manual_seed(1)).to(device)
    use_triton(False)
    expected, product = dense_of(views.adjacency(4)), views.adjacency(4) @ h
    use_triton(True)
    adjacency = views.adjacency(torch.tensor(4, device=device))
    torch.testing.assert_close(adjacency.to_dense(), expected)
    torch.testing.assert_close(adjacency @ h, product)
