from dataclasses import replace

import pytest
import torch

pytest.importorskip("triton")

from epagcl.core.kernels import launch
from epagcl.core.kernels.launch import RowChunks
from epagcl.core.kernels.products import Update, edge_dots, multiply_pattern
from epagcl.core.sparse import SparseMatrix, multiply_accumulate, multiply_lerp, rowptr_of
from epagcl.nn.layers import GATLayer
from epagcl.training.precision import half_activations
from tests.core.kernels.matrices import assert_rounded_once, random_matrix

pytestmark = pytest.mark.usefixtures("poisoned_memory")


@pytest.mark.parametrize("width", [1, 3, 8, 9, 32, 40, 130])
def test_product_equals_the_dense_product(device, width):
    dense, matrix = random_matrix(19, 23, device=device)
    h = torch.randn(23, width)
    out = multiply_pattern(matrix.chunks, matrix.col, matrix.value, h.to(device), 1, 23)
    torch.testing.assert_close(out.cpu(), dense @ h)
    assert (out[[19 // 3, -1]] == 0).all()


@pytest.mark.parametrize("width", [513, 700])
def test_product_with_more_columns_than_one_program_computes(device, width):
    dense, matrix = random_matrix(5, 6, device=device)
    h = torch.randn(6, width)
    out = multiply_pattern(matrix.chunks, matrix.col, matrix.value, h.to(device), 1, 6)
    torch.testing.assert_close(out.cpu(), dense @ h)


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("longest", [4, 64])
def test_product_of_several_matrices_of_one_pattern(device, monkeypatch, blocks, own, longest):
    monkeypatch.setattr(launch, "MAX_CHUNK", longest)  # with 4, most rows are cut
    dense, matrix = random_matrix(13, 17, density=0.5, device=device)
    h = torch.randn(blocks, 17, 5)
    col, weight, expected = matrix.col, matrix.value, (dense @ h).expand(3, -1, -1)
    if own:  # shifted columns and other weights for each matrix
        shift, factor = torch.arange(3), torch.tensor([1.0, -2.0, 0.5])
        col = ((col.cpu() + shift[:, None]) % 17).int().to(device)
        weight = factor.to(device)[:, None] * weight
        moved = torch.stack([f * dense.roll(int(k), 1) for k, f in zip(shift, factor, strict=True)])
        expected = moved @ h
    chunks = RowChunks.from_rowptr(matrix.rowptr)
    assert (chunks.long_row.numel() > 5) == (longest == 4)
    out = multiply_pattern(chunks, col, weight, h.flatten(0, 1).to(device), 3, 17)
    torch.testing.assert_close(out.cpu(), expected.flatten(0, 1))


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("blocks", "terms", "product", "longest"),
    [(1, 1, False, 4), (3, 2, False, 4), (1, 2, True, 4), (3, 1, True, 4), (3, 1, False, 64), (1, 2, False, 64)],
)
def test_update_in_the_pass_of_a_product_equals_a_dense_sum(device, monkeypatch, blocks, terms, product, longest):
    monkeypatch.setattr(launch, "MAX_CHUNK", longest)  # with 4, most rows are cut
    dense, matrix = random_matrix(13, 17, density=0.5, device=device)
    factor = torch.tensor([1.0, -2.0, 0.5])
    h, added = draw(blocks, 17, 5), draw(terms, 39, 5, seed=1)
    coefficients = (0.7, -1.3)[:terms]
    products = (factor[:, None, None].double() * (dense.double() @ h.double())).flatten(0, 1)
    expected = 1.6 * products + sum(c * t for c, t in zip(coefficients, added.double(), strict=True))
    on_device = [t.to(device) for t in added]
    weight = factor.to(device)[:, None] * matrix.value
    for out in (torch.empty(39, 5, device=device), on_device[-1]):  # in place last: it changes the term
        chunks = RowChunks.from_rowptr(matrix.rowptr)
        update = Update(1.6, list(zip(coefficients, on_device, strict=True)), out, product)
        returned = multiply_pattern(chunks, matrix.col, weight, h.flatten(0, 1).to(device), 3, 17, update)
        torch.testing.assert_close(out.cpu().double(), expected, rtol=1e-5, atol=1e-5)
        if product:
            torch.testing.assert_close(returned.cpu().double(), products, rtol=1e-5, atol=1e-5)
        else:
            assert returned is out
    assert all(torch.equal(t.cpu(), c) for t, c in zip(on_device[:-1], added[:-1], strict=True))


@pytest.mark.parametrize("width", [1, 40, 130, 600])
@pytest.mark.parametrize("longest", [4, 64])
def test_rows_without_entries_get_the_terms_of_an_update(device, monkeypatch, width, longest):
    monkeypatch.setattr(launch, "MAX_CHUNK", longest)
    dense, matrix = random_matrix(7, 8, density=0.8, device=device)
    h, u, v = draw(8, width), draw(7, width, seed=1), draw(7, width, seed=2)
    out = torch.empty(7, width, device=device)
    update = Update(0.5, [(2.0, u.to(device)), (-1.0, v.to(device))], out)
    multiply_pattern(RowChunks.from_rowptr(matrix.rowptr), matrix.col, matrix.value, h.to(device), 1, 8, update)
    expected = 0.5 * (dense.double() @ h.double()) + 2 * u.double() - v.double()
    torch.testing.assert_close(out.cpu().double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(out[[7 // 3, -1]].cpu(), (2 * u - v)[[7 // 3, -1]])


def test_terms_of_an_update_have_the_shape_of_the_product(device):
    _, matrix = random_matrix(7, 8, device=device)
    h, out = torch.ones(8, 3, device=device), torch.empty(7, 3, device=device)
    for wrong in (torch.ones(8, 3, device=device), torch.ones(3, 7, device=device).T):
        with pytest.raises(AssertionError):
            multiply_pattern(matrix.chunks, matrix.col, matrix.value, h, 1, 8, Update(1.0, [(1.0, wrong)], out))


@pytest.mark.parametrize("start", ["none", "new", "in place"])
@pytest.mark.parametrize("blocks", [1, 2])
def test_product_and_lerp_by_the_kernel_equal_plain_torch(device, use_triton, monkeypatch, start, blocks):
    monkeypatch.setattr(launch, "MAX_CHUNK", 4)
    _, matrix = random_matrix(9, 11, density=0.6, device=device)
    h, shift, before = (draw(blocks * n, 5, seed=n).to(device) for n in (11, 9, 9))
    results = []
    for on in (False, True):
        use_triton(on)
        same = SparseMatrix(matrix.rowptr, matrix.col.long(), matrix.value, matrix.shape)
        first = None if start == "none" else before.clone()
        result = multiply_lerp(same, h, shift, first, 1.4, out=first if start == "in place" else None)
        assert (result is first) == (start == "in place")
        assert start != "new" or torch.equal(first, before)
        total = before.clone()
        results.append((result, multiply_accumulate(same, h, total, 0.3), total))
    torch.testing.assert_close(*results, rtol=1e-5, atol=1e-5)


def test_updates_of_float64_are_computed_in_plain_torch(device, use_triton):
    dense, matrix = random_matrix(9, 11, device=device)
    use_triton(True)
    matrix = SparseMatrix(matrix.rowptr, matrix.col.long(), matrix.value.double(), matrix.shape)
    h, shift = draw(11, 3).double().to(device), draw(9, 3).double().to(device)
    expected = 1.4 * (dense.double() @ h.cpu() + shift.cpu())
    torch.testing.assert_close(multiply_lerp(matrix, h, shift, None, 1.4).cpu(), expected)


def test_entries_beyond_the_count_of_a_chunk_are_skipped(device, monkeypatch):
    monkeypatch.setattr(launch, "MAX_CHUNK", 4)
    dense, matrix = random_matrix(9, 11, density=0.6, device=device)
    chunks = RowChunks.from_rowptr(matrix.rowptr)
    length = chunks.start.diff()
    count = torch.stack([length, length.clamp(max=2), torch.zeros_like(length)]).int()
    number = torch.arange(matrix.col.numel(), device=device)
    chunk = torch.bucketize(number, chunks.start[:-1], right=True) - 1
    used = number - chunks.start[chunk] < count[:, chunk]
    weight = torch.where(used, matrix.value, torch.nan)
    h = torch.randn(11, 5, device=device)
    out = multiply_pattern(replace(chunks, count=count), matrix.col.expand(3, -1).contiguous(), weight, h, 3, 11)
    expected = torch.zeros(3, 9, 11, device=device)
    expected[:, matrix.row, matrix.col.long()] = weight.nan_to_num()
    assert torch.equal(expected[0].cpu(), dense)
    torch.testing.assert_close(out, (expected @ h).flatten(0, 1))


@pytest.mark.parametrize("longest", [4, 64])
def test_rows_with_weight_zero_are_not_read(device, monkeypatch, longest):
    monkeypatch.setattr(launch, "MAX_CHUNK", longest)
    dense, matrix = random_matrix(11, 12, density=0.7, device=device)
    h = torch.randn(12, 6)
    unused = torch.tensor([0, 5, 11])
    matrix.value[torch.isin(matrix.col.cpu(), unused).to(device)] = 0
    dense[:, unused] = 0
    poisoned = h.clone()
    poisoned[unused] = torch.nan
    out = multiply_pattern(RowChunks.from_rowptr(matrix.rowptr), matrix.col, matrix.value, poisoned.to(device), 1, 12)
    torch.testing.assert_close(out.cpu(), dense @ h)


def test_a_matrix_without_entries_gives_zeros(device):
    empty = torch.empty(0, device=device)
    chunks = RowChunks.from_rowptr(torch.zeros(5, dtype=torch.long, device=device))
    h = torch.full((6, 3), torch.nan, device=device)
    assert torch.equal(multiply_pattern(chunks, empty.int(), empty, h, 2, 6).cpu(), torch.zeros(8, 3))


def test_repeated_products_are_bit_equal(device, monkeypatch):
    monkeypatch.setattr(launch, "MAX_CHUNK", 4)
    _, matrix = random_matrix(13, 17, density=0.5, device=device)
    h = torch.randn(17, 5, device=device)
    assert torch.equal(*(multiply_pattern(matrix.chunks, matrix.col, matrix.value, h, 1, 17) for _ in range(2)))


@pytest.mark.parametrize("blocks", [1, 2])
def test_gradient_of_a_product_equals_that_of_csr(device, use_triton, monkeypatch, blocks):
    monkeypatch.setattr(launch, "MAX_CHUNK", 4)
    _, matrix = random_matrix(9, 11, density=0.6, device=device)
    h = torch.randn(blocks * 11, 5, device=device, requires_grad=True)
    grad = torch.randn(blocks * 9, 5, device=device)
    results = []
    for on in (False, True):
        use_triton(on)
        product = SparseMatrix(matrix.rowptr, matrix.col.long(), matrix.value, matrix.shape) @ h
        results.append((product, *torch.autograd.grad(product, h, grad)))
    torch.testing.assert_close(*results)


def test_float64_products_are_computed_in_plain_torch(device, use_triton):
    dense, matrix = random_matrix(9, 11, device=device)
    use_triton(True)
    h = torch.randn(11, 3, dtype=torch.float64)
    matrix = SparseMatrix(matrix.rowptr, matrix.col.long(), matrix.value.double(), matrix.shape)
    torch.testing.assert_close((matrix @ h.to(device)).cpu(), dense.double() @ h)


def long_rows(device="cpu"):
    """A pattern whose rows have 150, 0, 65, 64 and 1 entries: three chunks, one, two, one and one."""
    dense = torch.zeros(5, 150)
    for row, length in enumerate((150, 0, 65, 64, 1)):
        dense[row, 149 - length + 1 :] = 1
    row, col = dense.nonzero().T
    return SparseMatrix(rowptr_of(row, 5), col, torch.ones(col.numel()), (5, 150)).to(device).pattern


@pytest.mark.parametrize("width", [2, 8, 40, 130])
@pytest.mark.parametrize("blocks", [1, 2])
def test_several_values_share_one_list_of_columns(device, width, blocks):
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
def test_edge_dots_are_products_of_rows(device, width, shared):
    pattern = long_rows(device)
    generator = torch.Generator().manual_seed(width)
    a = torch.randn(1 if shared == "left" else 2, 5, width, generator=generator)
    b = torch.randn(1 if shared == "right" else 2, 150, width, generator=generator)
    out = edge_dots(pattern.chunks, pattern.col.int(), *(x.flatten(0, 1).to(device) for x in (a, b)), 2, 150)
    expected = (a.double() @ b.double().mT)[:, pattern.row.cpu(), pattern.col.cpu()]
    torch.testing.assert_close(out.cpu().double(), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("longest", [1, 4])
def test_edge_dots_of_cut_rows(device, monkeypatch, longest):
    monkeypatch.setattr(launch, "MAX_CHUNK", longest)
    _, matrix = random_matrix(9, 11, density=0.6, device=device)
    a, b = torch.randn(9, 5), torch.randn(11, 5)
    out = edge_dots(RowChunks.from_rowptr(matrix.rowptr), matrix.col, a.to(device), b.to(device), 1, 11)
    torch.testing.assert_close(out.cpu(), (a @ b.T)[matrix.row.cpu(), matrix.col.cpu().long()][None])


def test_a_pattern_without_entries_has_no_edge_dots(device):
    chunks = RowChunks.from_rowptr(torch.zeros(5, dtype=torch.long, device=device))
    a, b = torch.ones(4, 3, device=device), torch.ones(6, 3, device=device)
    assert edge_dots(chunks, torch.empty(0, dtype=torch.int32, device=device), a, b, 1, 6).shape == (1, 0)


@pytest.mark.slow
@pytest.mark.parametrize("views", [1, 2])
def test_differentiable_values_and_edge_dots_equal_plain_torch(device, use_triton, monkeypatch, views):
    monkeypatch.setattr(launch, "MAX_CHUNK", 4)
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


@pytest.mark.slow
@pytest.mark.parametrize("heads", [1, 3])
def test_attention_by_kernels_equals_plain_torch(device, use_triton, heads):
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


@pytest.mark.parametrize("width", [3, 40, 600])
@pytest.mark.parametrize("longest", [4, 64])
def test_rows_in_half_precision_are_added_in_float32(device, monkeypatch, width, longest):
    monkeypatch.setattr(launch, "MAX_CHUNK", longest)
    dense, matrix = random_matrix(13, 17, density=0.8, device=device)
    h, term = draw(2 * 17, width).half(), draw(2 * 13, width, seed=1).half()
    expected = torch.cat([dense.double() @ part.double() for part in h.chunk(2)])
    chunks = RowChunks.from_rowptr(matrix.rowptr)
    arguments = chunks, matrix.col, matrix.value, h.to(device), 2, 17
    assert_rounded_once(multiply_pattern(*arguments), expected, atol=1e-5)
    out = torch.empty(2 * 13, width, device=device, dtype=torch.float16)
    multiply_pattern(*arguments, Update(0.5, [(2.0, term.to(device))], out))
    assert_rounded_once(out, 0.5 * expected + 2 * term.double(), atol=1e-5)
    multiply_pattern(*arguments, Update(0.5, [(2.0, term.to(device)), (-1.0, out)], out))  # in place, as PageRank does
    assert_rounded_once(out, term.double() * 0, rtol=0, atol=0.02)


def test_products_are_in_half_precision_with_such_activations(device, use_triton):
    dense, matrix = random_matrix(9, 11, density=0.6, device=device)
    h = draw(11, 5).to(device).requires_grad_()
    use_triton(True)
    with half_activations(device):
        out = matrix @ h
    exact = h.detach().cpu().half().double().requires_grad_()
    expected = dense.double() @ exact
    assert_rounded_once(out, expected.detach(), atol=1e-5)
    (gradient,) = torch.autograd.grad(out.float().square().sum(), h)
    assert gradient.dtype == torch.float32
    (wanted,) = torch.autograd.grad(expected.square().sum(), exact)
    torch.testing.assert_close(gradient.cpu().double(), wanted, rtol=1e-2, atol=1e-2)
