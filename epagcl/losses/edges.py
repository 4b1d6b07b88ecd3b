"""GMI's edge term: inner products of embeddings as logits of the edges, over all ordered pairs of nodes."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from epagcl.core.permute import row_products
from epagcl.core.sparse import Pattern
from epagcl.losses.infonce.tiled import upper_tiles

# As in the tiled InfoNCE: a tile and its operands stay in a CPU core's cache; a GPU wants tiles that fill it.
TILE = {"cpu": 768, "cuda": 4096, "mps": 4096}


def edge_loss(h: Tensor, pattern: Pattern, others: Tensor | None = None) -> Tensor:
    r"""Weighted cross-entropy of σ(h_i·h_j) against t = A + I, over all ordered pairs, i = j among them.

    .. math::
        \mathcal{L}_E = \frac{w_2}{N^2} \sum_{ij} w_1 t_{ij} \operatorname{sp}(-s_{ij})
        + (1 - t_{ij}) \operatorname{sp}(s_{ij}), \qquad
        w_1 = \frac{N^2 - E'}{E'}, \quad w_2 = \frac{N^2}{N^2 - E'}, \quad E' = \frac{1}{2} \sum_{ij} t_{ij}

    with s_ij = h_i·h_j and sp(s) = log(1 + e^s): computed as the sum of sp(s) over all pairs, and what t's few entries
    change in it, which is always exact.

    Args:
        h: embeddings ``[N, d]``; rows need not be normalised.
        pattern: where A + I has entries.
        others: with K permutations of the nodes ``[K, N]``, each uniform on the others for each node, the sum over all
            pairs is estimated from these, without bias and in time K·N·d; without, it is exact, in N²·d.

    Returns:
        The loss, a scalar; differentiable once in ``h``. Memory is O(N·d) in both forms.
    """
    n, edges = h.shape[0], pattern.col.numel() / 2
    s = pattern.edge_dots(h, h)
    changed = ((n * n - edges) / edges * F.softplus(-s) - F.softplus(s)).sum()
    every = _AllPairs.apply(h) if others is None else _sampled_pairs(h, others)
    return (every + changed) / (n * n - edges)


def _sampled_pairs(h: Tensor, others: Tensor) -> Tensor:
    """Σ_i sp(s_ii) + (N−1)/K Σ_k Σ_i sp(s_{i,n_k(i)}), whose mean is Σ_ij sp(s_ij)."""
    weight = (h.shape[0] - 1) / others.shape[0]
    return F.softplus(torch.linalg.vecdot(h, h)).sum() + weight * F.softplus(row_products(h, h, others)).sum()


class _AllPairs(torch.autograd.Function):
    """Σ_ij sp(s_ij); gradient dh_i = 2 Σ_j σ(s_ij) h_j, for s is symmetric.

    No tile waits for another, so that the gradient up to its factor is summed in the same pass: forward and backward do
    1.5 products of 2N²d flops and keep ``[N, d]``, where computing the tiles again would do 2.
    """

    @staticmethod
    def forward(ctx, h: Tensor) -> Tensor:
        h = h.contiguous()
        dh = torch.zeros_like(h) if ctx.needs_input_grad[0] else None
        sums = []
        for rows, columns, s in upper_tiles(h, TILE.get(h.device.type, 2048), fresh=False):
            torch.mm(h[rows], h[columns].T, out=s)
            mirrored = columns.start > rows.start  # the tile below the diagonal is this one, transposed
            sums.append(F.softplus(s).sum() * (2 if mirrored else 1))
            if dh is not None:
                s.sigmoid_()
                dh[rows].addmm_(s, h[columns])
                if mirrored:
                    dh[columns].addmm_(s.T, h[rows])
        ctx.save_for_backward(dh)
        return torch.stack(sums).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> Tensor:
        (dh,) = ctx.saved_tensors
        return dh * (2 * grad)
