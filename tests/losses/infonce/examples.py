"""Projections that the tests of InfoNCE share."""

import pytest
import torch

from epagcl.losses.infonce.loss import PRECISIONS

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="Triton's interpreter has no bfloat16 products")
every_precision = pytest.mark.parametrize(
    "precision", [pytest.param(p, marks=needs_gpu) if p == "bf16" else p for p in PRECISIONS]
)


def pair(n, d, seed=0, dtype=torch.float64):
    """Two random views, ``[n, d]`` each, that require a gradient."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, d, generator=generator, dtype=dtype, requires_grad=True) for _ in range(2)]


def stacked(n, d, rows="random", seed=1, groups=1, device="cpu"):
    """The rows of both views, ``[groups·2n, d]``: random, in 5 clusters, or nearly identical."""
    generator = torch.Generator().manual_seed(seed)
    spread = {"random": 1.0, "clustered": 0.2, "nearly identical": 1e-3}[rows]
    centres = torch.randn(1 if rows == "nearly identical" else 5, d, generator=generator)
    centre = centres[torch.arange(n) % len(centres)].repeat(2 * groups, 1)
    return (centre + spread * torch.randn(groups * 2 * n, d, generator=generator)).to(device)


def value_and_gradient(loss, x):
    """The loss of x, and its gradient."""
    x = x.detach().clone().requires_grad_()
    value = loss(x)
    return value.item(), *torch.autograd.grad(value, x)
