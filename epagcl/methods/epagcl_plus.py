"""EPAGCL+: contrastive models with better encoders, and propagated features, reduced to few numbers per node."""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from epagcl.core.randomness import Stream, permutation
from epagcl.data.graph import Graph
from epagcl.data.large import LargeGraph, Subgraph
from epagcl.diffusion import power
from epagcl.epr.alpha import alpha_drop
from epagcl.losses.infonce.loss import MIN_TEMPERATURE, info_nce_batched, info_nce_stacked
from epagcl.methods.base import FEATURE_SCALINGS
from epagcl.methods.mixture import COMPONENTS, Mixture
from epagcl.methods.mixture_large import embed_large, fit_large
from epagcl.methods.sampled import Sampled
from epagcl.methods.settings import method_settings, setting
from epagcl.nn.propagation import PropagatedPCA
from epagcl.views.candidates import neighbour_candidates
from epagcl.views.masks import feature_masks
from epagcl.views.probabilities import EdgeProbabilities, EdgeWeights, WeightRange
from epagcl.views.restriction import survey_edges
from epagcl.views.sampling import Views, ViewSampler


class Prepared(NamedTuple):
    """The views of all members, and the probability that each view of each branch hides a feature column."""

    views: Views
    p_masks: tuple[float, ...]


class Survey(NamedTuple):
    """What the views of subgraphs need of the whole graph: the range of the edge weights, and components of Â²X̂."""

    drop: WeightRange
    two_hops: PropagatedPCA


