"""Estimates of EPR without labels, and what an operator gains over raw features."""

from typing import NamedTuple

import torch
from torch import Tensor

from epagcl.core import pca
from epagcl.core.norms import inverse_norms
from epagcl.core.randomness import Stream, permutation, uniform
from epagcl.core.sparse import SparseMatrix
from epagcl.distributed.partition import Part
from epagcl.epr.operators import Operator

COMPONENTS = 64  # principal components of each half of the feature columns
DIRECTIONS = 8  # canonical directions, about as many as a graph has classes
RIDGE = 0.1  # added to the covariances, relative to their mean variance
PROBES = 64  # random signs that measure the weights of an operator


class SharedSignal(NamedTuple):
    """What two halves of the feature columns both say about each node, see :func:`shared_signal`.

    Attributes:
        left: canonical scores of the first half, ``[N, k]``.
        right: canonical scores of the second half, ``[N, k]``.
        correlation: regularised canonical correlations ρ_k = mean of left_k · right_k, in decreasing order, ``[k]``.

    Examples:
        >>> SharedSignal(torch.ones(2, 1), torch.ones(2, 1), torch.ones(1)).correlation
        tensor([1.])
    """

    left: Tensor
    right: Tensor
    correlation: Tensor


@torch.no_grad()
def shared_signal(x: Tensor | SparseMatrix) -> SharedSignal | None:
    """Split the feature columns into two random halves, and return the directions in which they agree.

    The rows of each half are scaled to unit length and reduced to 64 principal components. A regularised canonical
    correlation analysis then finds the 8 pairs of directions of highest correlation. Noise of single features is not
    shared by the halves, but the class of a node is.

    Args:
        x: node features ``[N, F]``, dense or sparse. They are not copied.

    Returns:
        The scores, or None if the features have fewer than two columns or do not vary.

    Examples:
        >>> x = torch.eye(3).repeat_interleave(4, dim=0).repeat(1, 8)  # three kinds of nodes
        >>> signal = shared_signal(x)
        >>> bool((signal.correlation[:2] > 0.9).all()), bool((signal.correlation[2:] < 0.1).all())
        (True, True)
    """
    num_nodes, num_features = x.shape
    if num_features < 2 or num_nodes < 2:
        return None
    left, right = column_halves(x)
    factors = [_cholesky(scores) for scores in (left, right)]
    if factors[0] is None or factors[1] is None:
        return None
    cross = (left.T @ right / num_nodes).cpu().double()
    # L_a⁻¹ C L_b⁻ᵀ, the covariance of the whitened halves
    whitened = torch.linalg.solve_triangular(factors[0], cross, upper=False)
    whitened = torch.linalg.solve_triangular(factors[1], whitened.T, upper=False).T
    u, correlation, v = torch.linalg.svd(whitened)
    k = min(DIRECTIONS, correlation.numel())
    directions = [
        torch.linalg.solve_triangular(factor.T, basis[:, :k], upper=True).to(left)
        for factor, basis in ((factors[0], u), (factors[1], v.T))
    ]
    return SharedSignal(left @ directions[0], right @ directions[1], correlation[:k].to(left))


def column_halves(x: Tensor | SparseMatrix, part: Part | None = None) -> tuple[Tensor, Tensor]:
    """Split the feature columns into two random halves; return the principal components of the unit rows of each.

    Args:
        x: node features ``[N, F]`` with F ≥ 2, dense or sparse. They are not copied.
        part: the nodes of this rank, if ``x`` has their rows only.

    Returns:
        Two tensors with at most 64 columns each, and the rows of ``x``.

    Examples:
        >>> left, right = column_halves(torch.eye(4).repeat(1, 2))
        >>> left.shape, right.shape
        (torch.Size([4, 4]), torch.Size([4, 4]))
    """
    first = permutation(x.shape[1], 0, Stream.STRUCTURE, 2, device=x.device) < x.shape[1] // 2
    left, right = (_half(x, columns.float()[:, None], part) for columns in (first, ~first))
    return left, right


