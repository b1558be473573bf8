"""Two loops: one stores in every iteration, one is skipped by a branch every other time."""

from __future__ import annotations

import triton
import triton.language as tl

# ruff: noqa: N803
__all__ = ["count_kernel", "loop_in_branch_kernel"]


@triton.jit
def count_kernel(out_ptr, n, BLOCK: tl.constexpr):
    total = tl.zeros([BLOCK], dtype=tl.int32)
    for i in range(n):
        total += i
        tl.store(out_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), total)


@triton.jit
def loop_in_branch_kernel(x_ptr, out_ptr, rows, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK], dtype=tl.float32)
    for row in range(rows):
        if row % 2 == 1:
            for i in range(row):
                acc += tl.load(x_ptr + i * BLOCK + offs)
    tl.store(out_ptr + offs, acc)
