"""InfoNCE between two views with several positives per node, which are not among its negatives.

Memory is O(N(k + d)) plus one panel of similarities: forward keeps only the row sums, and backward recomputes the
panels. On a GPU, :mod:`epagcl.losses.neighbour_triton` computes the same and keeps no similarities.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from epagcl.core.errors import InputError
from epagcl.core.hardware import has_triton
from epagcl.core.norms import unit_rows
from epagcl.core.permute import permute_rows
from epagcl.losses.infonce.loss import check_temperature
from epagcl.losses.infonce.tiled import LOG2_E

PANEL = 2**25  # similarities in a panel: enough to occupy a GPU; on a CPU all sizes are equally fast


def neighbour_nce(
    a: Tensor, b: Tensor, positives: Tensor, temperature: float, batch_size: int = 0, order: Tensor | None = None
) -> Tensor:
    r"""Return GREET's contrastive loss of each node with its positives in the other view, the mean of both directions.

    .. math::
        \mathcal{L} = \frac{1}{2N} \sum_i \ell_i(a, b) + \ell_i(b, a), \qquad
        \ell_i(a, b) = \log \sum_{k \notin P_i} e^{s(a_i, b_k)/\tau} - \frac{1}{|P_i|} \sum_{j \in P_i} s(a_i, b_j)/\tau

    where s is the cosine similarity. The sum over negatives excludes the positives, so the loss can be negative. For a
    row without negatives this sum is set to e^{−1/τ}, the least value of a single negative, so that its positives still
    attract.

    Args:
        a: the projections of the first view, ``[N, d]``. Rows need not be normalised.
        b: the projections of the second view. Row i is the same node as row i of ``a``.
        positives: the node numbers P_i, ``[N, k + 1]``. Row i contains i and no duplicates. Both directions use it.
        temperature: τ, at least 0.03.
        batch_size: B, the number of nodes in a batch. Positives and negatives of a node then come from its batch.
            The last batch has the remaining nodes. 0 means one batch of all nodes.
        order: a permutation of the nodes, which is cut into batches from its start. If None, the nodes are cut in the
            order of their numbers.

    Returns:
        The loss, a scalar, differentiable once in ``a`` and ``b``.

    Examples:
        >>> a = torch.eye(3)  # three orthogonal nodes, the same in both views; each is its own only positive
        >>> neighbour_nce(a, a, torch.tensor([[0], [1], [2]]), temperature=0.5)  # log 2 − 2
        tensor(-1.3069)
    """
    n = a.shape[0]
    if a.dim() != 2 or a.shape != b.shape or positives.dim() != 2 or positives.shape[0] != n or n == 0:
        shapes = ", ".join(str(tuple(t.shape)) for t in (a, b, positives))
        raise InputError(f"a, b and positives have the shapes {shapes}; give [N, d], [N, d] and [N, k + 1]")
    check_temperature(temperature)
    if batch_size < 0:
        raise InputError(f"batch_size={batch_size}: give the number of nodes in a batch, or 0 for all nodes")
    a, b = (unit_rows(x if x.dtype == torch.float64 else x.float()) for x in (a, b))
    batch_size = min(batch_size or n, n)
    if order is not None and batch_size < n:
        position = torch.empty_like(order).index_copy_(0, order, torch.arange(n, device=order.device))
        a, b, positives = permute_rows(a, order), permute_rows(b, order), position[positives[order]]
    if has_triton(a.device) and a.dtype == torch.float32:
        from epagcl.losses.neighbour_triton import max_width, neighbour_loss  # imported here, since Triton is optional

        if a.shape[1] <= max_width(a.device):
            return neighbour_loss(a, b, positives, batch_size, temperature, _matmul_precision())
    full = n // batch_size * batch_size
    loss = a.new_zeros(())
    for rows, size in ((slice(0, full), batch_size), (slice(full, n), n - full)):
        if size:
            u, v, near = (x[rows].view(-1, size, x.shape[1]) for x in (a, b, positives))
            near, inside = _in_batch(near, rows.start)
            both = sum(_Direction.apply(*views, near, inside, temperature) for views in ((u, v), (v, u)))
            loss = loss + (rows.stop - rows.start) / (2 * n) * both
    return loss


def _matmul_precision() -> str:
    """Return ``"fp32"`` if PyTorch multiplies float32 matrices exactly; else ``"fp16"``, with the mantissa of TF32."""
    try:
        return "fp32" if torch.get_float32_matmul_precision() == "highest" else "fp16"
    except RuntimeError:  # the user has set it the newer way of torch 2.9
        return "fp16" if torch.backends.cuda.matmul.fp32_precision == "tf32" else "fp32"


def _in_batch(positives: Tensor, start: int) -> tuple[Tensor, Tensor]:
    """Return the positions ``[G, B, k + 1]`` of the positives in their node's batch, and a mask of those inside it.

    A positive outside the batch gets the position of the node itself. The node is a positive too, so both writes
    store the same value.
    """
    groups, size, _ = positives.shape
    device = positives.device
    position = positives - (start + size * torch.arange(groups, device=device))[:, None, None]
    inside = (position >= 0) & (position < size)
    return torch.where(inside, position, torch.arange(size, device=device)[None, :, None]), inside


def _panels(a: Tensor, b: Tensor, temperature: float) -> Iterator[tuple[slice, Tensor]]:
    """Yield some rows of every batch and their s = a bᵀ·log₂e/τ, ``[G, rows, B]``. The caller may write to s."""
    groups, size, _ = a.shape
    step = min(size, max(1, PANEL // (groups * size)))
    scaled = b.transpose(1, 2) * (LOG2_E / temperature)  # 2^(s·log₂e): exp2 is three times as fast as exp on a CPU
    for start in range(0, size, step):
        rows = slice(start, min(start + step, size))
        yield rows, torch.bmm(a[:, rows], scaled)


class _Direction(torch.autograd.Function):
    """mean_i ℓ_i(a, b) over batches ``[G, B, d]`` of unit rows."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, near: Tensor, inside: Tensor, temperature: float) -> Tensor:
        count = inside.sum(2, keepdim=True)
        row_sum, positive = a.new_empty(a.shape[:2]), a.new_empty(a.shape[:2])
        for rows, s in _panels(a, b, temperature):
            at = near[:, rows]
            positive[:, rows] = (s.gather(2, at) * inside[:, rows] / count[:, rows]).sum(2)
            # Positives are set to 0. They may be most of the sum, so subtracting them from it would be inaccurate.
            row_sum[:, rows] = s.exp2_().scatter_(2, at, 0.0).sum(2)
        row_sum.clamp_(min=math.exp(-1 / temperature))
        ctx.save_for_backward(a, b, near, count, row_sum)
        ctx.temperature = temperature
        return row_sum.log().mean() - positive.mean() / LOG2_E

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        """Return da = 1/(τN) W b and db = 1/(τN) Wᵀ a.

        W_ik is e^{s_ik}/Σ_k e^{s_ik} at negatives and −1/|P_i| at positives.
        """
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
