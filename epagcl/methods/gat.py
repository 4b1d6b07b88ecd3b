"""Supervised GAT: neighbours weighted by learned attention."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from epagcl.core.errors import InputError
from epagcl.core.log import log
from epagcl.data.graph import Graph
from epagcl.methods.settings import method_settings, setting
from epagcl.methods.supervised import Supervised, Targets
from epagcl.nn.layers import GATLayer


class Network(nn.Module):
    """Two attention layers and their biases."""

    hops = 2.0

    def __init__(self, num_features: int, hidden: int, heads: int, num_classes: int, out_heads: int):
        super().__init__()
        self.layer1 = GATLayer(num_features, hidden, heads)
        self.layer2 = GATLayer(heads * hidden, num_classes, out_heads)
        self.bias1, self.bias2 = nn.Parameter(torch.zeros(heads * hidden)), nn.Parameter(torch.zeros(num_classes))


@method_settings
class SupervisedGAT(Supervised):
    r"""Supervised graph attention network: neighbours weighted by learned attention, trained on labels.

    .. math::
        h_i' = \sigma\Big(\sum_{j \in N(i) \cup i} \alpha_{ij} W h_j + b\Big), \quad
        \alpha_{ij} = \mathrm{softmax}_j\, \mathrm{LeakyReLU}_{0.2}(a_1 \cdot W h_i + a_2 \cdot W h_j)

    Heads are concatenated after the first layer (ELU) and averaged as logits after the second. From `"Graph Attention
    Networks" <https://arxiv.org/abs/1710.10903>`_. As in the paper, dropout applies to the inputs of the layers and to
    the attention; the authors' code also drops entries of Wh. Early stopping uses the validation loss; the authors'
    code uses validation loss and accuracy together.

    Examples:
        >>> import epagcl
        >>> data = epagcl.data.block_model(60, num_classes=3, num_features=12, topic_words=4, words_per_node=3)
        >>> SupervisedGAT(epochs=2, hidden=4, heads=2, device="cpu").fit(data).predict(data).shape
        torch.Size([60])
    """

    name = "gat"
    title = "GAT"
    paper = "Veličković et al., Graph Attention Networks, ICLR 2018"
    cost_note = "labels; time E d, memory N d and E heads"

    hidden: int = setting(8, "width of each head of the first layer")
    heads: int = setting(8, "heads of the first layer")
    out_heads: int = setting(1, "heads of the second layer")
    dropout: float = setting(0.6, "probability that an input value of a layer is dropped in training")
    attention_dropout: float = setting(0.6, "probability that an attention weight is dropped in training")
    epochs: int = setting(1000, "maximum number of training epochs; 0 leaves the network untrained")
    lr: float = setting(0.005, "learning rate of Adam")
    weight_decay: float = setting(5e-4, "weight decay of Adam")
    patience: int = setting(100, "stop after this many epochs without a lower validation loss; 0: run all epochs")

    def validate(self) -> None:
        """Raise unless every setting is valid."""
        super().validate()
        self.check_at_least(1, "hidden", "heads", "out_heads")
        if not 0 <= self.attention_dropout < 1:
            raise InputError(f"attention_dropout={self.attention_dropout}: must be at least 0 and below 1")

    def build(self, num_features: int) -> Network:
        """Return a GAT F → heads × hidden → C."""
        return Network(num_features, self.hidden, self.heads, len(self.classes_), self.out_heads)

    def prepare(self, graph: Graph) -> Targets:
        """Return the labels on the device of the graph."""
        if graph.weight is not None:
            log.warning("GAT does not use edge weights: attention weights the edges")
        return super().prepare(graph)

    def logits(self, network: Network, graph: Graph, epoch: int | Tensor | None) -> Tensor:
        """Return the logits. Dropout places 0 and 2 are the inputs of the layers, places 1 and 3 their attention."""
        layer1, layer2 = network.layer1, network.layer2

        def attend(layer: GATLayer, h: Tensor, place: int) -> Tensor:
            def drop(alpha: Tensor) -> Tensor:
                return self.dropped(alpha, epoch, place, self.attention_dropout)

            out: Tensor = layer(h, graph.pattern, drop)
            return out.view(layer.heads, -1, layer.dim)

        h = attend(layer1, self.dropped_product(graph.x, layer1.weight, epoch), 1)
        h = F.elu(h.transpose(0, 1).flatten(1) + network.bias1)
        h = attend(layer2, self.dropped(h, epoch, 2) @ layer2.weight, 3)
        return h.mean(0) + network.bias2
