import gc
import weakref

import pytest
import torch

from epagcl import sparse
from epagcl.sparse import SparseMatrix, StackedMatrix, gcn_adjacency, multiply


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
