"""Triton kernels of random draws, views, sparse products and the activation.

Each kernel has an equivalent in plain PyTorch where it is called, and the tests compare the two. All kernels are
deterministic: their only atomics add integers. Import these modules only where :func:`epagcl.core.hardware.has_triton`
holds, or after a test has set ``TRITON_INTERPRET=1``.
"""
