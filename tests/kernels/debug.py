"""Kernels that print, assert, and go wrong on purpose."""

from __future__ import annotations

import triton
import triton.language as tl

# ruff: noqa: N803
__all__ = ["assert_kernel", "misaligned_kernel", "out_of_bounds_kernel", "print_kernel"]


@triton.jit
def print_kernel(x_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.device_print("x is", x)


@triton.jit(debug=True)
def assert_kernel(x_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.device_assert(x > 0, "x must be positive")


@triton.jit
def out_of_bounds_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """Loads without a mask: the last program reads beyond `x` unless BLOCK divides its size."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.store(out_ptr + tl.program_id(0), tl.sum(x))


@triton.jit
def misaligned_kernel(x_ptr, out_ptr):
    word = (x_ptr.to(tl.int64) + 2).to(tl.pointer_type(tl.int32))
    tl.store(out_ptr, tl.load(word))
