"""Views of a graph: which pairs to drop and to add, with which probability (Algorithm 1, Eq. 7), and their sampling."""

from collections.abc import Sequence

import torch
from torch import Tensor

from epagcl.core.errors import InputError
from epagcl.core.randomness import Stream, uniform


def feature_mask(
    num_features: int, p: float | Tensor, *, seed: int, epoch: int | Tensor, view: int, device="cpu"
) -> Tensor | None:
    """0 for the feature columns that this view hides (each with probability p, for all nodes alike), 1 elsewhere.

    ``p`` may be one number for each column. None for p = 0. A mask goes on the weights: (X ∘ mask) W = X (mask ∘ W),
    so that X is never copied.
    """
    if not isinstance(p, Tensor):
        if not 0 <= p <= 1:
            raise InputError(f"p_mask={p}: a probability lies between 0 and 1")
        if p == 0:
            return None
    columns = torch.arange(num_features, device=device)
    return (uniform(columns, seed, Stream.FEATURES, epoch, view) >= p).float()


def feature_masks(
    num_features: int, p: Sequence[float | Tensor], *, seed: int, epoch: int | Tensor, device
) -> Tensor | None:
    """:func:`feature_mask` of each view, ``[V, F]``; None if no view hides anything."""
    masks = [feature_mask(num_features, q, seed=seed, epoch=epoch, view=v, device=device) for v, q in enumerate(p)]
    if all(mask is None for mask in masks):
        return None
    return torch.stack([torch.ones(num_features, device=device) if mask is None else mask for mask in masks])
