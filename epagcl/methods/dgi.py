"""DGI: nodes against a summary of the graph, with shuffled features as the false graph."""

import torch
from torch import Tensor, nn

from epagcl.core.permute import permute_rows
from epagcl.core.randomness import Stream, permutation
from epagcl.data.graph import Graph
from epagcl.losses.summary import Bilinear, summary, summary_loss
from epagcl.methods.base import Method
from epagcl.methods.settings import method_settings, setting
from epagcl.nn.encoders import GCN


class Network(nn.Module):
    """A GCN of one layer and the discriminator."""

    def __init__(self, num_features: int, dim: int):
        super().__init__()
        self.encoder = GCN([num_features, dim])
        self.discriminator = Bilinear(dim, dim)


@method_settings
class DGI(Method):
    r"""Deep graph infomax: a node's embedding must fit the graph's summary, one from shuffled features must not.

    .. math::
        \mathcal{L} = \frac{1}{2N} \sum_i \log(1 + e^{-D(h_i, s)}) + \log(1 + e^{D(\tilde{h}_i, s)}), \quad
        D(h, s) = h^\top W s + b, \quad s = \sigma\left(\frac{1}{N}\sum_i h_i\right)

    H = PReLU(ÂXW₁ + b₁), and H̃ the same with the rows of X permuted anew each epoch. Training stops on its loss, and
    the weights that gave the lowest one are kept. As the code has it; PyG's sums the two means, and has no b.
    """

    name = "dgi"
    title = "DGI"
    paper = "Veličković et al., Deep Graph Infomax, ICLR 2019"
    cost_note = "time E d, memory N d"

    dim: int = setting(512, "width of the embedding")
    epochs: int = setting(10_000, "most training epochs; 0 leaves the encoder untrained")
    weight_decay: float = setting(0.0, "weight decay of Adam")
    patience: int = setting(20, "stop after this many epochs without a lower loss; 0: never")

    def validate(self) -> None:
        """The width."""
        super().validate()
        self.check_at_least(1, "dim")

    def build(self, num_features: int) -> Network:
        """GCN F → dim, and the discriminator."""
        return Network(num_features, self.dim)

    def loss(self, network: Network, graph: Graph, prepared: None, epoch: int | Tensor) -> Tensor:
        """Positive and negative scores from one product XW: shuffling X shuffles its rows, Â P (XW)."""
        (layer,) = network.encoder.layers
        order = permutation(graph.num_nodes, self.seed, Stream.NEGATIVES, epoch, device=graph.device)
        h = graph.x @ layer.weight
        h = graph.adjacency @ torch.cat([h, permute_rows(h, order)])
        h, corrupted = network.encoder.activation(h, layer.bias).chunk(2)
        s = summary(h)
        return summary_loss(network.discriminator(h, s), network.discriminator(corrupted, s))
