import pytest
import torch

pytest.importorskip("triton")

from epagcl.core.permute import row_products
from epagcl.core.randomness import Stream, other_nodes
from tests.core.kernels.matrices import assert_rounded_once

pytestmark = pytest.mark.usefixtures("poisoned_memory")


@pytest.mark.parametrize(("n", "count", "width"), [(2, 1, 1), (9, 3, 5), (20, 11, 40), (7, 8, 300)])
def test_products_and_gradients_equal_those_of_plain_torch(device, use_triton, n, count, width):
    orders = other_nodes(n, count, 0, Stream.NEGATIVES, device=device)
    generator = torch.Generator().manual_seed(n)
    a, b = (torch.randn(n, width, generator=generator).to(device).requires_grad_() for _ in range(2))
    grad = torch.randn(count, n, generator=generator).to(device)
    results = []
    for on in (False, True):
        use_triton(on)
        out = row_products(a, b, orders)
        results.append((out, *torch.autograd.grad(out, (a, b), grad)))
    torch.testing.assert_close(*results)


def test_rows_of_one_tensor(device, use_triton):
    use_triton(True)
    z = torch.randn(12, 6, device=device, requires_grad=True)
    orders = other_nodes(12, 4, 0, Stream.NEGATIVES, device=device)
    out = row_products(z, z, orders)
    expected = (z * z[orders]).sum(2)
    torch.testing.assert_close(out, expected)
    weight = torch.arange(48.0, device=device).view(4, 12)
    torch.testing.assert_close(
        *(torch.autograd.grad((values * weight).sum(), z, retain_graph=True)[0] for values in (out, expected))
    )


def test_repeated_products_are_bit_equal(device, use_triton):
    use_triton(True)
    z = torch.randn(30, 70, device=device, requires_grad=True)
    orders = other_nodes(30, 9, 0, Stream.NEGATIVES, device=device)
    gradients = [torch.autograd.grad(row_products(z, z, orders).square().sum(), z)[0] for _ in range(2)]
    assert torch.equal(*gradients)


def test_float64_is_computed_in_plain_torch(device, use_triton):
    use_triton(True)
    z = torch.randn(5, 3, dtype=torch.float64, device=device)
    orders = other_nodes(5, 2, 0, Stream.NEGATIVES, device=device)
    torch.testing.assert_close(row_products(z, z, orders), (z * z[orders]).sum(2))


def test_half_precision_has_products_in_float32(device, use_triton):
    use_triton(True)
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(9, 40, generator=generator).half().to(device).requires_grad_() for _ in range(2))
    orders = other_nodes(9, 3, 0, Stream.NEGATIVES, device=device)
    exact = [t.detach().double().requires_grad_() for t in (a, b)]
    out, expected = row_products(a, b, orders), (exact[0] * exact[1][orders]).sum(2)
    torch.testing.assert_close(out, expected.float())
    grad = torch.randn(3, 9, generator=generator).to(device)
    gradients = torch.autograd.grad(out, (a, b), grad)
    for ours, wanted in zip(gradients, torch.autograd.grad(expected, exact, grad.double()), strict=True):
        assert_rounded_once(ours, wanted, atol=1e-5)
