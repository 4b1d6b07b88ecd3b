"""What EPAGCL, GRACE and GCA share: two views, a GCN with a projection head, and InfoNCE over all nodes of both."""

from abc import abstractmethod
from typing import ClassVar, NamedTuple

from torch import Tensor, nn

from epagcl.core.randomness import Stream, permutation
from epagcl.data.graph import Graph
from epagcl.losses.infonce.loss import MIN_TEMPERATURE, info_nce_batched, info_nce_stacked
from epagcl.methods.base import Method
from epagcl.methods.settings import method_settings, setting
from epagcl.nn.encoders import GCN
from epagcl.nn.heads import ProjectionHead
from epagcl.nn.layers import SLOPES
from epagcl.views.masks import feature_masks
from epagcl.views.sampling import Views


class Network(nn.Module):
    """The encoder, whose output is the embedding, and the projection head, which only the loss sees."""

    def __init__(self, encoder: GCN, head: ProjectionHead):
        super().__init__()
        self.encoder, self.head = encoder, head


class Augmentation(NamedTuple):
    """The views of an epoch: their edges, and each view's probability of hiding a feature column."""

    views: Views
    p_masks: tuple[float | Tensor, float | Tensor]


@method_settings
class Contrast(Method):
    """Two views of the graph are embedded; a node's two embeddings attract, all others of both views repel.

    A method says in :meth:`prepare` how its views are drawn. The embedding is the encoder's output on the intact graph.
    """

    head_activation: ClassVar[type[nn.Module]] = nn.ReLU

    p_drop_1: float = setting(0.2, "mean drop probability of the first view (p_e1)")
    p_drop_2: float = setting(0.3, "mean drop probability of the second view (p_e2)")
    p_mask_1: float = setting(0.1, "probability that the first view hides a feature column (p_f1)")
    p_mask_2: float = setting(0.1, "probability that the second view hides a feature column (p_f2)")
    temperature: float = setting(0.3, "τ of the loss, at least 0.03")
    batch_size: int = setting(0, "negatives only inside random batches of this many nodes; 0: all nodes, exactly")
    hidden: int = setting(512, "width of the first GCN layer")
    dim: int = setting(256, "width of the embedding")
    projection: int = setting(256, "hidden width of the projection head")
    activation: str = setting("prelu", "after each GCN layer", tuple(SLOPES))

    def validate(self) -> None:
        """Probabilities, temperature and widths."""
        super().validate()
        self.check_probabilities("p_drop_1", "p_drop_2", "p_mask_1", "p_mask_2")
        self.check_at_least(MIN_TEMPERATURE, "temperature")
        self.check_at_least(1, "hidden", "dim", "projection")
        self.check_at_least(0, "batch_size")

    def build(self, num_features: int) -> Network:
        """GCN F → hidden → dim, projection head dim → projection → dim."""
        encoder = GCN([num_features, self.hidden, self.dim], self.activation)
        return Network(encoder, ProjectionHead(self.dim, self.projection, self.head_activation))

    @abstractmethod
    def prepare(self, graph: Graph) -> Augmentation:
        """How views are drawn."""

    def views(self, graph: Graph) -> Views:
        """The edges of the augmentation."""
        return self.prepare(graph).views

    def loss(self, network: Network, graph: Graph, prepared: Augmentation, epoch: int | Tensor) -> Tensor:
        """InfoNCE of the two views, which go through the network together, their rows under each other."""
        mask = feature_masks(graph.num_features, prepared.p_masks, seed=self.seed, epoch=epoch, device=graph.device)
        z = network.head(network.encoder(graph.x, prepared.views.adjacency(epoch), mask))
        if self.batch_size:
            order = permutation(graph.num_nodes, self.seed, Stream.BATCHES, epoch, device=graph.device)
            return info_nce_batched(z, self.temperature, self.batch_size, order, precision=self.precision)
        return info_nce_stacked(z, self.temperature, precision=self.precision)
