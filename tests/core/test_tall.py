import pytest
import torch

from epagcl.core import tall
from epagcl.core.tall import tall_product, times_weight
from epagcl.training.precision import half_activations


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("blocks", [(), (3,)])
@pytest.mark.parametrize(("rows", "parts"), [(5, 1), (40, 4), (43, 4), (99, 8)])
def test_products_in_parts_equal_whole_products(monkeypatch, device, blocks, rows, parts):
    monkeypatch.setattr(tall, "MIN_ROWS", 10)
    monkeypatch.setattr(tall, "PROGRAMS", 8)
    calls = []
    bmm = torch.bmm
    monkeypatch.setattr(torch, "bmm", lambda a, b, out: calls.append(a.shape) or bmm(a, b, out=out))
    a, b = draw(*blocks, rows, 6).to(device), draw(*blocks, rows, 5, seed=1).to(device)
    torch.testing.assert_close(tall_product(a, b), (a.double().mT @ b.double()).float(), rtol=1e-5, atol=1e-5)
    assert calls == []  # only products of fp16 rows are divided
    a, b = a.half(), b.half()
    expected = (a.double().mT @ b.double()).float()
    torch.testing.assert_close(tall_product(a, b), expected, rtol=2**-9, atol=0.03)
    assert calls == [(parts, 6, rows // parts)] * (max(1, len(blocks) * 3) if parts > 1 else 0)


def test_parts_are_few_if_their_products_are_large(monkeypatch):
    monkeypatch.setattr(tall, "PROGRAMS", 8)
    monkeypatch.setattr(tall, "MIN_ROWS", 1)
    parts = []
    bmm = torch.bmm
    monkeypatch.setattr(torch, "bmm", lambda a, b, out: parts.append(a.shape[0]) or bmm(a, b, out=out))
    for width in (128, 129, 257):
        tall_product(draw(64, 100).half(), draw(64, width).half())
    assert parts == [8, 4, 2]


@pytest.mark.parametrize("on", [False, True])
@pytest.mark.parametrize(
    "shapes", [((7, 3), (3, 2)), ((4, 7, 3), (4, 3, 2)), ((7, 3), (3, 2), (2,)), ((4, 7, 3), (4, 3, 2), (4, 2))]
)
def test_product_and_gradients_equal_those_of_torch(device, use_triton, on, shapes):
    use_triton(on)
    given = [draw(*shape, seed=k).to(device).requires_grad_() for k, shape in enumerate(shapes)]
    exact = [t.detach().double().requires_grad_() for t in given]
    ours, expected = times_weight(*given), exact[0] @ exact[1]
    if len(exact) == 3:
        expected = expected + exact[2][..., None, :]
    torch.testing.assert_close(ours, expected.float())
    grad = draw(*ours.shape, seed=2).to(device)
    gradients = torch.autograd.grad(ours, given, grad)
    torch.testing.assert_close(gradients, tuple(g.float() for g in torch.autograd.grad(expected, exact, grad.double())))


def test_blocks_may_be_one_and_the_same(device, use_triton):
    use_triton(True)
    x, weight = draw(7, 3).to(device), draw(4, 3, 2, seed=1).to(device).requires_grad_()
    out = times_weight(x.expand(4, -1, -1), weight)
    (gradient,) = torch.autograd.grad(out.sum(), weight)
    torch.testing.assert_close(gradient, x.sum(0)[:, None].expand(4, -1, 2))


def test_operands_are_rounded_once_with_fp16_activations_and_weights_keep_their_type(device, use_triton):
    use_triton(True)
    x, weight = draw(70, 30).to(device), draw(30, 20, seed=1).to(device).requires_grad_()
    bias = draw(20, seed=2).to(device).requires_grad_()
    with half_activations(device):
        out = times_weight(x, weight, bias)
    assert out.dtype == torch.float16
    exact = [t.detach().half().double() for t in (x, weight, bias)]
    torch.testing.assert_close(out.double(), exact[0] @ exact[1] + exact[2], rtol=2**-9, atol=1e-3)
    grad = draw(70, 20, seed=3).half().to(device)
    gradients = torch.autograd.grad(out, (weight, bias), grad)
    assert [g.dtype for g in gradients] == [torch.float32, torch.float32]
    torch.testing.assert_close(gradients[0].double(), exact[0].mT @ grad.double(), rtol=2**-9, atol=1e-2)
    torch.testing.assert_close(gradients[1], grad.float().sum(0))


def test_other_types_are_left_to_torch(device, use_triton):
    use_triton(True)
    x, weight = draw(7, 3).double().to(device), draw(3, 2, seed=1).double().to(device).requires_grad_()
    out = times_weight(x, weight)
    assert out.dtype == torch.float64
    assert torch.autograd.gradcheck(lambda w: times_weight(x, w), weight)
