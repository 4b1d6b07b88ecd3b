"""The loss of DGI and MVGRL: a discriminator scores nodes of the graph above nodes of a corrupted graph."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from epagcl.distributed.exchange import sum_over_ranks
from epagcl.distributed.partition import Part


class Bilinear(nn.Module):
    """The discriminator D(h, s) = hᵀ W s + b.

    W has the Glorot-uniform initial values of a weight ``[1, left, right]``, as in the code of both methods. PyTorch
    then uses a fan-in of left·right, so scores start near 0.

    Args:
        left: the width of h.
        right: the width of s.

    Examples:
        >>> discriminator = Bilinear(2, 2)
        >>> _ = torch.nn.init.eye_(discriminator.weight)
        >>> discriminator(torch.tensor([[1.0, 2.0]]), torch.tensor([10.0, 100.0])).tolist()
        [210.0]
    """

    def __init__(self, left: int, right: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(left, right))
        self.bias = nn.Parameter(torch.zeros(1))
        nn.init.xavier_uniform_(self.weight[None])

    def forward(self, h: Tensor, summary: Tensor) -> Tensor:
        """Return the scores ``[N]`` of the rows ``h`` against one summary ``[d]``, computed as h·(W s)."""
        return h @ (self.weight @ summary) + self.bias


def summary(h: Tensor, part: Part | None = None) -> Tensor:
    """Return the summary s = σ(mean_i h_i).

    Args:
        h: the representations of all nodes.
        part: the nodes of this rank, if ``h`` has their rows only. The mean is over all nodes.

    Examples:
        >>> summary(torch.tensor([[1.0, 3.0], [-1.0, -3.0]]))
        tensor([0.5000, 0.5000])
    """
    mean = h.mean(0) if part is None else sum_over_ranks(h.sum(0), part) / part.num_nodes
    return mean.sigmoid()


def summary_loss(positive: Tensor, negative: Tensor, part: Part | None = None) -> Tensor:
    """Return the average of mean softplus(−D) over positives and mean softplus(D) over negatives.

    It is log 2 if all scores are 0.

    Args:
        positive: the scores of nodes of the graph.
        negative: the scores of nodes of the corrupted graph.
        part: the nodes of this rank, if the scores are theirs only. The result is then this rank's share of the loss.

    Examples:
        >>> summary_loss(torch.zeros(3), torch.zeros(3))
        tensor(0.6931)
    """
    if part is not None:
        return (F.softplus(-positive).sum() + F.softplus(negative).sum()) / (2 * part.num_nodes)
    return (F.softplus(-positive).mean() + F.softplus(negative).mean()) / 2
