"""Error Passing Rate (EPR): how much of what nodes receive comes from another class, and how one edge changes it."""

import torch
from torch import Tensor


def alpha_drop(degree: Tensor, pairs: Tensor) -> Tensor:
    r"""Weight of dropping each pair (below Eq. 6): α_ij = 2 / √(d_i d_j), in float64.

    The integer product comes first, so that pairs of equal product have bit-equal weights.
    """
    return 2 / (degree[pairs[0]] * degree[pairs[1]]).double().sqrt()


def alpha_add(degree: Tensor, pairs: Tensor) -> Tensor:
    r"""Weight of adding each pair (Theorem 3.5): α_ij = 2 / √((d_i + 1)(d_j + 1)), in float64."""
    return alpha_drop(degree + 1, pairs)
