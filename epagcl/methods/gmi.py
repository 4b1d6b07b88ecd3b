"""GMI: mutual information of embeddings with their own features, their neighbours' features, and the edges."""

from collections.abc import Iterable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from epagcl.core.permute import row_products
from epagcl.core.randomness import Stream, other_nodes
from epagcl.core.sparse import SparseMatrix
from epagcl.data.graph import Graph
from epagcl.losses.edges import edge_loss
from epagcl.losses.summary import Bilinear
from epagcl.methods.base import Method
from epagcl.methods.settings import method_settings, setting
from epagcl.nn.encoders import ENCODER_MEANING, ENCODERS, ScalesLayer, build_layer, check_layers
from epagcl.nn.layers import GCNLayer, PReLU, transform

Layer = GCNLayer | ScalesLayer


class Network(nn.Module):
    """Layers, each with its own PReLU, a PReLU for the neighbour means, and two bilinear scores."""

    def __init__(self, encoder: str, num_features: int, dim: int, layers: int):
        super().__init__()
        widths = [num_features] + [dim] * (layers - 1)
        self.layers = nn.ModuleList(build_layer(encoder, width, dim) for width in widths)
        self.activations = nn.ModuleList(PReLU() for _ in range(layers))
        self.mean_activation = PReLU()
        self.own = Bilinear(num_features, dim)
        self.neighbours = Bilinear(dim, dim)

    def encode(self, projected: Tensor, adjacency: SparseMatrix) -> Tensor:
        """Return H from P = XW₁, or X [W₁ | R₁] with root weights."""
        _, *layers = cast("Iterable[Layer]", self.layers)
        activation, *activations = self.activations
        h: Tensor = activation(self.first.aggregate(projected, adjacency), self.first.bias)
        for layer, activation in zip(layers, activations, strict=True):
            h = activation(layer.product(h, adjacency), layer.bias)
        return h

    @property
    def hops(self) -> float:
        """The number of hops from which a node receives information."""
        return sum(layer.hops for layer in cast("Iterable[Layer]", self.layers))

    @property
    def first(self) -> Layer:
        """The first layer, whose weight W₁ the neighbour means share."""
        return cast("Layer", self.layers[0])


