"""GRACE: views by dropping edges and hiding feature columns, all alike."""

from torch import nn

from epagcl.data.graph import Graph
from epagcl.methods.contrast import Augmentation, Contrast
from epagcl.methods.settings import method_settings
from epagcl.views.sampling import drop_views


@method_settings
class GRACE(Contrast):
    """Graph contrastive learning with random views: edges dropped and feature columns hidden, all alike.

    ``dim`` is the code's num_hidden, and its first layer is twice as wide. A pair's two directions are dropped
    together, as everywhere here; the code draws them apart, which makes its views directed graphs.
    """

    name = "grace"
    title = "GRACE"
    paper = "Zhu et al., Deep Graph Contrastive Representation Learning, ICML workshop 2020"
    cost_note = "time N² d, or N B d with batch_size B; memory N d"
    head_activation = nn.ELU

    def prepare(self, graph: Graph) -> Augmentation:
        """One probability for all pairs of a view, and one for all columns."""
        rates = (self.p_drop_1, self.p_drop_2)
        views = drop_views(graph.pairs, graph.num_nodes, rates, seed=self.seed)
        return Augmentation(views, (self.p_mask_1, self.p_mask_2))
