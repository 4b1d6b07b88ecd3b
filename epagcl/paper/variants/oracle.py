"""EPAGCL with views that know the classes: a reference for choosing the edges to drop."""

from typing import Any, Self

import torch
from torch_geometric.data import Data

from epagcl.data.graph import Graph
from epagcl.methods.contrast import Augmentation
from epagcl.methods.epagcl import EPAGCL
from epagcl.methods.settings import method_settings, setting
from epagcl.views.probabilities import EdgeProbabilities
from epagcl.views.sampling import Views, ViewSampler


@method_settings
class Oracle(EPAGCL):
    """EPAGCL that drops edges between classes far more often than edges within a class.

    It shows what knowing the classes adds to dropping. It reads labels, so it is no method for practical use and is not
    registered.
    """

    runs_on_ranks = False

    p_wrong: float = setting(0.85, "drop probability of edges between classes")
    p_right: float = setting(0.15, "drop probability of edges within a class")

    def fit(self, data: Data, y: None = None, **options: Any) -> Self:
        """Store the classes for :meth:`prepare`, then train."""
        self._classes = data.y
        return super().fit(data, **options)

    def prepare(self, graph: Graph) -> Augmentation:
        """Return two views with the same drop probabilities."""
        i, j = self._classes.to(graph.device)[graph.pairs]
        drop = torch.where(i != j, self.p_wrong, self.p_right)
        probabilities = EdgeProbabilities(graph.pairs, drop, graph.pairs[:, :0], drop[:0])
        samplers = (ViewSampler(probabilities, graph.num_nodes, seed=self.seed, view=view) for view in range(2))
        return Augmentation(Views(samplers), (self.p_mask_1, self.p_mask_2))
