"""The error passing rate of each relation of a graph: of its kinds of edges, or of their directions."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.epr.rate import Rates


@dataclass(frozen=True)
class RelationRates:
    """The edges of a relation, and their error passing rate.

    Attributes:
        name: of the relation.
        edges: number of pairs in it.
        epr: EPR; None without labels, or if the relation has no edges.

    Examples:
        >>> RelationRates("mail", edges=3, epr=Rates(0.2, 0.3)).edges
        3
    """

    name: str
    edges: int
    epr: Rates | None


def relation_rates(data: Data) -> list[RelationRates]:
    r"""Return the error passing rate of each relation of a checked graph.

    In a relation with the weights A_ij of the messages from j to i, the message has the weight Â_ij = A_ij/√(r_i s_j),
    where r_i is the sum of what i receives and s_j the sum of what j sends. In an undirected relation, both are
    degrees, and EPR is that of :func:`~epagcl.error_passing_rate` on the edges of the relation. Messages to and from
    nodes without a label are left out.

    Args:
        data: a checked graph; ``y`` may be absent.

    Returns:
        One entry per relation, in the order of ``relation_names``; empty without relations.

    Examples:
        >>> data = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), y=torch.tensor([0, 0, 1]), num_nodes=3)
        >>> data.edge_relation, data.relation_names = torch.eye(2).repeat_interleave(2, 0), ["mail", "call"]
        >>> [(relation.name, relation.epr.per_edge) for relation in relation_rates(data)]
        [('mail', 0.0), ('call', 1.0)]
    """
    if data.get("edge_relation") is None:
        return []
    if data.edge_relation.shape[0] != data.edge_index.shape[1]:
        rows, edges = data.edge_relation.shape[0], data.edge_index.shape[1]
        raise InputError(f"edge_relation has {rows:,} rows for {edges:,} edges; give one per edge")
    return [
        RelationRates(name, _pairs(data, weight), None if data.y is None else _rates(data, weight))
        for name, weight in zip(data.relation_names, data.edge_relation.double().T, strict=True)
    ]


def _pairs(data: Data, weight: Tensor) -> int:
    """Return the number of pairs with a message in either direction."""
    low, high = data.edge_index[:, weight > 0].sort(dim=0).values
    return torch.unique(low * data.num_nodes + high).numel()


def _rates(data: Data, weight: Tensor) -> Rates | None:
    to, sender = data.edge_index
    used = (weight > 0) & (data.y[to] >= 0) & (data.y[sender] >= 0)
    if not bool(used.any()):
        return None
    to, sender, weight = to[used], sender[used], weight[used]
    zeros = weight.new_zeros(data.num_nodes)
    received, sent = zeros.index_add(0, to, weight), zeros.index_add(0, sender, weight)
    message = weight / (received[to] * sent[sender]).sqrt()
    wrong = message * (data.y[to] != data.y[sender])
    total, errors = zeros.index_add(0, to, message), zeros.index_add(0, to, wrong)
    share = (errors / total)[total > 0]
    return Rates(per_node=float(share.mean()), per_edge=float(errors.sum() / total.sum()))
