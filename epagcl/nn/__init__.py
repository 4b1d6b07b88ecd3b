"""Neural networks: layers, encoders, projection heads and propagated features."""

from epagcl.nn.encoders import GCN
from epagcl.nn.heads import ProjectionHead
from epagcl.nn.layers import SLOPES, Adjacency, GATLayer, GCNLayer, PReLU
from epagcl.nn.propagation import PropagatedPCA

__all__ = ["GCN", "SLOPES", "Adjacency", "GATLayer", "GCNLayer", "PReLU", "ProjectionHead", "PropagatedPCA"]
