import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton")

from epagcl.core.kernels.cosine import shifted_cosines
from tests.core.kernels.matrices import assert_rounded_once

pytestmark = pytest.mark.usefixtures("poisoned_memory")


def with_gradient(cosines, a, b, weight):
    a = a.clone().requires_grad_()
    values = cosines(a, b)
    return values.detach(), torch.autograd.grad(values, a, weight)[0]


@pytest.mark.parametrize(("n", "width", "shift"), [(2, 1, 1), (10, 5, 5), (6, 256, 3), (4, 700, 2), (5, 2, 0)])
def test_cosines_and_gradient_equal_double_precision(device, n, width, shift):
    generator = torch.Generator().manual_seed(n * width)
    a, b = (torch.randn(n, width, generator=generator).to(device) for _ in range(2))
    weight = torch.randn(n, generator=generator).to(device)
    ours = with_gradient(lambda a, b: shifted_cosines(a, b, shift), a, b, weight)
    exact = with_gradient(lambda a, b: F.cosine_similarity(a, b.roll(-shift, 0)), *(t.double() for t in (a, b, weight)))
    for mine, expected in zip(ours, exact, strict=True):
        torch.testing.assert_close(mine.double(), expected, rtol=1e-5, atol=1e-6)


def test_rows_without_length_have_cosine_0_and_the_gradient_of_torch(device):
    a, b = torch.ones(4, 3, device=device), torch.ones(4, 3, device=device)
    a[1] = 0
    b[2] = 0
    weight = torch.ones(4, device=device)
    values, gradient = with_gradient(lambda a, b: shifted_cosines(a, b, 0), a, b, weight)
    expected, expected_gradient = with_gradient(F.cosine_similarity, a, b, weight)
    assert values.tolist() == pytest.approx([1, 0, 0, 1])
    torch.testing.assert_close(values, expected)
    torch.testing.assert_close(gradient, expected_gradient, rtol=1e-5, atol=1e-6)


def test_equal_expanded_gradients_are_taken(device):
    a = torch.randn(6, 4, device=device, requires_grad=True)
    b = torch.randn(6, 4, device=device)
    shifted_cosines(a, b, 3).mean().backward()  # the gradient of a mean is one number, expanded
    exact = a.detach().double().requires_grad_()
    F.cosine_similarity(exact, b.double().roll(3, 0)).mean().backward()
    torch.testing.assert_close(a.grad.double(), exact.grad, rtol=1e-5, atol=1e-7)


def test_half_precision_has_cosines_in_float32(device):
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(6, 256, generator=generator).half().to(device) for _ in range(2))
    weight = torch.randn(6, generator=generator).to(device)
    cosines, gradient = with_gradient(lambda a, b: shifted_cosines(a, b, 3), a, b, weight)
    exact = with_gradient(lambda a, b: F.cosine_similarity(a, b.roll(-3, 0)), *(t.double() for t in (a, b, weight)))
    torch.testing.assert_close(cosines, exact[0].float(), rtol=1e-5, atol=1e-6)
    assert_rounded_once(gradient, exact[1], atol=1e-7)
