"""InfoNCE by the formula, with all similarities at once. Tests and benchmarks use it as reference."""

import torch
import torch.nn.functional as F
from torch import Tensor


def dense_loss(x: Tensor, temperature: float, groups: int = 1) -> Tensor:
    """Return mean_i (log Σ_{j≠i} e^{s_ij} − s_{i,pos(i)}) with s = z zᵀ/τ and z = x/‖x‖, inside each group of rows.

    The similarities are one batched product of ``[groups, 2B, d]``. Memory is O(groups·B²), so O(N²) for one group.

    Args:
        x: the stacked rows of both views, ``[groups·2B, d]``.
        temperature: τ.
        groups: the number of groups of equal size.

    Examples:
        >>> dense_loss(torch.ones(4, 2), temperature=0.5)  # all rows equal: log 3
        tensor(1.0986)
    """
    z = F.normalize(x, dim=1).view(groups, -1, x.shape[1])
    size = z.shape[1]
    s = torch.bmm(z, z.transpose(1, 2)) / temperature
    diagonal = torch.eye(size, dtype=torch.bool, device=x.device)
    positive = torch.arange(size, device=x.device).roll(size // 2)
    others = s.masked_fill(diagonal, -torch.inf).logsumexp(2)
    return (others - s[:, torch.arange(size, device=x.device), positive]).mean()
