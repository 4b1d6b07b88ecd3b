import pytest
import torch

pytest.importorskip("triton")

from epagcl.core.kernels import launch
from epagcl.core.kernels.masked import masked_product
from epagcl.core.sparse import SparseMatrix
from epagcl.nn.layers import GCNLayer
from epagcl.training.precision import half_activations
from tests.core.kernels.matrices import assert_rounded_once, random_matrix, two_views

pytestmark = pytest.mark.usefixtures("poisoned_memory")


def draw(members, columns, width, device):
    """Return weights and masks; each view hides some rows, and the last row is hidden from all views."""
    generator = torch.Generator().manual_seed(members)
    h = torch.randn(members, columns, width, generator=generator)
    mask = (torch.rand(2 * members, columns, generator=generator) < 0.6).float()
    mask[:, -1] = 0
    mask[0, 0], mask[1, 0] = 1, 0
    return h.to(device), mask.to(device)


@pytest.mark.parametrize(("members", "width", "longest"), [(1, 5, 64), (1, 130, 4), (3, 33, 4), (2, 600, 64)])
def test_product_and_gradient_equal_those_of_masked_copies(device, monkeypatch, members, width, longest):
    monkeypatch.setattr(launch, "LONG_CHUNK", longest)
    monkeypatch.setattr(launch, "MIN_LONG_CHUNKS", 1)
    dense, matrix = random_matrix(9, 11, density=0.6, device=device)
    h, mask = draw(members, 11, width, device)
    h.requires_grad_()
    out = masked_product(matrix, h if members > 1 else h[0], mask)
    copies = mask.view(members, 2, 11, 1).double() * h[:, None].double()
    expected = (dense.double().to(device) @ copies).flatten(0, 2)
    grad = torch.randn(out.shape, generator=torch.Generator().manual_seed(7)).to(device)
    torch.testing.assert_close(out, expected.float())
    [found] = torch.autograd.grad(out, h, grad)
    [wanted] = torch.autograd.grad(expected, h, grad.double())
    torch.testing.assert_close(found, wanted.float())


def test_masks_are_factors(device):
    dense, matrix = random_matrix(6, 4, density=0.9, device=device)
    h, mask = torch.randn(4, 3, device=device), torch.tensor([[2.0, 0.5, -1.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
    out = masked_product(matrix, h, mask.to(device)).cpu()
    torch.testing.assert_close(out, torch.cat([dense @ (m[:, None] * h.cpu()) for m in mask]))


def test_rows_that_both_views_hide_are_not_read(device):
    dense, matrix = random_matrix(9, 11, density=0.6, device=device)
    h, mask = draw(1, 11, 5, device)
    poisoned = h.clone()
    poisoned[:, -1] = torch.nan
    out = masked_product(matrix, poisoned[0], mask).cpu()
    assert out.isfinite().all()
    assert torch.equal(out, masked_product(matrix, h[0], mask).cpu())
    assert dense[:, -1].any()


def test_repeated_products_are_bit_equal(device, monkeypatch):
    monkeypatch.setattr(launch, "LONG_CHUNK", 4)
    monkeypatch.setattr(launch, "MIN_LONG_CHUNKS", 1)
    _, matrix = random_matrix(13, 17, density=0.5, device=device)
    h, mask = draw(2, 17, 40, device)
    results = []
    for _ in range(2):
        leaf = h.clone().requires_grad_()
        out = masked_product(matrix, leaf, mask)
        results.append((out, *torch.autograd.grad(out.square().sum(), leaf)))
    assert all(map(torch.equal, *results))


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("root", [False, True])
def test_a_layer_gives_the_same_with_and_without_kernels(device, use_triton, members, root):
    _, x = random_matrix(30, 20, density=0.3, device=device)
    x = SparseMatrix(x.rowptr, x.col.long(), x.value, x.shape)  # as CSR products need it
    torch.manual_seed(0)
    layer = GCNLayer(20, 6, root=root, members=members).to(device)
    _, mask = draw(members, 20, 1, device)
    results = []
    for on in (False, True):
        use_triton(on)
        views = two_views(30, 0.3, 0.1, device=device).adjacency(0)  # the kernels have a layout of their own
        out = layer.project(x, mask) if members > 1 else layer.product(x, views, mask)
        results.append((out, *torch.autograd.grad(out.square().sum(), layer.weights)))
    torch.testing.assert_close(*results)


@pytest.mark.parametrize(("members", "width", "longest"), [(1, 130, 4), (2, 33, 64)])
def test_products_are_in_half_precision_with_such_activations(device, use_triton, monkeypatch, members, width, longest):
    monkeypatch.setattr(launch, "LONG_CHUNK", longest)
    monkeypatch.setattr(launch, "MIN_LONG_CHUNKS", 1)
    use_triton(True)
    dense, matrix = random_matrix(9, 11, density=0.6, device=device)
    h, mask = draw(members, 11, width, device)
    h = h.half().float().requires_grad_()
    with half_activations(device):
        out = masked_product(matrix, h, mask)
    exact = h.detach().double().requires_grad_()
    copies = mask.view(members, 2, 11, 1).double() * exact[:, None]
    expected = (dense.double().to(device) @ copies).flatten(0, 2)
    assert_rounded_once(out, expected.detach(), atol=1e-5)
    grad = torch.randn(out.shape, generator=torch.Generator().manual_seed(7)).half().to(device)
    [found] = torch.autograd.grad(out, h, grad)
    [wanted] = torch.autograd.grad(expected, exact, grad.double())
    torch.testing.assert_close(found, wanted.float())  # the gradient of a weight adds up many rows, in float32


def test_rows_of_large_matrices_are_cut_into_longer_chunks(monkeypatch):
    matrix = SparseMatrix.from_torch(torch.ones(9, 11).to_sparse())
    monkeypatch.setattr(launch, "MAX_CHUNK", 4)
    monkeypatch.setattr(launch, "LONG_CHUNK", 8)
    for least, chunks in ((12, 9 * 2), (13, 9 * 3)):  # 99 entries; rows of 11
        monkeypatch.setattr(launch, "MIN_LONG_CHUNKS", least)
        fresh = SparseMatrix(matrix.rowptr, matrix.col, matrix.value, matrix.shape)
        assert fresh.long_chunks.row.numel() == chunks
