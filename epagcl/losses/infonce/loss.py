"""The public functions of InfoNCE, and the choice between its implementations."""

import os
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from epagcl.core.checks import INT64_LIMIT, check_tensor
from epagcl.core.errors import InputError
from epagcl.core.hardware import has_bf16, has_triton, without_autocast
from epagcl.core.permute import permute_rows
from epagcl.distributed.exchange import Exchange, exchange_rows
from epagcl.distributed.partition import Part
from epagcl.losses.infonce.dense import dense_loss
from epagcl.losses.infonce.ring import ring_loss
from epagcl.losses.infonce.tiled import tiled_loss
from epagcl.losses.infonce.tiled_bf16 import MIN_ROWS, tiled_bf16_loss

# At a lower temperature, exp(s/τ) and its sums over 10⁶ rows overflow float32. Since |s| ≤ 1, no shift by the maximum
# is needed at this temperature or above.
MIN_TEMPERATURE = 0.03

#: Precisions of the operands of the products, by name. Sums are always float32.
PRECISIONS = ("fp32", "tf32", "fp16", "bf16")

MAX_TRITON_WIDTH = 512  # the accumulator of wider rows does not fit in a GPU's registers


class Implementation(NamedTuple):
    """An implementation of the loss.

    Attributes:
        function: called with the stacked rows, the temperature, the number of groups and the precision. Rows come in
            groups of equal size, each with the rows of one view and then of the other. The loss is the mean over all
            rows of the NT-Xent inside each group.
        precisions: the precisions that it supports.
    """

    function: Callable[[Tensor, float, int, str], Tensor]
    precisions: tuple[str, ...]


def _triton(x: Tensor, temperature: float, groups: int, precision: str) -> Tensor:
    from epagcl.losses.infonce.triton_loss import triton_loss  # imported here, since Triton is optional

    return triton_loss(x, temperature, groups, precision)


def _tiled(x: Tensor, temperature: float, groups: int, precision: str) -> Tensor:
    return (tiled_bf16_loss if precision == "bf16" else tiled_loss)(x, temperature, groups)


def _dense(x: Tensor, temperature: float, groups: int, precision: str) -> Tensor:
    return dense_loss(x, temperature, groups)


#: The implementations by name.
IMPLEMENTATIONS = {
    "triton": Implementation(_triton, PRECISIONS),
    "tiled": Implementation(_tiled, ("fp32", "bf16")),
    "dense": Implementation(_dense, ("fp32",)),
}


def info_nce(
    z1: Tensor, z2: Tensor, temperature: float = 0.3, *, impl: str = "auto", precision: str = "fp32"
) -> Tensor:
    r"""Return the paper's contrastive loss over all pairs of nodes (Section 3.4), the mean of both directions.

    .. math::
        \mathcal{L} = \frac{1}{2N} \sum_i \ell(u_i, v_i) + \ell(v_i, u_i), \qquad
        \ell(u_i, v_i) = -\log \frac{e^{s(u_i, v_i)/\tau}}
        {e^{s(u_i, v_i)/\tau} + \sum_{j \ne i} e^{s(u_i, v_j)/\tau} + \sum_{j \ne i} e^{s(u_i, u_j)/\tau}}

    where s is the cosine similarity. On the stacked unit rows Z = [u; v] (M = 2N) this is one NT-Xent,
    mean_i (log Σ_{j≠i} e^{z_i·z_j/τ} − z_i·z_pos(i)/τ), which every implementation computes.

    Args:
        z1: the projections of the first view, ``[N, d]``. Rows need not be normalised.
        z2: the projections of the second view. Row i is the same node as row i of ``z1``.
        temperature: τ, at least 0.03.
        impl: ``"triton"`` (memory O(N·d), NVIDIA GPUs), ``"tiled"`` (memory O(N·d), plain PyTorch on any device),
            ``"dense"`` (memory O(N²), for comparison) or ``"auto"`` (triton if available, else tiled).
        precision: the precision of the operands of the products. ``"fp32"`` is exact (float64 for float64 input).
            Triton also supports ``"tf32"``, ``"fp16"`` (as exact as tf32 here, and the fastest) and ``"bf16"``.
            Tiled supports ``"bf16"`` on CPUs with bf16 instructions, and computes in fp32 elsewhere and for groups of
            fewer than 128 rows. ``"auto"`` is fp16 with triton, bf16 on such CPUs, else fp32. Sums are always float32.

    Returns:
        The loss, a scalar, differentiable once in ``z1`` and ``z2``.

    Examples:
        >>> z = torch.eye(2)  # two nodes with orthogonal projections, the same in both views
        >>> info_nce(z, z, temperature=0.5)  # log(e² + 2) − 2
        tensor(0.2395)
    """
    for name, z in (("z1", z1), ("z2", z2)):
        if check_tensor(z, name).layout != torch.strided:
            raise InputError(f"{name} is sparse; give a dense tensor")
    if z1.shape != z2.shape or z1.dim() != 2 or len(z1) == 0:
        shapes = f"{tuple(z1.shape)} and {tuple(z2.shape)}"
        raise InputError(f"z1 and z2 have the shapes {shapes}; both must be [N, d] with N ≥ 1")
    return info_nce_stacked(torch.cat([z1, z2]), temperature, impl=impl, precision=precision)


