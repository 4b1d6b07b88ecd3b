"""The edge weights α of Theorem 3.5, which measure how strongly dropping or adding a pair changes EPR."""

from torch import Tensor


def alpha_drop(degree: Tensor, pairs: Tensor, weight: Tensor | None = None) -> Tensor:
    """Return the weight of dropping each pair, α_ij = 2 w_ij/√(d_i d_j) (Eq. (6), Appendix C, where w = 1).

    Without weights, the degrees are multiplied as integers before the root is taken. Pairs with the same product
    therefore have bit-equal α.

    Args:
        degree: degree of each node, ``[N]``: integers, or with weights the sums of the weights.
        pairs: node pairs, ``[2, P]``.
        weight: the weight w of each pair, ``[P]``; None: 1.

    Examples:
        >>> import torch
        >>> alpha_drop(torch.tensor([1, 4]), torch.tensor([[0], [1]]))
        tensor([1.], dtype=torch.float64)
    """
    if weight is None:
        return 2 / (degree[pairs[0]] * degree[pairs[1]]).double().sqrt()
    return 2 * weight.double() / (degree[pairs[0]].double() * degree[pairs[1]].double()).sqrt()


def alpha_add(degree: Tensor, pairs: Tensor) -> Tensor:
    """Return the weight of adding each pair with w = 1, α_ij = 2/√((d_i + 1)(d_j + 1)) (Eq. (5), Theorem 3.5).

    Args:
        degree: degree of each node before the addition, ``[N]``.
        pairs: node pairs, ``[2, P]``.

    Examples:
        >>> import torch
        >>> alpha_add(torch.tensor([0, 3]), torch.tensor([[0], [1]]))
        tensor([1.], dtype=torch.float64)
    """
    return alpha_drop(degree + 1, pairs)
