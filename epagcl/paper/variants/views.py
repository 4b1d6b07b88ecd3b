"""Views that differ in their edges only: the variants of the comparison in which all else is the same."""

from typing import Any

import torch
from torch import nn

from epagcl.data.graph import Graph
from epagcl.methods.base import Method
from epagcl.methods.contrast import Augmentation
from epagcl.methods.epagcl import EPAGCL
from epagcl.methods.epagcl_plus import two_hop_candidates
from epagcl.methods.gca import GCA
from epagcl.methods.settings import method_settings, setting
from epagcl.paper.cell_scores import PAPERS
from epagcl.runs.evaluation import UNTRAINED
from epagcl.study.design import UNMASKED, UNSTORED, Row
from epagcl.views.probabilities import EdgeProbabilities, edge_weights
from epagcl.views.sampling import Views, ViewSampler

#: The settings of all variants: one encoder, one loss, one width, one budget, and the same rates.
COMMON: dict[str, Any] = {
    "encoder": "gcn",
    "hidden": 512,
    "dim": 256,
    "projection": 256,
    "activation": "prelu",
    "temperature": 0.5,
    "batch_size": 1024,
    "epochs": 200,
    "lr": 1e-3,
    "weight_decay": 1e-5,
    "patience": 0,
    "feature_scaling": "row-norm",
    "p_drop_1": 0.3,
    "p_drop_2": 0.3,
    "p_mask_1": 0.3,
    "p_mask_2": 0.3,
}
#: Mean add probability over the candidates of Algorithm 1. The first adds about a tenth of |E|, as the default of
#: EPAGCL; the second half as many, as the authors' code.
P_ADD, AUTHORS_P_ADD = 0.05, 0.025
NONE, MASKS, UNIFORM, CENTRAL = "no augmentation", "masks only", "uniform dropping (GRACE)", "central edges kept (GCA)"
DROP_ONLY, TEXT_DROP, ADD_ONLY = "Drop Only", "Drop Only, text's direction", "Add Only"
AUTHORS, NEIGHBOURS = "EPAGCL, authors' p_add", "EPAGCL, nearest neighbours added"


@method_settings
class CentralViews(GCA):
    """GCA's views with the projection head of EPAGCL, so that only the views differ."""

    head_activation = nn.ReLU


@method_settings
class NeighbourAdding(EPAGCL):
    """EPAGCL that adds nearest neighbours by Â²X̂ in place of the candidates of Algorithm 1, as many on average."""

    k: int = setting(10, "nearest neighbours of each node that are candidates for adding")

    def prepare(self, graph: Graph) -> Augmentation:
        """Return views that drop by Eq. (9) and add each candidate with one probability."""
        weights = edge_weights(graph.pairs, graph.num_nodes, edge_weight=graph.weight)
        candidates = two_hop_candidates(graph, self.k)
        expected = self.p_add * weights.candidates.shape[1]
        p_add = min(1.0, expected / max(1, candidates.shape[1]))
        samplers = [
            ViewSampler(
                EdgeProbabilities(
                    graph.pairs,
                    weights.probabilities(p_drop, 0.0, drop=self.drop).drop.float().to(graph.device),
                    candidates,
                    torch.full((candidates.shape[1],), p_add if view == 1 else 0.0, device=graph.device),
                ),
                graph.num_nodes,
                seed=self.seed,
                view=view,
                weight=graph.weight,
            )
            for view, p_drop in enumerate((self.p_drop_1, self.p_drop_2))
        ]
        return Augmentation(Views(samplers), (self.p_mask_1, self.p_mask_2))


def view_rows(settings: dict[str, Any] | None = None) -> list[Row]:
    """Return the variants. They differ in the edges of their views, and two of them have no masks or no changed edges.

    Args:
        settings: take precedence over the common settings, such as ``epochs``.
    """
    undropped = {"p_drop_1": 0.0, "p_drop_2": 0.0}
    variants: dict[str, tuple[type[Method], dict[str, Any]]] = {
        UNTRAINED: (EPAGCL, {"epochs": 0}),
        NONE: (EPAGCL, {**UNMASKED, **undropped, "p_add": 0.0}),
        MASKS: (EPAGCL, {**undropped, "p_add": 0.0}),
        UNIFORM: (EPAGCL, {"drop": "uniform", "p_add": 0.0}),
        CENTRAL: (CentralViews, {}),
        DROP_ONLY: (EPAGCL, {"p_add": 0.0}),
        TEXT_DROP: (EPAGCL, {"drop": "text", "p_add": 0.0}),
        ADD_ONLY: (EPAGCL, {**undropped, "p_add": P_ADD}),
        PAPERS: (EPAGCL, {"p_add": P_ADD}),
        AUTHORS: (EPAGCL, {"p_add": AUTHORS_P_ADD}),
        NEIGHBOURS: (NeighbourAdding, {"p_add": P_ADD}),
    }
    rows = []
    for title, (cls, own) in variants.items():
        # All settings are given, so that no recipe of a graph has a say.
        defaults = {name: value for name, value in cls().get_params().items() if name not in UNSTORED}
        rows.append(
            Row(title, cls.name, {**defaults, **COMMON, **(settings or {}), **own}, cls, reference=title == UNTRAINED)
        )
    return rows
