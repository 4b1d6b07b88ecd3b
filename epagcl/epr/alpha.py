"""The edge weights α of Theorem 3.5, which measure how strongly dropping or adding a pair changes EPR."""

from torch import Tensor


def alpha_drop(degree: Tensor, pairs: Tensor) -> Tensor:
    """Return the weight of dropping each pair, α_ij = 2/√(d_i d_j) (Eq. (6), Appendix C).

    The degrees are multiplied as integers before the root is taken. Pairs with the same product therefore have
    bit-equal weights.

    Args:
        degree: degree of each node, integers of shape ``[N]``.
        pairs: node pairs, ``[2, P]``.

    Examples:
        >>> import torch
        >>> alpha_drop(torch.tensor([1, 4]), torch.tensor([[0], [1]]))
        tensor([1.], dtype=torch.float64)
    """
    return 2 / (degree[pairs[0]] * degree[pairs[1]]).double().sqrt()


def alpha_add(degree: Tensor, pairs: Tensor) -> Tensor:
    """Return the weight of adding each pair, α_ij = 2/√((d_i + 1)(d_j + 1)) (Eq. (5), Theorem 3.5).

    Args:
        degree: degree of each node before the addition, integers of shape ``[N]``.
        pairs: node pairs, ``[2, P]``.

    Examples:
        >>> import torch
        >>> alpha_add(torch.tensor([0, 3]), torch.tensor([[0], [1]]))
        tensor([1.], dtype=torch.float64)
    """
    return alpha_drop(degree + 1, pairs)
