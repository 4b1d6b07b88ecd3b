"""InfoNCE over all pairs of nodes: one public function, one file per implementation."""

from epagcl.losses.infonce.loss import (
    IMPLEMENTATIONS,
    MIN_TEMPERATURE,
    PRECISIONS,
    info_nce,
    info_nce_batched,
    info_nce_stacked,
)

__all__ = ["IMPLEMENTATIONS", "MIN_TEMPERATURE", "PRECISIONS", "info_nce", "info_nce_batched", "info_nce_stacked"]
