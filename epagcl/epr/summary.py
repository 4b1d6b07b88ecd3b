"""Error Passing Rate (EPR): the share of messages that come from another class, and how one edge changes it.

Throughout, Â_ij = 1/√(d_i d_j) on edges and 0 elsewhere: the message between two nodes of a GCN. It is wrong
when i and j are of different classes. Sums run over both directions of an edge; all arithmetic is float64.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from epagcl.epr.change import Theorem33, pair_changes, theorem_3_3_conditions
from epagcl.epr.rate import Rates, canonical_pairs, messages, rates_of, sum_per_node


@dataclass(frozen=True)
class EdgeChange:
    """What dropping the edge i–j does to EPR per edge: exactly, and by Theorem 3.5."""

    i: int
    j: int
    change: float
    predicted: float


@dataclass(frozen=True)
class EPRSummary:
    """How noisy a graph is: EPR in its forms, what surrounds it, the edges whose removal lowers it most."""

    num_nodes: int
    num_edges: int
    num_classes: int
    epr: Rates
    epr_self_loops: Rates
    epr_2_hops: Rates
    edge_homophily: float
    node_homophily: float
    degree_min: int
    degree_mean: float
    degree_median: float
    degree_max: int
    isolated_nodes: int
    theorem_3_3: Theorem33
    most_harmful: tuple[EdgeChange, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, tuples and dictionaries, for JSON; None for NaN (v ≠ v), which JSON lacks."""
        return asdict(self, dict_factory=lambda items: {k: None if v != v else v for k, v in items})


def epr_summary(edge_index: Tensor, y: Tensor, top: int = 10) -> EPRSummary:
    """EPR of a graph per node and per edge, plain, with self-loops and over 2 hops, and what explains it.

    Edge homophily is the share of edges within a class, node homophily the mean over nodes with neighbours of
    the share of neighbours of their own class: 1 − EPR per edge and per node if all messages were alike.

    Args:
        edge_index, y: as in :func:`error_passing_rate`.
        top: how many of the edges whose removal lowers EPR per edge to name, the worst first.
    """
    pairs, y = canonical_pairs(edge_index, y)
    graph, looped = messages(pairs, y, self_loops=False), messages(pairs, y, self_loops=True)
    degree, connected = graph.degree, graph.degree > 0
    other_class = sum_per_node(pairs, graph.differs.double(), y.numel())
    exact, predicted = pair_changes(graph, pairs)
    order = torch.argsort(exact, stable=True)[: max(top, 0)]
    order = order[exact[order] < 0]
    columns = *pairs[:, order].tolist(), exact[order].tolist(), predicted[order].tolist()
    return EPRSummary(
        num_nodes=y.numel(),
        num_edges=pairs.shape[1],
        num_classes=y.unique().numel(),
        epr=rates_of(graph),
        epr_self_loops=rates_of(looped),
        epr_2_hops=rates_of(graph, hops=2),
        edge_homophily=float(1 - graph.differs.double().mean()),
        node_homophily=float(1 - (other_class / degree)[connected].mean()),
        degree_min=int(degree.min()),
        degree_mean=float(degree.double().mean()),
        degree_median=float(np.median(degree.cpu().numpy())),
        degree_max=int(degree.max()),
        isolated_nodes=int((~connected).sum()),
        theorem_3_3=theorem_3_3_conditions(pairs, y.numel()),
        most_harmful=tuple(EdgeChange(*edge) for edge in zip(*columns, strict=True)),
    )
