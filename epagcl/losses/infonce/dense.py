"""InfoNCE as the formula reads, all similarities at once: the twin that tests and benchmarks compare with."""

import torch
import torch.nn.functional as F
from torch import Tensor


def dense_loss(x: Tensor, temperature: float, groups: int = 1) -> Tensor:
    """mean_i (log Σ_{j≠i} e^{s_ij} − s_{i,pos(i)}), s = z zᵀ/τ, z = x/‖x‖, for stacked rows ``x`` in each group.

    One batched product of ``[groups, 2B, d]``; memory O(groups·B²), so O(N²) for one group.
    """
    z = F.normalize(x, dim=1).view(groups, -1, x.shape[1])
    size = z.shape[1]
    s = torch.bmm(z, z.transpose(1, 2)) / temperature
    itself = torch.eye(size, dtype=torch.bool, device=x.device)
    positive = torch.arange(size, device=x.device).roll(size // 2)
    others = s.masked_fill(itself, -torch.inf).logsumexp(2)
    return (others - s[:, torch.arange(size, device=x.device), positive]).mean()
