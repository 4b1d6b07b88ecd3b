"""BGRL: one network predicts what its slow copy makes of the other view; no negatives."""

from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from epagcl.core.sparse import SparseMatrix
from epagcl.data.graph import Graph
from epagcl.methods.base import Method
from epagcl.methods.settings import method_settings, setting
from epagcl.nn.layers import Adjacency, GCNLayer, PReLU
from epagcl.views.masks import feature_masks
from epagcl.views.sampling import Views, drop_views


class Layer(nn.Module):
    """PReLU(norm(ÂXW + b)), with a slope of its own; the norm's shift is added with the activation."""

    def __init__(self, in_features: int, out_features: int, norm: str, standardise: bool):
        super().__init__()
        self.gcn = GCNLayer(in_features, out_features)
        self.norm, self.standardise = norm, standardise
        self.scale, self.shift = nn.Parameter(torch.ones(out_features)), nn.Parameter(torch.zeros(out_features))
        self.activation = PReLU()
        if norm == "batch":
            self.register_buffer("mean", torch.zeros(out_features))
            self.register_buffer("var", torch.ones(out_features))

    def forward(self, x: Tensor | SparseMatrix, adjacency: Adjacency, mask: Tensor | None) -> Tensor:
        """``mask`` ``[V, F]`` hides input columns."""
        weight = self.gcn.weight
        if self.standardise:  # of each output unit
            weight = (weight - weight.mean(0)) * (weight.var(0, correction=0) + 1e-5).rsqrt()
        x = self.gcn.product(x, adjacency, mask, weight) + self.gcn.bias
        return self.activation(self._normalised(x, adjacency.shape[0]), self.shift)

    def _normalised(self, x: Tensor, num_nodes: int) -> Tensor:
        if self.norm == "layer":
            return F.layer_norm(x, x.shape[1:], self.scale)
        # Each view by its own statistics. Momentum 0.99 of the new ones, as in the code: evaluation uses those of the
        # last view seen, nearly.
        views = [
            F.batch_norm(view, self.mean, self.var, self.scale, None, self.training, momentum=0.99)
            for view in x.split(num_nodes)
        ]
        return torch.cat(views)


class Encoder(nn.Module):
    """Layers of the given widths; with layer norm, the weights of all but the first are standardised."""

    def __init__(self, widths: Sequence[int], norm: str):
        super().__init__()
        self.layers = nn.ModuleList(
            Layer(a, b, norm, standardise=norm == "layer" and number > 0)
            for number, (a, b) in enumerate(pairwise(widths))
        )

    def forward(self, x: Tensor | SparseMatrix, adjacency: Adjacency, mask: Tensor | None = None) -> Tensor:
        """Representations of V views, ``[V·N, widths[-1]]``."""
        for layer in self.layers:
            x, mask = layer(x, adjacency, mask), None
        return x


class Network(nn.Module):
    """Online encoder and predictor, which are trained, and the target encoder, which follows the online one."""

    def __init__(self, widths: Sequence[int], norm: str, predictor: int):
        super().__init__()
        self.encoder, self.target = Encoder(widths, norm), Encoder(widths, norm)
        dim = widths[-1]
        self.predictor = nn.Sequential(nn.Linear(dim, predictor), nn.PReLU(), nn.Linear(predictor, dim))
        self.target.requires_grad_(False)


