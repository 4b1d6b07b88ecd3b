"""The plain implementation that speed is measured against: dense X, PyG's GCNConv, similarity blocks kept by autograd.

It trains the same model on the same kind of views as EPAGCL; it is what one writes first, following the formulas.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

from epagcl.views import edge_weights


class PlainEPAGCL(nn.Module):
    """EPAGCL with dense features and a dense loss."""

    def __init__(self, data: Data, hidden: int = 512, dim: int = 256, temperature: float = 0.3):
        super().__init__()
        self.conv1, self.conv2 = GCNConv(data.x.shape[1], hidden), GCNConv(hidden, dim)
        self.fc1, self.fc2 = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.activation = nn.PReLU()
        self.temperature = temperature
        self.x = data.x if data.x.layout == torch.strided else data.x.to_dense()
        self.p = edge_weights(data.edge_index, data.num_nodes).probabilities(0.25, 0.05)

    def view(self, add: bool) -> tuple[Tensor, Tensor]:
        """Features with hidden columns, and the edges that are kept or added."""
        pairs = self.p.pairs[:, torch.rand(self.p.drop.shape) >= self.p.drop]
        if add:
            pairs = torch.cat([pairs, self.p.candidates[:, torch.rand(self.p.add.shape) < self.p.add]], dim=1)
        x = self.x.clone()
        x[:, torch.rand(x.shape[1]) < 0.1] = 0
        return x, torch.cat([pairs, pairs.flip(0)], dim=1)

    def project(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Encoder and head."""
        h = self.activation(self.conv1(x, edge_index))
        h = self.activation(self.conv2(h, edge_index))
        return self.fc2(F.relu(self.fc1(h)))

    def half_loss(self, z1: Tensor, z2: Tensor) -> Tensor:
        """ℓ(u_i, v_i) for all i, two N×N blocks."""
        z1, z2 = F.normalize(z1), F.normalize(z2)
        own = torch.exp(z1 @ z1.T / self.temperature)
        between = torch.exp(z1 @ z2.T / self.temperature)
        return -torch.log(between.diag() / (own.sum(1) + between.sum(1) - own.diag()))

    def forward(self) -> Tensor:
        """The loss of one epoch."""
        z1, z2 = self.project(*self.view(add=False)), self.project(*self.view(add=True))
        return ((self.half_loss(z1, z2) + self.half_loss(z2, z1)) / 2).mean()
