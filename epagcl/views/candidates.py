"""Candidates for adding: absent pairs of nodes with similar representations."""

import torch
import torch.nn.functional as F
from torch import Tensor

from epagcl.core.neighbours import nearest, nearest_rows
from epagcl.core.randomness import Stream, permutation
from epagcl.distributed.partition import Part

MAX_AMONG = 65_536  # on larger graphs, neighbours are searched among this many random nodes


def neighbour_candidates(
    z: Tensor, pairs: Tensor, k: int = 10, nodes: Tensor | None = None, part: Part | None = None
) -> Tensor:
    """Return the absent pairs of nodes of which one is among the k nearest neighbours of the other, by cosine.

    The time is O(N² d), and O(65,536·N·d) on graphs with more nodes than that.

    Args:
        z: representations ``[N, d]``, such as the principal components of Â²X.
        pairs: the edges, ``[2, E]`` with i < j.
        k: number of neighbours; with 0 there are no candidates.
        nodes: nodes whose neighbours are searched; None for all.
        part: the nodes of this rank, if ``z`` has their rows only. Each rank searches the neighbours of its own nodes,
            and all ranks return all pairs. Every rank then holds the rows among which neighbours are searched, at most
            65,536.

    Returns:
        The pairs, ``[2, C]`` with i < j, sorted.

    Examples:
        >>> z = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
        >>> neighbour_candidates(z, torch.tensor([[0], [1]]), k=1)
        tensor([[2],
                [3]])
    """
    n = z.shape[0] if part is None else part.num_nodes
    used = (z != 0).any(0)
    used = used if part is None else part.sum(used.float()) > 0
    # In fewer than two dimensions, all cosines are ±1: nothing tells near from far.
    if n < 2 or k < 1 or int(used.sum()) < 2:
        return pairs[:, :0]
    among = None
    if n > MAX_AMONG:
        among = permutation(n, 0, Stream.CANDIDATES, 2, device=z.device)[:MAX_AMONG].sort().values
    if part is None:
        i = torch.arange(n, device=z.device) if nodes is None else nodes
        neighbours = nearest(z, k, nodes, among)[0]
    else:
        i, u = torch.arange(part.start, part.stop, device=z.device), F.normalize(z, dim=1)
        others = part.all_rows(u) if among is None else part.some_rows(u, among)
        neighbours = nearest_rows(u, i, others, among, min(k, n - 1), part.start)[0]
    i, j = i[:, None].expand_as(neighbours).flatten(), neighbours.flatten()
    key = torch.unique((torch.minimum(i, j) * n + torch.maximum(i, j))[i != j])
    if part is not None:
        key = torch.unique(part.all_values(key))
    key = key[~torch.isin(key, pairs[0] * n + pairs[1])]
    return torch.stack([key // n, key % n])
