import gc
import weakref

import pytest
import torch

from epagcl import sparse
from epagcl.core.adjacency import gcn_adjacency
from epagcl.core.sparse import SparseMatrix, StackedMatrix, multiply


def random_sparse(rows, cols, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    dense = torch.rand(rows, cols, generator=generator, dtype=dtype)
    return dense * (torch.rand(rows, cols, generator=generator) < 0.3)


def test_product_and_gradient_match_dense():
    dense = random_sparse(7, 5)
    matrix = SparseMatrix.from_torch(dense.to_sparse())
    h = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(matrix @ h, dense @ h)
    assert torch.autograd.gradcheck(lambda h: matrix @ h, (h,))


def test_from_coo_sorts_and_transposes():
    dense = random_sparse(6, 9, seed=1)
    row, col = dense.nonzero().T
    shuffled = torch.randperm(row.numel(), generator=torch.Generator().manual_seed(0))
    matrix = SparseMatrix.from_coo(row[shuffled], col[shuffled], dense[row, col][shuffled], (6, 9))
    torch.testing.assert_close(matrix.to_dense(), dense)
    torch.testing.assert_close(matrix.T.to_dense(), dense.T)


def test_gather_fallback_equals_csr(monkeypatch):
    dense = random_sparse(6, 6, seed=2)
    matrix = SparseMatrix.from_torch(dense.to_sparse())
    h = torch.randn(6, 4, dtype=torch.float64)
    expected = multiply(matrix, h)
    monkeypatch.setattr(sparse, "CSR_DEVICES", ())
    torch.testing.assert_close(multiply(matrix, h), expected)


@pytest.mark.parametrize("pairs", [[], [(0, 1)], [(0, 1), (1, 2), (0, 3)]])
def test_gcn_adjacency_is_the_formula(pairs):
    n = 4
    a = torch.eye(n)
    for i, j in pairs:
        a[i, j] = a[j, i] = 1
    scale = a.sum(1).rsqrt()
    row, col = a.nonzero().T
    adjacency = gcn_adjacency(row, col, n)
    torch.testing.assert_close(adjacency.to_dense(), scale[:, None] * a * scale)
    # Â D̃^½ 1 = D̃^½ 1
    root = a.sum(1).sqrt()[:, None]
    torch.testing.assert_close(adjacency @ root, root)
    assert adjacency.T is adjacency


def symmetric(n, seed):
    half = random_sparse(n, n, seed)
    return half + half.T


def several(kind):
    """Two matrices, with the same row pointers or not, and what they are with their zeros."""
    if kind == "stacked":
        dense = [random_sparse(7, 5, seed) for seed in (3, 4)]
        return StackedMatrix([SparseMatrix.from_torch(a.to_sparse()) for a in dense]), dense
    first = symmetric(6, 3)
    row, col = first.nonzero().T
    dense = [first, 2 * first.square()]
    values = torch.stack([a[row, col] for a in dense])
    rowptr = SparseMatrix.from_torch(first.to_sparse()).rowptr
    return SparseMatrix(rowptr, col.repeat(2, 1), values, (6, 6), symmetric=True), dense


@pytest.mark.parametrize("kind", ["stacked", "one pattern"])
@pytest.mark.parametrize("blocks", [1, 2])
def test_several_matrices_multiply_block_by_block(kind, blocks):
    matrix, dense = several(kind)
    assert matrix.views == 2
    h = torch.randn(blocks * matrix.shape[1], 3, dtype=torch.float64, requires_grad=True)
    expected = torch.cat([a @ b for a, b in zip(dense, 2 * [h] if blocks == 1 else h.chunk(2), strict=True)])
    torch.testing.assert_close(matrix @ h, expected)
    assert torch.autograd.gradcheck(lambda h: matrix @ h, (h,))


def test_stacked_matrices_gather_as_csr(monkeypatch):
    matrix, dense = several("stacked")
    monkeypatch.setattr(sparse, "CSR_DEVICES", ())
    for h in (torch.randn(5, 3, dtype=torch.float64), torch.randn(10, 3, dtype=torch.float64)):
        expected = torch.cat([a @ b for a, b in zip(dense, 2 * [h] if len(h) == 5 else h.chunk(2), strict=True)])
        torch.testing.assert_close(multiply(matrix, h), expected)


def test_one_matrix_multiplies_every_block():
    dense = random_sparse(7, 5)
    matrix = SparseMatrix.from_torch(dense.to_sparse())
    h = torch.randn(3, 5, 4, dtype=torch.float64)
    torch.testing.assert_close(matrix @ h.flatten(0, 1), (dense @ h).flatten(0, 1))


def test_several_matrices_with_their_zeros_stand_under_each_other():
    matrix, dense = several("one pattern")
    torch.testing.assert_close(matrix.to_dense(), torch.cat(dense))


def test_a_matrix_is_gone_when_nobody_holds_it():
    adjacency = gcn_adjacency(*torch.tensor([[0, 1], [0, 1]]), 2)
    adjacency @ torch.ones(2, 1)
    assert adjacency.T is adjacency
    value = weakref.ref(adjacency.value)
    gc.disable()
    try:
        del adjacency
        assert value() is None  # and not only when the garbage collector looks: it may be gigabytes of a GPU
    finally:
        gc.enable()


def weighted(rows, columns, views, seed=0):
    """A pattern with an empty row and an empty column, values for each view, and a function to the dense matrices."""
    dense = random_sparse(rows, columns, seed) + 0.1 * torch.eye(rows, columns, dtype=torch.float64)
    dense[rows // 2] = 0
    dense[:, 1] = 0
    pattern = SparseMatrix.from_torch(dense.to_sparse()).pattern
    generator = torch.Generator().manual_seed(seed + 1)
    shape = (views, pattern.col.numel()) if views > 1 else (pattern.col.numel(),)
    value = torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)
    number = torch.arange(views)[:, None]

    def with_zeros(value):
        zeros = torch.zeros(views, rows, columns, dtype=torch.float64)
        return zeros.index_put((number, pattern.row, pattern.col), value.view(views, -1))

    return pattern, value, with_zeros


def normal(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=dtype, requires_grad=True)


def assert_same_gradients(ours, expected, inputs, seed=9):
    torch.testing.assert_close(ours, expected)
    grad = normal(*ours.shape, seed=seed).detach()
    gradients = [torch.autograd.grad(y, inputs, grad, retain_graph=True) for y in (ours, expected)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(("rows", "columns"), [(7, 5), (4, 9), (6, 6)])
@pytest.mark.parametrize("views", [1, 3])
@pytest.mark.parametrize("blocks", ["shared", "stacked"])
def test_products_with_values_that_learn_match_dense(rows, columns, views, blocks):
    pattern, value, with_zeros = weighted(rows, columns, views, seed=rows)
    h = normal(columns * (views if blocks == "stacked" else 1), 3)
    expected = (with_zeros(value) @ h.view(-1, columns, 3)).flatten(0, 1)
    assert_same_gradients(pattern.multiply(value, h), expected, (value, h))
    assert torch.autograd.gradcheck(pattern.multiply, (value, h))
    assert (expected.view(views, rows, 3)[:, rows // 2] == 0).all()


def test_one_matrix_of_values_that_learn_multiplies_every_block():
    pattern, value, with_zeros = weighted(6, 5, 1)
    h = normal(2 * 5, 3)
    expected = (with_zeros(value) @ h.view(2, 5, 3)).flatten(0, 1)
    assert_same_gradients(pattern.multiply(value, h), expected, (value, h))


@pytest.mark.parametrize(("rows", "columns"), [(7, 5), (4, 9), (6, 6)])
@pytest.mark.parametrize("views", [1, 3])
def test_products_at_the_entries_match_dense(rows, columns, views):
    pattern, value, _ = weighted(rows, columns, views, seed=rows)
    a, b = normal(views * rows, 4), normal(views * columns, 4, seed=1)
    every = a.view(views, rows, 4) @ b.view(views, columns, 4).mT
    expected = every[:, pattern.row, pattern.col].view_as(value)
    assert_same_gradients(pattern.edge_dots(a, b), expected, (a, b))
    assert torch.autograd.gradcheck(pattern.products, (a, b))


@pytest.mark.parametrize("shared", ["left", "right"])
def test_products_at_the_entries_with_rows_for_all_views(shared):
    pattern, _, _ = weighted(7, 5, 2)
    a = normal(7 if shared == "left" else 14, 4)
    b = normal(5 if shared == "right" else 10, 4, seed=1)
    expected = (a.view(-1, 7, 4) @ b.view(-1, 5, 4).mT)[:, pattern.row, pattern.col]
    assert_same_gradients(pattern.edge_dots(a, b), expected, (a, b))


def test_products_at_the_entries_in_several_parts():
    width = 2**20  # 4 entries at a time
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randint(-1, 2, (n, width), generator=generator).float() for n in (3, 5))
    pattern = SparseMatrix.from_torch(torch.ones(3, 5).to_sparse()).pattern
    assert torch.equal(pattern.edge_dots(a, b).view(3, 5), a @ b.T)  # whole numbers: exact in any order


def test_a_pattern_and_its_transpose_hold_the_same_entries():
    pattern, value, with_zeros = weighted(7, 5, 2)
    value = value.detach()
    torch.testing.assert_close(pattern.matrix(value).to_dense().view(2, 7, 5), with_zeros(value))
    transposed = pattern.T.matrix(value[:, pattern.order]).to_dense()
    torch.testing.assert_close(transposed.view(2, 5, 7), with_zeros(value).mT)
    assert pattern.T.shape == (5, 7)


def test_only_what_is_asked_for_has_a_gradient():
    pattern, value, _ = weighted(6, 5, 1)
    h = normal(5, 3)
    for inputs in ((value.detach(), h), (value, h.detach())):
        wanted = [t for t in inputs if t.requires_grad]
        both = torch.autograd.grad(pattern.multiply(value, h).sum(), (value, h))
        (one,) = torch.autograd.grad(pattern.multiply(*inputs).sum(), wanted)
        torch.testing.assert_close(one, both[0] if inputs[0].requires_grad else both[1])


def test_several_values_on_one_pattern_share_their_columns():
    pattern, value, with_zeros = weighted(6, 5, 3)
    matrix = pattern.matrix(value.detach())
    assert (matrix.views, matrix.col.dim()) == (3, 1)
    h = normal(5, 2).detach()
    torch.testing.assert_close(matrix @ h, (with_zeros(value.detach()) @ h).flatten(0, 1))


def test_permuted_rows_are_indexed_rows_and_so_is_their_gradient():
    x, order = normal(9, 3), torch.randperm(9, generator=torch.Generator().manual_seed(0))
    assert torch.equal(sparse.permute_rows(x, order), x[order])
    assert_same_gradients(sparse.permute_rows(x, order), x[order], (x,))
    assert torch.autograd.gradcheck(lambda x: sparse.permute_rows(x, order), (x,))


@pytest.mark.parametrize("count", [1, 4])
def test_row_products_are_products_of_indexed_rows(count):
    a, b = normal(8, 3), normal(8, 3, seed=1)
    orders = torch.stack([torch.randperm(8, generator=torch.Generator().manual_seed(k)) for k in range(count)])
    assert_same_gradients(sparse.row_products(a, b, orders), (a * b[orders]).sum(2), (a, b))
    assert torch.autograd.gradcheck(lambda a, b: sparse.row_products(a, b, orders), (a, b))
    assert_same_gradients(sparse.row_products(a, a, orders), (a * a[orders]).sum(2), (a,))
