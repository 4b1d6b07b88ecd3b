"""Foundations: errors, files, configuration, hardware, randomness, sparse products and kernels."""
