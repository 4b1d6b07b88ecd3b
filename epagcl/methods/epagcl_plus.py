"""EPAGCL+: contrastive models with better encoders, and propagated features, reduced to few numbers per node."""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from epagcl.core.pca import Operator, principal_components
from epagcl.core.randomness import Stream, permutation
from epagcl.data.graph import Graph
from epagcl.diffusion import ALPHA, neighbours, power, ppr
from epagcl.epr.alpha import alpha_drop
from epagcl.epr.own_features import own_advantage
from epagcl.epr.structure import edge_similarity, neighbourhood_agreement
from epagcl.losses.infonce.loss import MIN_TEMPERATURE, info_nce_batched, info_nce_stacked
from epagcl.methods.base import FEATURE_SCALINGS, Method
from epagcl.methods.dgi import Network as Infomax
from epagcl.methods.settings import method_settings, setting
from epagcl.nn.encoders import build_encoder
from epagcl.nn.heads import ProjectionHead
from epagcl.nn.propagation import PropagatedPCA
from epagcl.views.candidates import neighbour_candidates
from epagcl.views.masks import feature_masks
from epagcl.views.probabilities import EdgeProbabilities, EdgeWeights
from epagcl.views.sampling import Views, ViewSampler

TOLERANCE = 1e-3  # of PageRank: 13 products
COMPONENTS = 256  # principal components of each propagated block
# The mixture of the blocks, see `block_weights`.
RELIABLE, UNRELIABLE = 0.9, 0.8  # agreement at which neighbourhoods are trusted fully, and not at all
ADVANTAGE, NO_ADVANTAGE = 0.3, 0.1  # advantage at which own features replace propagated ones fully, and not at all
FEW_NODES = 500  # with this many nodes, a graph counts as half large, see `largeness`
MOST_SIMILAR = 1 / 3  # edge similarity at which the neighbours-only blocks do not count; at 0 they count fully


TINY = 1e-12  # rows that do not differ from the mean stay zero


class Branch(nn.Module):
    """Several models with one kind of encoder, trained together, each with its own weights and projection head."""

    def __init__(self, name: str, num_features: int, hidden: int, dim: int, projection: int, members: int):
        super().__init__()
        self.encoder = build_encoder(name, num_features, hidden, dim, members=members)
        self.head = ProjectionHead(dim, projection, out=projection, members=members)