@method_settings
class EPAGCLPlus(Sampled):
    r"""The method of this package: contrastive models and propagated features, one setting for all graphs.

    A GCN gives a node's own features the weight 1/(d + 1), and on many graphs its embedding is worse than propagated
    features without training. EPAGCL+ therefore combines, with X̂ the feature rows at unit length:

    1. *Contrastive models.* ``members`` models with root weights (residual) and as many with several scales are trained
       side by side in one pass, each with InfoNCE (:class:`~epagcl.methods.contrast.Contrast`) of two views. The two
       models of a member share the edges of their views. Views drop edges by Eq. (9), add nearest neighbours of Â²X̂,
       and hide feature columns. Negatives come from random batches of ``batch_size`` nodes.
    2. *A global model.* One PageRank layer, trained side by side with the others with the loss of
       :class:`~epagcl.methods.dgi.DGI`.
    3. *Propagated features.* Principal components of Â²X̂, of personalised PageRank S X̂ on the graph in which each node
       is also joined to its nearest neighbours by Â²X̂, of neighbours without the node itself, (D^-½ A D^-½)^n X̂ for
       n = 1, 2, and of a node's own features: PageRank on the graph of nearest neighbours by X̂ alone.

    On a graph with relations (several kinds of edges, or directed ones), each pair has the weight of its relations, and
    each relation has two more blocks, the mean over its neighbours and PageRank on it; see
    :func:`~epagcl.methods.relations.relation_strengths`.

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
    uses_relations = True
    cost_note = "time N B d with batch_size B, and N² d once; memory N d, with 2304 numbers per node in all blocks"
    runs_on_ranks = True
    half_activations = True

    dim: int = setting(256, "numbers per node in the embedding")
    members: int = setting(2, "number of models with each of the two encoders, trained together")
    p_drop_1: float = setting(0.3, "mean drop probability of the first view (p_e1)")
    p_drop_2: float = setting(0.4, "mean drop probability of the second view (p_e2)")
    p_add: float = setting(0.1, "probability that a candidate is added to a view")
    k: int = setting(10, "nearest neighbours of each node, for adding and for PageRank; 0: none")
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

    def build(self, num_features: int) -> Mixture:
        """Return the encoders and heads of all models; :meth:`calibrate` computes the rest."""
        relations = getattr(self, "relation_strengths_", [])
        return Mixture(num_features, self.hidden, self.projection, self.members, self.dim, self.k, relations)

    def survey(self, graph: LargeGraph) -> Survey:
        """Compute the range of the edge weights and the principal components of Â²X̂, by chunks of rows."""
        return Survey(survey_edges(graph, candidates=False).drop, _two_hops(graph))

    def prepare(self, graph: Graph) -> Prepared:
        """Find the candidates for adding, and run Eq. (9) for each view.

        A subgraph has the drop probabilities of the whole graph. Its candidates are nearest neighbours within it.
        """
        degree, of = graph.degree, None
        if isinstance(graph, Subgraph):
            degree, of = graph.whole_degree, graph.survey.drop
        candidates = two_hop_candidates(graph, self.k)
        add = torch.full((candidates.shape[1],), self.p_add, device=graph.device)
        device = "cpu" if graph.device.type == "mps" else graph.device  # mps has no float64
        pairs, weight = graph.pairs.to(device), None if graph.weight is None else graph.weight.to(device)
        alpha = alpha_drop(degree.to(device), pairs, weight)
        weights = EdgeWeights(pairs, alpha, pairs[:, :0], alpha[:0], of)
        drops = [weights.probabilities(p, 0.0).drop.float().to(graph.device) for p in (self.p_drop_1, self.p_drop_2)]
        samplers = [
            ViewSampler(
                EdgeProbabilities(graph.pairs, drops[view % 2], candidates, add),
                graph.num_nodes,
                seed=self.seed,
                view=view,
                weight=graph.weight,
                origin=graph.origin,
                part=graph.part,
            )
            for view in range(2 * self.members)
        ]
        p_masks = (self.p_mask_1, self.p_mask_2) * self.members + (self.p_mask, self.p_mask) * self.members
        return Prepared(Views(samplers), p_masks)

    def views(self, graph: Graph) -> Views:
        """Return the two views of the first member."""
        return Views(self.prepare(graph).views.samplers[:2])

    def loss(self, network: Mixture, graph: Graph, prepared: Prepared, epoch: int | Tensor) -> Tensor:
        """Return the sum of the losses of all models, so that each trains as if it were alone.

        The residual and the scales model of a member share their edges, not their masks.
        """
        mask = feature_masks(graph.num_features, prepared.p_masks, seed=self.seed, epoch=epoch, device=graph.device)
        masks = (None, None) if mask is None else mask.chunk(2)
        adjacency = prepared.views.adjacency(epoch)
        branches = zip((network.residual, network.scales), masks, strict=True)
        z = torch.cat([branch.head(branch.encoder(graph.aligned_x, adjacency, mask)) for branch, mask in branches])
        shuffled = permutation(graph.num_nodes, self.seed, Stream.NEGATIVES, epoch, device=graph.device)
        return self._info_nce(z, graph, epoch) + network.infomax.loss(graph, shuffled)

    def _info_nce(self, z: Tensor, graph: Graph, epoch: int | Tensor) -> Tensor:
        """Return the sum of InfoNCE over the projections of all models, within batches or over all nodes."""
        models, n = 2 * self.members, graph.num_nodes
        options: dict[str, Any] = {"members": models, "precision": self.precision, "part": graph.part}
        if not 0 < self.batch_size < n:
            return models * info_nce_stacked(z, self.temperature, **options)
        batch_size = -(-n // -(-n // self.batch_size))  # batches of nearly equal size
        order = permutation(n, self.seed, Stream.BATCHES, epoch, device=z.device)
        return models * info_nce_batched(z, self.temperature, batch_size, order, **options)

    def calibrate(self, network: Mixture, graph: Graph) -> None:
        """Compute the propagated features and the mixture once, and the principal components of all blocks."""
        network.fit(graph)

    def represent(self, network: Mixture, graph: Graph) -> Tensor:
        """Return the principal components of all blocks side by side."""
        return network(graph)

    def calibrate_large(self, network: Mixture, graph: LargeGraph) -> None:
        """Compute the propagated features and the principal components of all blocks by chunks of rows."""
        fit_large(network, graph)

    def columns_on_disk(self, network: Mixture) -> int:
        """Return the most columns that are in temporary files at the same time: all blocks, and the scores of one."""
        return sum(network.widths) + COMPONENTS

    def represent_chunks(self, network: Mixture, graph: LargeGraph) -> Iterator[Tensor]:
        """Yield the principal components of all blocks side by side."""
        return embed_large(network, graph)


def two_hop_candidates(graph: Graph, k: int) -> Tensor:
    """Return the absent pairs among the k nearest neighbours by Â²X̂, ``[2, C]``; see ``neighbour_candidates``."""
    two_hops = graph.survey.two_hops if isinstance(graph, Subgraph) else _two_hops(graph)
    return neighbour_candidates(two_hops(graph), graph.pairs, k, part=graph.part)


def _two_hops(graph: Graph | LargeGraph) -> PropagatedPCA:
    """Return the principal components of Â²X̂."""
    two_hops = PropagatedPCA(graph.num_features, COMPONENTS, partial(power, k=2)).to(graph.device)
    two_hops.fit(graph)
    return two_hops
