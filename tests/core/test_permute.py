import pytest
import torch

from epagcl.core.permute import permute_rows, row_products
from tests.core.helpers import assert_same_gradients, normal


def test_permuted_rows_and_their_gradient_equal_indexing():
    x, order = normal(9, 3), torch.randperm(9, generator=torch.Generator().manual_seed(0))
    assert torch.equal(permute_rows(x, order), x[order])
    assert_same_gradients(permute_rows(x, order), x[order], (x,))
    assert torch.autograd.gradcheck(lambda x: permute_rows(x, order), (x,))


@pytest.mark.parametrize("count", [1, 4])
def test_row_products_and_their_gradient_equal_indexing(count):
    a, b = normal(8, 3), normal(8, 3, seed=1)
    orders = torch.stack([torch.randperm(8, generator=torch.Generator().manual_seed(k)) for k in range(count)])
    assert_same_gradients(row_products(a, b, orders), (a * b[orders]).sum(2), (a, b))
    assert torch.autograd.gradcheck(lambda a, b: row_products(a, b, orders), (a, b))
    assert_same_gradients(row_products(a, a, orders), (a * a[orders]).sum(2), (a,))
