"""Kernels whose time tells what a GPU does at most: they do one thing, as much of it as they can."""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["cached_copy_kernel", "chase_kernel", "copy_kernel", "dot_kernel", "fma_kernel"]


@triton.jit
def copy_kernel(out_ptr, in_ptr, BLOCK: tl.constexpr):  # noqa: N803
    """A program copies one block."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(in_ptr + at))


@triton.jit
def cached_copy_kernel(out_ptr, in_ptr, blocks, step, rounds, BLOCK: tl.constexpr):  # noqa: N803
    """A program copies one of `blocks` blocks each round, the one `step` further on, past L1."""
    block = tl.program_id(0) % blocks
    for _ in range(rounds):
        at = block * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + at, tl.load(in_ptr + at, cache_modifier=".cg"), cache_modifier=".cg")
        block = (block + step) % blocks


@triton.jit
def chase_kernel(ring_ptr, at_ptr, steps):
    """A program follows a ring of places, past L1; each load needs the one before. at_ptr: where it is."""
    at = tl.load(at_ptr)
    for _ in range(steps):
        at = tl.load(ring_ptr + at, cache_modifier=".cg")
    tl.store(at_ptr, at)


@triton.jit
def fma_kernel(out_ptr, a, b, rounds, BLOCK: tl.constexpr, UNROLLED: tl.constexpr):  # noqa: N803
    """Each element n becomes n * a + b, UNROLLED times a round."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = at.to(tl.float32)
    for _ in range(rounds):
        for _ in tl.static_range(UNROLLED):
            x = tl.fma(x, a, b)
    tl.store(out_ptr + at, x)


@triton.jit
def dot_kernel(
    out_ptr, a_ptr, b_ptr, rounds, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr  # noqa: N803
):  # fmt: skip
    """A program adds the product of the same two tiles each round."""
    rows, cols, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + rows[:, None] * K + inner[None, :])
    b = tl.load(b_ptr + inner[:, None] * N + cols[None, :])
    total = tl.zeros((M, N), dtype=tl.float32)
    for _ in range(rounds):
        total = tl.dot(a, b, total)
    at = tl.program_id(0) * M * N + rows[:, None] * N + cols[None, :]
    tl.store(out_ptr + at, total)
