"""Triton kernels of random draws, views, sparse products and the activation.

The caller of each kernel also has an equivalent in plain PyTorch. The tests compare the two. All kernels are
deterministic: their only atomic operations add integers. Import these modules only if
:func:`epagcl.core.hardware.has_triton` returns True, or after a test has set ``TRITON_INTERPRET=1``.
"""
