import pytest
import torch

from epagcl.core.sparse import SparseMatrix
from tests.core.helpers import assert_same_gradients, normal, random_sparse


def weighted(rows, columns, views, seed=0):
    """A pattern with an empty row and an empty column, values for each view, and a function that makes them dense."""
    dense = random_sparse(rows, columns, seed) + 0.1 * torch.eye(rows, columns, dtype=torch.float64)
    dense[rows // 2] = 0
    dense[:, 1] = 0
    pattern = SparseMatrix.from_torch(dense.to_sparse()).pattern
    generator = torch.Generator().manual_seed(seed + 1)
    shape = (views, pattern.col.numel()) if views > 1 else (pattern.col.numel(),)
    value = torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)
    number = torch.arange(views)[:, None]

    def to_dense(value):
        zeros = torch.zeros(views, rows, columns, dtype=torch.float64)
        return zeros.index_put((number, pattern.row, pattern.col), value.view(views, -1))

    return pattern, value, to_dense


@pytest.mark.parametrize(("rows", "columns"), [(7, 5), (4, 9), (6, 6)])
@pytest.mark.parametrize("views", [1, 3])
@pytest.mark.parametrize("blocks", ["shared", "stacked"])
def test_products_with_differentiable_values_match_dense(rows, columns, views, blocks):
    pattern, value, to_dense = weighted(rows, columns, views, seed=rows)
    h = normal(columns * (views if blocks == "stacked" else 1), 3)
    expected = (to_dense(value) @ h.view(-1, columns, 3)).flatten(0, 1)
    assert_same_gradients(pattern.multiply(value, h), expected, (value, h))
    assert torch.autograd.gradcheck(pattern.multiply, (value, h))
    assert (expected.view(views, rows, 3)[:, rows // 2] == 0).all()


def test_one_matrix_of_differentiable_values_multiplies_every_block():
    pattern, value, to_dense = weighted(6, 5, 1)
    h = normal(2 * 5, 3)
    expected = (to_dense(value) @ h.view(2, 5, 3)).flatten(0, 1)
    assert_same_gradients(pattern.multiply(value, h), expected, (value, h))


@pytest.mark.parametrize(("rows", "columns"), [(7, 5), (4, 9), (6, 6)])
@pytest.mark.parametrize("views", [1, 3])
def test_edge_dots_match_dense(rows, columns, views):
    pattern, value, _ = weighted(rows, columns, views, seed=rows)
    a, b = normal(views * rows, 4), normal(views * columns, 4, seed=1)
    every = a.view(views, rows, 4) @ b.view(views, columns, 4).mT
    expected = every[:, pattern.row, pattern.col].view_as(value)
    assert_same_gradients(pattern.edge_dots(a, b), expected, (a, b))
    assert torch.autograd.gradcheck(pattern.edge_dots, (a, b))


@pytest.mark.parametrize("shared", ["left", "right"])
def test_edge_dots_with_rows_shared_by_all_views(shared):
    pattern, _, _ = weighted(7, 5, 2)
    a = normal(7 if shared == "left" else 14, 4)
    b = normal(5 if shared == "right" else 10, 4, seed=1)
    expected = (a.view(-1, 7, 4) @ b.view(-1, 5, 4).mT)[:, pattern.row, pattern.col]
    assert_same_gradients(pattern.edge_dots(a, b), expected, (a, b))


def test_edge_dots_computed_in_several_parts():
    width = 2**20  # 4 entries at a time
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randint(-1, 2, (n, width), generator=generator).float() for n in (3, 5))
    pattern = SparseMatrix.from_torch(torch.ones(3, 5).to_sparse()).pattern
    assert torch.equal(pattern.edge_dots(a, b).view(3, 5), a @ b.T)  # integers: exact in any order


def test_a_pattern_and_its_transpose_have_the_same_entries():
    pattern, value, to_dense = weighted(7, 5, 2)
    value = value.detach()
    torch.testing.assert_close(pattern.matrix(value).to_dense().view(2, 7, 5), to_dense(value))
    transposed = pattern.T.matrix(value[:, pattern.order]).to_dense()
    torch.testing.assert_close(transposed.view(2, 5, 7), to_dense(value).mT)
    assert pattern.T.shape == (5, 7)


def test_gradients_of_one_argument_only():
    pattern, value, _ = weighted(6, 5, 1)
    h = normal(5, 3)
    for inputs in ((value.detach(), h), (value, h.detach())):
        wanted = [t for t in inputs if t.requires_grad]
        both = torch.autograd.grad(pattern.multiply(value, h).sum(), (value, h))
        (one,) = torch.autograd.grad(pattern.multiply(*inputs).sum(), wanted)
        torch.testing.assert_close(one, both[0] if inputs[0].requires_grad else both[1])


def test_several_values_on_one_pattern_share_their_columns():
    pattern, value, to_dense = weighted(6, 5, 3)
    matrix = pattern.matrix(value.detach())
    assert (matrix.views, matrix.col.dim()) == (3, 1)
    h = normal(5, 2).detach()
    torch.testing.assert_close(matrix @ h, (to_dense(value.detach()) @ h).flatten(0, 1))


def test_edge_sums_match_dense():
    pattern, value, _ = weighted(7, 5, 2)
    a, b = normal(14), normal(10, seed=1)
    every = a.view(2, 7, 1) + b.view(2, 1, 5)
    expected = every[:, pattern.row, pattern.col].view_as(value)
    assert_same_gradients(pattern.edge_sums(a, b), expected, (a, b))


def test_the_diagonal_of_a_pattern():
    pattern = SparseMatrix.from_torch(torch.tensor([[1.0, 1.0], [1.0, 0.0]]).to_sparse()).pattern
    assert pattern.loop.tolist() == [True, False, False]