@method_settings
class GMI(Method):
    r"""Graphical mutual information: embeddings predict their own features, their neighbours' features and the edges.

    .. math::
        \mathcal{L} = \alpha J(T_1) + \beta J(T_2) + \gamma \mathcal{L}_E, \qquad
        J(T) = \frac{1}{N} \sum_i \operatorname{sp}(-T(i, i))
        + \frac{1}{KN} \sum_{k \le K} \sum_i \operatorname{sp}(T(i, n_k(i)))

    .. math::
        T_1(i, j) = \sigma(x_j^\top \Theta_1 h_i + b_1), \quad
        T_2(i, j) = \sigma(h_j^\top \Theta_2 m_i + b_2), \quad
        M = \mathrm{PReLU}(\bar{A} X W_1)

    where sp(t) = log(1 + e^t), Ā is A with rows of sum 1 and no self-loops, H is the output of the encoder with first
    weight W₁ (not its root weight), and n_k(i) ≠ i are random nodes, sampled for each term and epoch. L_E is
    :func:`~epagcl.losses.edges.edge_loss`. Training stops early on its loss, and the weights with the lowest loss are
    used. The embedding is H. From `"Graph Representation Learning via Graphical Mutual Information Maximization"
    <https://arxiv.org/abs/2002.01169>`_.

    This is GMI-mean of the authors' code, in which all neighbours have the same weight; the paper also has weights
    h_i·h_j (GMI-adaptive). T is a sigmoid and is passed through sp, as in paper and code, so J lies between 1.006 and
    2.006. The code adds 1e-10 inside the logarithms of L_E, which removes the gradient at |h_i·h_j| > 23; here L_E is
    computed from logits. The code samples each n_k(i) independently; here n_k is a permutation, and each n_k(i) is
    uniform over the other nodes as well.

    Examples:
        >>> import epagcl
        >>> data = epagcl.data.block_model(30, num_classes=3, num_features=12, topic_words=4, words_per_node=3)
        >>> GMI(epochs=2, dim=4, device="cpu").fit_embed(data).shape
        torch.Size([30, 4])
    """

    name = "gmi"
    title = "GMI"
    paper = "Peng et al., Graph Representation Learning via Graphical Mutual Information Maximization, WWW 2020"
    cost_note = "time N² d, or N K d with edge_pairs K; memory N d"

    alpha: float = setting(0.8, "weight of the node's own features (α)")
    beta: float = setting(1.0, "weight of the neighbours' features (β)")
    gamma: float = setting(1.0, "weight of the edges (γ)")
    negatives: int = setting(5, "number of negative nodes per node in each of the first two terms")
    edge_pairs: int = setting(0, "estimate the edge term from this many other nodes per node; 0: from all nodes")
    encoder: str = setting("gcn", ENCODER_MEANING, ENCODERS)
    layers: int = setting(2, "number of layers (published: Cora 2, CiteSeer and PubMed 1); 1 with pagerank and scales")
    dim: int = setting(512, "width of the embedding")
    epochs: int = setting(550, "maximum number of training epochs; 0 leaves the encoder untrained")
    weight_decay: float = setting(0.0, "weight decay of Adam")
    patience: int = setting(20, "stop after this many epochs without a lower loss; 0: never")

    def validate(self) -> None:
        """Raise unless every setting is valid."""
        super().validate()
        self.check_at_least(0, "alpha", "beta", "gamma", "edge_pairs")
        self.check_at_least(1, "negatives", "layers", "dim")
        check_layers(self.encoder, self.layers)

    def build(self, num_features: int) -> Network:
        """Return an encoder F → dim (→ dim) and the two bilinear scores."""
        return Network(self.encoder, num_features, self.dim, self.layers)

    def prepare(self, graph: Graph) -> SparseMatrix:
        """Return Ā."""
        return neighbour_mean(graph)

    def loss(self, network: Network, graph: Graph, prepared: SparseMatrix, epoch: int | Tensor) -> Tensor:
        """Return the sum of the three terms. Scores are products of two rows; x_jᵀΘ₁ and Θ₂m_i are computed once."""
        weights = torch.cat([*network.first.weights, network.own.weight], 1)
        product = transform(graph.aligned_x, weights)
        projected, own = (part.contiguous() for part in product.tensor_split([-self.dim], 1))
        h = network.encode(projected, graph.whole_adjacency)
        mean = prepared @ projected[:, : self.dim]
        mean = network.mean_activation(mean, mean.new_zeros(self.dim))  # a PReLU without bias

        loss = self.alpha * score_loss(h, own, network.own.bias, self._others(graph, self.negatives, epoch, 0))
        neighbours = mean @ network.neighbours.weight.T
        negatives = self._others(graph, self.negatives, epoch, 1)
        loss = loss + self.beta * score_loss(neighbours, h, network.neighbours.bias, negatives)
        if not self.gamma:  # skip the term that costs N²d
            return loss
        pairs = self._others(graph, self.edge_pairs, epoch, 2) if self.edge_pairs else None
        return loss + self.gamma * edge_loss(h, graph.pattern, pairs)

    def represent(self, network: Network, graph: Graph) -> Tensor:
        """Return H."""
        return network.encode(network.first.project(graph.x), graph.whole_adjacency)

    def _others(self, graph: Graph, count: int, epoch: int | Tensor, term: int) -> Tensor:
        return other_nodes(graph.num_nodes, count, self.seed, Stream.NEGATIVES, epoch, term, device=graph.device)


def neighbour_mean(graph: Graph) -> SparseMatrix:
    """Return Ā = D⁻¹A at the entries of A + I; the row of a node without neighbours is 0."""
    total = torch.where(graph.degree > 0, graph.degree, 1)
    return graph.pattern.matrix(graph.edges.value / total[graph.pattern.row])


def score_loss(a: Tensor, b: Tensor, bias: Tensor, others: Tensor) -> Tensor:
    """Return J of T(i, j) = σ(a_i·b_j + bias), with negatives j = n_k(i) from the rows n_k of ``others``."""
    positive = (torch.linalg.vecdot(a, b) + bias).sigmoid()
    negative = (row_products(a, b, others) + bias).sigmoid()
    return F.softplus(-positive).mean() + F.softplus(negative).mean()
