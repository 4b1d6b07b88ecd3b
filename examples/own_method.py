"""Write your own method: a network and a loss; training, saving, evaluation and the command line come with it.

Run it with ``python examples/own_method.py``.
"""

import torch
from torch import Tensor, nn

import epagcl
from epagcl.data.graph import Graph
from epagcl.methods import Method, method_settings, setting
from epagcl.nn import GCN
from epagcl.views import Views, drop_views


class Network(nn.Module):
    """A GCN encoder."""

    def __init__(self, widths: list[int]):
        super().__init__()
        self.encoder = GCN(widths)


@method_settings
class VarianceAgreement(Method):
    """Two views agree, and every dimension of the embedding varies."""

    name = "variance-agreement"
    title = "Variance agreement"
    paper = "an example"
    cost_note = "time E d, memory N d"

    p_drop: float = setting(0.3, "probability of dropping an edge")
    dim: int = setting(64, "dimension of the embedding")

    def build(self, num_features: int) -> Network:
        """Build the network; its initial weights follow from the seed."""
        return Network([num_features, self.dim])

    def prepare(self, graph: Graph) -> Views:
        """Compute once, before training: the sampler of both views."""
        return drop_views(graph.pairs, graph.num_nodes, (self.p_drop, self.p_drop), seed=self.seed)

    def loss(self, network: Network, graph: Graph, prepared: Views, epoch: int | Tensor) -> Tensor:
        """Compute the loss of one epoch; all randomness follows from (seed, epoch)."""
        z1, z2 = network.encoder(graph.x, prepared.adjacency(epoch)).chunk(2)
        variance = torch.relu(1 - torch.cat([z1, z2]).std(0)).mean()
        return (z1 - z2).square().mean() + variance


def main() -> None:
    """Train the method on the packaged graph and compare it with the raw features."""
    data = epagcl.load("demo")
    model = epagcl.method("variance-agreement")(epochs=20, seed=0).fit(data)
    print(f"loss: {model.history_[0]['loss']:.3f} -> {model.history_[-1]['loss']:.3f}")
    for name, z in (("raw features", data.x), (model.title, model.embed(data))):
        print(f"{name}: accuracy {100 * epagcl.linear_evaluation(z, data.y, runs=2).mean:.1f}%")


if __name__ == "__main__":
    main()