def bootstrap_loss(q: Tensor, z: Tensor) -> Tensor:
    """2 − mean_i cos(q₁ᵢ, z₂ᵢ) − mean_i cos(q₂ᵢ, z₁ᵢ), in [0, 4], for stacked rows [q₁; q₂] and [z₁; z₂]."""
    return 2 - 2 * F.cosine_similarity(q, z.roll(z.shape[0] // 2, 0)).mean()


@method_settings
class BGRL(Method):
    r"""Bootstrapped learning: an online network predicts a slowly moving target's embedding of the other view.

    .. math::
        \mathcal{L} = 2 - \frac{1}{N}\sum_i \cos(q_{1i}, z_{2i}) - \frac{1}{N}\sum_i \cos(q_{2i}, z_{1i}), \qquad
        \phi \leftarrow m \phi + (1 - m)\theta, \quad m = 1 - (1 - m_0)\tfrac{1}{2}(1 + \cos(\pi t/T))

    q = predictor(online(view)), z = target(view) without gradient. The learning rate rises for a tenth of the T epochs
    and falls to 0 by a cosine. As in the code: the target starts from weights of its own, batch-norm statistics are not
    averaged, and both networks normalise by the batch while training. A pair's two directions are dropped together.
    """

    name = "bgrl"
    title = "BGRL"
    paper = "Thakoor et al., Large-Scale Representation Learning on Graphs via Bootstrapping, ICLR 2022"
    cost_note = "time E d and 4 encoder passes, memory N d; thousands of epochs"
    decoupled_decay = True

    p_drop_1: float = setting(0.2, "probability that the first view drops an edge")
    p_drop_2: float = setting(0.3, "probability that the second view drops an edge")
    p_mask_1: float = setting(0.2, "probability that the first view hides a feature column")
    p_mask_2: float = setting(0.1, "probability that the second view hides a feature column")
    layers: int = setting(2, "GCN layers")
    hidden: int = setting(512, "width of all layers but the last")
    dim: int = setting(256, "width of the embedding")
    predictor: int = setting(512, "hidden width of the predictor")
    norm: str = setting("batch", "after each layer; layer: also standardised weights", ("batch", "layer"))
    momentum: float = setting(0.99, "m₀, of the target at the first epoch; it ends at 1")
    epochs: int = setting(10_000, "training epochs T; 0 leaves the encoder untrained")
    lr: float = setting(5e-4, "highest learning rate of AdamW")
    weight_decay: float = setting(1e-5, "weight decay of AdamW")

    def validate(self) -> None:
        """Probabilities and widths."""
        super().validate()
        self.check_probabilities("p_drop_1", "p_drop_2", "p_mask_1", "p_mask_2", "momentum")
        self.check_at_least(1, "layers", "hidden", "dim", "predictor")

    def build(self, num_features: int) -> Network:
        """GCN F → hidden → ... → dim twice, predictor dim → predictor → dim."""
        return Network([num_features] + [self.hidden] * (self.layers - 1) + [self.dim], self.norm, self.predictor)

    def prepare(self, graph: Graph) -> Views:
        """Two views that drop every pair with the same probability."""
        return drop_views(graph.pairs, graph.num_nodes, (self.p_drop_1, self.p_drop_2), seed=self.seed)

    def views(self, graph: Graph) -> Views:
        """Those that :meth:`prepare` makes."""
        return self.prepare(graph)

    def loss(self, network: Network, graph: Graph, prepared: Views, epoch: int | Tensor) -> Tensor:
        """Each view goes through both networks."""
        p_masks = (self.p_mask_1, self.p_mask_2)
        mask = feature_masks(graph.num_features, p_masks, seed=self.seed, epoch=epoch, device=graph.device)
        adjacency = prepared.adjacency(epoch)
        q = network.predictor(network.encoder(graph.x, adjacency, mask))
        with torch.no_grad():
            z = network.target(graph.x, adjacency, mask)
        return bootstrap_loss(q, z)

    def lr_factor(self, epoch: Tensor) -> Tensor:
        """t/T₀ up to T₀ = T/10, then (1 + cos(π(t − T₀)/(T − T₀)))/2."""
        warm_up = max(self.epochs // 10, 1)
        fall = (1 + torch.cos(torch.pi * (epoch - warm_up) / max(self.epochs - warm_up, 1))) / 2
        return torch.where(epoch < warm_up, epoch / warm_up, fall)

    def target_momentum(self, epoch: Tensor) -> Tensor:
        """m: ``momentum`` at the first epoch, 1 at the end."""
        return 1 - (1 - self.momentum) * (1 + torch.cos(torch.pi * epoch / max(self.epochs, 1))) / 2

    @torch.no_grad()
    def after_epoch(self, network: Network, epoch: int | Tensor) -> None:
        """The target takes a small step towards the online encoder, parameters only."""
        towards = 1 - self.target_momentum(torch.as_tensor(epoch))
        for target, online in zip(network.target.parameters(), network.encoder.parameters(), strict=True):
            target.lerp_(online, towards)