class Network(nn.Module):
    """The trained branches, the propagated features, and the reduction of all of them to the embedding.

    Attributes:
        residual: models with root weights, two layers.
        scales: models with X, ÂX, Â²X and PageRank side by side, one layer.
        infomax: a model with one PageRank layer that is trained with the loss of DGI.
        propagated: principal components of X̂ and of its diffusions, by name; ``"joined"`` is on the graph of
            :meth:`joined`.
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

    def __init__(self, num_features: int, hidden: int, projection: int, members: int, dim: int, k: int):
        super().__init__()
        self.members, self.k = members, k
        self.residual = Branch("residual", num_features, hidden, hidden // 2, projection, members)
        self.scales = Branch("scales", num_features, hidden, hidden, projection, members)
        self.infomax = Infomax("pagerank", num_features, hidden)
        diffusions = {
            "two_hops": partial(power, k=2),
            "joined": partial(ppr, alpha=ALPHA, tolerance=TOLERANCE),
            "neighbours": partial(neighbours, k=1),
            "neighbours_2": partial(neighbours, k=2),
            "own": partial(power, k=0),
        }
        self.propagated = nn.ModuleDict(
            {name: PropagatedPCA(num_features, COMPONENTS, diffuse) for name, diffuse in diffusions.items()}
        )
        width = members * (hidden // 2 + hidden) + hidden + len(diffusions) * COMPONENTS
        self.register_buffer("weights", torch.zeros(len(self.kinds)))
        self.register_buffer("largeness", torch.zeros(()))
        self.register_buffer("centre", torch.zeros(width))
        self.register_buffer("spread", torch.zeros(len(self.kinds)))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("components", torch.zeros(width, dim))
        self._joined: WeakKeyDictionary[Graph, Graph] = WeakKeyDictionary()

    @property
    def kinds(self) -> list[str]:
        """The kind of each block, in order; blocks of one kind have the same weight."""
        return ["residual"] * self.members + ["scales"] * self.members + ["infomax", *self.propagated]

    def joined(self, graph: Graph) -> Graph:
        """Return the graph in which each node is also joined to its ``k`` nearest neighbours by Â²X̂.

        The two-hop components must have been fitted. The result is kept as long as ``graph``.
        """
        if graph not in self._joined:
            candidates = neighbour_candidates(self.propagated["two_hops"](graph), graph.pairs, self.k)
            key = torch.cat([graph.pairs, candidates], dim=1)
            key = (key[0] * graph.num_nodes + key[1]).sort().values
            pairs = torch.stack([key // graph.num_nodes, key % graph.num_nodes])
            self._joined[graph] = Graph(graph.x, pairs, graph.num_nodes)
        return self._joined[graph]

    def fit_propagated(self, graph: Graph) -> None:
        """Compute the principal components of the propagated features."""
        for name, block in self.propagated.items():
            assert isinstance(block, PropagatedPCA)
            block.fit(self.joined(graph) if name == "joined" else graph)

    def blocks(self, graph: Graph) -> Iterator[Tensor]:
        """Yield the representation by each trained model, then the propagated features."""
        for branch in (self.residual, self.scales):
            yield from branch.encoder(graph.x, graph.adjacency).chunk(self.members)
        yield self.infomax.encoder(graph.x, graph.adjacency)
        for name, block in self.propagated.items():
            yield block(self.joined(graph) if name == "joined" else graph)

    def side_by_side(self, graph: Graph, *, fit: bool = False) -> Tensor:
        """Return all blocks in one matrix: centred, with rows of similar length, times the weight of the block.

        A row of length l is divided by l^ρ s^(1−ρ), where s is the spread of its block and ρ the largeness of the
        training graph. On a large graph, all rows have nearly unit length. On a small one, lengths stay as they are:
        rows near the mean are mostly noise there.

        Args:
            graph: the graph.
            fit: compute the centre and the spread of the blocks from this graph, and keep them.
        """
        matrix = self.centre.new_empty(graph.num_nodes, self.centre.numel())
        start = 0
        for index, block in enumerate(self.blocks(graph)):
            columns = slice(start, start + block.shape[1])
            if fit:
                self.centre[columns] = block.mean(0)
            centred = block - self.centre[columns]
            length = centred.norm(dim=1, keepdim=True)
            if fit:
                self.spread[index] = length.square().mean().sqrt()
            divisor = length**self.largeness * self.spread[index] ** (1 - self.largeness)
            matrix[:, columns] = self.weights[index] * centred / divisor.clamp(min=TINY)
            start = columns.stop
        return matrix


def block_weights(graph: Graph, own: Tensor) -> dict[str, float]:
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

    Returns:
        The weight of each kind of block, by the names of :attr:`Network.kinds`.

    Examples:
        >>> from epagcl.data import block_model
        >>> graph = Graph.from_data(block_model(2000, num_features=40, topic_words=10, words_per_node=8))
        >>> weights = block_weights(graph, graph.x)
        >>> weights["residual"], weights["two_hops"], weights["own"]
        (0.8, 1.0, 0.0)
    """
    agreement = neighbourhood_agreement(graph.pairs, graph.num_nodes, own)
    similarity = edge_similarity(graph.pairs, graph.num_nodes, own)
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


class Prepared(NamedTuple):
    """The views of all members, and the probability that each view of each branch hides a feature column."""

    views: Views
    p_masks: tuple[float, ...]


