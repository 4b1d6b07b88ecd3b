"""Gaussian blobs, one per class."""

import torch
from torch import Tensor


def blobs(n: int = 600, d: int = 8, classes: int = 4, spread: float = 1.0, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return points ``[n, d]`` around one random centre per class, and their classes."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(classes, d, generator=generator)
    y = torch.arange(n) % classes
    return centres[y] + spread * torch.randn(n, d, generator=generator), y
