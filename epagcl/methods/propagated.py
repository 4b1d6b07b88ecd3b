"""Propagated features: personalised PageRank and principal components, without training."""

from collections.abc import Callable, Iterator
from functools import partial

from torch import Tensor

from epagcl.core.pca import basis_width
from epagcl.data.graph import Graph
from epagcl.data.large import LargeGraph
from epagcl.data.relations import are_one_way
from epagcl.diffusion import ALPHA, Diffusion, check_alpha, ppr, relation_mean, relation_ppr
from epagcl.methods.sampled import Sampled
from epagcl.methods.settings import method_settings, setting
from epagcl.nn.layerwise import propagate
from epagcl.nn.propagation import PropagatedPCA, SideBySidePCA

TOLERANCE = 1e-3  # of the diffusion: 13 products at α = 0.15


@method_settings
class Propagated(Sampled):
    r"""Principal components of features propagated by personalised PageRank, without training.

    .. math::
        Z = \mathrm{PCA}_{dim}(S \hat{X}), \quad S = \alpha (I - (1-\alpha) \hat{A})^{-1}, \quad
        \hat{x}_i = x_i / \lVert x_i \rVert

    Scores keep their singular values, so the first columns vary most. The mean and the components of the training graph
    are the model, and embed nodes of other graphs. The matrix :math:`S \hat{X}` is only multiplied, never formed (see
    :func:`epagcl.core.pca.principal_components`). The result does not depend on the seed.

    On a graph with relations (several kinds of edges, or directed ones), PageRank on all edges, weighted by the
    strengths of their relations, and PageRank on each relation times its strength stand side by side
    (:func:`~epagcl.methods.relations.relation_strengths`). If the strength of a relation is negative, the mean over the
    neighbours takes the place of PageRank, which would mix them with the node itself.

    A trained method should beat this reference as well as the raw features. The propagation is that of `"Predict then
    Propagate" <https://arxiv.org/abs/1810.05997>`_, applied to features instead of predictions.

    Examples:
        >>> import epagcl
        >>> data = epagcl.data.block_model(30, num_classes=3, num_features=12, topic_words=4, words_per_node=3)
        >>> Propagated(dim=4, device="cpu").fit_embed(data).shape
        torch.Size([30, 4])
    """

    name = "propagated"
    title = "propagated"
    paper = "PageRank of Gasteiger et al., Predict then Propagate, ICLR 2019, applied to features"
    cost_note = "no training; time 4 K E dim with K = 13 products of the diffusion, memory (N + F) dim"
    trained = False
    uses_relations = True
    runs_on_ranks = True

    dim: int = setting(256, "width of the embedding")
    alpha: float = setting(ALPHA, "teleport probability of PageRank; lower values reach further")
    seed: int = setting(0, "seed of the splits; the embedding does not depend on it")
    device: str = setting("auto", "where to compute", ("auto", "cpu", "cuda", "mps"))

    def validate(self) -> None:
        """Raise unless every setting is valid."""
        super().validate()
        self.check_at_least(1, "dim")
        check_alpha(self.alpha)

    def build(self, num_features: int) -> PropagatedPCA | SideBySidePCA:
        """Return the projection to dim, which :meth:`calibrate` computes."""
        pagerank = partial(ppr, alpha=self.alpha, tolerance=TOLERANCE)
        strengths = getattr(self, "relation_strengths_", [])
        if not strengths:
            return PropagatedPCA(num_features, self.dim, pagerank)
        # Edges that are used in one direction only are not propagated in both as well.
        first: list[Callable[[Graph], Diffusion]] = [] if are_one_way(self.relation_names_) else [pagerank]
        relations: list[Callable[[Graph], Diffusion]] = [
            partial(relation_ppr, relation=relation, alpha=self.alpha)
            if strength > 0
            else partial(relation_mean, relation=relation)
            for relation, strength in enumerate(strengths)
        ]
        weights = [1.0] * len(first) + [abs(strength) for strength in strengths]
        return SideBySidePCA(num_features, self.dim, [*first, *relations], weights)

    def calibrate(self, network: PropagatedPCA | SideBySidePCA, graph: Graph) -> None:
        """Compute the principal components."""
        network.fit(graph)

    def loss(self, network: PropagatedPCA | SideBySidePCA, graph: Graph, prepared: None, epoch: int | Tensor) -> Tensor:
        """Raise, because the method is not trained."""
        raise TypeError("propagated is not trained and has no loss")

    def represent(self, network: PropagatedPCA | SideBySidePCA, graph: Graph) -> Tensor:
        """Return the scores of the principal components."""
        return network(graph)

    def calibrate_large(self, network: PropagatedPCA, graph: LargeGraph) -> None:
        """Compute the principal components by chunks of rows."""
        network.fit(graph)

    def columns_on_disk(self, network: PropagatedPCA | SideBySidePCA) -> int:
        """Return the most columns that are in temporary files at the same time: those of the search of components."""
        return basis_width(self.dim)

    def represent_chunks(self, network: PropagatedPCA, graph: LargeGraph) -> Iterator[Tensor]:
        """Yield the scores of the principal components."""
        with propagate(network, graph) as z:
            yield from z.split(z.rows_at_once)
