"""Projection heads, which map representations to the space of the contrastive loss."""

from torch import nn


class ProjectionHead(nn.Sequential):
    """The projection g(·) of the loss: a linear layer, an activation and a second linear layer.

    Args:
        dim: width of the representations and of the output.
        hidden: hidden width.
        activation: module class of the activation.

    Examples:
        >>> import torch
        >>> ProjectionHead(dim=8, hidden=4)(torch.zeros(3, 8)).shape
        torch.Size([3, 8])
    """

    def __init__(self, dim: int, hidden: int, activation: type[nn.Module] = nn.ReLU):
        super().__init__(nn.Linear(dim, hidden), activation(), nn.Linear(hidden, dim))
