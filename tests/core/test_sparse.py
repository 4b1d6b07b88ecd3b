import gc
import weakref

import pytest
import torch

from epagcl.core import sparse
from epagcl.core.adjacency import gcn_adjacency
from epagcl.core.sparse import SparseMatrix, StackedMatrix, multiply, multiply_accumulate, multiply_lerp
from epagcl.core.streamed import CSR, StreamedMatrix
from tests.core.helpers import random_sparse


def test_product_and_gradient_match_dense():
    dense = random_sparse(7, 5)
    matrix = SparseMatrix.from_torch(dense.to_sparse())
    h = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(matrix @ h, dense @ h)
    assert torch.autograd.gradcheck(lambda h: matrix @ h, (h,))


def test_from_coo_sorts_the_entries_and_the_transpose_is_right():
    dense = random_sparse(6, 9, seed=1)
    row, col = dense.nonzero().T
    shuffled = torch.randperm(row.numel(), generator=torch.Generator().manual_seed(0))
    matrix = SparseMatrix.from_coo(row[shuffled], col[shuffled], dense[row, col][shuffled], (6, 9))
    torch.testing.assert_close(matrix.to_dense(), dense)
    torch.testing.assert_close(matrix.T.to_dense(), dense.T)


def test_gathering_messages_equals_csr(monkeypatch):
    dense = random_sparse(6, 6, seed=2)
    matrix = SparseMatrix.from_torch(dense.to_sparse())
    h = torch.randn(6, 4, dtype=torch.float64)
    expected = multiply(matrix, h)
    monkeypatch.setattr(sparse, "CSR_DEVICES", ())
    torch.testing.assert_close(multiply(matrix, h), expected)


def symmetric(n, seed):
    half = random_sparse(n, n, seed)
    return half + half.T


def several(kind):
    """Two matrices, on one pattern or stacked, and their dense equivalents."""
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


def streamed(n=6):
    """A matrix that is read by chunks, and its dense equivalent."""
    dense = symmetric(n, 3).fill_diagonal_(0)
    csr = SparseMatrix.from_torch(dense.to_sparse())
    part = CSR(*(t.numpy() for t in (csr.rowptr, csr.col, csr.value.float())))
    return StreamedMatrix([part], torch.ones(n, dtype=torch.float64)), [dense.float().double()]


@pytest.mark.parametrize("kind", ["stacked", "one pattern", "streamed"])
@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0, 1.7])
@pytest.mark.parametrize("memory", ["new", "start", "other"])
def test_product_and_lerp_equal_their_formula(kind, weight, memory):
    matrix, dense = streamed() if kind == "streamed" else several(kind)
    rows, columns = len(dense) * matrix.shape[0], len(dense) * matrix.shape[1]
    h, shift, start = (torch.randn(n, 3, dtype=torch.float64) for n in (columns, rows, rows))
    product = torch.cat([a @ b for a, b in zip(dense, h.chunk(len(dense)), strict=True)])
    expected = (1 - weight) * start + weight * (product + shift)
    copies = h.clone(), shift.clone()
    out = {"new": None, "start": start, "other": torch.empty_like(shift)}[memory]
    result = multiply_lerp(matrix, h, shift, start, weight, out=out)
    torch.testing.assert_close(result, expected)
    assert out is None or result is out
    assert all(torch.equal(*pair) for pair in zip((h, shift), copies, strict=True))
    torch.testing.assert_close(multiply_lerp(matrix, h, shift, None, weight), weight * (product + shift))


@pytest.mark.parametrize("kind", ["stacked", "one pattern", "streamed"])
def test_product_is_added_to_a_total(kind):
    matrix, dense = streamed() if kind == "streamed" else several(kind)
    h, total = (torch.randn(len(dense) * n, 3, dtype=torch.float64) for n in reversed(matrix.shape))
    before, product = total.clone(), multiply(matrix, h)
    assert torch.equal(multiply_accumulate(matrix, h, total, 0.3), product)
    torch.testing.assert_close(total, before + 0.3 * product)


def test_gathering_messages_of_stacked_matrices_equals_csr(monkeypatch):
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


def test_several_matrices_as_dense_are_stacked_by_rows():
    matrix, dense = several("one pattern")
    torch.testing.assert_close(matrix.to_dense(), torch.cat(dense))


def test_a_matrix_is_freed_with_its_last_reference():
    adjacency = gcn_adjacency(*torch.tensor([[0, 1], [0, 1]]), 2)
    adjacency @ torch.ones(2, 1)
    assert adjacency.T is adjacency
    value = weakref.ref(adjacency.value)
    gc.disable()
    try:
        del adjacency
        assert value() is None  # freed at once, as it may be gigabytes on a GPU
    finally:
        gc.enable()


def test_stacked_matrices_multiply_half_precision_in_float32():
    matrices = [SparseMatrix.from_torch(random_sparse(7, 7, seed, torch.float32)) for seed in range(2)]
    stacked = StackedMatrix(matrices)
    h = torch.randn(14, 3, generator=torch.Generator().manual_seed(0)).half().requires_grad_()
    out = stacked @ h
    assert out.dtype == torch.float16
    expected = torch.cat([m.to_dense() @ part.float() for m, part in zip(matrices, h.chunk(2), strict=True)])
    assert torch.equal(out, expected.half())
    (gradient,) = torch.autograd.grad(out.float().sum(), h)
    assert torch.equal(gradient, torch.cat([m.to_dense().T.sum(1, keepdim=True).expand(7, 3) for m in matrices]).half())
