"""Small Triton kernels with one known fault each, their mended twins, and kernels without a fault."""
