"""Supervised GCN: the classifier of Eq. (1) in the EPAGCL paper."""

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from epagcl.data.graph import Graph
from epagcl.methods.settings import method_settings, setting
from epagcl.methods.supervised import Supervised
from epagcl.nn.layers import GCNLayer


class Network(nn.Module):
    """Two GCN layers."""

    hops = 2.0

    def __init__(self, num_features: int, hidden: int, num_classes: int):
        super().__init__()
        self.layer1, self.layer2 = GCNLayer(num_features, hidden), GCNLayer(hidden, num_classes)


@method_settings
class SupervisedGCN(Supervised):
    """Supervised graph convolutional network: Â ReLU(Â X W₁ + b₁) W₂ + b₂, trained on labels.

    From `"Semi-Supervised Classification with Graph Convolutional Networks" <https://arxiv.org/abs/1609.02907>`_. As
    published, only the weights of the first layer decay. Early stopping follows Shchur et al. 2018 (lowest validation
    loss, patience 50, best weights), not Kipf & Welling (window of 10, last weights).

    Examples:
        >>> import epagcl
        >>> data = epagcl.data.block_model(60, num_classes=3, num_features=12, topic_words=4, words_per_node=3)
        >>> SupervisedGCN(epochs=2, hidden=8, device="cpu").fit(data).predict(data).shape
        torch.Size([60])
    """

    name = "gcn"
    title = "GCN"
    paper = "Kipf & Welling, Semi-Supervised Classification with Graph Convolutional Networks, ICLR 2017"
    cost_note = "labels; time E d, memory N d"

    hidden: int = setting(16, "width of the first layer")
    lr: float = setting(0.01, "learning rate of Adam")
    weight_decay: float = setting(5e-4, "weight decay of Adam for the weights of the first layer")

    def validate(self) -> None:
        """Raise unless every setting is valid."""
        super().validate()
        self.check_at_least(1, "hidden")

    def build(self, num_features: int) -> Network:
        """Return a GCN F → hidden → C."""
        return Network(num_features, self.hidden, len(self.classes_))

    def parameters(self, network: Network) -> list[dict[str, Any]]:
        """Return two groups: the weights that decay, and all other parameters."""
        decayed = network.layer1.weight
        others = [parameter for parameter in network.parameters() if parameter is not decayed]
        return [{"params": [decayed]}, {"params": others, "weight_decay": 0.0}]

    def logits(self, network: Network, graph: Graph, epoch: int | Tensor | None) -> Tensor:
        """Return the logits, with dropout before each layer."""
        layer1, layer2 = network.layer1, network.layer2
        h = F.relu(graph.adjacency @ self.dropped_product(graph.x, layer1.weight, epoch) + layer1.bias)
        return graph.adjacency @ (self.dropped(h, epoch, 1) @ layer2.weight) + layer2.bias
