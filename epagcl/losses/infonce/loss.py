"""Contrastive losses: ``info_nce`` (exact, linear memory) and ``info_nce_batched`` (negatives inside batches)."""

import os

import torch
from torch import Tensor

from epagcl.core.errors import InputError
from epagcl.core.hardware import has_triton
from epagcl.core.permute import permute_rows
from epagcl.losses.infonce.dense import dense_loss
from epagcl.losses.infonce.tiled import tiled_loss

__all__ = ["IMPLEMENTATIONS", "PRECISIONS", "info_nce", "info_nce_batched", "info_nce_stacked"]

# Below this, exp(s/τ) and its sums over 10⁶ rows leave float32; |s| ≤ 1 keeps everything above it in range unshifted.
MIN_TEMPERATURE = 0.03

#: Precisions of the products, by name. Sums are float32 in all of them.
PRECISIONS = ("fp32", "tf32", "fp16", "bf16")

MAX_TRITON_WIDTH = 512  # the accumulator of wider rows leaves a GPU's registers


def _triton(x: Tensor, temperature: float, groups: int, precision: str) -> Tensor:
    from epagcl.losses.infonce.triton_loss import triton_loss  # here, so that all else works without Triton

    return triton_loss(x, temperature, groups, precision)


def _in_float32(loss):  # the implementations in plain torch have no other precision
    return lambda x, temperature, groups, precision: loss(x, temperature, groups)


#: name → function(x, temperature, groups, precision) on stacked rows, and the precisions it has. Rows come in groups of
#: equal size, each [one view's rows; the other's]; the loss is the mean over all rows of an NT-Xent inside each group.
IMPLEMENTATIONS = {
    "triton": (_triton, PRECISIONS),
    "tiled": (_in_float32(tiled_loss), ("fp32",)),
    "dense": (_in_float32(dense_loss), ("fp32",)),
}


def info_nce(
    z1: Tensor, z2: Tensor, temperature: float = 0.3, *, impl: str = "auto", precision: str = "fp32"
) -> Tensor:
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
        impl: ``"triton"`` (memory O(N·d), NVIDIA GPUs), ``"tiled"`` (the same in plain torch, any device), ``"dense"``
            (memory O(N²), for comparison) or ``"auto"``: triton where it runs, else tiled.
        precision: of the operands of the products: ``"fp32"`` (exact; float64 for float64 input), or with triton
            ``"tf32"``, ``"fp16"`` (as exact as tf32 here, and the fastest), ``"bf16"``; ``"auto"`` is fp16 with
            triton, else fp32. Sums are in float32 always.

    Returns:
        The loss, a scalar; differentiable once in ``z1`` and ``z2``.
    """
    if z1.shape != z2.shape:
        raise InputError(_SHAPES.format(tuple(z1.shape), tuple(z2.shape)))
    return info_nce_stacked(torch.cat([z1, z2]), temperature, impl=impl, precision=precision)


def info_nce_stacked(z: Tensor, temperature: float, *, impl: str = "auto", precision: str = "fp32") -> Tensor:
    """:func:`info_nce` on ``[z1; z2]``, ``[2N, d]``: what an encoder gives that takes both views together."""
    _check(z, temperature)
    return _loss(z, temperature, 1, impl, precision)


def info_nce_batched(
    z: Tensor, temperature: float, batch_size: int, order: Tensor, *, impl: str = "auto", precision: str = "fp32"
) -> Tensor:
    """The same loss with negatives only inside batches: another objective (log 2B for log 2N), in time O(N·B·d).

    Args:
        z: projections of both views, ``[2N, d]``.
        temperature: τ, at least 0.03.
        batch_size: B, nodes in a batch; the last one takes the rest.
        order: permutation of the N nodes, cut into batches from its start.
        impl: as :func:`info_nce`; all batches of a size go through one call.
        precision: as :func:`info_nce`.
    """
    _check(z, temperature)
    if batch_size < 1:
        raise InputError(f"batch_size={batch_size}: a batch needs at least 1 node (2 to have negatives)")
    n = order.numel()
    if 2 * n != z.shape[0]:
        raise InputError(f"an order of {n} nodes for {z.shape[0]} rows: it must be a permutation of the nodes")
    full = n // batch_size * batch_size
    cut = ((order[:full], batch_size), (order[full:], n - full))
    batches = [nodes.view(-1, 1, size) for nodes, size in cut if nodes.numel()]
    rows = [torch.cat([nodes, nodes + n], dim=1).flatten() for nodes in batches]  # batch by batch: one view, the other
    parts = permute_rows(z, torch.cat(rows)).split([part.numel() for part in rows])
    return sum(
        part.shape[0] / (2 * n) * _loss(part, temperature, nodes.shape[0], impl, precision)
        for part, nodes in zip(parts, batches, strict=True)
    )


def _loss(z: Tensor, temperature: float, groups: int, impl: str, precision: str) -> Tensor:
    if impl == "auto":
        fits = z.dtype != torch.float64 and z.shape[1] <= MAX_TRITON_WIDTH
        impl = "triton" if fits and has_triton(z.device) else "tiled"
        if impl == "tiled" and precision in PRECISIONS:
            precision = "fp32"  # at least what was asked for
    if impl not in IMPLEMENTATIONS:
        raise InputError(f"impl={impl!r}: choose one of auto, {', '.join(IMPLEMENTATIONS)}")
    function, precisions = IMPLEMENTATIONS[impl]
    if precision == "auto":
        precision = "fp16" if "fp16" in precisions else "fp32"
    if precision not in precisions:
        raise InputError(f"precision={precision!r}: {impl} has {', '.join(precisions)}, or auto")
    if impl == "triton":
        _check_triton(z)
    # Half precision would lose e^{1/τ} and the sums.
    return function(z if z.dtype == torch.float64 else z.float(), temperature, groups, precision)


def _check_triton(z: Tensor) -> None:
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    if not has_triton(z.device) and not interpreted:
        raise InputError(
            f"impl='triton' needs the package triton and an NVIDIA GPU, not {z.device.type}; use impl='auto'"
        )
    if z.dtype == torch.float64 or z.shape[1] > MAX_TRITON_WIDTH:
        words = "float64" if z.dtype == torch.float64 else f"rows wider than {MAX_TRITON_WIDTH}"
        raise InputError(f"impl='triton' has no {words}; use impl='auto' or 'tiled'")


_SHAPES = "projections of shapes {} and {}: both must be [N, d] with N ≥ 1"


def _check(z: Tensor, temperature: float) -> None:
    if z.dim() != 2 or z.shape[0] == 0 or z.shape[0] % 2:
        raise InputError(_SHAPES.format(*2 * [(z.shape[0] // 2, *z.shape[1:])]))
    if not temperature >= MIN_TEMPERATURE:
        raise InputError(f"temperature={temperature}: must be at least {MIN_TEMPERATURE}")
