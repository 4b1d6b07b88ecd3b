"""BGRL: an online network predicts the target network's embedding of the other view; no negatives."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from epagcl.core.hardware import takes_kernels
from epagcl.core.sparse import SparseMatrix
from epagcl.core.tall import times_weight
from epagcl.data.graph import Graph
from epagcl.methods.base import Method
from epagcl.methods.settings import method_settings, setting
from epagcl.nn.encoders import ENCODER_MEANING, ENCODERS, build_layer, check_layers
from epagcl.nn.heads import Linear
from epagcl.nn.layers import Adjacency, GCNLayer, PReLU
from epagcl.views.masks import feature_masks
from epagcl.views.sampling import Views, drop_views

#: Momentum of the running statistics, as in the authors' code: evaluation uses nearly those of the last view.
BATCH_NORM_MOMENTUM = 0.99


class Layer(nn.Module):
    """PReLU(norm(ÂXW + b)) with its own slope. The activation also adds the shift of the norm."""

    def __init__(self, encoder: str, in_features: int, out_features: int, norm: str, standardise: bool):
        super().__init__()
        self.gcn = build_layer(encoder, in_features, out_features)
        self.norm, self.standardise = norm, standardise
        self.scale, self.shift = nn.Parameter(torch.ones(out_features)), nn.Parameter(torch.zeros(out_features))
        self.activation = PReLU()
        if norm == "batch":
            self.mean: Tensor
            self.var: Tensor
            self.register_buffer("mean", torch.zeros(out_features))
            self.register_buffer("var", torch.ones(out_features))

    def forward(
        self, x: Tensor | SparseMatrix, adjacency: Adjacency, mask: Tensor | None, aggregated: Tensor | None = None
    ) -> Tensor:
        """Return the output of V views, ``[V·N, out_features]``; ``mask`` ``[V, F]`` hides input columns."""
        if self.standardise:
            product = self._standardised(x, adjacency)
        elif aggregated is not None:
            product = cast("GCNLayer", self.gcn).product(x, adjacency, mask, aggregated=aggregated)
        else:
            product = self.gcn.product(x, adjacency, mask)
        if self.norm == "batch" and self.training:
            return self._activated_batch_norm(product, adjacency.shape[0])
        return self.activation(self._normalise(product + self.gcn.bias, adjacency.shape[0]), self.shift)

    def _standardised(self, x: Tensor | SparseMatrix, adjacency: Adjacency) -> Tensor:
        """Return the product with weights of mean 0 and variance 1 for each output unit, W and R together."""
        assert isinstance(self.gcn, GCNLayer)  # an encoder over several scales has no second layer
        weights = torch.cat(self.gcn.weights)
        weights = (weights - weights.mean(0)) * (weights.var(0, correction=0) + 1e-5).rsqrt()
        return self.gcn.product(x, adjacency, None, *weights.chunk(len(self.gcn.weights)))

    def _activated_batch_norm(self, x: Tensor, num_nodes: int) -> Tensor:
        """Return PReLU(norm(x + b)) in training. The bias cancels in batch statistics: only the running mean has it."""
        bias = self.gcn.bias
        if takes_kernels(x):
            from epagcl.core.kernels.normalisation import batch_norm_prelu

            weights = bias, self.scale, self.shift, self.activation.weight
            views = x.shape[0] // num_nodes
            return batch_norm_prelu(x, *weights, self.mean, self.var, views=views, momentum=BATCH_NORM_MOMENTUM)
        mean = self.mean - bias.detach()  # the running mean of x
        normalised = self._normalise(x, num_nodes, mean)
        self.mean.copy_(mean + bias.detach())
        # The factor 0 gives the bias a gradient of zeros, where Adam would turn rounding errors into steps.
        return self.activation(normalised, torch.add(self.shift, bias, alpha=0))

    def _normalise(self, x: Tensor, num_nodes: int, mean: Tensor | None = None) -> Tensor:
        """Return x normalised and scaled; ``mean`` replaces the running mean."""
        if self.norm == "layer":
            return F.layer_norm(x, x.shape[1:], self.scale)
        mean = self.mean if mean is None else mean
        views = [  # each is normalised by its own statistics
            F.batch_norm(view, mean, self.var, self.scale, None, self.training, BATCH_NORM_MOMENTUM)
            for view in x.split(num_nodes)
        ]
        return torch.cat(views)


class Encoder(nn.Module):
    """Layers of the given widths. With layer norm, the weights of all layers but the first are standardised."""

    def __init__(self, encoder: str, widths: Sequence[int], norm: str):
        super().__init__()
        self.layers = nn.ModuleList(
            Layer(encoder, a, b, norm, standardise=norm == "layer" and number > 0)
            for number, (a, b) in enumerate(pairwise(widths))
        )

    @property
    def hops(self) -> float:
        """The number of hops from which a node receives information."""
        return sum(layer.gcn.hops for layer in cast("Iterable[Layer]", self.layers))

    def aggregated(self, x: Tensor | SparseMatrix, adjacency: Adjacency) -> Tensor | None:
        """Return ÂX if the first layer multiplies the features by Â and not by its weights first, else None."""
        first = cast("Layer", self.layers[0]).gcn
        return first.aggregated(x, adjacency) if isinstance(first, GCNLayer) else None

    def forward(
        self,
        x: Tensor | SparseMatrix,
        adjacency: Adjacency,
        mask: Tensor | None = None,
        aggregated: Tensor | None = None,
    ) -> Tensor:
        """Return the representations of V views, ``[V·N, widths[-1]]``.

        Args:
            x: the features.
            adjacency: Â of each view.
            mask: ``[V, F]``, 0 for the features that a view hides.
            aggregated: the result of :meth:`aggregated`, if it is known.
        """
        first, *others = self.layers
        h: Tensor = first(x, adjacency, mask, aggregated)
        for layer in others:
            h = layer(h, adjacency, None)
        return h


class Predictor(nn.Sequential):
    """Linear layer, PReLU, linear layer. The activation adds the bias of the first layer."""

    def __init__(self, dim: int, hidden: int):
        super().__init__(Linear(dim, hidden), PReLU(), Linear(hidden, dim))

    def forward(self, h: Tensor) -> Tensor:
        """Return the prediction, as wide as the input."""
        first, activation, last = cast("tuple[Linear, PReLU, Linear]", tuple(self))
        out: Tensor = last(activation(times_weight(h, first.weight.T), first.bias))
        return out


class Network(nn.Module):
    """The trained online encoder and predictor, and the target encoder, which follows the online encoder."""

    def __init__(self, encoder: str, widths: Sequence[int], norm: str, predictor: int):
        super().__init__()
        self.encoder, self.target = Encoder(encoder, widths, norm), Encoder(encoder, widths, norm)
        self.predictor = Predictor(widths[-1], predictor)
        self.target.requires_grad_(False)


def bootstrap_loss(q: Tensor, z: Tensor) -> Tensor:
    """Return 2 − mean_i cos(q₁ᵢ, z₂ᵢ) − mean_i cos(q₂ᵢ, z₁ᵢ), in [0, 4], for stacked rows [q₁; q₂] and [z₁; z₂]."""
    half = q.shape[0] // 2
    if takes_kernels(q) and takes_kernels(z) and not z.requires_grad:
        from epagcl.core.kernels.cosine import shifted_cosines

        return 2 - 2 * shifted_cosines(q, z, half).mean()
    return 2 - 2 * F.cosine_similarity(q, z.roll(half, 0)).mean()


@method_settings
class BGRL(Method):
    r"""Bootstrapped learning: an online network predicts a slowly updated target network's embedding of the other view.

    .. math::
        \mathcal{L} = 2 - \frac{1}{N}\sum_i \cos(q_{1i}, z_{2i}) - \frac{1}{N}\sum_i \cos(q_{2i}, z_{1i}), \qquad
        \phi \leftarrow m \phi + (1 - m)\theta, \quad m = 1 - (1 - m_0)\tfrac{1}{2}(1 + \cos(\pi t/T))

    where q = predictor(online(view)) and z = target(view) without gradient. The learning rate rises for a tenth of the
    T epochs and then falls to 0 by a cosine. From `"Large-Scale Representation Learning on Graphs via Bootstrapping"
    <https://arxiv.org/abs/2102.06514>`_.

    With the residual encoder and layer norm, the weights W and R of an output unit are standardised together, as the
    weights of one layer over [ÂH | H].

    As in the authors' code, the target starts from its own random weights, batch-norm statistics are not averaged, and
    both networks normalise by batch statistics during training. Unlike in that code, both directions of an edge are
    dropped together.

    Examples:
        >>> import epagcl
        >>> data = epagcl.data.block_model(30, num_classes=3, num_features=12, topic_words=4, words_per_node=3)
        >>> BGRL(epochs=2, hidden=8, dim=4, predictor=8, device="cpu").fit_embed(data).shape
        torch.Size([30, 4])
    """

    name = "bgrl"
    title = "BGRL"
    paper = "Thakoor et al., Large-Scale Representation Learning on Graphs via Bootstrapping, ICLR 2022"
    cost_note = "time E d and 4 encoder passes, memory N d; thousands of epochs"
    decoupled_decay = True
    half_activations = True

    p_drop_1: float = setting(0.2, "probability that the first view drops an edge")
    p_drop_2: float = setting(0.3, "probability that the second view drops an edge")
    p_mask_1: float = setting(0.2, "probability that the first view hides a feature column")
    p_mask_2: float = setting(0.1, "probability that the second view hides a feature column")
    encoder: str = setting("gcn", ENCODER_MEANING, ENCODERS)
    layers: int = setting(2, "number of layers; 1 with pagerank and scales")
    hidden: int = setting(512, "width of all layers but the last")
    dim: int = setting(256, "width of the embedding")
    predictor: int = setting(512, "hidden width of the predictor")
    norm: str = setting("batch", "norm after each layer; layer: also standardises the weights", ("batch", "layer"))
    momentum: float = setting(0.99, "m₀, momentum of the target in the first epoch; it rises to 1")
    epochs: int = setting(10_000, "training epochs T; 0 leaves the encoder untrained")
    lr: float = setting(5e-4, "maximum learning rate of AdamW")
    weight_decay: float = setting(1e-5, "weight decay of AdamW")

    def validate(self) -> None:
        """Raise unless every setting is valid."""
        super().validate()
        self.check_probabilities("p_drop_1", "p_drop_2", "p_mask_1", "p_mask_2", "momentum")
        self.check_at_least(1, "layers", "hidden", "dim", "predictor")
        check_layers(self.encoder, self.layers)

    def build(self, num_features: int) -> Network:
        """Return two encoders F → hidden → ... → dim and a predictor dim → predictor → dim."""
        widths = [num_features] + [self.hidden] * (self.layers - 1) + [self.dim]
        return Network(self.encoder, widths, self.norm, self.predictor)

    def prepare(self, graph: Graph) -> Views:
        """Return two views that drop every pair with the same probability."""
        return drop_views(
            graph.pairs, graph.num_nodes, (self.p_drop_1, self.p_drop_2), seed=self.seed, weight=graph.weight
        )

    def views(self, graph: Graph) -> Views:
        """Return the views of :meth:`prepare`."""
        return self.prepare(graph)

    def loss(self, network: Network, graph: Graph, prepared: Views, epoch: int | Tensor) -> Tensor:
        """Return the loss; each view goes through both networks."""
        p_masks = (self.p_mask_1, self.p_mask_2)
        mask = feature_masks(graph.num_features, p_masks, seed=self.seed, epoch=epoch, device=graph.device)
        x, adjacency = graph.aligned_x, prepared.adjacency(epoch)
        aggregated = network.encoder.aggregated(x, adjacency)  # once for both networks
        q = network.predictor(network.encoder(x, adjacency, mask, aggregated))
        with torch.no_grad():
            z = network.target(x, adjacency, mask, aggregated)
        return bootstrap_loss(q, z)

    def lr_factor(self, epoch: Tensor) -> Tensor:
        """Return t/T₀ up to T₀ = T/10, then (1 + cos(π(t − T₀)/(T − T₀)))/2."""
        warm_up = max(self.epochs // 10, 1)
        fall = (1 + torch.cos(torch.pi * (epoch - warm_up) / max(self.epochs - warm_up, 1))) / 2
        return torch.where(epoch < warm_up, epoch / warm_up, fall)

    def target_momentum(self, epoch: Tensor) -> Tensor:
        """Return m, which rises from ``momentum`` in the first epoch to 1 at the end."""
        return 1 - (1 - self.momentum) * (1 + torch.cos(torch.pi * epoch / max(self.epochs, 1))) / 2

    @torch.no_grad()
    def after_epoch(self, network: Network, epoch: int | Tensor) -> None:
        """Move the parameters of the target a small step towards the online encoder."""
        step = 1 - self.target_momentum(torch.as_tensor(epoch))
        for target, online in zip(network.target.parameters(), network.encoder.parameters(), strict=True):
            target.lerp_(online, step)
