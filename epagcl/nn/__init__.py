"""Neural networks: layers, encoders and projection heads."""

from epagcl.nn.encoders import GCN
from epagcl.nn.heads import ProjectionHead
from epagcl.nn.layers import SLOPES, Adjacency, GATLayer, GCNLayer, PReLU

__all__ = ["GCN", "SLOPES", "Adjacency", "GATLayer", "GCNLayer", "PReLU", "ProjectionHead"]
