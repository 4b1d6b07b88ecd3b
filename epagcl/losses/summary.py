"""Deep InfoMax on graphs: nodes of the true graph score high against a summary, those of a corrupted one low."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Bilinear(nn.Module):
    """W and b of a score D(h, s) = hᵀ W s + b.

    W is Glorot-uniform as of [1, left, right], which is how the methods' code has it: torch then counts left·right
    inputs, and scores start near 0.
    """

    def __init__(self, left: int, right: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(left, right))
        self.bias = nn.Parameter(torch.zeros(1))
        nn.init.xavier_uniform_(self.weight[None])

    def forward(self, h: Tensor, summary: Tensor) -> Tensor:
        """Scores ``[N]`` of rows ``h`` against one summary ``[d]``: h·(W s), so that s is never made N rows."""
        return h @ (self.weight @ summary) + self.bias


def summary(h: Tensor) -> Tensor:
    """s = σ(mean_i h_i)."""
    return h.mean(0).sigmoid()


def summary_loss(positive: Tensor, negative: Tensor) -> Tensor:
    """mean of softplus(−D) over positives and softplus(D) over negatives, as many of each; log 2 by chance."""
    return (F.softplus(-positive).mean() + F.softplus(negative).mean()) / 2
