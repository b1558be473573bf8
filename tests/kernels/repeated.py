"""Kernels that add to what they left, so that a launch too many, or memory that was not restored, shows."""

from __future__ import annotations

import triton
import triton.language as tl

# ruff: noqa: N803
__all__ = ["increased", "scattered_sum"]


@triton.jit
def scattered_sum(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    into = out_ptr + at * columns
    tl.store(into, tl.load(into) * 0.5 + tl.load(x_ptr + at))


@triton.jit
def increased(x_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at) + 1.0)
