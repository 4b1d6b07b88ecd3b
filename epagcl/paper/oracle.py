"""EPAGCL with views that know the classes: what choosing the edges to drop could give at best."""

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
    """Views that know the classes: edges between classes are dropped far more often than those within one.

    What guidance by EPR can hope for by dropping alone. It reads labels, is no method to use, and has no name.
    """

    p_wrong: float = setting(0.85, "drop probability of edges between classes")
    p_right: float = setting(0.15, "drop probability of edges within a class")

    def fit(self, data: Data, y: None = None, **options: Any) -> Self:
        """Remember the classes for :meth:`prepare`."""
        self._classes = data.y
        return super().fit(data, **options)

    def prepare(self, graph: Graph) -> Augmentation:
        """Two views alike."""
        i, j = self._classes.to(graph.device)[graph.pairs]
        drop = torch.where(i != j, self.p_wrong, self.p_right)
        chosen = EdgeProbabilities(graph.pairs, drop, graph.pairs[:, :0], drop[:0])
        samplers = (ViewSampler(chosen, graph.num_nodes, seed=self.seed, view=view) for view in range(2))
        return Augmentation(Views(samplers), (self.p_mask_1, self.p_mask_2))
