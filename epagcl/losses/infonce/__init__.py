"""InfoNCE over all pairs of nodes.

``loss`` has the public functions. Each implementation has one file: ``dense`` (the formula, memory O(N²)), ``tiled``
(plain PyTorch, memory O(N·d)), ``tiled_bf16`` (the same on CPUs with bf16 instructions) and ``triton_loss`` (fused
``triton_kernels``, whose tile sizes ``tiles`` chooses).
"""

from epagcl.losses.infonce.loss import (
    IMPLEMENTATIONS,
    MIN_TEMPERATURE,
    PRECISIONS,
    info_nce,
    info_nce_batched,
    info_nce_stacked,
)

__all__ = ["IMPLEMENTATIONS", "MIN_TEMPERATURE", "PRECISIONS", "info_nce", "info_nce_batched", "info_nce_stacked"]
