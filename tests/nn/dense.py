"""Encoders by their formulas, in dense matrices."""

import torch

from epagcl.nn.encoders import ALPHA, PAGERANK, ScalesLayer


def dense_product(layer, x, adjacency):
    """Return the output of a layer on one view, without the bias."""
    if not isinstance(layer, ScalesLayer):
        return adjacency @ x @ layer.weight + (0 if layer.root is None else x @ layer.root)
    blocks = []
    for scale, weight in zip(layer.scales, layer.weight.split(layer.widths, 1), strict=True):
        if scale == PAGERANK:
            identity = torch.eye(len(x), dtype=x.dtype)
            operator = ALPHA * torch.linalg.inv(identity - (1 - ALPHA) * adjacency)
        else:
            operator = torch.linalg.matrix_power(adjacency, int(scale))
        blocks.append(operator @ x @ weight)
    return torch.cat(blocks, 1)


def dense_encoder(encoder, x, adjacency):
    """Return the output of a single encoder on one view."""
    for layer in [encoder] if isinstance(encoder, ScalesLayer) else encoder.layers:
        t = dense_product(layer, x, adjacency) + layer.bias
        x = torch.where(t > 0, t, encoder.activation.weight * t)
    return x


def perturbed(network, seed=0, scale=0.1):
    """Return the network with noise on all parameters, so that no bias or slope has its initial value."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += scale * torch.randn(parameter.shape, generator=generator)
    return network
