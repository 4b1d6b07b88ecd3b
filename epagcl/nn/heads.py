"""Projection heads, which map representations to the space of the contrastive loss."""

import math

import torch
from torch import Tensor, nn

from epagcl.core.hardware import takes_kernels
from epagcl.core.tall import times_weight


class Linear(nn.Linear):
    """The linear layer of torch, with a faster gradient of its weight for many rows on a GPU.

    Examples:
        >>> import torch
        >>> Linear(8, 4)(torch.zeros(3, 8)).shape
        torch.Size([3, 4])
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return x Wᵀ + b."""
        return times_weight(x, self.weight.T, self.bias) if x.dim() == 2 and takes_kernels(x) else super().forward(x)


class ProjectionHead(nn.Sequential):
    """The projection g(·) of the loss: a linear layer, an activation and a second linear layer.

    Args:
        dim: width of the representations.
        hidden: hidden width.
        activation: module class of the activation.
        out: width of the output; None: as wide as the representations.
        members: number of heads that are computed together, each with its own block of rows.

    Examples:
        >>> import torch
        >>> ProjectionHead(dim=8, hidden=4)(torch.zeros(3, 8)).shape
        torch.Size([3, 8])
    """

    def __init__(
        self,
        dim: int,
        hidden: int,
        activation: type[nn.Module] = nn.ReLU,
        *,
        out: int | None = None,
        members: int = 1,
    ):
        out = dim if out is None else out
        if members == 1:
            super().__init__(Linear(dim, hidden), activation(), Linear(hidden, out))
        else:
            super().__init__(BlockLinear(dim, hidden, members), activation(), BlockLinear(hidden, out, members))


class BlockLinear(nn.Module):
    """K linear layers, each applied to its own block of rows: ``[x_1 W_1 + b_1; x_2 W_2 + b_2; ...]``.

    The initial weights have the distribution of ``torch.nn.Linear``. They are drawn member by member.

    Args:
        in_features: width of the input.
        out_features: width of the output.
        members: K.

    Examples:
        >>> import torch
        >>> BlockLinear(8, 4, members=3)(torch.zeros(6, 8)).shape
        torch.Size([6, 4])
    """

    def __init__(self, in_features: int, out_features: int, members: int):
        super().__init__()
        bound = 1 / math.sqrt(in_features)
        layers = [
            (
                torch.empty(in_features, out_features).uniform_(-bound, bound),
                torch.empty(out_features).uniform_(-bound, bound),
            )
            for _ in range(members)
        ]
        self.weight = nn.Parameter(torch.stack([weight for weight, _ in layers]))
        self.bias = nn.Parameter(torch.stack([bias for _, bias in layers]))

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of all layers, ``[K·rows, out_features]``."""
        members = self.bias.shape[0]
        blocks = x.view(members, x.shape[0] // members, x.shape[1])
        return times_weight(blocks, self.weight, self.bias).flatten(0, 1)
