"""EPAGCL: views by adding and dropping edges with probabilities from the error passing rate."""

from torch import Tensor, nn

from epagcl.data.graph import Graph
from epagcl.encoder import GCN, ProjectionHead
from epagcl.errors import InputError
from epagcl.losses import MIN_TEMPERATURE, info_nce_batched, info_nce_stacked
from epagcl.methods.base import Method, method_settings, setting
from epagcl.randomness import Stream, permutation
from epagcl.views import Views, ViewSampler, edge_weights, feature_masks


class Network(nn.Module):
    """The encoder, whose output is the embedding, and the projection head, which only the loss sees."""

    def __init__(self, num_features: int, hidden: int, dim: int, projection: int):
        super().__init__()
        self.encoder = GCN([num_features, hidden, dim])
        self.head = ProjectionHead(dim, projection)


@method_settings
class EPAGCL(Method):
    """Error-passing-based graph contrastive learning: adds and drops edges by their effect on EPR.

    Each epoch (Algorithm 2) draws two views. Both drop edges with the probabilities of Eq. 7, at mean rates
    ``p_drop_1`` and ``p_drop_2``; the second also adds candidates of Algorithm 1, at mean rate ``p_add``. Both
    hide feature columns. A GCN and a projection head embed the views, and InfoNCE pulls each node's two embeddings
    together and pushes all others apart. The embedding is the encoder's output on the graph as it is.

    ``p_mask_1 = p_mask_2 = 0`` is the paper's EPAGCL*. Its ablation is here too: ``add_to="both"``, ``add="uniform"``
    with ``drop="uniform"`` (random add), ``p_add=0`` (drop only; with ``drop="uniform"``, random drop),
    ``p_drop_1 = p_drop_2 = 0`` (add only).
    """

    name = "epagcl"
    title = "EPAGCL"
    paper = (
        "Xu et al., Why Does Dropping Edges Usually Outperform Adding Edges in Graph Contrastive Learning?, AAAI 2025"
    )

    p_drop_1: float = setting(0.2, "mean drop probability of the first view (p_e1)")
    p_drop_2: float = setting(0.3, "mean drop probability of the second view (p_e2)")
    p_add: float = setting(0.05, "mean add probability over the candidates of Algorithm 1; adds up to 2·p_add·|E|")
    p_mask_1: float = setting(0.1, "probability that the first view hides a feature column (p_f1)")
    p_mask_2: float = setting(0.1, "probability that the second view hides a feature column (p_f2)")
    drop: str = setting(
        "eq7", "eq7: large α dropped more; text: small α dropped more; uniform", ("eq7", "text", "uniform")
    )
    add: str = setting("eq7", "eq7: candidates of Algorithm 1; uniform: any absent pair", ("eq7", "uniform"))
    add_to: str = setting("second", "which views get added edges", ("second", "both"))
    temperature: float = setting(0.3, "τ of the loss, at least 0.03")
    batch_size: int = setting(0, "negatives only inside random batches of this many nodes; 0: all nodes, exactly")
    hidden: int = setting(512, "width of the first GCN layer")
    dim: int = setting(256, "width of the embedding")
    projection: int = setting(256, "hidden width of the projection head")

    def validate(self) -> None:
        """Probabilities, temperature and widths."""
        super().validate()
        for name in ("p_drop_1", "p_drop_2", "p_add", "p_mask_1", "p_mask_2"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name}={getattr(self, name)}: a probability lies between 0 and 1")
        if self.temperature < MIN_TEMPERATURE:
            raise InputError(f"temperature={self.temperature}: must be at least {MIN_TEMPERATURE}")
        if min(self.hidden, self.dim, self.projection) < 1 or self.batch_size < 0:
            raise InputError("hidden, dim and projection must be at least 1, batch_size at least 0")

    def build(self, num_features: int) -> Network:
        """GCN F → hidden → dim, projection head dim → projection → dim."""
        return Network(num_features, self.hidden, self.dim, self.projection)

    def prepare(self, graph: Graph) -> Views:
        """Algorithm 1 once; Eq. 7 for each view."""
        pairs = graph.pairs.cpu() if graph.device.type == "mps" else graph.pairs  # mps has no float64
        weights = edge_weights(pairs, graph.num_nodes, add=self.add, seed=self.seed)
        p_adds = (self.p_add if self.add_to == "both" else 0.0, self.p_add)
        return Views(
            ViewSampler(
                weights.probabilities(p_drop, p_add, drop=self.drop, add=self.add).to(graph.device),
                graph.num_nodes,
                seed=self.seed,
                view=view,
            )
            for view, (p_drop, p_add) in enumerate(zip((self.p_drop_1, self.p_drop_2), p_adds, strict=True))
        )

    def loss(self, network: Network, graph: Graph, prepared: Views, epoch: int | Tensor) -> Tensor:
        """Algorithm 2, lines 3 to 7; both views go through the network together, their rows under each other."""
        p_masks = (self.p_mask_1, self.p_mask_2)
        mask = feature_masks(graph.num_features, p_masks, seed=self.seed, epoch=epoch, device=graph.device)
        z = network.head(network.encoder(graph.x, prepared.adjacency(epoch), mask))
        if self.batch_size:
            order = permutation(graph.num_nodes, self.seed, Stream.BATCHES, epoch, device=graph.device)
            return info_nce_batched(z, self.temperature, self.batch_size, order, precision=self.precision)
        return info_nce_stacked(z, self.temperature, precision=self.precision)
