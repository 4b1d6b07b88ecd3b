"""EPAGCL: views that add and drop edges with probabilities from the error passing rate."""

from epagcl.core.errors import InputError
from epagcl.data.graph import Graph
from epagcl.data.large import LargeGraph, Subgraph
from epagcl.methods.contrast import Augmentation, Contrast
from epagcl.methods.settings import method_settings, setting
from epagcl.views.probabilities import EdgeWeights, edge_weights
from epagcl.views.restriction import EdgeSurvey, restricted_weights, survey_edges
from epagcl.views.sampling import Views, ViewSampler


@method_settings
class EPAGCL(Contrast):
    r"""Error-passing-based graph contrastive learning: adds and drops edges by their effect on EPR.

    From `"Why Does Dropping Edges Usually Outperform Adding Edges in Graph Contrastive Learning?"
    <https://arxiv.org/abs/2412.08128>`_. Each epoch (Algorithm 2) samples two views. Both drop edges with the
    probabilities of Eq. (9), at mean rates ``p_drop_1`` and ``p_drop_2``. The second view also adds candidates of
    Algorithm 1, at mean rate ``p_add``. Both views hide feature columns. A GCN and a projection head embed the views.
    InfoNCE (:class:`~epagcl.methods.contrast.Contrast`) pulls the two embeddings of a node together and pushes all
    others apart. The embedding is the output of the encoder on the unmodified graph.

    ``p_mask_1 = p_mask_2 = 0`` is the paper's EPAGCL*. The paper's ablation uses these settings: ``add_to="both"``,
    ``add="uniform"`` with ``drop="uniform"`` (random add), ``p_add=0`` (drop only; with ``drop="uniform"``, random
    drop), ``p_drop_1 = p_drop_2 = 0`` (add only).

    Examples:
        >>> import epagcl
        >>> data = epagcl.data.block_model(30, num_classes=3, num_features=12, topic_words=4, words_per_node=3)
        >>> EPAGCL(epochs=2, hidden=8, dim=4, projection=4, device="cpu").fit_embed(data).shape
        torch.Size([30, 4])
    """

    name = "epagcl"
    title = "EPAGCL"
    cost_note = "time N² d, or N B d with batch_size B; memory N d"
    runs_on_ranks = True
    paper = (
        "Xu et al., Why Does Dropping Edges Usually Outperform Adding Edges in Graph Contrastive Learning?, AAAI 2025"
    )

    p_add: float = setting(0.05, "mean add probability over the candidates of Algorithm 1; adds up to 2·p_add·|E|")
    drop: str = setting(
        "eq9",
        "eq9: drop edges with large α more often; text: those with small α; uniform: all equally",
        ("eq9", "text", "uniform"),
    )
    add: str = setting(
        "eq9", "eq9: candidates of Algorithm 1; uniform: as many random absent pairs, sampled once", ("eq9", "uniform")
    )
    add_to: str = setting("second", "which views get added edges", ("second", "both"))

    def validate(self) -> None:
        """Raise unless every setting is valid."""
        super().validate()
        self.check_probabilities("p_add")

    def survey(self, graph: LargeGraph) -> EdgeSurvey:
        """Compute the ranges of the weights of Algorithm 1 over all edges and candidates."""
        if self.add == "uniform" and self.p_add:
            raise InputError(
                "add='uniform': random pairs are drawn from the whole graph; set subgraphs='off', or p_add=0"
            )
        return survey_edges(graph, candidates=self.p_add > 0)

    def prepare(self, graph: Graph) -> Augmentation:
        """Run Algorithm 1 once and Eq. (9) for each view. A subgraph has the probabilities of the whole graph."""
        weights = restricted_weights(graph, graph.survey) if isinstance(graph, Subgraph) else self._weights(graph)
        p_adds = (self.p_add if self.add_to == "both" else 0.0, self.p_add)
        samplers = [
            ViewSampler(
                weights.probabilities(p_drop, p_add, drop=self.drop, add=self.add).to(graph.device),
                graph.num_nodes,
                seed=self.seed,
                view=view,
                weight=graph.weight,
                origin=graph.origin,
                part=graph.part,
            )
            for view, (p_drop, p_add) in enumerate(zip((self.p_drop_1, self.p_drop_2), p_adds, strict=True))
        ]
        return Augmentation(Views(samplers), (self.p_mask_1, self.p_mask_2))

    def _weights(self, graph: Graph) -> EdgeWeights:
        device = "cpu" if graph.device.type == "mps" else graph.device  # mps has no float64
        edge_weight = None if graph.weight is None else graph.weight.to(device)
        return edge_weights(
            graph.pairs.to(device), graph.num_nodes, add=self.add, seed=self.seed, edge_weight=edge_weight
        )
