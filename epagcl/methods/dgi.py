"""DGI: nodes contrasted with a summary of the graph; negatives come from shuffled features."""

import torch
from torch import Tensor, nn

from epagcl.core.hardware import without_autocast
from epagcl.core.permute import permute_rows
from epagcl.core.randomness import Stream, permutation
from epagcl.data.graph import Graph
from epagcl.distributed.exchange import Exchange, exchange_rows
from epagcl.losses.summary import Bilinear, summary, summary_loss
from epagcl.methods.base import Method
from epagcl.methods.settings import method_settings, setting
from epagcl.nn.encoders import ENCODER_MEANING, ENCODERS, build_encoder


class Network(nn.Module):
    """An encoder with one layer, and the discriminator."""

    def __init__(self, encoder: str, num_features: int, dim: int):
        super().__init__()
        self.encoder = build_encoder(encoder, num_features, None, dim)
        self.discriminator = Bilinear(dim, dim)

    def loss(self, graph: Graph, order: Tensor) -> Tensor:
        """Return the loss from one product XW: permuting the rows of X permutes the rows of XW, Â P (XW).

        Args:
            graph: the graph.
            order: the permutation of the rows.
        """
        projected, part = self.encoder.project(graph.aligned_x), graph.part
        if part is None:
            permuted = permute_rows(projected, order)
        else:
            permuted = exchange_rows(projected, Exchange.of_order(part, order))
        h, corrupted = self.encoder.propagate(torch.cat([projected, permuted]), graph.adjacency).tensor_split(2)
        with without_autocast(h.device):
            h, corrupted = h.float(), corrupted.float()
            s = summary(h, part)
            return summary_loss(self.discriminator(h, s), self.discriminator(corrupted, s), part)


@method_settings
class DGI(Method):
    r"""Deep graph infomax: embeddings match the summary of the graph, embeddings of shuffled features do not.

    .. math::
        \mathcal{L} = \frac{1}{2N} \sum_i \log(1 + e^{-D(h_i, s)}) + \log(1 + e^{D(\tilde{h}_i, s)}), \quad
        D(h, s) = h^\top W s + b, \quad s = \sigma\left(\frac{1}{N}\sum_i h_i\right)

    H = PReLU(ÂXW₁ + b₁), or PReLU(ÂXW₁ + XR + b₁) with the residual encoder. H̃ is computed in the same way with the
    rows of X permuted. Each epoch has a new permutation.
    Training stops early on its loss, and the weights with the lowest loss are used. From `"Deep Graph Infomax"
    <https://arxiv.org/abs/1809.10341>`_, as in the authors' code; PyG's version adds the two means and has no b.

    Examples:
        >>> import epagcl
        >>> data = epagcl.data.block_model(30, num_classes=3, num_features=12, topic_words=4, words_per_node=3)
        >>> DGI(epochs=2, dim=4, device="cpu").fit_embed(data).shape
        torch.Size([30, 4])
    """

    name = "dgi"
    title = "DGI"
    paper = "Veličković et al., Deep Graph Infomax, ICLR 2019"
    cost_note = "time E d, memory N d"

    encoder: str = setting("gcn", ENCODER_MEANING, ENCODERS)
    dim: int = setting(512, "width of the embedding")
    epochs: int = setting(10_000, "maximum number of training epochs; 0 leaves the encoder untrained")
    weight_decay: float = setting(0.0, "weight decay of Adam")
    patience: int = setting(20, "stop after this many epochs without a lower loss; 0: never")

    def validate(self) -> None:
        """Raise unless every setting is valid."""
        super().validate()
        self.check_at_least(1, "dim")

    def build(self, num_features: int) -> Network:
        """Return the encoder F → dim and the discriminator."""
        return Network(self.encoder, num_features, self.dim)

    def loss(self, network: Network, graph: Graph, prepared: None, epoch: int | Tensor) -> Tensor:
        """Return the loss with a new permutation in each epoch."""
        return network.loss(
            graph, permutation(graph.num_nodes, self.seed, Stream.NEGATIVES, epoch, device=graph.device)
        )
