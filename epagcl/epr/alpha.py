"""TODO."""

from torch import Tensor


def alpha_drop(degree: Tensor, pairs: Tensor) -> Tensor:
    """Weight of dropping each pair (Eq. 6, Appendix C): α_ij = 2/√(d_i d_j), from integer degrees ``[N]``.

    The integer product comes first, so that pairs of equal product have bit-equal weights.
    """
    return 2 / (degree[pairs[0]] * degree[pairs[1]]).double().sqrt()


def alpha_add(degree: Tensor, pairs: Tensor) -> Tensor:
    """Weight of adding each pair (Eq. 5, Theorem 3.5): α_ij = 2/√((d_i + 1)(d_j + 1))."""
    return alpha_drop(degree + 1, pairs)
