"""Triton kernels. Each has a plain PyTorch twin beside its caller. Only these modules import Triton."""
