"""Losses: InfoNCE over all pairs of nodes, and the losses of the other methods."""

from epagcl.losses.infonce import MIN_TEMPERATURE, PRECISIONS, info_nce, info_nce_batched, info_nce_stacked

__all__ = ["MIN_TEMPERATURE", "PRECISIONS", "info_nce", "info_nce_batched", "info_nce_stacked"]
