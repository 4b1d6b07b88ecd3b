"""InfoNCE between two views with a list of positives for each node, which are not among its negatives; tiled.

Memory is O(N(k + d)) and a panel: forward keeps the row sums alone, backward computes the panels again.
"""

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from epagcl.core.errors import InputError
from epagcl.core.permute import permute_rows
from epagcl.losses.infonce.loss import MIN_TEMPERATURE
from epagcl.losses.infonce.tiled import LOG2_E

PANEL = 2**25  # numbers in a panel of similarities: enough to fill a GPU; on a CPU all sizes were equally fast


def neighbour_nce(
    a: Tensor, b: Tensor, positives: Tensor, temperature: float, batch_size: int = 0, order: Tensor | None = None
) -> Tensor:
    r"""GREET's contrastive loss: each node against its positives in the other view, mean of both directions.

    .. math::
        \mathcal{L} = \frac{1}{2N} \sum_i \ell_i(a, b) + \ell_i(b, a), \qquad
        \ell_i(a, b) = \log \sum_{k \notin P_i} e^{s(a_i, b_k)/\tau} - \frac{1}{|P_i|} \sum_{j \in P_i} s(a_i, b_j)/\tau

    with s the cosine similarity. Positives are not in the sum below them, so the loss can be negative. A row without a
    negative counts as if its sum were e^{−1/τ}, the least that one negative can give: its positives still attract.

    Args:
        a: projections of the first view, ``[N, d]``; rows need not be normalised.
        b: projections of the second view, row i the same node as row i of ``a``.
        positives: P_i, ``[N, k + 1]`` node numbers, i among them and none twice; both directions use row i.
        temperature: τ, at least 0.03.
        batch_size: B, nodes in a batch, the last one takes the rest: positives and negatives of a node are then those
            in its batch. 0: one batch of all.
        order: permutation of the nodes, cut into batches from its start; None: as they are numbered.

    Returns:
        The loss, a scalar; differentiable once in ``a`` and ``b``.
    """
    n = a.shape[0]
    if a.dim() != 2 or a.shape != b.shape or positives.dim() != 2 or positives.shape[0] != n or n == 0:
        shapes = ", ".join(str(tuple(t.shape)) for t in (a, b, positives))
        raise InputError(f"projections and positives of shapes {shapes}: they must be [N, d], [N, d] and [N, k + 1]")
    if not temperature >= MIN_TEMPERATURE:
        raise InputError(f"temperature={temperature}: must be at least {MIN_TEMPERATURE}")
    if batch_size < 0:
        raise InputError(f"batch_size={batch_size}: give the nodes in a batch, or 0 for all nodes at once")
    a, b = (F.normalize(x if x.dtype == torch.float64 else x.float(), dim=1) for x in (a, b))
    batch_size = min(batch_size or n, n)
    if order is not None and batch_size < n:
        place = torch.empty_like(order).index_copy_(0, order, torch.arange(n, device=order.device))
        a, b, positives = permute_rows(a, order), permute_rows(b, order), place[positives[order]]
    full = n // batch_size * batch_size
    loss = a.new_zeros(())
    for rows, size in ((slice(0, full), batch_size), (slice(full, n), n - full)):
        if size:
            u, v, near = (x[rows].view(-1, size, x.shape[1]) for x in (a, b, positives))
            near, inside = _in_batch(near, rows.start)
            both = sum(_Direction.apply(*views, near, inside, temperature) for views in ((u, v), (v, u)))
            loss = loss + (rows.stop - rows.start) / (2 * n) * both
    return loss


def _in_batch(positives: Tensor, start: int) -> tuple[Tensor, Tensor]:
    """Places ``[G, B, k + 1]`` of the positives in their own batch, and which are in it.

    For one outside stands the node itself, which is a positive anyhow: what is written there twice is the same.
    """
    groups, size, _ = positives.shape
    device = positives.device
    place = positives - (start + size * torch.arange(groups, device=device))[:, None, None]
    inside = (place >= 0) & (place < size)
    return torch.where(inside, place, torch.arange(size, device=device)[None, :, None]), inside


def _panels(a: Tensor, b: Tensor, temperature: float) -> Iterator[tuple[slice, Tensor]]:
    """s = a bᵀ·log₂e/τ some rows of every batch at a time: rows, s ``[G, rows, B]``, which the caller may write to."""
    groups, size, _ = a.shape
    step = min(size, max(1, PANEL // (groups * size)))
    scaled = b.transpose(1, 2) * (LOG2_E / temperature)  # 2^(s·log₂e): exp2 is three times as fast as exp on a CPU
    for start in range(0, size, step):
        rows = slice(start, min(start + step, size))
        yield rows, torch.bmm(a[:, rows], scaled)


class _Direction(torch.autograd.Function):
    """mean_i ℓ_i(a, b) over batches ``[G, B, d]`` of unit rows."""

    @staticmethod
    def forward(ctx, a: Tensor, b: Tensor, near: Tensor, inside: Tensor, temperature: float) -> Tensor:
        count = inside.sum(2, keepdim=True)
        row_sum, positive = a.new_empty(a.shape[:2]), a.new_empty(a.shape[:2])
        for rows, s in _panels(a, b, temperature):
            at = near[:, rows]
            positive[:, rows] = (s.gather(2, at) * inside[:, rows] / count[:, rows]).sum(2)
            # Set to 0 and not subtracted from a full sum, of which positives may be nearly all.
            row_sum[:, rows] = s.exp2_().scatter_(2, at, 0.0).sum(2)
        row_sum.clamp_(min=math.exp(-1 / temperature))
        ctx.save_for_backward(a, b, near, count, row_sum)
        ctx.temperature = temperature
        return row_sum.log().mean() - positive.mean() / LOG2_E

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        """da = 1/(τN) W b and db = 1/(τN) Wᵀ a; W_ik = e^{s_ik}/Σ_k e^{s_ik} at negatives, −1/|P_i| at positives."""
        a, b, near, count, row_sum = ctx.saved_tensors
        da, db = torch.empty_like(a), torch.zeros_like(b)
        share = -1 / count.to(a.dtype)
        for rows, s in _panels(a, b, ctx.temperature):
            w = s.exp2_().div_(row_sum[:, rows, None])
            w.scatter_(2, near[:, rows], share[:, rows].expand_as(near[:, rows]))
            da[:, rows] = torch.bmm(w, b)
            db.baddbmm_(w.transpose(1, 2), a[:, rows])
        scale = grad / (ctx.temperature * row_sum.numel())
        return da.mul_(scale), db.mul_(scale), None, None, None
