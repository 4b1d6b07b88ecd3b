"""Base of EPAGCL, GRACE and GCA: two views, an encoder with a projection head, and InfoNCE over all nodes of both."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from torch import Tensor, nn

from epagcl.core.randomness import Stream, permutation
from epagcl.data.graph import Graph
from epagcl.data.large import LargeGraph
from epagcl.losses.infonce.loss import MIN_TEMPERATURE, info_nce_batched, info_nce_stacked
from epagcl.methods.sampled import Sampled
from epagcl.methods.settings import method_settings, setting
from epagcl.nn.encoders import ENCODER_MEANING, ENCODERS, GCN, ScalesEncoder, build_encoder
from epagcl.nn.heads import ProjectionHead
from epagcl.nn.layers import SLOPES
from epagcl.nn.layerwise import columns_on_disk, encode
from epagcl.views.masks import feature_masks
from epagcl.views.sampling import Views


class Network(nn.Module):
    """The encoder, whose output is the embedding, and the projection head, which only the loss uses."""

    def __init__(self, encoder: GCN | ScalesEncoder, head: ProjectionHead):
        super().__init__()
        self.encoder, self.head = encoder, head


class Augmentation(NamedTuple):
    """How views are sampled: their edges, and the probability that each view hides a feature column."""

    views: Views
    p_masks: tuple[float | Tensor, float | Tensor]


@method_settings
class Contrast(Sampled):
    r"""Contrastive learning of two views: the two embeddings of a node attract, all others of both views repel.

    .. math::
        \mathcal{L} = \frac{1}{2N} \sum_{i=1}^{2N} \left(\log \sum_{j \neq i} e^{s(z_i, z_j)/\tau}
        - s(z_i, z_{p(i)})/\tau\right)

    where z are the 2N projected rows of both views, s is the cosine similarity, and p(i) is the row of the same node in
    the other view. The :meth:`prepare` of a subclass defines how views are sampled. The embedding is the output of the
    encoder on the unmodified graph.
    """

    head_activation: ClassVar[type[nn.Module]] = nn.ReLU

    p_drop_1: float = setting(0.2, "mean drop probability of the first view (p_e1)")
    p_drop_2: float = setting(0.3, "mean drop probability of the second view (p_e2)")
    p_mask_1: float = setting(0.1, "probability that the first view hides a feature column (p_f1)")
    p_mask_2: float = setting(0.1, "probability that the second view hides a feature column (p_f2)")
    temperature: float = setting(0.3, "temperature τ of the loss, at least 0.03")
    batch_size: int = setting(0, "negatives only within random batches of this many nodes; 0: all nodes")
    encoder: str = setting("gcn", ENCODER_MEANING, ENCODERS)
    hidden: int = setting(512, "width of the first of two layers")
    dim: int = setting(256, "width of the embedding")
    projection: int = setting(256, "hidden width of the projection head")
    activation: str = setting("prelu", "activation after each layer", tuple(SLOPES))

    def validate(self) -> None:
        """Raise unless every setting is valid."""
        super().validate()
        self.check_probabilities("p_drop_1", "p_drop_2", "p_mask_1", "p_mask_2")
        self.check_at_least(MIN_TEMPERATURE, "temperature")
        self.check_at_least(1, "hidden", "dim", "projection")
        self.check_at_least(0, "batch_size")

    def build(self, num_features: int) -> Network:
        """Return the encoder F → hidden → dim (or F → dim) and a projection head dim → projection → dim."""
        encoder = build_encoder(self.encoder, num_features, self.hidden, self.dim, self.activation)
        return Network(encoder, ProjectionHead(self.dim, self.projection, self.head_activation))

    @abstractmethod
    def prepare(self, graph: Graph) -> Augmentation:
        """Return the views and the mask probabilities of this method."""

    def views(self, graph: Graph) -> Views:
        """Return the views whose edges are sampled."""
        return self.prepare(graph).views

    def loss(self, network: Network, graph: Graph, prepared: Augmentation, epoch: int | Tensor) -> Tensor:
        """Return InfoNCE of the two views. Both go through the network together, as stacked rows."""
        mask = feature_masks(graph.num_features, prepared.p_masks, seed=self.seed, epoch=epoch, device=graph.device)
        z = network.head(network.encoder(graph.aligned_x, prepared.views.adjacency(epoch), mask))
        if self.batch_size:
            order = permutation(graph.num_nodes, self.seed, Stream.BATCHES, epoch, device=graph.device)
            return info_nce_batched(
                z, self.temperature, self.batch_size, order, precision=self.precision, part=graph.part
            )
        return info_nce_stacked(z, self.temperature, precision=self.precision, part=graph.part)

    def columns_on_disk(self, network: Network) -> int:
        """Return the most columns that an embedding by chunks has in temporary files at the same time."""
        return columns_on_disk(network.encoder)

    def represent_chunks(self, network: Network, graph: LargeGraph) -> Iterator[Tensor]:
        """Yield the output of the encoder, computed layer by layer."""
        with encode(network.encoder, graph) as z:
            yield from z.split(z.rows_at_once)
