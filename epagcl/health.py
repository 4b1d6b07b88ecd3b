"""Label-free health of an embedding."""

import torch
from torch import Tensor


def effective_rank(z: Tensor) -> float:
    r"""Effective rank (Roy & Vetterli 2007) of the unit rows of ``z``: how many directions the embedding uses.

    exp(−Σ_k p_k log p_k) with p_k = σ_k / Σσ, σ the singular values. It is 1 when all rows point the same way
    (collapse) and at most min(N, d).
    """
    z = torch.nn.functional.normalize(z.detach(), dim=1)
    sigma = torch.linalg.eigvalsh((z.T @ z).cpu().double()).clamp(min=0).sqrt()
    p = sigma / sigma.sum()
    p = p[p > 0]
    return float(torch.exp(-(p * p.log()).sum()))