@method_settings
class EPAGCLPlus(Method):
    r"""The method of this package: contrastive models and propagated features, one setting for all graphs.

    A GCN gives a node's own features the weight 1/(d + 1), and on many graphs its embedding is worse than propagated
    features without training. EPAGCL+ therefore combines, with X̂ the feature rows at unit length:

    1. *Contrastive models.* ``members`` models with root weights (residual) and as many with several scales are trained
       side by side in one pass, each with InfoNCE (:class:`~epagcl.methods.contrast.Contrast`) on its own two views.
       Views drop edges by Eq. 7, add nearest neighbours of Â²X̂, and hide feature columns. Negatives come from random
       batches of ``batch_size`` nodes.
    2. *A global model.* One PageRank layer, trained side by side with the others with the loss of
       :class:`~epagcl.methods.dgi.DGI`.
    3. *Propagated features.* Principal components of Â²X̂, of personalised PageRank S X̂ on the graph in which each node
       is also joined to its nearest neighbours by Â²X̂, of neighbours without the node itself, (D^-½ A D^-½)^n X̂ for
       n = 1, 2, and of X̂.

    The columns of each block are centred, its rows scaled to similar length and multiplied by a weight, which
    ``block_weights`` chooses from the graph without labels. The embedding is the first ``dim`` principal components
    of all blocks side by side; on graphs of few nodes, those of small variance are shrunk. All parts apply to unseen
    graphs and new nodes.

    The settings were chosen by validation accuracy over 15 graphs at once.

    Examples:
        >>> import epagcl
        >>> data = epagcl.data.block_model(30, num_classes=3, num_features=12, topic_words=4, words_per_node=3)
        >>> EPAGCLPlus(epochs=2, hidden=8, dim=4, projection=4, device="cpu").fit_embed(data).shape
        torch.Size([30, 4])
    """

    name = "epagcl+"
    title = "EPAGCL+"
    paper = "this package: EPAGCL (Xu et al., AAAI 2025) with root weights, several scales and propagated features"
    cost_note = "time N B d with batch_size B, and N² d once; memory N d, with 2304 numbers per node in all blocks"

    dim: int = setting(256, "numbers per node in the embedding")
    members: int = setting(2, "number of models with each of the two encoders, trained together")
    p_drop_1: float = setting(0.3, "mean drop probability of the first view (p_e1)")
    p_drop_2: float = setting(0.4, "mean drop probability of the second view (p_e2)")
    p_add: float = setting(0.1, "probability that a candidate is added to a view")
    k: int = setting(10, "nearest neighbours of each node by Â²X̂, for adding and for PageRank; 0: none")
    p_mask_1: float = setting(0.3, "probability that the first view of a residual model hides a feature column (p_f1)")
    p_mask_2: float = setting(0.4, "probability that the second view of a residual model hides a feature column (p_f2)")
    p_mask: float = setting(0.6, "probability that a view of a scales model hides a feature column")
    temperature: float = setting(0.5, "temperature τ of the loss, at least 0.03")
    batch_size: int = setting(256, "negatives only within random batches of at most this many nodes; 0: all nodes")
    hidden: int = setting(256, "width of the encoders; the second residual layer has half")
    projection: int = setting(128, "hidden and output width of the projection heads")
    epochs: int = setting(300, "training epochs; 0 leaves the encoders untrained")
    weight_decay: float = setting(1e-5, "weight decay of Adam")
    feature_scaling: str = setting(
        "row-norm",
        "feature rows as given, or divided by their sum, their largest value or their length",
        FEATURE_SCALINGS,
    )

    def validate(self) -> None:
        """Raise unless every setting is valid."""
        super().validate()
        self.check_probabilities("p_drop_1", "p_drop_2", "p_add", "p_mask_1", "p_mask_2", "p_mask")
        self.check_at_least(MIN_TEMPERATURE, "temperature")
        self.check_at_least(1, "dim", "members", "projection")
        self.check_at_least(4, "hidden")
        self.check_at_least(0, "batch_size", "k")

    def build(self, num_features: int) -> Network:
        """Return the encoders and heads of all models; :meth:`calibrate` computes the rest."""
        return Network(num_features, self.hidden, self.projection, self.members, self.dim, self.k)

    def prepare(self, graph: Graph) -> Prepared:
        """Find the candidates for adding, and run Eq. 7 for each view."""
        two_hops = PropagatedPCA(graph.num_features, COMPONENTS, partial(power, k=2)).to(graph.device)
        two_hops.fit(graph)
        candidates = neighbour_candidates(two_hops(graph), graph.pairs, self.k)
        add = torch.full((candidates.shape[1],), self.p_add, device=graph.device)
        pairs = graph.pairs.cpu() if graph.device.type == "mps" else graph.pairs  # mps has no float64
        alpha = alpha_drop(torch.bincount(pairs.flatten(), minlength=graph.num_nodes), pairs)
        weights = EdgeWeights(pairs, alpha, pairs[:, :0], alpha[:0])
        drops = [weights.probabilities(p, 0.0).drop.float().to(graph.device) for p in (self.p_drop_1, self.p_drop_2)]
        samplers = [
            ViewSampler(
                EdgeProbabilities(graph.pairs, drops[view % 2], candidates, add),
                graph.num_nodes,
                seed=self.seed,
                view=view,
            )
            for view in range(2 * self.members)
        ]
        p_masks = (self.p_mask_1, self.p_mask_2) * self.members + (self.p_mask, self.p_mask) * self.members
        return Prepared(Views(samplers), p_masks)

    def views(self, graph: Graph) -> Views:
        """Return the two views of the first member."""
        return Views(self.prepare(graph).views.samplers[:2])

    def loss(self, network: Network, graph: Graph, prepared: Prepared, epoch: int | Tensor) -> Tensor:
        """Return the sum of the losses of all models, so that each trains as if it were alone.

        The residual and the scales model of a member share their edges, not their masks.
        """
        mask = feature_masks(graph.num_features, prepared.p_masks, seed=self.seed, epoch=epoch, device=graph.device)
        masks = (None, None) if mask is None else mask.chunk(2)
        adjacency = prepared.views.adjacency(epoch)
        branches = zip((network.residual, network.scales), masks, strict=True)
        z = torch.cat([branch.head(branch.encoder(graph.x, adjacency, mask)) for branch, mask in branches])
        shuffled = permutation(graph.num_nodes, self.seed, Stream.NEGATIVES, epoch, device=graph.device)
        return self._info_nce(z, graph.num_nodes, epoch) + network.infomax.loss(graph, shuffled)

    def _info_nce(self, z: Tensor, n: int, epoch: int | Tensor) -> Tensor:
        """Return the sum of InfoNCE over the projections of all models, within batches or over all nodes."""
        models = 2 * self.members
        if not 0 < self.batch_size < n:
            return models * info_nce_stacked(z, self.temperature, members=models, precision=self.precision)
        batch_size = -(-n // -(-n // self.batch_size))  # batches of nearly equal size
        order = permutation(n, self.seed, Stream.BATCHES, epoch, device=z.device)
        return models * info_nce_batched(
            z, self.temperature, batch_size, order, members=models, precision=self.precision
        )

    def calibrate(self, network: Network, graph: Graph) -> None:
        """Compute the propagated features and the mixture once, and the principal components of all blocks."""
        if not network.weights.any():
            network.fit_propagated(graph)
            weights = block_weights(graph, network.propagated["own"](graph))
            network.weights.copy_(torch.tensor([weights[kind] for kind in network.kinds]))
            network.largeness.fill_(largeness(graph.num_nodes))
        matrix = network.side_by_side(graph, fit=True)
        mean, components = principal_components(Operator.of(matrix), self.dim)
        # A classifier with few labels fits noise in directions of small variance, so they are shrunk on small graphs.
        deviation = (matrix.sub_(mean) @ components).norm(dim=0)
        shrinkage = (deviation / deviation.max().clamp(min=TINY)) ** (1 - network.largeness)
        network.mean.copy_(mean)
        network.components.copy_(components * shrinkage)

    def represent(self, network: Network, graph: Graph) -> Tensor:
        """Return the principal components of all blocks side by side."""
        return network.side_by_side(graph).sub_(network.mean) @ network.components
