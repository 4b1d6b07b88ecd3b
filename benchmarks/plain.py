"""The plain implementations that speed is measured against: dense X, PyG's GCNConv, similarities kept by autograd.

They train the same model on the same kind of views as EPAGCL, and differ in how the dense loss is cut: this is what one
writes first, following the formulas.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

from epagcl.losses.infonce.dense import dense_loss
from epagcl.views.probabilities import edge_weights


def stacked(z1: Tensor, z2: Tensor, temperature: float) -> Tensor:
    """NT-Xent on one 2N × 2N block."""
    return dense_loss(torch.cat([z1, z2]), temperature)


def four_blocks(z1: Tensor, z2: Tensor, temperature: float) -> Tensor:
    """Four N × N blocks, as GRACE's code has them."""
    z1, z2 = F.normalize(z1), F.normalize(z2)

    def half(a: Tensor, b: Tensor) -> Tensor:
        own, between = torch.exp(a @ a.T / temperature), torch.exp(a @ b.T / temperature)
        return -torch.log(between.diag() / (own.sum(1) + between.sum(1) - own.diag()))

    return ((half(z1, z2) + half(z2, z1)) / 2).mean()


def row_blocks(z1: Tensor, z2: Tensor, temperature: float, rows: int = 256) -> Tensor:
    """Blocks of 256 rows, all kept, rows normalised anew for each: as the paper's code has them."""

    def similarity(a: Tensor, b: Tensor) -> Tensor:
        return torch.exp(F.normalize(a) @ F.normalize(b).T / temperature)

    def half(a: Tensor, b: Tensor) -> Tensor:
        parts = []
        for start in range(0, len(a), rows):
            part = slice(start, start + rows)
            own, between = similarity(a[part], a), similarity(a[part], b)
            positive = between[:, part].diag()
            parts.append(-torch.log(positive / (own.sum(1) + between.sum(1) - own[:, part].diag())))
        return torch.cat(parts)

    return ((half(z1, z2) + half(z2, z1)) / 2).mean()


def in_batches(z1: Tensor, z2: Tensor, temperature: float, order: Tensor | None = None, size: int = 256) -> Tensor:
    """Negatives only inside random batches of 256 nodes, one after the other, as the paper's code has them."""
    order = torch.randperm(len(z1)) if order is None else order
    total = z1.new_zeros(())
    for nodes in order.split(size):
        total = total + four_blocks(z1[nodes], z2[nodes], temperature) * len(nodes)
    return total / len(z1)


LOSSES = {"one 2N×2N block": stacked, "four N×N blocks": four_blocks, "blocks of 256 rows": row_blocks}
#: Another objective, so never beside the others; for graphs whose similarities do not fit in memory.
BATCHED = {"batches of 256": in_batches}


class PlainEPAGCL(nn.Module):
    """EPAGCL with dense features and a dense loss."""

    def __init__(self, data: Data, loss: str, hidden: int = 512, dim: int = 256, temperature: float = 0.3):
        super().__init__()
        self.conv1, self.conv2 = GCNConv(data.x.shape[1], hidden), GCNConv(hidden, dim)
        self.fc1, self.fc2 = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.activation = nn.PReLU()
        self.loss, self.temperature = (LOSSES | BATCHED)[loss], temperature
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

    def forward(self) -> Tensor:
        """The loss of one epoch."""
        return self.loss(self.project(*self.view(add=False)), self.project(*self.view(add=True)), self.temperature)
