"""Plain implementations as a baseline of speed: dense X, PyG's GCNConv, all similarities stored for autograd.

They train the same model on the same kind of views as EPAGCL and follow the formulas directly. They differ in how the
dense loss is divided into blocks.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

from epagcl.losses.infonce.dense import dense_loss
from epagcl.views.probabilities import edge_weights


def stacked(z1: Tensor, z2: Tensor, temperature: float) -> Tensor:
    """Return NT-Xent, computed on one 2N × 2N block."""
    return dense_loss(torch.cat([z1, z2]), temperature)


def four_blocks(z1: Tensor, z2: Tensor, temperature: float) -> Tensor:
    """Return the loss, computed on four N × N blocks as in the code of GRACE."""
    z1, z2 = F.normalize(z1), F.normalize(z2)

    def half(a: Tensor, b: Tensor) -> Tensor:
        own, between = torch.exp(a @ a.T / temperature), torch.exp(a @ b.T / temperature)
        return -torch.log(between.diag() / (own.sum(1) + between.sum(1) - own.diag()))

    return ((half(z1, z2) + half(z2, z1)) / 2).mean()


def row_blocks(z1: Tensor, z2: Tensor, temperature: float, rows: int = 256) -> Tensor:
    """Return the loss, computed on blocks of 256 rows, with rows normalised for each block as in the paper's code."""

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
    """Return the loss with negatives inside random batches of 256 nodes, computed in a loop as in the paper's code."""
    order = torch.randperm(len(z1)) if order is None else order
    total = z1.new_zeros(())
    for nodes in order.split(size):
        total = total + four_blocks(z1[nodes], z2[nodes], temperature) * len(nodes)
    return total / len(z1)


LOSSES = {"one 2N×2N block": stacked, "four N×N blocks": four_blocks, "blocks of 256 rows": row_blocks}
#: A different objective, for graphs whose similarities do not fit in memory. Never compare it with the others.
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
        """Return features with masked columns, and the edges that are kept or added."""
        pairs = self.p.pairs[:, torch.rand(self.p.drop.shape) >= self.p.drop]
        if add:
            pairs = torch.cat([pairs, self.p.candidates[:, torch.rand(self.p.add.shape) < self.p.add]], dim=1)
        x = self.x.clone()
        x[:, torch.rand(x.shape[1]) < 0.1] = 0
        return x, torch.cat([pairs, pairs.flip(0)], dim=1)

    def project(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Apply the encoder and the projection head."""
        h = self.activation(self.conv1(x, edge_index))
        h = self.activation(self.conv2(h, edge_index))
        return self.fc2(F.relu(self.fc1(h)))

    def forward(self) -> Tensor:
        """Return the loss of one epoch."""
        return self.loss(self.project(*self.view(add=False)), self.project(*self.view(add=True)), self.temperature)
