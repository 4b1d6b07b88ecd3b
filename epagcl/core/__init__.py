"""The lowest layer: errors, files, configuration, hardware, random draws, sparse products and Triton kernels."""
