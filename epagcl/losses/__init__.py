"""Losses: InfoNCE over all pairs of nodes, and the losses of the other methods."""

from epagcl.losses.infonce import (
    IMPLEMENTATIONS,
    MIN_TEMPERATURE,
    PRECISIONS,
    info_nce,
    info_nce_batched,
    info_nce_stacked,
)

__all__ = ["IMPLEMENTATIONS", "MIN_TEMPERATURE", "PRECISIONS", "info_nce", "info_nce_batched", "info_nce_stacked"]
