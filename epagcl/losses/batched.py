"""InfoNCE with negatives inside random batches, as the paper trains ogbn-arxiv: one batched product."""

import torch
from torch import Tensor


def batched_loss(z1: Tensor, z2: Tensor, temperature: float, batch_size: int, order: Tensor) -> Tensor:
    """mean over nodes of InfoNCE inside their batch, for unit rows ``z1``, ``z2`` [N, d] cut along ``order``."""
    n = z1.shape[0]
    full = n // batch_size * batch_size
    total = z1.new_zeros(())
    for part, size in ((order[:full], batch_size), (order[full:], n - full)):
        if part.numel():
            total = total + _sum(
                z1[part].view(-1, size, z1.shape[1]), z2[part].view(-1, size, z1.shape[1]), temperature
            )
    return total / (2 * n)


def _sum(z1: Tensor, z2: Tensor, temperature: float) -> Tensor:
    """Sum over all rows of batches ``[G, B, d]``: in each, NT-Xent on its 2B stacked rows."""
    z = torch.cat([z1, z2], dim=1)
    s = torch.bmm(z / temperature, z.transpose(1, 2))
    positive = (z1 * z2).sum() * 2 / temperature
    itself = torch.eye(z.shape[1], dtype=torch.bool, device=z.device)
    return s.masked_fill(itself, -torch.inf).logsumexp(2).sum() - positive
