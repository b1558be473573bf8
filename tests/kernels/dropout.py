"""Dropout and random numbers by Philox."""

from __future__ import annotations

import triton
import triton.language as tl

# ruff: noqa: N803
__all__ = ["dropout_kernel", "random_kernel"]


@triton.jit
def dropout_kernel(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    keep = tl.rand(seed, offs) > p
    tl.store(out_ptr + offs, tl.where(keep, x / (1 - p), 0.0), mask=offs < n)


@triton.jit
def random_kernel(out_ptr, seed, KIND: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if KIND == "int":
        y = tl.randint(seed, offs)
    elif KIND == "normal":
        y = tl.randn(seed, offs)
    else:
        y = tl.rand(seed, offs)
    tl.store(out_ptr + offs, y)
