"""CCA-SSG: two views agree and their dimensions are uncorrelated; no negatives."""

import torch
from torch import Tensor, nn

from epagcl.data.graph import Graph
from epagcl.methods.base import Method
from epagcl.methods.settings import method_settings, setting
from epagcl.nn.encoders import ENCODER_MEANING, ENCODERS, GCN, SCALES, ScalesLayer, check_layers
from epagcl.views.masks import feature_masks
from epagcl.views.sampling import Views, drop_views


class Network(nn.Module):
    """The encoder, without a projection head."""

    def __init__(self, encoder: GCN | ScalesLayer):
        super().__init__()
        self.encoder = encoder


def decorrelation_loss(z1: Tensor, z2: Tensor, decorrelation: float) -> Tensor:
    r"""Return −tr(C₁₂) + λ(‖C₁₁ − I‖² + ‖C₂₂ − I‖²) with C_ab = z̃_aᵀ z̃_b / N; columns of z̃ have mean 0 and std 1."""
    n, dim = z1.shape
    z1, z2 = ((z - z.mean(0)) / z.std(0).clamp(min=1e-6) for z in (z1, z2))  # a constant column becomes 0
    identity = torch.eye(dim, dtype=z1.dtype, device=z1.device)
    correlation = sum((z.T @ z / n - identity).square().sum() for z in (z1, z2))
    return decorrelation * correlation - (z1 * z2).sum() / n


@method_settings
class CCASSG(Method):
    r"""Canonical correlation analysis: the embeddings of two views agree, and their dimensions are uncorrelated.

    .. math::
        \mathcal{L} = -\mathrm{tr}\,C_{12} + \lambda (\lVert C_{11} - I \rVert^2 + \lVert C_{22} - I \rVert^2)

    where C_ab are the correlations between columns of the two views. The first term is taken from the authors' code. It
    equals the paper's ‖Z₁ − Z₂‖² up to a constant and a factor. Both views drop edges and hide feature columns at the
    same rates. ReLU follows every layer but the last, so that an encoder with one layer is linear. From `"From
    Canonical Correlation Analysis to Self-supervised Graph Neural Networks" <https://arxiv.org/abs/2106.12484>`_.

    Examples:
        >>> import epagcl
        >>> data = epagcl.data.block_model(30, num_classes=3, num_features=12, topic_words=4, words_per_node=3)
        >>> CCASSG(epochs=2, dim=4, device="cpu").fit_embed(data).shape
        torch.Size([30, 4])
    """

    name = "cca-ssg"
    title = "CCA-SSG"
    paper = "Zhang et al., From Canonical Correlation Analysis to Self-supervised Graph Neural Networks, NeurIPS 2021"
    cost_note = "time N d² and E d, memory N d"

    p_drop: float = setting(0.4, "probability that a view drops an edge")
    p_mask: float = setting(0.1, "probability that a view hides a feature column")
    decorrelation: float = setting(1e-3, "λ, weight of the correlations relative to the agreement")
    encoder: str = setting("gcn", ENCODER_MEANING, ENCODERS)
    layers: int = setting(2, "number of layers; 1 with pagerank and scales")
    dim: int = setting(512, "width of every layer and of the embedding")
    epochs: int = setting(50, "training epochs; 0 leaves the encoder untrained")
    weight_decay: float = setting(0.0, "weight decay of Adam")

    def validate(self) -> None:
        """Raise unless every setting is valid."""
        super().validate()
        self.check_probabilities("p_drop", "p_mask")
        self.check_at_least(0, "decorrelation")
        self.check_at_least(1, "layers", "dim")
        check_layers(self.encoder, self.layers)

    def build(self, num_features: int) -> Network:
        """Return an encoder F → dim → ... → dim."""
        if self.encoder in SCALES:
            return Network(ScalesLayer(num_features, self.dim, SCALES[self.encoder]))
        widths = [num_features] + [self.dim] * self.layers
        return Network(GCN(widths, "relu", last=False, root=self.encoder == "residual"))

    def prepare(self, graph: Graph) -> Views:
        """Return two views that drop every pair with the same probability."""
        return drop_views(graph.pairs, graph.num_nodes, (self.p_drop, self.p_drop), seed=self.seed, weight=graph.weight)

    def views(self, graph: Graph) -> Views:
        """Return the views of :meth:`prepare`."""
        return self.prepare(graph)

    def loss(self, network: Network, graph: Graph, prepared: Views, epoch: int | Tensor) -> Tensor:
        """Return the loss of both views, which go through the encoder together."""
        p_masks = (self.p_mask, self.p_mask)
        mask = feature_masks(graph.num_features, p_masks, seed=self.seed, epoch=epoch, device=graph.device)
        z1, z2 = network.encoder(graph.aligned_x, prepared.adjacency(epoch), mask).chunk(2)
        return decorrelation_loss(z1, z2, self.decorrelation)