def info_nce_stacked(
    z: Tensor,
    temperature: float,
    *,
    members: int = 1,
    impl: str = "auto",
    precision: str = "fp32",
    part: Part | None = None,
) -> Tensor:
    """Return :func:`info_nce` of the stacked projections ``z = [z1; z2]``.

    Args:
        z: the projections of both views, ``[2N, d]``; of K members below each other, ``[K·2N, d]``.
        temperature: τ, at least 0.03.
        members: K, the number of models. The result is the mean of their losses.
        impl: as in :func:`info_nce`.
        precision: as in :func:`info_nce`.
        part: the nodes of this rank, if ``z`` has their rows only. The result is then this rank's share of the loss
            over all ranks, see ``epagcl.losses.infonce.ring``; ``impl`` does not apply.

    Examples:
        >>> z = torch.eye(2)
        >>> info_nce_stacked(torch.cat([z, z]), temperature=0.5)
        tensor(0.2395)
    """
    if part is not None:
        check_temperature(temperature)
        return _ring(z, temperature, members, precision, part)
    _check_arguments(z, temperature, members)
    return _loss(z, temperature, members, impl, precision)


def info_nce_batched(
    z: Tensor,
    temperature: float,
    batch_size: int,
    order: Tensor,
    *,
    members: int = 1,
    impl: str = "auto",
    precision: str = "fp32",
    part: Part | None = None,
) -> Tensor:
    """Return :func:`info_nce` with negatives inside batches only, in time O(N·B·d).

    This is a different objective: for random projections its value is about log 2B instead of log 2N.

    Args:
        z: the projections of both views, ``[2N, d]``; of K members below each other, ``[K·2N, d]``.
        temperature: τ, at least 0.03.
        batch_size: B, the number of nodes in a batch. The last batch has the remaining nodes.
        order: a permutation of the N nodes, which is cut into batches from its start, the same for all members.
        members: K, the number of models. The result is the mean of their losses.
        impl: as in :func:`info_nce`. All batches of one size are computed in one call.
        precision: as in :func:`info_nce`.
        part: the nodes of this rank, if ``z`` has their rows only. Each rank then gets the rows of some batches, and
            returns its share of the loss.

    Examples:
        >>> z = torch.eye(4)
        >>> info_nce_batched(torch.cat([z, z]), temperature=0.5, batch_size=2, order=torch.tensor([3, 1, 0, 2]))
        tensor(0.2395)
    """
    check_temperature(temperature)
    if batch_size < 1:
        raise InputError(f"batch_size={batch_size}: a batch needs at least 1 node (2 to have negatives)")
    share = 1.0
    if part is not None:
        z, order, share = _own_batches(z, batch_size, order, members, part)
        if order.numel() == 0:
            return z.sum()  # 0, with a gradient, so that all ranks take part in the backward pass
    _check_arguments(z, temperature, members)
    n = order.numel()
    if 2 * n * members != z.shape[0]:
        raise InputError(f"order has {n} nodes for {z.shape[0]} rows of z; give a permutation of the nodes")
    full = n // batch_size * batch_size
    cut = ((order[:full], batch_size), (order[full:], n - full))
    batches = [nodes.view(-1, 1, size) for nodes, size in cut if nodes.numel()]
    first_rows = 2 * n * torch.arange(members, device=order.device).view(-1, 1, 1, 1)  # the first row of each member
    # In each batch, the rows of the first view come before the rows of the second.
    rows = [(first_rows + torch.cat([nodes, nodes + n], dim=1)).flatten() for nodes in batches]
    parts = permute_rows(z, torch.cat(rows)).split([part.numel() for part in rows])
    losses = [
        rows.shape[0] / z.shape[0] * _loss(rows, temperature, members * nodes.shape[0], impl, precision)
        for rows, nodes in zip(parts, batches, strict=True)
    ]
    total = sum(losses[1:], start=losses[0])
    return total if part is None else share * total


