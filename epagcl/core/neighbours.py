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
    every = torch.arange(len(u), device=u.device)
    nodes = every if nodes is None else nodes.to(u.device)
    among = None if among is None else among.to(u.device)
    others = u if among is None else u[among]
    k = min(k, len(u) - 1, len(others))
    indices, cosines = [], []
    for part in nodes.split(ROWS):
        cosine = u[part] @ others.T
        if among is None:
            cosine[torch.arange(len(part), device=u.device), part] = -2.0  # a node is not its own neighbour
        else:
            cosine.masked_fill_(part[:, None] == among, -2.0)
        top = cosine.topk(k)
        indices.append(top.indices if among is None else among[top.indices])
        cosines.append(top.values)
    return torch.cat(indices), torch.cat(cosines)
