"""Elementwise kernels: arithmetic of every type, conversions, math functions of Triton and of libdevice."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice

# ruff: noqa: N803
__all__ = ["cast_kernel", "hints_kernel", "int_kernel", "libdevice_kernel", "math_kernel", "where_kernel"]


@triton.jit
def math_kernel(x_ptr, out_ptr, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=1.0)
    if OP == "exp":
        y = tl.exp(x)
    elif OP == "exp2":
        y = tl.exp2(x)
    elif OP == "log":
        y = tl.log(x)
    elif OP == "log2":
        y = tl.log2(x)
    elif OP == "sin":
        y = tl.sin(x)
    elif OP == "cos":
        y = tl.cos(x)
    elif OP == "sqrt":
        y = tl.sqrt(x)
    elif OP == "sqrt_rn":
        y = tl.sqrt_rn(x)
    elif OP == "rsqrt":
        y = tl.rsqrt(x)
    elif OP == "erf":
        y = tl.erf(x)
    elif OP == "floor":
        y = tl.floor(x)
    elif OP == "ceil":
        y = tl.ceil(x)
    elif OP == "abs":
        y = tl.abs(x)
    elif OP == "sigmoid":
        y = tl.sigmoid(x)
    elif OP == "reciprocal":
        y = tl.div_rn(1.0, x)
    else:
        y = tl.fma(x, x, x)
    tl.store(out_ptr + offs, y, mask=offs < n)


@triton.jit
def libdevice_kernel(x_ptr, out_ptr, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=1.0)
    if OP == "exp":
        y = libdevice.exp(x)
    elif OP == "log":
        y = libdevice.log(x)
    elif OP == "log1p":
        y = libdevice.log1p(x)
    elif OP == "expm1":
        y = libdevice.expm1(x)
    elif OP == "sin":
        y = libdevice.sin(x)
    elif OP == "cos":
        y = libdevice.cos(x)
    elif OP == "tan":
        y = libdevice.tan(x)
    elif OP == "erf":
        y = libdevice.erf(x)
    elif OP == "tanh":
        y = libdevice.tanh(x)
    elif OP == "atan":
        y = libdevice.atan(x)
    elif OP == "rsqrt":
        y = libdevice.rsqrt(x)
    elif OP == "rint":
        y = libdevice.rint(x)
    elif OP == "cbrt":
        y = libdevice.cbrt(x)
    elif OP == "lgamma":
        y = libdevice.lgamma(x)
    else:
        y = libdevice.pow(x, x * 0 + 2.5)
    tl.store(out_ptr + offs, y, mask=offs < n)


@triton.jit
def cast_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Whatever the two pointers' element types are."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, x.to(out_ptr.dtype.element_ty), mask=offs < n)


@triton.jit
def int_kernel(x_ptr, y_ptr, out_ptr, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=1)
    y = tl.load(y_ptr + offs, mask=offs < n, other=1)
    if OP == "add":
        z = x + y
    elif OP == "sub":
        z = x - y
    elif OP == "mul":
        z = x * y
    elif OP == "div":
        z = x // y
    elif OP == "mod":
        z = x % y
    elif OP == "and":
        z = x & y
    elif OP == "or":
        z = x | y
    elif OP == "xor":
        z = x ^ y
    elif OP == "shl":
        z = x << (y & 7)
    elif OP == "shr":
        z = x >> (y & 7)
    elif OP == "max":
        z = tl.maximum(x, y)
    elif OP == "min":
        z = tl.minimum(x, y)
    elif OP == "umulhi":
        z = tl.umulhi(x, y)
    elif OP == "popc":
        z = libdevice.popc(x)
    elif OP == "clz":
        z = libdevice.clz(x)
    elif OP == "brev":
        z = libdevice.brev(x)
    else:
        z = ~x + tl.abs(y)
    tl.store(out_ptr + offs, z, mask=offs < n)


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