def estimated_epr(operator: Operator, signal: SharedSignal) -> float:
    """Estimate the EPR of an operator without labels, relative to messages from random nodes.

    Let p_ij = M_ij / Σ_j M_ij, and let l and r be the canonical scores of the two halves of the features. A message
    carries the class of its sender. The estimate compares the agreement of a node's one half with the messages of the
    other half, and with its own other half:

        1 − Σ_k ρ_k mean_i (l_ik Σ_j p_ij r_jk) / Σ_k ρ_k mean_i (l_ik r_ik),

    averaged over both roles of the halves. If the halves agree only in the class of a node, this is EPR / chance, where
    chance is the EPR of random messages (:func:`chance_epr`): 0 if all messages come from the same class, 1 if they
    come from random nodes. If features also agree within parts of a class, the estimate is too high. If edges follow
    the features more than the classes, it is too low. Nothing is fitted to labels. If the halves do not agree at all,
    messages say no more about a node than random ones: the estimate is 1.

    Args:
        operator: M ≥ 0 as a function Y → MY.
        signal: of the features.

    Examples:
        >>> x = torch.eye(2).repeat_interleave(4, dim=0).repeat(1, 8)  # two kinds of nodes
        >>> signal = shared_signal(x)
        >>> estimated_epr(lambda h: h, signal)  # each node receives its own message only
        0.0
        >>> round(estimated_epr(lambda h: h.mean(dim=0).expand_as(h), signal), 4)  # random messages
        1.0
    """
    left, right, correlation = signal
    k = correlation.numel()
    total = operator(torch.ones_like(left[:, :1]))
    received = operator(torch.cat([right, left], dim=1)) / total.where(total > 0, 1.0)
    agreement = (left * received[:, :k] + right * received[:, k:]) @ correlation / 2
    own = (left * right) @ correlation
    own = own.mean()
    return float(1 - agreement.mean() / own) if own > 0 else 1.0


def effective_messages(operator: Operator, num_nodes: int, device: torch.device | str = "cpu") -> float:
    """Return the effective number of messages per node: 1 / mean_i Σ_j p_ij², with p_ij = M_ij / Σ_j M_ij.

    A mean over n messages of equal weight has n effective messages. The noise of independent features falls by this
    factor. The squares are estimated by 64 products with random signs s, since the expectation of (Σ_j p_ij s_j)² is
    Σ_j p_ij². An operator without messages has 0.

    Args:
        operator: M ≥ 0 as a function Y → MY.
        num_nodes: N.
        device: the device of the operator.

    Examples:
        >>> effective_messages(lambda h: 2 * h, num_nodes=5)
        1.0
    """
    counter = torch.arange(num_nodes * PROBES, device=device).view(num_nodes, PROBES)
    signs = torch.where(uniform(counter, 0, Stream.STRUCTURE, 3) < 0.5, -1.0, 1.0)
    total = operator(torch.ones_like(signs[:, :1]))
    shares = operator(signs) / total.where(total > 0, 1.0)
    squares = float(shares.square().mean())
    return 1 / squares if squares > 0 else 0.0


def propagation_gain(relative_epr: float, messages: float) -> float:
    """Return (1 − r)² n, the factor by which an operator changes the signal-to-noise ratio of the features.

    Suppose that features are the mean of their class plus independent noise. Of an average over n messages, the share
    1 − r carries the node's class, where r is the relative EPR; the rest is as from random nodes. The noise has 1/n of
    its variance. Raw features have a gain of 1.

    Args:
        relative_epr: EPR / chance, or its estimate.
        messages: effective number of messages.

    Examples:
        >>> propagation_gain(relative_epr=0.5, messages=8)
        2.0
    """
    return max(1 - relative_epr, 0.0) ** 2 * messages


def _half(x: Tensor | SparseMatrix, columns: Tensor, part: Part | None = None) -> Tensor:
    """Return the principal components of the unit rows of some columns, given as a column of 0 and 1."""
    scale = inverse_norms(x, columns[:, 0])
    operator = pca.Operator(
        shape=(x.shape[0], x.shape[1]),
        multiply=lambda v: (x @ (columns * v)).mul_(scale),
        multiply_transposed=lambda v: columns * (x.T @ (scale * v)),
        device=x.device,
    )
    if part is not None:
        operator = operator.spread(part.num_nodes, part.rows, part.sum)
    mean, directions = pca.principal_components(operator, min(COMPONENTS, *operator.shape))
    return operator.multiply(directions) - mean @ directions


def _cholesky(scores: Tensor) -> Tensor | None:
    """Return the Cholesky factor of the regularised covariance in float64, or None if it is 0."""
    covariance = (scores.T @ scores / scores.shape[0]).cpu().double()
    ridge = RIDGE * covariance.diagonal().mean()
    if not ridge > 0:
        return None
    return torch.linalg.cholesky(covariance + ridge * torch.eye(len(covariance), dtype=torch.float64))
