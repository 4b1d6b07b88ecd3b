import pytest
import torch

from epagcl import sparse
from epagcl.sparse import SparseMatrix, gcn_adjacency, multiply


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
