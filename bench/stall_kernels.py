"""Kernels whose stalls are known beforehand: one reason each, on one line.

What is to be blamed stands on the lines that end with a comment which begins with `blamed`.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

# ruff: noqa: N803
__all__ = ["dots_kernel", "exp_kernel", "fma_kernel", "late_kernel", "thrash_kernel", "transpose_kernel"]

_COUNT_DOWN = tl.constexpr(
    "{ .reg .pred more; .reg .b32 left; mov.b32 left, $1; again: sub.s32 left, left, 1; "
    "setp.gt.s32 more, left, 0; @more bra again; mov.b32 $0, left; }"
)
# 16,384 instructions of 16 bytes: twice what an SM's cache for instructions holds.
_LONG = tl.constexpr(
    "{ .reg .f32 a, b, c, d; mov.f32 a, $1; add.f32 b, a, a; add.f32 c, b, b; add.f32 d, c, c; "
    + "".join(f"fma.rn.f32 {x}, {x}, 0f3F7FFFFF, 0f3F000000; " for x in "abcd") * 4096
    + "add.f32 a, a, b; add.f32 c, c, d; add.f32 $0, a, c; }"
)


@triton.jit
def late_kernel(out_ptr, rounds, turns, WARPS: tl.constexpr):
    """One warp of a CTA counts down before each barrier, the others wait there."""
    thread = tl.arange(0, 32 * WARPS)
    total = thread
    for _ in range(rounds):
        count = tl.where(thread < 32, turns, 1) + (total & 1)
        total += tl.inline_asm_elementwise(_COUNT_DOWN, "=r,r", [count], tl.int32, False, 1)  # blamed
        tl.debug_barrier()
    tl.store(out_ptr + tl.program_id(0) * 32 * WARPS + thread, total)


@triton.jit
def exp_kernel(out_ptr, rounds, BLOCK: tl.constexpr):
    """As much of a softmax as is made of exponentials."""
    at = tl.arange(0, BLOCK)
    x, total = at.to(tl.float32) * -1e-3, tl.zeros([BLOCK], tl.float32)
    for _ in range(rounds):
        x = tl.exp2(-x)  # blamed
        total += x
    tl.store(out_ptr + tl.program_id(0) * BLOCK + at, total)


@triton.jit
def fma_kernel(out_ptr, rounds, scale, BLOCK: tl.constexpr):
    """Each product waits for the one before it."""
    at = tl.arange(0, BLOCK)
    x = at.to(tl.float32)
    for _ in range(rounds):
        for _ in tl.static_range(64):
            x = x * scale + 0.5  # blamed
    tl.store(out_ptr + tl.program_id(0) * BLOCK + at, x)


@triton.jit
def thrash_kernel(out_ptr, rounds, BLOCK: tl.constexpr):
    """A body that does not fit the caches for instructions."""
    at = tl.arange(0, BLOCK)
    x = at.to(tl.float32)
    for _ in range(rounds):
        x = tl.inline_asm_elementwise(_LONG, "=f,f", [x], tl.float32, False, 1)  # blamed
    tl.store(out_ptr + tl.program_id(0) * BLOCK + at, x)


@triton.jit
def dots_kernel(a_ptr, b_ptr, c_ptr, rounds, BLOCK: tl.constexpr, K: tl.constexpr):
    """One dot after the other on the same tiles in shared memory: nothing is copied meanwhile."""
    at, inner = tl.arange(0, BLOCK), tl.arange(0, K)
    a = tl.load(a_ptr + at[:, None] * K + inner[None, :])
    b = tl.load(b_ptr + inner[:, None] * BLOCK + at[None, :])
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for _ in range(rounds):
        total = tl.dot(a, b, total)  # blamed
    tl.store(c_ptr + tl.program_id(0) * BLOCK * BLOCK + at[:, None] * BLOCK + at[None, :], total)


@gluon.jit
def transpose_kernel(x_ptr, out_ptr, rounds, N: gl.constexpr):
    """Columns of a tile in shared memory whose rows all begin in the same bank."""
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    row = gl.arange(0, N, layout=gl.SliceLayout(1, layout))
    column = gl.arange(0, N, layout=gl.SliceLayout(0, layout))
    at = row[:, None] * N + column[None, :]
    tile = gl.allocate_shared_memory(gl.float32, [N, N], shared)
    x = gl.load(x_ptr + at)
    for _ in range(rounds):
        tile.store(x)
        x = tile.permute((1, 0)).load(layout)  # blamed
    gl.store(out_ptr + gl.program_id(0) * N * N + at, x)
