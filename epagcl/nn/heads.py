"""Encoders: node features and a view's Â in, node representations out."""

from torch import nn


class ProjectionHead(nn.Sequential):
    """g(·) of the loss: linear, activation (ReLU), linear."""

    def __init__(self, dim: int, hidden: int, activation: type[nn.Module] = nn.ReLU):
        super().__init__(nn.Linear(dim, hidden), activation(), nn.Linear(hidden, dim))
