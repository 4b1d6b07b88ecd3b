import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton")

from epagcl.core.kernels import launch, normalisation
from epagcl.core.kernels.normalisation import batch_norm_prelu
from tests.core.kernels.matrices import assert_rounded_once

pytestmark = pytest.mark.usefixtures("poisoned_memory")

MOMENTUM = 0.99


def arguments(views, rows, width, device, *, mean=0.0, seed=0):
    """x, bias, scale, shift, slope, and running mean and variance."""
    generator = torch.Generator().manual_seed(seed)
    x = mean + torch.randn(views * rows, width, generator=generator)
    x *= torch.arange(1, views + 1).repeat_interleave(rows)[:, None]  # the statistics of the views differ
    bias, scale, shift, running_mean = torch.randn(4, width, generator=generator)
    running_var = 0.5 + torch.rand(width, generator=generator)
    slope = torch.tensor([0.3])
    return [t.to(device) for t in (x, bias, 1 + scale / 2, shift, slope, running_mean, running_var)]


def reference(x, bias, scale, shift, slope, running_mean, running_var, views):
    """The same by plain PyTorch, view by view."""
    running = running_mean, running_var
    parts = [F.batch_norm(part + bias, *running, scale, shift, True, MOMENTUM) for part in x.chunk(views)]
    return F.prelu(torch.cat(parts), slope)


def compare(views, rows, width, device, *, mean=0.0, tolerance=1e-5):
    single = arguments(views, rows, width, device, mean=mean)
    exact = [t.double() for t in single]
    for t in (*single[:5], *exact[:5]):
        t.requires_grad_()
    grad = torch.randn(views * rows, width, generator=torch.Generator().manual_seed(1)).to(device)
    ours = batch_norm_prelu(*single, views=views, momentum=MOMENTUM)
    expected = reference(*exact, views)
    torch.testing.assert_close(ours.double(), expected, rtol=tolerance, atol=tolerance)
    for a, b in zip(single[5:], exact[5:], strict=True):
        torch.testing.assert_close(a.double(), b, rtol=2e-6, atol=1e-6)
    gradients = torch.autograd.grad(ours, single[:5], grad)
    expected_gradients = torch.autograd.grad(expected, exact[:5], grad.double())
    for a, b, given in zip(gradients, expected_gradients, single, strict=False):
        assert a.shape == given.shape
        torch.testing.assert_close(a.double(), b, rtol=10 * tolerance, atol=tolerance * (views * rows * width) ** 0.5)
    assert not gradients[1].any()  # of the bias


@pytest.mark.parametrize("views", [1, 2])
@pytest.mark.parametrize(("rows", "width"), [(2, 1), (7, 5), (65, 1), (90, 64), (33, 130), (9, 600)])
def test_batch_norm_and_prelu_equal_plain_torch(device, views, rows, width):
    compare(views, rows, width, device)


@pytest.mark.slow
@pytest.mark.parametrize(("views", "rows", "width"), [(2, 150, 130), (1, 90, 512), (3, 400, 5)])
def test_many_rows_equal_plain_torch(device, views, rows, width):
    compare(views, rows, width, device)


def test_several_tiles_per_program_equal_plain_torch(device, monkeypatch):
    monkeypatch.setattr(launch, "PROGRAMS", 2)
    grid, tile = launch.row_tiles(300, 64, 2)
    assert tile["REPEAT"] > 1
    assert grid[0] > 1
    assert 300 % (tile["ROWS"] * tile["REPEAT"])  # the last program has fewer rows
    compare(2, 300, 64, device)


def test_many_parts_are_combined_in_turns(device, monkeypatch):
    monkeypatch.setattr(normalisation, "PARTS", 2)
    assert launch.row_tiles(90, 130, 2)[0][0] > 4
    compare(2, 90, 130, device)


def test_a_mean_far_from_zero_does_not_spoil_the_variance(device):
    """Squares of 1000 minus each other would leave two digits of the variance."""
    compare(2, 300, 64, device, mean=1000.0, tolerance=1e-3)
    x, *others = arguments(1, 300, 64, device, mean=1000.0)
    others[-1].zero_()
    x[7] = 0.0  # nor does a row far from the others
    batch_norm_prelu(x, *others, views=1, momentum=1.0)
    torch.testing.assert_close(others[-1].double(), x.double().var(0), rtol=2e-6, atol=0)
    x[:] = 1000.1
    batch_norm_prelu(x, *others, views=1, momentum=1.0)
    torch.testing.assert_close(others[-1], torch.zeros_like(others[-1]), rtol=0, atol=0)


def test_results_are_deterministic(device):
    def results():
        values = arguments(2, 90, 130, device)
        y = batch_norm_prelu(*(t.requires_grad_() for t in values[:5]), *values[5:], views=2, momentum=MOMENTUM)
        return [y, *torch.autograd.grad(y.square().sum(), values[:5]), *values[5:]]

    assert all(map(torch.equal, results(), results()))


def test_transposed_memory_is_accepted(device):
    values = arguments(2, 9, 5, device)
    again = [t.clone() for t in values]
    again[0] = again[0].T.contiguous().T
    outputs = []
    for x, *others in (values, again):
        y = batch_norm_prelu(x.requires_grad_(), *others, views=2, momentum=MOMENTUM)
        grad = torch.arange(y.numel(), device=device).float().view(y.shape[1], -1).T  # not contiguous
        outputs.append((y, *torch.autograd.grad(y, x, grad)))
    torch.testing.assert_close(*outputs, rtol=0, atol=0)


@pytest.mark.parametrize("views", [1, 2])
def test_one_row_has_no_variance(device, views):
    values = arguments(views, 1, 5, device)
    messages = []
    for function in (reference, batch_norm_prelu):
        with pytest.raises(ValueError, match="Expected more than 1 value per channel") as error:
            function(*values, **({"views": views} | ({"momentum": 0.99} if function is batch_norm_prelu else {})))
        messages.append(str(error.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize(("rows", "width"), [(90, 64), (33, 130)])
def test_half_precision_has_statistics_and_sums_in_float32(device, rows, width):
    single = arguments(2, rows, width, device)
    single[0] = single[0].half()
    exact = [t.double() for t in single]
    for t in (*single[:5], *exact[:5]):
        t.requires_grad_()
    grad = torch.randn(2 * rows, width, generator=torch.Generator().manual_seed(1)).half().to(device)
    ours = batch_norm_prelu(*single, views=2, momentum=MOMENTUM)
    expected = reference(*exact, 2)
    assert_rounded_once(ours.detach(), expected.detach(), atol=1e-5)
    for a, b in zip(single[5:], exact[5:], strict=True):
        torch.testing.assert_close(a.double(), b, rtol=2e-6, atol=1e-6)
    gradients = torch.autograd.grad(ours, single[:5], grad)
    expected_gradients = torch.autograd.grad(expected, exact[:5], grad.double())
    assert_rounded_once(gradients[0], expected_gradients[0], atol=1e-4)
    for a, b in zip(gradients[1:], expected_gradients[1:], strict=True):
        assert a.dtype == torch.float32
        torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=1e-3)
