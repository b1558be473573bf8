"""Elementwise kernels: conversions, math functions of Triton and of libdevice."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice

# ruff: noqa: N803
__all__ = ["cast_kernel", "hints_kernel", "libdevice_kernel", "math_kernel", "where_kernel"]


@triton.jit
def math_kernel(x_ptr, out_ptr, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=1.0)
    if OP == "reciprocal":
        y = tl.div_rn(1.0, x)
    elif OP == "fma":
        y = tl.fma(x, x, x)
    else:
        y = getattr(tl, OP)(x)
    tl.store(out_ptr + offs, y, mask=offs < n)


@triton.jit
def libdevice_kernel(x_ptr, out_ptr, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=1.0)
    y = libdevice.pow(x, x * 0 + 2.5) if OP == "pow" else getattr(libdevice, OP)(x)
    tl.store(out_ptr + offs, y, mask=offs < n)


@triton.jit
def cast_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Whatever the two pointers' element types are."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, x.to(out_ptr.dtype.element_ty), mask=offs < n)


@triton.jit
def where_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    y = tl.where((x > 0) & (offs % 3 == 0) | (x < -1), x * 2, tl.where(x != x, 7.0, -x))
    tl.store(out_ptr + offs, y, mask=offs < n)


@triton.jit
def hints_kernel(
    x_ptr, out_ptr, n, EVICT: tl.constexpr, LOAD: tl.constexpr, STORE: tl.constexpr, BLOCK: tl.constexpr
):
    """Cache modifiers and eviction policies, which change nothing about the result."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, eviction_policy=EVICT, cache_modifier=LOAD)
    y = tl.load(x_ptr + offs, mask=offs < n, volatile=True)
    tl.store(out_ptr + offs, x + y, mask=offs < n, eviction_policy=EVICT, cache_modifier=STORE)
