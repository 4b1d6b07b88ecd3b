"""Contrastive losses: ``info_nce`` (exact, linear memory) and ``info_nce_batched`` (negatives inside batches)."""

import torch
import torch.nn.functional as F
from torch import Tensor

from epagcl.errors import InputError
from epagcl.losses.batched import batched_loss
from epagcl.losses.dense import dense_loss
from epagcl.losses.tiled import tiled_loss

__all__ = ["IMPLEMENTATIONS", "info_nce", "info_nce_batched"]

#: name → function(z, temperature) on the stacked unit rows z = [z₁; z₂].
IMPLEMENTATIONS = {"tiled": tiled_loss, "dense": dense_loss}

# Below this, exp(s/τ) and its sums over 10⁶ rows leave float32; |s| ≤ 1 keeps everything above it in range unshifted.
MIN_TEMPERATURE = 0.03


def info_nce(z1: Tensor, z2: Tensor, temperature: float = 0.3, *, impl: str = "auto") -> Tensor:
    r"""The paper's contrastive loss over all pairs of nodes (Section 3.4), mean of both directions.

    .. math::
        \mathcal{L} = \frac{1}{2N} \sum_i \ell(u_i, v_i) + \ell(v_i, u_i), \qquad
        \ell(u_i, v_i) = -\log \frac{e^{s(u_i, v_i)/\tau}}
        {e^{s(u_i, v_i)/\tau} + \sum_{j \ne i} e^{s(u_i, v_j)/\tau} + \sum_{j \ne i} e^{s(u_i, u_j)/\tau}}

    with s the cosine similarity. On the stacked unit rows Z = [u; v] (M = 2N) this is one NT-Xent,
    mean_i (log Σ_{j≠i} e^{z_i·z_j/τ} − z_i·z_pos(i)/τ), which every implementation computes.

    Args:
        z1: projections of the first view, ``[N, d]``; rows need not be normalised.
        z2: projections of the second view, row i the same node as row i of ``z1``.
        temperature: τ, at least 0.03.
        impl: ``"tiled"`` (memory O(N·d), any device), ``"dense"`` (memory O(N²), for comparison) or ``"auto"``.

    Returns:
        The loss, a scalar; differentiable once in ``z1`` and ``z2``.
    """
    _check(z1, z2, temperature)
    if impl == "auto":
        impl = "tiled"
    if impl not in IMPLEMENTATIONS:
        raise InputError(f"impl={impl!r}: choose one of auto, {', '.join(IMPLEMENTATIONS)}")
    return IMPLEMENTATIONS[impl](_stack(z1, z2), temperature)


def info_nce_batched(z1: Tensor, z2: Tensor, temperature: float, batch_size: int, order: Tensor) -> Tensor:
    """The same loss with negatives only inside batches: another objective (log 2B for log 2N), in time O(N·B·d).

    Args:
        z1: projections of the first view, ``[N, d]``.
        z2: projections of the second view.
        temperature: τ, at least 0.03.
        batch_size: B, nodes in a batch; the last one takes the rest.
        order: permutation of the nodes, cut into batches from its start.
    """
    _check(z1, z2, temperature)
    if batch_size < 1:
        raise InputError(f"batch_size={batch_size}: a batch needs at least 1 node (2 to have negatives)")
    unit = _stack(z1, z2).view(2, *z1.shape)
    return batched_loss(unit[0], unit[1], temperature, batch_size, order)


def _check(z1: Tensor, z2: Tensor, temperature: float) -> None:
    if z1.shape != z2.shape or z1.dim() != 2 or z1.shape[0] == 0:
        raise InputError(
            f"projections of shapes {tuple(z1.shape)} and {tuple(z2.shape)}: both must be [N, d] with N ≥ 1"
        )
    if not temperature >= MIN_TEMPERATURE:
        raise InputError(f"temperature={temperature}: must be at least {MIN_TEMPERATURE}")


def _stack(z1: Tensor, z2: Tensor) -> Tensor:
    """Unit rows [z₁; z₂] in at least float32: half precision would lose e^{1/τ} and the sums."""
    z = torch.cat([z1, z2])
    return F.normalize(z if z.dtype == torch.float64 else z.float(), dim=1)
