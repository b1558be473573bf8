"""One tile's tl.dot in every operand type, and a persistent layer of it."""

from __future__ import annotations

import triton
import triton.language as tl

# ruff: noqa: N803
__all__ = ["dot_kernel", "half_product_kernel"]


@triton.jit
def dot_kernel(
    a_ptr, b_ptr, c_ptr, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """C = A @ B for row-major A (BLOCK_M, K), B (K, BLOCK_N), accumulated in the type of C."""
    offs_m = tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=c_ptr.dtype.element_ty)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + offs_m[:, None] * K + (k + offs_k)[None, :])
        b = tl.load(b_ptr + (k + offs_k)[:, None] * BLOCK_N + offs_n[None, :])
        acc = tl.dot(a, b, acc, input_precision=PRECISION, out_dtype=c_ptr.dtype.element_ty)
    tl.store(c_ptr + offs_m[:, None] * BLOCK_N + offs_n[None, :], acc)


@triton.jit
def half_product_kernel(a_ptr, b_ptr, c_ptr, N, K, BLOCK: tl.constexpr):
    """A matrix product that sums in float16."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inner = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float16)
    for k in tl.range(0, K, BLOCK):
        a = tl.load(a_ptr + rows[:, None] * K + (k + inner)[None, :])
        b = tl.load(b_ptr + (k + inner)[:, None] * N + cols[None, :])
        total = tl.dot(a, b, total, out_dtype=tl.float16)
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], total)
