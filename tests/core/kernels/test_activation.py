import pytest
import torch

pytest.importorskip("triton")

from epagcl.core.kernels.activation import bias_prelu
from epagcl.core.sparse import SparseMatrix
from epagcl.nn.encoders import GCN, build_encoder
from epagcl.views.masks import feature_masks
from tests.core.kernels.matrices import assert_rounded_once, random_matrix, two_views

pytestmark = pytest.mark.usefixtures("poisoned_memory")


@pytest.mark.parametrize(("rows", "width"), [(1, 1), (7, 5), (90, 33), (300, 40), (9, 600)])
def test_bias_and_prelu_equal_plain_torch(device, rows, width):
    x, grad, bias = (torch.randn(*s, device=device) for s in ((rows, width), (rows, width), (width,)))
    x[0, 0], bias[0] = 1.0, -1.0  # x + bias is exactly 0 here, where the slope applies
    single = [t.requires_grad_() for t in (x, bias, torch.tensor([0.3], device=device))]
    exact = [t.detach().double().requires_grad_() for t in single]
    expected = torch.nn.functional.prelu(exact[0] + exact[1], exact[2])
    ours = bias_prelu(*single)
    torch.testing.assert_close(ours.double(), expected, rtol=1e-5, atol=1e-6)
    gradients = torch.autograd.grad(ours, single, grad)
    for a, b in zip(gradients, torch.autograd.grad(expected, exact, grad.double()), strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("members", "rows", "width"), [(2, 3, 5), (3, 7, 1), (2, 90, 33)])
def test_members_have_their_own_bias_and_slope(device, members, rows, width):
    generator = torch.Generator().manual_seed(0)
    shapes = (members * rows, width), (members, width), (members * rows, width)
    x, bias, grad = (torch.randn(*shape, generator=generator).to(device) for shape in shapes)
    slope = torch.linspace(0.1, 0.9, members, device=device)
    single = [t.requires_grad_() for t in (x, bias, slope)]
    exact = [t.detach().double().requires_grad_() for t in single]
    parts = zip(exact[0].chunk(members), exact[1], exact[2], strict=True)
    expected = torch.cat([torch.nn.functional.prelu(part + b, a) for part, b, a in parts])
    ours = bias_prelu(*single)
    torch.testing.assert_close(ours.double(), expected, rtol=1e-5, atol=1e-6)
    gradients = torch.autograd.grad(ours, single, grad)
    for a, b in zip(gradients, torch.autograd.grad(expected, exact, grad.double()), strict=True):
        assert a.shape == b.shape
        torch.testing.assert_close(a.double(), b, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["residual", "scales"])
def test_other_encoders_by_kernels_equal_plain_torch(device, use_triton, name):
    views = two_views(9, 0.3, 0.2, device=device)
    x = random_matrix(9, 6, device=device)[1]
    x = SparseMatrix(x.rowptr, x.col.long(), x.value, x.shape)
    torch.manual_seed(0)
    encoder = build_encoder(name, 6, 5, 4).to(device)
    grad = torch.randn(18, 4, device=device)
    results = []
    for on in (False, True):
        use_triton(on)
        mask = feature_masks(6, (0.2, 0.4), seed=0, epoch=torch.tensor(4, device=device), device=device)
        z = encoder(x, views.adjacency(4), mask)
        results.append((z, *torch.autograd.grad(z, encoder.parameters(), grad)))
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_an_encoder_by_kernels_equals_plain_torch(device, use_triton):
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


def test_half_precision_has_gradients_of_bias_and_slope_in_float32(device):
    x, grad, bias = (torch.randn(*s, device=device) for s in ((90, 33), (90, 33), (33,)))
    x, grad = x.half(), grad.half()
    single = [t.requires_grad_() for t in (x, bias, torch.tensor([0.3], device=device))]
    exact = [t.detach().double().requires_grad_() for t in single]
    expected = torch.nn.functional.prelu(exact[0] + exact[1], exact[2])
    ours = bias_prelu(*single)
    assert_rounded_once(ours.detach(), expected.detach())
    gradients = torch.autograd.grad(ours, single, grad)
    expected_gradients = torch.autograd.grad(expected, exact, grad.double())
    assert_rounded_once(gradients[0], expected_gradients[0])
    torch.testing.assert_close(gradients[1:], tuple(t.float() for t in expected_gradients[1:]), rtol=1e-5, atol=1e-5)
