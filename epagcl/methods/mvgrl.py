"""MVGRL: the graph and its diffusion, each contrasted with the summary of the other."""

from typing import cast

import torch
from torch import Tensor, nn

from epagcl.core.permute import permute_rows
from epagcl.core.randomness import Stream, permutation
from epagcl.data.graph import Graph
from epagcl.diffusion import Diffusion, check_alpha, check_heat_time, heat, ppr
from epagcl.losses.summary import Bilinear, summary, summary_loss
from epagcl.methods.base import Method
from epagcl.methods.settings import method_settings, setting
from epagcl.nn.encoders import GCN
from epagcl.nn.layers import GCNLayer, transform

TOLERANCE = 3e-4  # of the diffusion: the error of the 20 plain iterations in DGL's port, reached here after 13


class Network(nn.Module):
    """A GCN with one layer and its own weights for each view, and a shared discriminator."""

    def __init__(self, num_features: int, dim: int, root: bool):
        super().__init__()
        self.graph_encoder = GCN([num_features, dim], root=root)
        self.diffusion_encoder = GCN([num_features, dim], root=root)
        self.discriminator = Bilinear(dim, dim)

    def forward(self, graph: Graph, diffusion: Diffusion, order: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return H₁ = PReLU(ÂXW₁ + b₁) and H₂ = PReLU(SXW₂ + b₂), with root weights also + XR₁ and + XR₂.

        All weights share one product with X. With ``order``, the representations of permuted features are stacked
        below each of them.
        """
        layers = [cast("GCNLayer", encoder.layers[0]) for encoder in (self.graph_encoder, self.diffusion_encoder)]
        weights = [weight for layer in layers for weight in layer.weights]
        p1, p2 = transform(graph.aligned_x, torch.cat(weights, 1)).chunk(2, 1)
        if order is not None:
            p1, p2 = (torch.cat([p, permute_rows(p, order)]) for p in (p1, p2))
        h1 = self.graph_encoder.activation(layers[0].aggregate(p1, graph.adjacency), layers[0].bias)
        h2 = self.diffusion_encoder.activation(layers[1].aggregate(p2, diffusion), layers[1].bias)
        return h1, h2


@method_settings
class MVGRL(Method):
    r"""Contrastive multi-view learning: nodes of the graph match the summary of its diffusion, and vice versa.

    .. math::
        H_1 = \mathrm{PReLU}(\hat{A} X W_1 + b_1), \quad H_2 = \mathrm{PReLU}(S X W_2 + b_2), \quad
        s_v = \sigma\left(\tfrac{1}{N} \textstyle\sum_i H_{v,i}\right)

    The scores D(H₁, s₂) and D(H₂, s₁) are positives. The same scores with the rows of X permuted are negatives. The
    loss is the loss of DGI over all 4N scores. S is personalised PageRank or the heat kernel, applied by sparse
    products and never stored. The embedding is H₁ + H₂. From `"Contrastive Multi-View Representation Learning on
    Graphs" <https://arxiv.org/abs/2006.05582>`_.

    The residual encoder adds root weights to both views, H₁ = PReLU(ÂXW₁ + XR₁ + b₁) and H₂ = PReLU(SXW₂ + XR₂ + b₂).
    The encoders over PageRank and several scales of other methods are not offered: Â and S are what distinguishes the
    two views, and S is PageRank already.

    As in the authors' code for nodes, there is no projection head. Unlike in that code, each epoch uses the whole graph
    (as in DGL's port) instead of 4 blocks of 2000 consecutive nodes, S is not truncated, and both views have one
    self-loop.

    Examples:
        >>> import epagcl
        >>> data = epagcl.data.block_model(30, num_classes=3, num_features=12, topic_words=4, words_per_node=3)
        >>> MVGRL(epochs=2, dim=4, device="cpu").fit_embed(data).shape
        torch.Size([30, 4])
    """

    name = "mvgrl"
    title = "MVGRL"
    paper = "Hassani & Khasahmadi, Contrastive Multi-View Representation Learning on Graphs, ICML 2020"
    cost_note = "time K E d with K = 13 products of the diffusion, memory N d"

    encoder: str = setting("gcn", "gcn; residual: with root weights in both views", ("gcn", "residual"))
    dim: int = setting(512, "width of the embedding")
    diffusion: str = setting("ppr", "personalised PageRank or heat kernel", ("ppr", "heat"))
    alpha: float = setting(0.2, "teleport probability of PageRank")
    t: float = setting(5.0, "time of the heat kernel")
    epochs: int = setting(3000, "maximum number of training epochs; 0 leaves the encoder untrained")
    weight_decay: float = setting(0.0, "weight decay of Adam")
    patience: int = setting(20, "stop after this many epochs without a lower loss; 0: never")

    def validate(self) -> None:
        """Raise unless every setting is valid."""
        super().validate()
        self.check_at_least(1, "dim")
        check_alpha(self.alpha)
        check_heat_time(self.t)

    def build(self, num_features: int) -> Network:
        """Return two encoders F → dim and the discriminator."""
        return Network(num_features, self.dim, root=self.encoder == "residual")

    def prepare(self, graph: Graph) -> Diffusion:
        """Return the diffusion S as a function Y → SY."""
        return ppr(graph, self.alpha, TOLERANCE) if self.diffusion == "ppr" else heat(graph, self.t, TOLERANCE)

    def loss(self, network: Network, graph: Graph, prepared: Diffusion, epoch: int | Tensor) -> Tensor:
        """Return the loss of DGI across the views."""
        order = permutation(graph.num_nodes, self.seed, Stream.NEGATIVES, epoch, device=graph.device)
        (h1, corrupted1), (h2, corrupted2) = (h.chunk(2) for h in network(graph, prepared, order))
        s1, s2 = summary(h1), summary(h2)
        scores = network.discriminator
        positive = torch.cat([scores(h1, s2), scores(h2, s1)])
        return summary_loss(positive, torch.cat([scores(corrupted1, s2), scores(corrupted2, s1)]))

    def represent(self, network: Network, graph: Graph) -> Tensor:
        """Return H₁ + H₂."""
        h1, h2 = network(graph, self.prepare(graph))
        return h1 + h2
