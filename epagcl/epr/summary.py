"""EPR of a graph in all its forms, with degree and homophily statistics and the most harmful edges."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from epagcl.core.checks import check_whole
from epagcl.epr.change import Theorem33, pair_changes, theorem_3_3_conditions
from epagcl.epr.rate import Rates, canonical_pairs, check_pair_weights, compute_messages, compute_rates, sum_per_node


@dataclass(frozen=True)
class EdgeChange:
    """The effect of dropping one edge on EPR per edge.

    Attributes:
        i: smaller node of the edge.
        j: larger node of the edge.
        change: exact change, see :func:`epr_change`.
        predicted: change by Theorem 3.5, see :func:`epr_change_predicted`.

    Examples:
        >>> EdgeChange(i=0, j=3, change=-0.33, predicted=-0.22).change
        -0.33
    """

    i: int
    j: int
    change: float
    predicted: float


@dataclass(frozen=True)
class EPRSummary:
    """Summary of how noisy a graph is, as :func:`epr_summary` computes it.

    Attributes:
        num_nodes: number of nodes.
        num_edges: number of undirected edges.
        num_classes: number of classes.
        epr: EPR.
        epr_self_loops: EPR with d + 1 under the root.
        epr_2_hops: EPR over two hops.
        edge_homophily: share of edges within a class.
        node_homophily: mean over nodes with neighbours of the share of neighbours in the node's class.
        degree_min: smallest degree.
        degree_mean: mean degree.
        degree_median: median degree.
        degree_max: largest degree.
        isolated_nodes: number of nodes without edges.
        theorem_3_3: conditions of Theorem 3.3.
        most_harmful: edges whose removal lowers EPR per edge most, worst first.

    Examples:
        >>> import torch
        >>> summary = epr_summary(torch.tensor([[0, 0, 0], [1, 2, 3]]), torch.tensor([0, 0, 0, 1]))
        >>> summary.to_dict()["theorem_3_3"]
        {'d_min': 1, 'd_max': 3, 'holds': True}
    """

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
        """Return plain numbers, tuples and dictionaries for JSON, with None in place of NaN."""
        # NaN is the only value that differs from itself.
        return asdict(self, dict_factory=lambda items: {k: None if v != v else v for k, v in items})


def epr_summary(edge_index: Tensor, y: Tensor, top: int = 10, edge_weight: Tensor | None = None) -> EPRSummary:
    """Return EPR of a graph in all forms, with the statistics that explain it.

    EPR is computed per node and per edge: plain, with self-loops, and over 2 hops. Edge homophily is the share of edges
    within a class. Node homophily is the mean, over nodes with neighbours, of the share of neighbours in the node's
    class. If all messages had the same weight, these would equal 1 − EPR per edge and per node.

    Args:
        edge_index: edges in one or both directions, ``[2, E]``.
        y: class of each node, ``[N]``.
        top: maximum number of edges to list whose removal lowers EPR per edge.
        edge_weight: positive weight of each edge, ``[E]``, for EPR and its changes. Homophily and degrees count edges.

    Examples:
        >>> import torch
        >>> summary = epr_summary(torch.tensor([[0, 0, 0], [1, 2, 3]]), torch.tensor([0, 0, 0, 1]))
        >>> round(summary.epr.per_edge, 4), round(summary.edge_homophily, 4)
        (0.3333, 0.6667)
        >>> [(edge.i, edge.j) for edge in summary.most_harmful]
        [(0, 3)]
    """
    top = check_whole(top, "top")
    pairs, y = canonical_pairs(edge_index, y)
    weight = check_pair_weights(edge_index, edge_weight, y.numel())
    graph, looped = (compute_messages(pairs, y, self_loops, weight) for self_loops in (False, True))
    degree, connected = graph.degree, graph.degree > 0
    other_class = sum_per_node(pairs, graph.differs.double(), y.numel())
    exact, predicted = pair_changes(graph, pairs)
    order = torch.argsort(exact, stable=True)[:top]
    order = order[exact[order] < 0]
    columns = *pairs[:, order].tolist(), exact[order].tolist(), predicted[order].tolist()
    return EPRSummary(
        num_nodes=y.numel(),
        num_edges=pairs.shape[1],
        num_classes=y.unique().numel(),
        epr=compute_rates(graph),
        epr_self_loops=compute_rates(looped),
        epr_2_hops=compute_rates(graph, hops=2),
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
