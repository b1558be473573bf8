"""Kernels whose counts say how their CTAs, warps and lanes go different ways."""

from __future__ import annotations

import triton
import triton.language as tl

# ruff: noqa: N803
__all__ = ["add_old_kernel", "iterate_kernel", "uneven_kernel"]


@triton.jit
def add_old_kernel(x_ptr, sums_ptr, old_ptr, n, BLOCK: tl.constexpr):
    """Of bfloat16 on sm_80 a loop of compare-and-swaps, which lanes leave one by one."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    tl.store(old_ptr + offs, tl.atomic_add(sums_ptr + offs // 3, x, mask=mask), mask=mask)


@triton.jit
def uneven_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """A CTA goes round as often as its number in the grid says, x fastest."""
    cta = tl.program_id(0) + tl.num_programs(0) * (tl.program_id(1) + tl.num_programs(1) * tl.program_id(2))
    offs = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for row in range(cta):
        total += tl.load(x_ptr + row * BLOCK + offs)
    tl.store(out_ptr + cta * BLOCK + offs, total)


@triton.jit
def iterate_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """A loop without accesses, of which ptxas makes several copies."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    for _ in range(n):
        x = x * x + 0.5
    tl.store(out_ptr + offs, x)
