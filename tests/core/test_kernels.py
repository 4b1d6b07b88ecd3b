from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("triton")

from epagcl import kernels
from epagcl.core.hashing import fold, hash64
from epagcl.core.kernels.activation import bias_prelu
from epagcl.core.kernels.draws import hash_stream, view_weights
from epagcl.core.kernels.launch import RowChunks
from epagcl.core.kernels.products import entry_products, multiply_pattern
from epagcl.core.randomness import Stream, dropout, other_nodes, permutation, uniform, uniform64
from epagcl.core.sparse import SparseMatrix, StackedMatrix, rowptr_of
from epagcl.nn.encoders import GCN
from epagcl.nn.layers import GATLayer
from epagcl.views.masks import feature_masks
from epagcl.views.probabilities import EdgeProbabilities, edge_probabilities
from epagcl.views.sampling import Views, ViewSampler
from tests.conftest import random_edges

pytestmark = pytest.mark.usefixtures("poisoned_memory")


def random_matrix(rows, columns, density=0.3, seed=0, device="cpu"):
    """A matrix of pattern and size as asked, dense and as SparseMatrix; some rows are empty."""
    generator = torch.Generator().manual_seed(seed)
    dense = torch.randn(rows, columns, generator=generator)
    dense *= torch.rand(rows, columns, generator=generator) < density
    dense[rows // 3] = 0
    dense[-1] = 0
    row, col = dense.nonzero().T
    matrix = SparseMatrix(rowptr_of(row, rows), col.int(), dense[row, col], (rows, columns))
    return dense, matrix.to(device)


def dense_of(adjacency):
    """Every matrix with its zeros, under each other."""
    dense = torch.zeros(adjacency.views, *adjacency.shape, device=adjacency.device)
    if isinstance(adjacency, StackedMatrix):
        for out, part in zip(dense, adjacency.parts, strict=True):
            out[part.row, part.col] = part.value
    else:
        col, value = (t.view(adjacency.views, -1) for t in (adjacency.col, adjacency.value))
        dense[torch.arange(adjacency.views, device=adjacency.device)[:, None], adjacency.row, col.long()] = value
    return dense.flatten(0, 1)


def two_views(num_nodes, p_drop, p_add, *, density=0.15, seed=0, isolated=0, device="cpu"):
    edges = random_edges(num_nodes - isolated, density, seed).to(device)
    return Views(
        [
            ViewSampler(
                edge_probabilities(edges, num_nodes, p, q, drop="uniform" if p == 1 else "eq7").to(device),
                num_nodes,
                seed=seed,
                view=view,
            )
            for view, (p, q) in enumerate(((p_drop, 0.0), (min(1.0, 1.5 * p_drop), p_add)))
        ]
    )


@pytest.mark.parametrize("epoch", [0, 1, 199, 2**40])
@pytest.mark.parametrize("before", [(), (5,), (2**62, Stream.EDGES)])
@pytest.mark.parametrize("behind", [(), (0,), (1,), (2**40 + 3,)])
def test_hash_stream_is_the_hash_of_the_folded_stream(device, epoch, before, behind):
    counter = torch.tensor([0, 1, 2**31, 2**62 + 7, -1, -(2**63)], device=device)
    stream = (*before, torch.tensor(epoch, device=device), *behind)
    expected = hash64(counter ^ fold((*before, epoch, *behind)))
    assert torch.equal(hash_stream(counter, stream, len(before)), expected)


@pytest.mark.parametrize("shape", [(0,), (1,), (1024,), (1025,), (40, 60)])
def test_counters_of_any_shape(device, shape):
    counter = torch.arange(torch.Size(shape).numel(), device=device).view(shape)
    epoch = torch.tensor(3, device=device)
    assert torch.equal(hash_stream(counter, (7, epoch, 1), 1), hash64(counter ^ fold((7, 3, 1))))


def test_a_new_number_in_the_same_tensor_gives_new_draws(device):
    counter, epoch = torch.arange(50, device=device), torch.tensor(3, device=device)
    hash_stream(counter, (7, epoch), 1)
    epoch.fill_(4)
    assert torch.equal(hash_stream(counter, (7, epoch), 1), hash64(counter ^ fold((7, 4))))


def test_draws_with_a_tensor_epoch_go_through_the_kernel_and_stay_the_same(device, use_triton):
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


@given(lengths=st.lists(st.integers(0, 20), min_size=1, max_size=12), longest=st.sampled_from([1, 4, 8, 64]))
@settings(max_examples=100, deadline=None)
def test_pieces_cover_every_entry_once_and_none_is_too_long(lengths, longest):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "LONGEST", longest)
        chunks = RowChunks.of(torch.tensor([0, *lengths]).cumsum(0))
    start, row, target = chunks.start.tolist(), chunks.row.tolist(), chunks.target.tolist()
    row_of_entry = [i for i, length in enumerate(lengths) for _ in range(length)]
    covered = [(i, e) for i, (a, b) in zip(row, pairwise(start), strict=True) for e in range(a, b)]
    assert covered == list(zip(row_of_entry, range(len(row_of_entry)), strict=True))
    assert all(0 <= b - a <= longest for a, b in pairwise(start))
    assert chunks.num_rows == len(lengths)
    assert sorted(set(row)) == list(range(len(lengths)))  # an empty row has its piece too: it must be written

    cut = [i for i, length in enumerate(lengths) if length > longest]
    assert chunks.long_row.tolist() == cut
    assert [t for t in target if t >= 0] == [i for i in range(len(lengths)) if i not in cut]
    spilled = [i for i, t in zip(row, target, strict=True) if t < 0]
    assert [-1 - t for t in target if t < 0] == list(range(len(spilled)))
    bounds = chunks.long_start.tolist()
    assert [spilled[a:b] for a, b in pairwise(bounds)] == [[i] * -(-lengths[i] // longest) for i in cut]
    assert bounds[-1] == len(spilled)


@pytest.mark.parametrize("width", [1, 3, 32, 40, 130])
def test_product_equals_the_dense_one(device, width):
    dense, matrix = random_matrix(19, 23, device=device)
    h = torch.randn(23, width)
    out = multiply_pattern(matrix.chunks, matrix.col, matrix.value, h.to(device), 1, 23)
    torch.testing.assert_close(out.cpu(), dense @ h)
    assert (out[[19 // 3, -1]] == 0).all()


@pytest.mark.parametrize("width", [513, 700])
def test_product_with_more_columns_than_a_program_takes(device, width):
    dense, matrix = random_matrix(5, 6, device=device)
    h = torch.randn(6, width)
    out = multiply_pattern(matrix.chunks, matrix.col, matrix.value, h.to(device), 1, 6)
    torch.testing.assert_close(out.cpu(), dense @ h)


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("longest", [4, 64])
def test_product_of_several_matrices_of_one_pattern(device, monkeypatch, blocks, own, longest):
    monkeypatch.setattr(kernels, "LONGEST", longest)  # 4: most rows are cut
    dense, matrix = random_matrix(13, 17, density=0.5, device=device)
    h = torch.randn(blocks, 17, 5)
    col, weight, expected = matrix.col, matrix.value, (dense @ h).expand(3, -1, -1)
    if own:  # the same rows with columns shifted, and other weights
        shift, factor = torch.arange(3), torch.tensor([1.0, -2.0, 0.5])
        col = ((col.cpu() + shift[:, None]) % 17).int().to(device)
        weight = factor.to(device)[:, None] * weight
        moved = torch.stack([f * dense.roll(int(k), 1) for k, f in zip(shift, factor, strict=True)])
        expected = moved @ h
    chunks = RowChunks.of(matrix.rowptr)
    assert (chunks.long_row.numel() > 5) == (longest == 4)
    out = multiply_pattern(chunks, col, weight, h.flatten(0, 1).to(device), 3, 17)
    torch.testing.assert_close(out.cpu(), expected.flatten(0, 1))


def test_entries_behind_the_count_of_a_piece_are_left_out(device, monkeypatch):
    monkeypatch.setattr(kernels, "LONGEST", 4)
    dense, matrix = random_matrix(9, 11, density=0.6, device=device)
    chunks = RowChunks.of(matrix.rowptr)
    length = chunks.start.diff()
    count = torch.stack([length, length.clamp(max=2), torch.zeros_like(length)]).int()
    number = torch.arange(matrix.col.numel(), device=device)
    piece = torch.bucketize(number, chunks.start[:-1], right=True) - 1
    used = number - chunks.start[piece] < count[:, piece]
    weight = torch.where(used, matrix.value, torch.nan)
    h = torch.randn(11, 5, device=device)
    out = multiply_pattern(replace(chunks, count=count), matrix.col.expand(3, -1).contiguous(), weight, h, 3, 11)
    expected = torch.zeros(3, 9, 11, device=device)
    expected[:, matrix.row, matrix.col.long()] = weight.nan_to_num()
    assert torch.equal(expected[0].cpu(), dense)
    torch.testing.assert_close(out, (expected @ h).flatten(0, 1))


@pytest.mark.parametrize("longest", [4, 64])
def test_entries_of_weight_zero_are_not_touched(device, monkeypatch, longest):
    monkeypatch.setattr(kernels, "LONGEST", longest)
    dense, matrix = random_matrix(11, 12, density=0.7, device=device)
    h = torch.randn(12, 6)
    unused = torch.tensor([0, 5, 11])
    matrix.value[torch.isin(matrix.col.cpu(), unused).to(device)] = 0
    dense[:, unused] = 0
    poisoned = h.clone()
    poisoned[unused] = torch.nan
    out = multiply_pattern(RowChunks.of(matrix.rowptr), matrix.col, matrix.value, poisoned.to(device), 1, 12)
    torch.testing.assert_close(out.cpu(), dense @ h)


def test_a_matrix_without_entries_gives_zeros(device):
    empty = torch.empty(0, device=device)
    chunks = RowChunks.of(torch.zeros(5, dtype=torch.long, device=device))
    h = torch.full((6, 3), torch.nan, device=device)
    assert torch.equal(multiply_pattern(chunks, empty.int(), empty, h, 2, 6).cpu(), torch.zeros(8, 3))


def test_products_repeat_to_the_bit(device, monkeypatch):
    monkeypatch.setattr(kernels, "LONGEST", 4)
    _, matrix = random_matrix(13, 17, density=0.5, device=device)
    h = torch.randn(17, 5, device=device)
    assert torch.equal(*(multiply_pattern(matrix.chunks, matrix.col, matrix.value, h, 1, 17) for _ in range(2)))


@pytest.mark.parametrize("blocks", [1, 2])
def test_gradient_of_a_product_equals_that_of_csr(device, use_triton, monkeypatch, blocks):
    monkeypatch.setattr(kernels, "LONGEST", 4)
    _, matrix = random_matrix(9, 11, density=0.6, device=device)
    h = torch.randn(blocks * 11, 5, device=device, requires_grad=True)
    grad = torch.randn(blocks * 9, 5, device=device)
    results = []
    for on in (False, True):
        use_triton(on)
        product = SparseMatrix(matrix.rowptr, matrix.col.long(), matrix.value, matrix.shape) @ h
        results.append((product, *torch.autograd.grad(product, h, grad)))
    torch.testing.assert_close(*results)


def test_float64_products_take_the_twin(device, use_triton):
    dense, matrix = random_matrix(9, 11, device=device)
    use_triton(True)
    h = torch.randn(11, 3, dtype=torch.float64)
    matrix = SparseMatrix(matrix.rowptr, matrix.col.long(), matrix.value.double(), matrix.shape)
    torch.testing.assert_close((matrix @ h.to(device)).cpu(), dense.double() @ h)


@pytest.mark.parametrize(
    ("num_nodes", "p_drop", "p_add", "isolated"),
    [(2, 0.5, 0.5, 0), (17, 0.3, 0.0, 0), (20, 0.4, 0.3, 3), (12, 1.0, 0.0, 0), (12, 1.0, 0.6, 2), (9, 0.0, 0.9, 0)],
)
def test_weights_on_the_pattern_are_the_compacted_views(device, use_triton, num_nodes, p_drop, p_add, isolated):
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


def test_views_with_rows_longer_than_a_piece(device, use_triton, monkeypatch):
    monkeypatch.setattr(kernels, "LONGEST", 4)
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


def test_pattern_of_the_views_is_symmetric_and_loops_are_certain(device):
    pattern, keep = two_views(20, 0.4, 0.3, device=device)._pattern
    for k in keep:
        dense = dense_of(SparseMatrix(pattern.rowptr, pattern.col, k, pattern.shape))
        assert torch.equal(dense, dense.T)
        assert (dense.diagonal() > 1).all()


def test_view_weights_of_a_path_by_hand(device):
    # 0 - 1 - 2 with all pairs certain in the first view, none in the second.
    row, col = torch.tensor([[0, 0, 1, 1, 1, 2, 2], [0, 1, 0, 1, 2, 1, 2]], device=device)
    sure = torch.where(row == col, 2.0, 1.0)
    keep = torch.stack([sure, torch.where(row == col, 2.0, 0.0)])
    chunks = RowChunks.of(rowptr_of(row, 3))
    epoch = torch.tensor(0, device=device)
    chunks, columns, weight = view_weights(chunks, col.int(), keep, (0, Stream.EDGES), epoch)
    r = 6**-0.5
    assert chunks.count.tolist() == [[2, 3, 2], [1, 1, 1]]
    assert columns.tolist() == [[0, 1, 0, 1, 2, 1, 2], [0, 1, 1, 0, 2, 2, 1]]  # what is kept comes first in its row
    torch.testing.assert_close(weight[0].cpu(), torch.tensor([1 / 2, r, r, 1 / 3, r, r, 1 / 2]))
    assert weight[1].tolist() == [1, 0, 1, 0, 0, 1, 0]


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


@pytest.mark.parametrize(("rows", "width"), [(1, 1), (7, 5), (90, 33), (300, 40), (9, 600)])
def test_bias_and_prelu_are_torchs(device, rows, width):
    x, grad, bias = (torch.randn(*s, device=device) for s in ((rows, width), (rows, width), (width,)))
    x[0, 0], bias[0] = 1.0, -1.0  # exactly 0 is on the slope's side
    single = [t.requires_grad_() for t in (x, bias, torch.tensor([0.3], device=device))]
    exact = [t.detach().double().requires_grad_() for t in single]
    twin = torch.nn.functional.prelu(exact[0] + exact[1], exact[2])
    ours = bias_prelu(*single)
    torch.testing.assert_close(ours.double(), twin, rtol=1e-5, atol=1e-6)
    gradients = torch.autograd.grad(ours, single, grad)
    for a, b in zip(gradients, torch.autograd.grad(twin, exact, grad.double()), strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-5, atol=1e-5)


def test_an_encoder_on_kernels_equals_one_on_plain_torch(device, use_triton):
    views = two_views(15, 0.3, 0.2, device=device)
    x = random_matrix(15, 12, device=device)[1]
    x = SparseMatrix(x.rowptr, x.col.long(), x.value, x.shape)
    torch.manual_seed(0)
    encoder = GCN([12, 9, 6]).to(device)
    grad = torch.randn(30, 6, device=device)
    results = []
    for on in (False, True):
        use_triton(on)
        mask = feature_masks(12, (0.2, 0.4), seed=0, epoch=torch.tensor(4, device=device), device=device)
        z = encoder(x, views.adjacency(4), mask)
        results.append((z, *torch.autograd.grad(z, encoder.parameters(), grad)))
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)


def long_rows(device="cpu"):
    """Rows of 150, 0, 65, 64 and 1 entries: of three chunks, of one, and of two."""
    dense = torch.zeros(5, 150)
    for row, length in enumerate((150, 0, 65, 64, 1)):
        dense[row, 149 - length + 1 :] = 1
    row, col = dense.nonzero().T
    return SparseMatrix(rowptr_of(row, 5), col, torch.ones(col.numel()), (5, 150)).to(device).pattern


@pytest.mark.parametrize("width", [2, 8, 40, 130])
@pytest.mark.parametrize("blocks", [1, 2])
def test_one_column_list_for_several_values(device, width, blocks):
    pattern = long_rows(device)
    assert pattern.chunks.row.tolist() == [0, 0, 0, 1, 2, 2, 3, 4]
    generator = torch.Generator().manual_seed(width)
    value = torch.randn(2, pattern.col.numel(), generator=generator)
    h = torch.randn(blocks, 150, width, generator=generator)
    dense = torch.zeros(2, 5, 150)
    dense[:, pattern.row.cpu(), pattern.col.cpu()] = value
    out = multiply_pattern(pattern.chunks, pattern.col, value.to(device), h.flatten(0, 1).to(device), 2, 150)
    torch.testing.assert_close(out.cpu(), (dense @ h).flatten(0, 1), rtol=1e-5, atol=1e-4)
    assert (out.view(2, 5, width)[:, 1] == 0).all()


@pytest.mark.parametrize("width", [2, 8, 40, 130])
@pytest.mark.parametrize("shared", ["neither", "left", "right"])
def test_products_at_the_entries_are_those_of_the_rows(device, width, shared):
    pattern = long_rows(device)
    generator = torch.Generator().manual_seed(width)
    a = torch.randn(1 if shared == "left" else 2, 5, width, generator=generator)
    b = torch.randn(1 if shared == "right" else 2, 150, width, generator=generator)
    out = entry_products(pattern.chunks, pattern.col.int(), *(x.flatten(0, 1).to(device) for x in (a, b)), 2, 150)
    expected = (a.double() @ b.double().mT)[:, pattern.row.cpu(), pattern.col.cpu()]
    torch.testing.assert_close(out.cpu().double(), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("longest", [1, 4])
def test_products_at_the_entries_of_cut_rows(device, monkeypatch, longest):
    monkeypatch.setattr(kernels, "LONGEST", longest)
    _, matrix = random_matrix(9, 11, density=0.6, device=device)
    a, b = torch.randn(9, 5), torch.randn(11, 5)
    out = entry_products(RowChunks.of(matrix.rowptr), matrix.col, a.to(device), b.to(device), 1, 11)
    torch.testing.assert_close(out.cpu(), (a @ b.T)[matrix.row.cpu(), matrix.col.cpu().long()][None])


def test_a_pattern_without_entries_has_no_products(device):
    chunks = RowChunks.of(torch.zeros(5, dtype=torch.long, device=device))
    a, b = torch.ones(4, 3, device=device), torch.ones(6, 3, device=device)
    assert entry_products(chunks, torch.empty(0, dtype=torch.int32, device=device), a, b, 1, 6).shape == (1, 0)


@pytest.mark.parametrize("views", [1, 2])
def test_learned_values_and_products_on_kernels_equal_plain_torch(device, use_triton, monkeypatch, views):
    monkeypatch.setattr(kernels, "LONGEST", 4)
    _, matrix = random_matrix(9, 11, density=0.6, device=device)
    row, col = matrix.row, matrix.col.long()
    generator = torch.Generator().manual_seed(0)

    def leaf(*shape):
        return torch.randn(shape, generator=generator).to(device).requires_grad_()

    value = leaf(views, col.numel()) if views > 1 else leaf(col.numel())
    h, a, b = leaf(views * 11, 5), leaf(views * 9, 6), leaf(views * 11, 6)
    grads = torch.randn(views * 9, 5, device=device), torch.randn(value.shape, device=device)
    results = []
    for on in (False, True):
        use_triton(on)
        pattern = SparseMatrix(rowptr_of(row, 9), col, value.detach(), (9, 11)).pattern
        product, products = pattern.multiply(value, h), pattern.edge_dots(a, b)
        gradients = (
            *torch.autograd.grad(product, (value, h), grads[0]),
            *torch.autograd.grad(products, (a, b), grads[1]),
        )
        results.append((product, products, *gradients))
    torch.testing.assert_close(*results, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("heads", [1, 3])
def test_attention_on_kernels_equals_plain_torch(device, use_triton, heads):
    _, matrix = random_matrix(12, 12, device=device)
    dense = torch.zeros(12, 12, device=device)
    dense[matrix.row, matrix.col.long()] = 1
    row, col = (dense + dense.T + torch.eye(12, device=device)).nonzero().T
    torch.manual_seed(0)
    layer = GATLayer(7, 5, heads).to(device)
    x = torch.randn(12, 7, device=device)
    grad = torch.randn(heads * 12, 5, device=device)
    results = []
    for on in (False, True):
        use_triton(on)
        pattern = SparseMatrix(rowptr_of(row, 12), col, torch.ones(col.numel(), device=device), (12, 12)).pattern
        out = layer(x @ layer.weight, pattern)
        results.append((out, *torch.autograd.grad(out, layer.parameters(), grad)))
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)


def test_other_nodes_and_dropout_with_a_tensor_epoch_go_through_the_kernel(device, use_triton):
    x, epoch = torch.rand(40, 3, device=device), torch.tensor(11, device=device)
    streams = [(3, Stream.NEGATIVES, e, 1) for e in (11, epoch)]
    expected = other_nodes(31, 4, *streams[0], device=device), dropout(x, 0.4, *streams[0])
    use_triton(True)
    draws = other_nodes(31, 4, *streams[1], device=device), dropout(x, 0.4, *streams[1])
    assert all(torch.equal(a, b) for a, b in zip(draws, expected, strict=True))
