"""GRACE: views that drop edges and hide feature columns uniformly at random."""

from typing import ClassVar

from torch import nn

from epagcl.data.graph import Graph
from epagcl.methods.contrast import Augmentation, Contrast
from epagcl.methods.settings import method_settings
from epagcl.views.sampling import drop_views


@method_settings
class GRACE(Contrast):
    """Graph contrastive learning with random views: edges are dropped and feature columns hidden uniformly.

    From `"Deep Graph Contrastive Representation Learning" <https://arxiv.org/abs/2006.04131>`_.
    :class:`~epagcl.methods.contrast.Contrast` defines the loss. ``dim`` is ``num_hidden`` in the authors' code, whose
    first layer is twice as wide. As in every method here except GREET, both directions of a pair are dropped together;
    the authors' code samples them independently, so its views are directed graphs.

    Examples:
        >>> import epagcl
        >>> data = epagcl.data.block_model(30, num_classes=3, num_features=12, topic_words=4, words_per_node=3)
        >>> GRACE(epochs=2, hidden=8, dim=4, projection=4, device="cpu").fit_embed(data).shape
        torch.Size([30, 4])
    """

    name = "grace"
    title = "GRACE"
    paper = "Zhu et al., Deep Graph Contrastive Representation Learning, ICML workshop 2020"
    cost_note = "time N² d, or N B d with batch_size B; memory N d"
    head_activation: ClassVar[type[nn.Module]] = nn.ELU
    runs_on_ranks = True

    def prepare(self, graph: Graph) -> Augmentation:
        """Return views with one probability for all pairs and one for all feature columns."""
        rates = (self.p_drop_1, self.p_drop_2)
        views = drop_views(
            graph.pairs,
            graph.num_nodes,
            rates,
            seed=self.seed,
            weight=graph.weight,
            origin=graph.origin,
            part=graph.part,
        )
        return Augmentation(views, (self.p_mask_1, self.p_mask_2))
