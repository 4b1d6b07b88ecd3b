"""MVGRL: the graph and its diffusion, each contrasted with the summary of the other."""

import torch
from torch import Tensor, nn

from epagcl.core.errors import InputError
from epagcl.core.permute import permute_rows
from epagcl.core.randomness import Stream, permutation
from epagcl.data.graph import Graph
from epagcl.diffusion import MOST_HEAT, Diffusion, heat, ppr
from epagcl.losses.summary import Bilinear, summary, summary_loss
from epagcl.methods.base import Method
from epagcl.methods.settings import method_settings, setting
from epagcl.nn.encoders import GCN

TOLERANCE = 3e-4  # of the diffusion: the error that DGL's port has after its 20 plain steps, here after 13


class Network(nn.Module):
    """A GCN of one layer for each view, with weights of its own, and the discriminator they share."""

    def __init__(self, num_features: int, dim: int):
        super().__init__()
        self.graph_encoder = GCN([num_features, dim])
        self.diffusion_encoder = GCN([num_features, dim])
        self.discriminator = Bilinear(dim, dim)

    def forward(self, graph: Graph, diffusion: Diffusion, order: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """H₁ = PReLU(ÂXW₁ + b₁) and H₂ = PReLU(SXW₂ + b₂); with an order, below each the same of permuted features."""
        encoders = self.graph_encoder, self.diffusion_encoder
        products = (graph.x @ torch.cat([encoder.layers[0].weight for encoder in encoders], 1)).chunk(2, 1)
        if order is not None:
            products = [torch.cat([h, permute_rows(h, order)]) for h in products]
        return tuple(
            encoder.activation(spread(h), encoder.layers[0].bias)
            for encoder, spread, h in zip(encoders, (graph.adjacency.__matmul__, diffusion), products, strict=True)
        )


@method_settings
class MVGRL(Method):
    r"""Contrastive multi-view learning: nodes of the graph against the summary of its diffusion, and the reverse.

    .. math::
        H_1 = \mathrm{PReLU}(\hat{A} X W_1 + b_1), \quad H_2 = \mathrm{PReLU}(S X W_2 + b_2), \quad
        s_v = \sigma\left(\tfrac{1}{N} \textstyle\sum_i H_{v,i}\right)

    Positives D(H₁, s₂) and D(H₂, s₁), negatives the same with the rows of X permuted; the loss is DGI's over all 4N
    scores. S is personalised PageRank or the heat kernel, applied by sparse products and never made. The embedding is
    H₁ + H₂. As the node code has it there is no projection head; unlike it, each epoch takes the whole graph (as in
    DGL's port) instead of 4 blocks of 2000 consecutive nodes, S is never cut, and both views have one self-loop.
    """

    name = "mvgrl"
    title = "MVGRL"
    paper = "Hassani & Khasahmadi, Contrastive Multi-View Representation Learning on Graphs, ICML 2020"
    cost_note = "time K E d with K = 13 products of the diffusion, memory N d"

    dim: int = setting(512, "width of the embedding")
    diffusion: str = setting("ppr", "personalised PageRank or heat kernel", ("ppr", "heat"))
    alpha: float = setting(0.2, "teleport probability of PageRank")
    t: float = setting(5.0, "time of the heat kernel")
    epochs: int = setting(3000, "most training epochs; 0 leaves the encoder untrained")
    weight_decay: float = setting(0.0, "weight decay of Adam")
    patience: int = setting(20, "stop after this many epochs without a lower loss; 0: never")

    def validate(self) -> None:
        """The width and the diffusion."""
        super().validate()
        self.check_at_least(1, "dim")
        if not 0 < self.alpha < 1 or not 0 < self.t <= MOST_HEAT:
            raise InputError(
                f"alpha={self.alpha}, t={self.t}: alpha must lie between 0 and 1, t above 0 and at most {MOST_HEAT}"
            )

    def build(self, num_features: int) -> Network:
        """Two GCNs F → dim, and the discriminator."""
        return Network(num_features, self.dim)

    def prepare(self, graph: Graph) -> Diffusion:
        """S as a function of what it multiplies."""
        return ppr(graph, self.alpha, TOLERANCE) if self.diffusion == "ppr" else heat(graph, self.t, TOLERANCE)

    def loss(self, network: Network, graph: Graph, prepared: Diffusion, epoch: int | Tensor) -> Tensor:
        """DGI's loss across the views."""
        order = permutation(graph.num_nodes, self.seed, Stream.NEGATIVES, epoch, device=graph.device)
        (h1, corrupted1), (h2, corrupted2) = (h.chunk(2) for h in network(graph, prepared, order))
        s1, s2 = summary(h1), summary(h2)
        scores = network.discriminator
        positive = torch.cat([scores(h1, s2), scores(h2, s1)])
        return summary_loss(positive, torch.cat([scores(corrupted1, s2), scores(corrupted2, s1)]))

    def represent(self, network: Network, graph: Graph) -> Tensor:
        """H₁ + H₂."""
        h1, h2 = network(graph, self.prepare(graph))
        return h1 + h2
