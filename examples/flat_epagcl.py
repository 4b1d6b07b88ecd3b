"""EPAGCL as one flat script: PyTorch, PyG and the paper's formulas. Run ``python examples/flat_epagcl.py [EPOCHS]``.

The library computes the same loss without N × N matrices, and draws the same views on every device.
"""

import sys

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

import epagcl


class Encoder(nn.Module):
    """Two GCN layers."""

    def __init__(self, num_features: int, hidden: int = 512, dim: int = 256):
        super().__init__()
        self.conv1, self.conv2 = GCNConv(num_features, hidden), GCNConv(hidden, dim)
        self.act1, self.act2 = nn.PReLU(), nn.PReLU()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Embed the nodes."""
        return self.act2(self.conv2(self.act1(self.conv1(x, edge_index)), edge_index))


def info_nce(z1: Tensor, z2: Tensor, temperature: float = 0.3) -> Tensor:
    """Return InfoNCE with the other nodes of both views as negatives, averaged over both directions."""
    z = F.normalize(torch.cat([z1, z2]))
    similarity = (z @ z.T / temperature).fill_diagonal_(-torch.inf)
    return F.cross_entropy(similarity, torch.arange(len(z)).roll(len(z1)))


epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 30
torch.manual_seed(0)
data = epagcl.load("demo")
x = data.x.to_dense()
encoder, head = Encoder(x.shape[1]), nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256))
optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=1e-3, weight_decay=1e-4)
# Algorithm 1 and the drop and add probabilities: the first view only drops edges, the second also adds some.
p_first = epagcl.edge_probabilities(data.edge_index, data.num_nodes, p_drop=0.2, p_add=0.0)
p_second = epagcl.edge_probabilities(data.edge_index, data.num_nodes, p_drop=0.3, p_add=0.05)
for epoch in range(1, epochs + 1):
    projections = []
    for p in (p_first, p_second):
        dropped, added = torch.rand_like(p.drop) < p.drop, torch.rand_like(p.add) < p.add
        pairs = torch.cat([p.pairs[:, ~dropped], p.candidates[:, added]], dim=1)
        masked = x * (torch.rand(x.shape[1]) >= 0.1)  # hide a tenth of the feature columns
        projections.append(head(encoder(masked, torch.cat([pairs, pairs.flip(0)], dim=1))))
    loss = info_nce(*projections)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.4f}")
with torch.no_grad():
    z = encoder(x, data.edge_index)
print(f"accuracy {100 * epagcl.linear_evaluation(z, data.y, runs=2).mean:.1f}%")