def _own_batches(z: Tensor, batch_size: int, order: Tensor, members: int, part: Part) -> tuple[Tensor, Tensor, float]:
    """Return the rows of the batches of this rank, their order 0, 1, 2, ..., and their share of all nodes."""
    n, size = order.numel(), part.ranks.size
    batches = -(-n // batch_size)
    stops = [min(batch_size * (batches * (rank + 1) // size), n) for rank in range(size)]
    sizes = [stop - start for start, stop in zip([0, *stops], stops, strict=False)]
    rows = exchange_rows(z, Exchange.of_order(part, order, sizes), 2 * members, "batches")
    own = sizes[part.ranks.rank]
    return rows, torch.arange(own, device=order.device), own / n


def check_temperature(temperature: float) -> None:
    """Raise unless exp(1/τ) and its sums stay in the range of float32.

    Examples:
        >>> check_temperature(0.3)
        >>> check_temperature(0.01)
        Traceback (most recent call last):
        ...
        epagcl.core.errors.InputError: temperature=0.01: must be at least 0.03
    """
    if not temperature >= MIN_TEMPERATURE:
        raise InputError(f"temperature={temperature}: must be at least {MIN_TEMPERATURE}")
    if isinstance(temperature, int) and temperature >= INT64_LIMIT:
        raise InputError(f"temperature={temperature}: must be below 2⁶³")


def _loss(z: Tensor, temperature: float, groups: int, impl: str, precision: str) -> Tensor:
    if impl == "auto":
        fits = z.dtype != torch.float64 and z.shape[1] <= MAX_TRITON_WIDTH
        impl = "triton" if fits and has_triton(z.device) else "tiled"
        if precision in PRECISIONS and precision not in IMPLEMENTATIONS[impl].precisions:
            precision = "fp32"  # at least the requested precision
    if impl not in IMPLEMENTATIONS:
        raise InputError(f"impl={impl!r}: choose one of auto, {', '.join(IMPLEMENTATIONS)}")
    function, precisions = IMPLEMENTATIONS[impl]
    if precision == "auto":
        precision = next(name for name in ("fp16", "bf16", "fp32") if name in precisions)
    if precision not in precisions:
        raise InputError(f"precision={precision!r}: {impl} supports {', '.join(precisions)}, or auto")
    if impl == "triton":
        _check_triton(z)
    if impl == "tiled" and (not has_bf16(z.device) or z.dtype == torch.float64 or z.shape[0] // groups < MIN_ROWS):
        precision = "fp32"
    with without_autocast(z.device):  # in half precision e^{1/τ} and the sums would overflow
        return function(z if z.dtype == torch.float64 else z.float(), temperature, groups, precision)


def _ring(z: Tensor, temperature: float, members: int, precision: str, part: Part) -> Tensor:
    """Return this rank's share of the mean loss of the members. Blocks travel, so all ranks compute in one way."""
    single = z.dtype != torch.float64
    triton = single and z.shape[1] <= MAX_TRITON_WIDTH and part.ranks.all_agree("triton", has_triton(z.device))
    if triton:
        precision = "fp16" if precision == "auto" else precision
    else:
        rounds = precision in ("bf16", "auto") and single and 2 * part.num_nodes >= MIN_ROWS
        precision = "bf16" if rounds and part.ranks.all_agree("bf16", has_bf16(z.device)) else "fp32"
    z = z.float() if single else z
    shares = [ring_loss(member, temperature, part, precision, triton=triton) for member in z.tensor_split(members)]
    return sum(shares[1:], start=shares[0]) / members


def _check_triton(z: Tensor) -> None:
    """Raise unless the Triton implementation can compute the loss of ``z``."""
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    if not has_triton(z.device) and not interpreted:
        raise InputError(
            f"impl='triton' needs the package triton and an NVIDIA GPU, not {z.device.type}; use impl='auto'"
        )
    if z.dtype == torch.float64 or z.shape[1] > MAX_TRITON_WIDTH:
        unsupported = "float64" if z.dtype == torch.float64 else f"rows wider than {MAX_TRITON_WIDTH}"
        raise InputError(f"impl='triton' does not support {unsupported}; use impl='auto' or 'tiled'")


def _check_arguments(z: Tensor, temperature: float, members: int) -> None:
    """Raise unless ``z`` is ``[members·2N, d]`` with N ≥ 1, and the temperature is in range."""
    if z.dim() != 2 or z.shape[0] == 0 or z.shape[0] % (2 * members):
        rows = "2N" if members == 1 else f"{members}·2N"
        raise InputError(f"z has the shape {tuple(z.shape)}; it must be [{rows}, d] with N ≥ 1")
    check_temperature(temperature)
