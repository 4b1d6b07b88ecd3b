"""GAT, supervised: neighbours weighted by learned attention."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from epagcl.core.errors import InputError
from epagcl.data.graph import Graph
from epagcl.methods.settings import method_settings, setting
from epagcl.methods.supervised import Supervised
from epagcl.nn.layers import GATLayer


class Network(nn.Module):
    """Two attention layers and their biases."""

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

    Heads are concatenated after the first layer (ELU) and averaged as logits after the second. Dropout on the layers'
    inputs and on the attention, as the paper says; the code drops Wh once more. Stopping is on the lowest validation
    loss; the code asks of loss and accuracy together.
    """

    name = "gat"
    title = "GAT"
    paper = "Veličković et al., Graph Attention Networks, ICLR 2018"
    cost_note = "labels; time E d, memory N d and E heads"

    hidden: int = setting(8, "width of each head of the first layer")
    heads: int = setting(8, "heads of the first layer")
    out_heads: int = setting(1, "heads of the second layer")
    dropout: float = setting(0.6, "probability that a number of a layer's input is dropped in training")
    attention_dropout: float = setting(0.6, "probability that an attention weight is dropped in training")
    epochs: int = setting(1000, "most training epochs; 0 leaves the network untrained")
    lr: float = setting(0.005, "learning rate of Adam")
    weight_decay: float = setting(5e-4, "weight decay of Adam")
    patience: int = setting(100, "stop after this many epochs without a lower validation loss; 0: all epochs")

    def validate(self) -> None:
        """Widths and dropouts."""
        super().validate()
        self.check_at_least(1, "hidden", "heads", "out_heads")
        if not 0 <= self.attention_dropout < 1:
            raise InputError(f"attention_dropout={self.attention_dropout}: must be at least 0 and below 1")

    def build(self, num_features: int) -> Network:
        """GAT F → heads × hidden → C."""
        return Network(num_features, self.hidden, self.heads, len(self.classes_), self.out_heads)

    def logits(self, network: Network, graph: Graph, epoch: int | Tensor | None) -> Tensor:
        """Places of dropout: 0 and 2 the inputs of the layers, 1 and 3 their attention."""
        layer1, layer2 = network.layer1, network.layer2

        def attend(layer: GATLayer, h: Tensor, place: int) -> Tensor:
            drop = lambda alpha: self.dropped(alpha, epoch, place, self.attention_dropout)  # noqa: E731
            return layer(h, graph.pattern, drop).view(layer.heads, -1, layer.dim)

        h = attend(layer1, self.dropped_product(graph.x, layer1.weight, epoch), 1)
        h = F.elu(h.transpose(0, 1).flatten(1) + network.bias1)
        h = attend(layer2, self.dropped(h, epoch, 2) @ layer2.weight, 3)
        return h.mean(0) + network.bias2
