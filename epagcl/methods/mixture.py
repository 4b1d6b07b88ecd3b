"""The embedding of EPAGCL+: trained models and propagated features, mixed by label-free weights and reduced."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from epagcl.core.pca import Operator, principal_components
from epagcl.data.graph import Graph
from epagcl.data.relations import are_one_way
from epagcl.diffusion import ALPHA, Diffusion, neighbours, power, ppr, relation_mean, relation_ppr
from epagcl.epr.estimate import column_halves
from epagcl.epr.own_features import halves_advantage, own_advantage
from epagcl.epr.structure import edge_similarity, neighbourhood_agreement
from epagcl.methods.dgi import Network as Infomax
from epagcl.nn.encoders import build_encoder
from epagcl.nn.heads import ProjectionHead
from epagcl.nn.propagation import PropagatedPCA
from epagcl.views.candidates import neighbour_candidates

TOLERANCE = 1e-3  # of PageRank: 13 products, and 6 with OWN_ALPHA
OWN_ALPHA = 0.5  # teleport probability of PageRank among nodes with similar features
COMPONENTS = 256  # principal components of each propagated block
# The mixture of the blocks, see `block_weights`.
RELIABLE, UNRELIABLE = 0.9, 0.8  # agreement at which neighbourhoods are trusted fully, and not at all
ADVANTAGE, NO_ADVANTAGE = 0.3, 0.1  # advantage at which own features replace propagated ones fully, and not at all
FEW_NODES = 500  # with this many nodes, a graph counts as half large, see `largeness`
MOST_SIMILAR = 1 / 3  # edge similarity at which the neighbours-only blocks do not count; at 0 they count fully
UNDIRECTED = ("two_hops", "joined", "neighbours", "neighbours_2")  # blocks that use edges in both directions
TINY = 1e-12  # rows that do not differ from the mean stay zero


class Branch(nn.Module):
    """Several models with one kind of encoder, trained together, each with its own weights and projection head."""

    def __init__(self, name: str, num_features: int, hidden: int, dim: int, projection: int, members: int):
        super().__init__()
        self.encoder = build_encoder(name, num_features, hidden, dim, members=members)
        self.head = ProjectionHead(dim, projection, out=projection, members=members)


class Mixture(nn.Module):
    """The trained branches, the propagated features, and the reduction of all of them to the embedding.

    Attributes:
        residual: models with root weights, two layers.
        scales: models with X, ÂX, Â²X and PageRank side by side, one layer.
        infomax: a model with one PageRank layer that is trained with the loss of DGI.
        features: principal components of X̂.
        propagated: principal components of diffusions of X̂, by name; ``"joined"`` and ``"own"`` are on the graphs of
            :meth:`joined` and :meth:`alike`. Each relation has two: the mean over its nodes, and PageRank on it.
        relation_weights: the weights of the blocks of the relations, by name: the absolute strengths.
        weights: the weight of each block in the mixture.
        largeness: of the training graph, see :func:`largeness`.
        centre: the means of the columns of all blocks.
        spread: the root mean square length of the centred rows of each block.
        mean, components: the principal components of the weighted blocks side by side.
    """

    weights: Tensor
    largeness: Tensor
    centre: Tensor
    spread: Tensor
    mean: Tensor
    components: Tensor

    def __init__(
        self,
        num_features: int,
        hidden: int,
        projection: int,
        members: int,
        dim: int,
        k: int,
        relations: Sequence[float] = (),
    ):
        super().__init__()
        self.members, self.k = members, k
        self.residual = Branch("residual", num_features, hidden, hidden // 2, projection, members)
        self.scales = Branch("scales", num_features, hidden, hidden, projection, members)
        self.infomax = Infomax("pagerank", num_features, hidden)
        diffusions: dict[str, Callable[[Graph], Diffusion]] = {
            "two_hops": partial(power, k=2),
            "joined": partial(ppr, alpha=ALPHA, tolerance=TOLERANCE),
            "neighbours": partial(neighbours, k=1),
            "neighbours_2": partial(neighbours, k=2),
            "own": partial(ppr, alpha=OWN_ALPHA, tolerance=TOLERANCE),
        }
        self.relation_weights: dict[str, float] = {}
        for relation, strength in enumerate(relations):
            mean, pagerank = f"relation_{relation}", f"relation_{relation}_pagerank"
            diffusions[mean] = partial(relation_mean, relation=relation)
            diffusions[pagerank] = partial(relation_ppr, relation=relation)
            self.relation_weights |= {mean: abs(strength), pagerank: abs(strength)}
        self.features = PropagatedPCA(num_features, COMPONENTS, partial(power, k=0))
        self.propagated = nn.ModuleDict(
            {name: PropagatedPCA(num_features, COMPONENTS, diffuse) for name, diffuse in diffusions.items()}
        )
        self.widths = [hidden // 2] * members + [hidden] * (members + 1) + [COMPONENTS] * len(diffusions)
        width = sum(self.widths)
        self.register_buffer("weights", torch.zeros(len(self.kinds)))
        self.register_buffer("largeness", torch.zeros(()))
        self.register_buffer("centre", torch.zeros(width))
        self.register_buffer("spread", torch.zeros(len(self.kinds)))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("components", torch.zeros(width, dim))
        self._near: WeakKeyDictionary[Graph, dict[str, Graph]] = WeakKeyDictionary()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_near"}  # it cannot be pickled

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._near = WeakKeyDictionary()

    @property
    def kinds(self) -> list[str]:
        """The kind of each block, in order; blocks of one kind have the same weight."""
        return ["residual"] * self.members + ["scales"] * self.members + ["infomax", *self.propagated]

    def joined(self, graph: Graph) -> Graph:
        """Return the graph in which each node is also joined to its ``k`` nearest neighbours by Â²X̂.

        The two-hop components must have been fitted. The result is kept as long as ``graph``.
        """
        return self._with_nearest("joined", graph, graph.pairs, self.propagated["two_hops"], self.k)

    def alike(self, graph: Graph) -> Graph:
        """Return the graph in which each node is joined to its ``k``/2 nearest neighbours by X̂, and no others.

        The components of the features must have been fitted. The result is kept as long as ``graph``.
        """
        return self._with_nearest("own", graph, graph.pairs[:, :0], self.features, (self.k + 1) // 2)

    def _with_nearest(self, name: str, graph: Graph, pairs: Tensor, scores: nn.Module, k: int) -> Graph:
        """Return the graph of some pairs and the nearest neighbours by the scores of the nodes."""
        kept = self._near.setdefault(graph, {})
        if name not in kept:
            # At the border of a part of a graph, scores lack neighbours, and the embedding is not asked for.
            nodes = None if graph.outside is None else (graph.outside == 0).nonzero().flatten()
            every = torch.cat([pairs, neighbour_candidates(scores(graph), pairs, k, nodes, graph.part)], dim=1)
            key, order = (every[0] * graph.num_nodes + every[1]).sort()
            weight = None
            if graph.weight is not None and pairs.shape[1]:  # nearest neighbours have the mean weight, 1
                weight = F.pad(graph.weight, (0, order.numel() - pairs.shape[1]), value=1.0)[order]
            every = torch.stack([key // graph.num_nodes, key % graph.num_nodes])
            outside = graph.outside if pairs.shape[1] else None
            kept[name] = Graph(graph.x, every, graph.num_nodes, weight, outside=outside, part=graph.part)
        return kept[name]

    def fit_propagated(self, graph: Graph) -> None:
        """Compute the principal components of the propagated blocks whose weight is not 0."""
        weights = dict(zip(self.kinds, self.weights.tolist(), strict=True))
        for name, block in self.propagated.items():
            assert isinstance(block, PropagatedPCA)
            if weights[name]:
                block.fit(self._graph_of(name, graph))

    def _graph_of(self, name: str, graph: Graph) -> Graph:
        """Return the graph on which a propagated block diffuses the features of a graph."""
        return self.joined(graph) if name == "joined" else self.alike(graph) if name == "own" else graph

    def blocks(self, graph: Graph) -> Iterator[Tensor | None]:
        """Yield the representation by each trained model, then the propagated features; None for weights of 0."""
        for branch in (self.residual, self.scales):
            yield from branch.encoder(graph.x, graph.adjacency).tensor_split(self.members)
        infomax, *propagated = self.weights[2 * self.members :].tolist()
        yield self.infomax.encoder(graph.x, graph.adjacency) if infomax else None
        for weight, (name, block) in zip(propagated, self.propagated.items(), strict=True):
            yield block(self._graph_of(name, graph)) if weight else None

    def side_by_side(self, graph: Graph, *, fit: bool = False) -> Tensor:
        """Return all blocks in one matrix: centred, with rows of similar length, times the weight of the block.

        A row of length l is divided by l^ρ s^(1−ρ), where s is the spread of its block and ρ the largeness of the
        training graph. On a large graph, all rows have nearly unit length. On a small one, lengths stay as they are:
        rows near the mean are mostly noise there.

        Args:
            graph: the graph.
            fit: compute the centre and the spread of the blocks from this graph, and keep them.
        """
        matrix = self.centre.new_zeros(graph.num_rows, self.centre.numel())
        stop = 0
        for index, (width, block) in enumerate(zip(self.widths, self.blocks(graph), strict=True)):
            columns = slice(stop, stop := stop + width)
            if block is None:
                continue
            if fit:
                self.centre[columns] = graph.mean(block)
            centred = block - self.centre[columns]
            length = centred.norm(dim=1, keepdim=True)
            if fit:
                self.spread[index] = graph.mean(length.square()[:, 0]).sqrt()
            matrix[:, columns] = self.weighted(index, centred, length)
        return matrix

    def weighted(self, index: int, centred: Tensor, length: Tensor) -> Tensor:
        """Return centred rows of a block with similar length, times the weight of the block."""
        divisor = length**self.largeness * self.spread[index] ** (1 - self.largeness)
        return self.weights[index] * centred / divisor.clamp(min=TINY)

    def fit(self, graph: Graph) -> None:
        """Compute the propagated features and the weights once, and the principal components of all blocks."""
        if not self.weights.any():
            self.features.fit(graph)
            weights = _agreed_weights(graph, self.features(graph)) | self.relation_weights
            if are_one_way(graph.relation_names):  # edges are used in one direction only
                weights |= dict.fromkeys(UNDIRECTED, 0.0)
            self.weights.copy_(torch.tensor([weights[kind] for kind in self.kinds]))
            self.largeness.fill_(largeness(graph.num_nodes))
            self.fit_propagated(graph)
        matrix = self.side_by_side(graph, fit=True)
        operator = Operator.of(matrix)
        if graph.part is not None:
            operator = operator.spread(graph.num_nodes, graph.part.rows, graph.part.sum)
        mean, components = principal_components(operator, self.components.shape[1])
        # A classifier with few labels fits noise in directions of small variance, so they are shrunk on small graphs.
        scores = matrix.sub_(mean) @ components
        deviation = scores.norm(dim=0) if graph.part is None else graph.part.sum(scores.square().sum(0)).sqrt()
        shrinkage = (deviation / deviation.max().clamp(min=TINY)) ** (1 - self.largeness)
        self.mean.copy_(mean)
        self.components.copy_(components * shrinkage)

    def forward(self, graph: Graph) -> Tensor:
        """Return the principal components of all blocks side by side, ``[N, dim]``."""
        return self.side_by_side(graph).sub_(self.mean) @ self.components


def _agreed_weights(graph: Graph, own: Tensor) -> dict[str, float]:
    """Return :func:`block_weights`. With several ranks, rank 0 computes them from the components of all nodes."""
    part = graph.part
    if part is None:
        return block_weights(graph, own)
    own = part.all_rows(own)
    has_halves = graph.num_nodes >= 3 and graph.num_features >= 2
    halves = [part.all_rows(half) for half in column_halves(graph.x, part)] if has_halves else None

    def weigh() -> dict[str, float]:
        advantage = 0.0 if halves is None else halves_advantage(graph.pairs, graph.num_nodes, (halves[0], halves[1]))
        return block_weights(graph, own, advantage)

    return part.ranks.on_first(weigh)


def block_weights(graph: Graph, own: Tensor, advantage: float | None = None) -> dict[str, float]:
    """Choose the mixture of a graph from its edges and features, without labels.

    - A node's own features take the place of propagated ones if they say more about it than its neighbours do
      (:func:`~epagcl.epr.own_features.own_advantage`), unless neighbourhoods are reliable descriptions themselves
      (:func:`~epagcl.epr.structure.neighbourhood_agreement`).
    - Blocks of neighbours without the node itself count more, the less neighbours resemble each other
      (:func:`~epagcl.epr.structure.edge_similarity`): there they differ from the other blocks.
    - Trained models have less weight on graphs with few nodes, on which they overfit. The global model sees averages
      over neighbourhoods only, and counts as far as propagated features do.

    Args:
        graph: the training graph.
        own: principal components of its features.
        advantage: of own features, if it is known.

    Returns:
        The weight of each kind of block, by the names of :attr:`Mixture.kinds`.

    Examples:
        >>> from epagcl.data import block_model
        >>> graph = Graph.from_data(block_model(2000, num_features=40, topic_words=10, words_per_node=8))
        >>> weights = block_weights(graph, graph.x)
        >>> weights["residual"], weights["two_hops"], weights["own"]
        (0.8, 1.0, 0.0)
    """
    agreement = neighbourhood_agreement(graph.pairs, graph.num_nodes, own)
    similarity = edge_similarity(graph.pairs, graph.num_nodes, own)
    if advantage is None:
        advantage = own_advantage(graph.pairs, graph.num_nodes, graph.x)
    trusted = _ramp(agreement, UNRELIABLE, RELIABLE)
    reliable = max(trusted, 1 - _ramp(advantage, NO_ADVANTAGE, ADVANTAGE))
    different = 1 - _ramp(similarity, 0.0, MOST_SIMILAR)
    trained = largeness(graph.num_nodes)
    return {
        "residual": trained,
        "scales": trained,
        "infomax": trained * reliable,
        "two_hops": reliable,
        "joined": reliable,
        "neighbours": reliable * different,
        "neighbours_2": reliable * different,
        "own": 1 - reliable,
    }


def largeness(num_nodes: int) -> float:
    """Return N / (N + 500), a number between 0 (few nodes) and 1 (many nodes).

    Examples:
        >>> largeness(500), largeness(9500)
        (0.5, 0.95)
    """
    return num_nodes / (num_nodes + FEW_NODES)


def _ramp(value: float, low: float, high: float) -> float:
    """Return 0 below ``low``, 1 above ``high``, and linear values in between."""
    return min(max((value - low) / (high - low), 0.0), 1.0)
