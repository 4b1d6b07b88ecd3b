"""The edge term of GMI's loss: inner products of embeddings as logits of the edges, over all ordered pairs."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from epagcl.core.hardware import takes_kernels
from epagcl.core.pattern import Pattern
from epagcl.core.permute import row_products
from epagcl.losses.infonce.tiled import upper_tiles

# On a CPU a tile and its operands fit in a core's cache; on a GPU one tile is large enough to occupy it.
TILE = {"cpu": 768, "cuda": 4096, "mps": 4096}


def edge_loss(h: Tensor, pattern: Pattern, others: Tensor | None = None) -> Tensor:
    r"""Return the weighted cross-entropy of σ(h_i·h_j) against t = A + I, over all ordered pairs including i = j.

    .. math::
        \mathcal{L}_E = \frac{w_2}{N^2} \sum_{ij} w_1 t_{ij} \operatorname{sp}(-s_{ij})
        + (1 - t_{ij}) \operatorname{sp}(s_{ij}), \qquad
        w_1 = \frac{N^2 - E'}{E'}, \quad w_2 = \frac{N^2}{N^2 - E'}, \quad E' = \frac{1}{2} \sum_{ij} t_{ij}

    where s_ij = h_i·h_j and sp(s) = log(1 + e^s). It is computed as the sum of sp(s) over all pairs plus a correction
    at the entries of t. The correction is always exact.

    Args:
        h: the embeddings, ``[N, d]``. Rows need not be normalised.
        pattern: the pattern of A + I.
        others: K permutations of the nodes, ``[K, N]``, none with a fixed point. The image of a node is uniform over
            the other nodes. The sum over all pairs is then an unbiased estimate from these pairs, in time O(K·N·d). If
            None, the sum is exact, in time O(N²·d).

    Returns:
        The loss, a scalar, differentiable once in ``h``. Memory is O(N·d) in both cases.

    Examples:
        >>> from epagcl.core.adjacency import gcn_adjacency, self_looped_entries
        >>> row, col, _ = self_looped_entries(torch.tensor([1]), num_nodes=2)  # the pair (0, 1)
        >>> edge_loss(torch.zeros(2, 3), gcn_adjacency(row, col, num_nodes=2).pattern)  # 2 log 2
        tensor(1.3863)
    """
    n, edges = h.shape[0], pattern.col.numel() / 2
    s = pattern.edge_dots(h, h)
    correction = ((n * n - edges) / edges * F.softplus(-s) - F.softplus(s)).sum()
    all_pairs = _AllPairs.apply(h) if others is None else _sampled_pairs(h, others)
    return (all_pairs + correction) / (n * n - edges)


def _sampled_pairs(h: Tensor, others: Tensor) -> Tensor:
    """Return Σ_i sp(s_ii) + (N−1)/K Σ_k Σ_i sp(s_{i,n_k(i)}), whose expectation is Σ_ij sp(s_ij)."""
    weight = (h.shape[0] - 1) / others.shape[0]
    return F.softplus(torch.linalg.vecdot(h, h)).sum() + weight * F.softplus(row_products(h, h, others)).sum()


def _softplus_sum(s: Tensor, derivative: bool) -> Tensor:
    """Return the sum of sp(s), and if wanted overwrite s by its derivative σ(s)."""
    if s.dtype == torch.float32 and takes_kernels(s):
        from epagcl.core.kernels.softplus import softplus_sum

        return softplus_sum(s, derivative=derivative)
    total = F.softplus(s).sum()
    if derivative:
        s.sigmoid_()
    return total


class _AllPairs(torch.autograd.Function):
    """Σ_ij sp(s_ij). The gradient is dh_i = 2 Σ_j σ(s_ij) h_j, since s is symmetric.

    Tiles are independent, so the forward pass also accumulates the gradient, up to a factor. Forward and backward take
    1.5 products of 2N²d flops and keep ``[N, d]``. Recomputing the tiles in backward would take 2 products.
    """

    @staticmethod
    def forward(ctx: Any, h: Tensor) -> Tensor:
        h = h.contiguous()
        dh = torch.zeros_like(h) if ctx.needs_input_grad[0] else None
        sums = []
        for rows, columns, s in upper_tiles(h, TILE.get(h.device.type, 2048), fresh=False):
            torch.mm(h[rows], h[columns].T, out=s)
            mirrored = columns.start > rows.start  # the tile below the diagonal is this one, transposed
            sums.append(_softplus_sum(s, derivative=dh is not None) * (2 if mirrored else 1))
            if dh is not None:
                dh[rows].addmm_(s, h[columns])
                if mirrored:
                    dh[columns].addmm_(s.T, h[rows])
        ctx.save_for_backward(dh)
        return torch.stack(sums).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (dh,) = ctx.saved_tensors
        return dh * (2 * grad)
