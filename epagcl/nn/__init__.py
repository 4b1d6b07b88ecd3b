"""Neural networks: layers, encoders, projection heads and propagated features."""

from epagcl.nn.encoders import ENCODERS, GCN, ScalesEncoder, ScalesLayer, build_encoder, build_layer
from epagcl.nn.heads import BlockLinear, ProjectionHead
from epagcl.nn.layers import SLOPES, Adjacency, GATLayer, GCNLayer, PReLU
from epagcl.nn.propagation import PropagatedPCA

__all__ = [
    "ENCODERS",
    "GCN",
    "SLOPES",
    "Adjacency",
    "BlockLinear",
    "GATLayer",
    "GCNLayer",
    "PReLU",
    "ProjectionHead",
    "PropagatedPCA",
    "ScalesEncoder",
    "ScalesLayer",
    "build_encoder",
    "build_layer",
]
