"""Activations of torch to compare with."""

import torch
import torch.nn.functional as F

ACTIVATIONS = {
    "prelu": lambda t: F.prelu(t, torch.tensor([0.25], dtype=t.dtype)),
    "relu": F.relu,
    "rrelu": lambda t: F.rrelu(t, training=False),  # as in GCA: the mean slope (1/8 + 1/3)/2
}
