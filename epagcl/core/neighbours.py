"""Nearest neighbours by cosine, exact, in memory linear in the number of rows."""

import torch
import torch.nn.functional as F
from torch import Tensor

ROWS = 256  # rows of similarities computed at a time


def nearest(z: Tensor, k: int = 10, nodes: Tensor | None = None, among: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the ``k`` nearest other nodes of each node by cosine: node numbers and cosines, nearest first.

    Args:
        z: embedding ``[N, d]``.
        k: number of neighbours.
        nodes: nodes whose neighbours are returned; None for all.
        among: nodes that can be neighbours; None for all. If a node has fewer than k of them, it is listed itself,
            with cosine −2.

    Examples:
        >>> z = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
        >>> nearest(z, k=1)[0][:, 0]
        tensor([1, 0, 1])
    """
    u = F.normalize(z.detach(), dim=1)
    nodes = torch.arange(len(u), device=u.device) if nodes is None else nodes.to(u.device)
    among = None if among is None else among.to(u.device)
    return nearest_rows(u, nodes, u if among is None else u[among], among, min(k, len(u) - 1))


def nearest_rows(
    u: Tensor, nodes: Tensor, others: Tensor, among: Tensor | None, k: int, first: int = 0
) -> tuple[Tensor, Tensor]:
    """Return :func:`nearest` of some nodes among given rows, which may be in other processes' memory as well.

    Args:
        u: unit rows, of which row i belongs to node ``first + i``.
        nodes: the nodes whose neighbours are returned.
        others: the unit rows of the nodes that can be neighbours.
        among: their nodes; None: all nodes.
        k: number of neighbours.
        first: the node of the first row of ``u``.

    Examples:
        >>> u = torch.eye(3)[[0, 0, 1]]
        >>> nearest_rows(u[1:], torch.tensor([1]), u, None, k=1, first=1)[0]
        tensor([[0]])
    """
    k = min(k, len(others))
    indices, cosines = [nodes.new_empty(0, k)], [u.new_empty(0, k)]
    for part in nodes.split(ROWS):
        cosine = u[part - first] @ others.T
        if among is None:
            cosine[torch.arange(len(part), device=u.device), part] = -2.0  # a node is not its own neighbour
        else:
            cosine.masked_fill_(part[:, None] == among, -2.0)
        top = cosine.topk(k)
        indices.append(top.indices if among is None else among[top.indices])
        cosines.append(top.values)
    return torch.cat(indices), torch.cat(cosines)
