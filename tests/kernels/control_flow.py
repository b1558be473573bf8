"""Small kernels, one for each control flow form: early return, while, nested loops, branches, calls."""

from __future__ import annotations

import triton
import triton.language as tl

from tests.kernels.spec import Spec

# ruff: noqa: N803
__all__ = [
    "branch_in_loop_kernel",
    "call_paths_kernel",
    "collatz_kernel",
    "early_return_kernel",
    "joined_paths_kernel",
    "nested_loops_kernel",
    "noinline_kernel",
    "specs",
]


@triton.jit
def early_return_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    if pid * BLOCK >= n:
        return
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    if tl.load(x_ptr) < 0:
        tl.store(out_ptr + offs, -x, mask=offs < n)
        return
    tl.store(out_ptr + offs, x * 2, mask=offs < n)


@triton.jit
def collatz_kernel(x_ptr, out_ptr):
    pid = tl.program_id(0)
    value = tl.load(x_ptr + pid)
    steps = 0
    while value > 1:
        value = tl.where(value % 2 == 0, value // 2, 3 * value + 1)
        steps += 1
    tl.store(out_ptr + pid, steps)


@triton.jit
def nested_loops_kernel(x_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for row in range(rows):
        best = tl.full([BLOCK], -float("inf"), dtype=tl.float32)
        for col in range(0, cols, BLOCK):
            x = tl.load(x_ptr + row * cols + col + offs, mask=col + offs < cols, other=-float("inf"))
            best = tl.maximum(best, x)
        for other in range(row):
            tl.store(out_ptr + other * BLOCK + offs, best)
        total += best
    tl.store(out_ptr + rows * BLOCK + offs, total)


@triton.jit
def branch_in_loop_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK], dtype=tl.float32)
    flips = 0
    for i in range(n):
        x = tl.load(x_ptr + i * BLOCK + offs)
        if i % 2 == 0:
            acc += x
        else:
            acc -= x
            flips += 1
        if flips > 3:
            tl.store(out_ptr + BLOCK + offs, acc)
    tl.store(out_ptr + offs, acc + flips)


@triton.jit(noinline=True)
def scaled_square(value, scale):
    if value > 10.0:
        return value
    return value * value * scale


@triton.jit(noinline=True)
def bump(ptr, index):
    tl.atomic_add(ptr + index, 1)


@triton.jit
def noinline_kernel(x_ptr, out_ptr, counts_ptr, scale):
    pid = tl.program_id(0)
    x = tl.load(x_ptr + pid)
    y = scaled_square(x, scale)
    for i in range(3):
        y = scaled_square(y, scale) - i
    bump(counts_ptr, pid % 2)
    tl.store(out_ptr + pid, y)


@triton.jit(noinline=True)
def row_sum(x_ptr, row, cols, BLOCK: tl.constexpr):
    total = 0.0
    for col in range(0, cols, BLOCK):
        total += tl.sum(tl.load(x_ptr + row * cols + col + tl.arange(0, BLOCK)))
    return total


@triton.jit(noinline=True)
def row_score(x_ptr, row, cols, BLOCK: tl.constexpr):
    if row % 3 == 0:
        return 1.0
    total = row_sum(x_ptr, row, cols, BLOCK)
    if total < 0:
        tl.debug_barrier()
        return -total
    return total


@triton.jit
def call_paths_kernel(x_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    total = row_sum(x_ptr, pid, cols, BLOCK)
    for row in range(pid, rows):
        if row % 2 == 1:
            total += row_score(x_ptr, row, cols, BLOCK)
        total += row_sum(x_ptr, row, cols, BLOCK)
    tl.store(out_ptr + pid, total)


@triton.jit
def joined_paths_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK], dtype=tl.float32)
    if pid > 1:
        if pid == 3:
            return
        for i in range(pid):
            acc += tl.load(x_ptr + i * BLOCK + offs)
    else:
        for i in range(n):
            acc -= tl.load(x_ptr + i * BLOCK + offs)
    for i in range(2):
        tl.store(out_ptr + (2 * pid + i) * BLOCK + offs, acc)


def specs() -> list[Spec]:
    block = {"BLOCK": 128}
    return [
        Spec("early_return", early_return_kernel, {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}, block),
        Spec("while", collatz_kernel, {"x_ptr": "*i32", "out_ptr": "*i32"}),
        Spec(
            "nested_loops",
            nested_loops_kernel,
            {"x_ptr": "*fp32", "out_ptr": "*fp32", "rows": "i32", "cols": "i32"},
            block,
        ),
        Spec(
            "branch_in_loop", branch_in_loop_kernel, {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}, block
        ),
        Spec(
            "noinline",
            noinline_kernel,
            {"x_ptr": "*fp32", "out_ptr": "*fp32", "counts_ptr": "*i32", "scale": "fp32"},
        ),
        Spec(
            "call_paths",
            call_paths_kernel,
            {"x_ptr": "*fp32", "out_ptr": "*fp32", "rows": "i32", "cols": "i32"},
            block,
        ),
        Spec("joined_paths", joined_paths_kernel, {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}, block),
    ]
