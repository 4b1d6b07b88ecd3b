"""Random feature masks, which hide feature columns in a view."""

from collections.abc import Sequence

import torch
from torch import Tensor

from epagcl.core.errors import InputError
from epagcl.core.randomness import Stream, uniform


def feature_mask(
    num_features: int,
    p: float | Tensor,
    *,
    seed: int,
    epoch: int | Tensor,
    view: int,
    device: torch.device | str = "cpu",
) -> Tensor | None:
    """Draw the feature mask of one view: 0 for hidden columns, 1 for the others.

    A column is hidden for all nodes or for none. Layers apply the mask to the weights instead of the features, since
    (X ∘ mask) W = X (mask ∘ W). X is never copied.

    Args:
        num_features: number of feature columns F.
        p: probability that a column is hidden, one number or one per column, ``[F]``.
        seed: random seed.
        epoch: epoch, as an int or a 0-dimensional tensor.
        view: number of the view.
        device: device of the mask.

    Returns:
        A float tensor ``[F]``, or None for p = 0.

    Examples:
        >>> feature_mask(4, 1.0, seed=0, epoch=0, view=0)
        tensor([0., 0., 0., 0.])
        >>> feature_mask(4, 0.0, seed=0, epoch=0, view=0) is None
        True
    """
    if not isinstance(p, Tensor):
        if not 0 <= p <= 1:
            raise InputError(f"p={p}: a probability lies between 0 and 1")
        if p == 0:
            return None
    columns = torch.arange(num_features, device=device)
    return (uniform(columns, seed, Stream.FEATURES, epoch, view) >= p).float()


def feature_masks(
    num_features: int, p: Sequence[float | Tensor], *, seed: int, epoch: int | Tensor, device: torch.device | str
) -> Tensor | None:
    """Draw the feature masks of several views, see :func:`feature_mask`.

    Args:
        num_features: number of feature columns F.
        p: for each view, the probability that a column is hidden.
        seed: random seed.
        epoch: epoch, as an int or a 0-dimensional tensor.
        device: device of the masks.

    Returns:
        A float tensor ``[V, F]``, or None if no view hides columns.

    Examples:
        >>> feature_masks(3, (0.0, 1.0), seed=0, epoch=0, device="cpu")
        tensor([[1., 1., 1.],
                [0., 0., 0.]])
    """
    masks = [feature_mask(num_features, q, seed=seed, epoch=epoch, view=v, device=device) for v, q in enumerate(p)]
    if all(mask is None for mask in masks):
        return None
    return torch.stack([torch.ones(num_features, device=device) if mask is None else mask for mask in masks])
