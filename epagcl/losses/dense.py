"""InfoNCE as the formula reads, all similarities at once: the twin that tests and benchmarks compare with."""

import torch
from torch import Tensor


def dense_loss(z: Tensor, temperature: float) -> Tensor:
    """mean_i (log Σ_{j≠i} e^{s_ij} − s_{i,pos(i)}), s = z zᵀ/τ, for stacked unit rows ``z`` [2N, d]; memory O(N²)."""
    m = z.shape[0]
    s = z @ z.T / temperature
    others = s.masked_fill(torch.eye(m, dtype=torch.bool, device=z.device), -torch.inf)
    positive = torch.arange(m, device=z.device).roll(m // 2)
    return (others.logsumexp(1) - s.gather(1, positive[:, None])[:, 0]).mean()
