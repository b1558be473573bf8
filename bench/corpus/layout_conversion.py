"""Tensors that change their layout through shared memory."""

from __future__ import annotations

import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def turned_sum_kernel(x_ptr, out_ptr, steps, SIDE: tl.constexpr):
    """Sum of tiles that is turned in each step."""
    rs, cs = tl.arange(0, SIDE), tl.arange(0, SIDE)
    acc = tl.zeros((SIDE, SIDE), dtype=tl.float32)
    for step in range(steps):
        base = (tl.program_id(0) * steps + step) % 256 * SIDE * SIDE
        x = tl.load(x_ptr + base + rs[:, None] * SIDE + cs[None, :])
        acc = tl.trans(acc) + x  # fault
    tl.store(out_ptr + tl.program_id(0) * SIDE * SIDE + rs[:, None] * SIDE + cs[None, :], acc)


@triton.jit
def sums_turned_once_kernel(x_ptr, out_ptr, steps, SIDE: tl.constexpr):
    """As turned_sum_kernel: what is turned an odd number of times is summed apart, and turned at the end."""
    rs, cs = tl.arange(0, SIDE), tl.arange(0, SIDE)
    odd = tl.zeros((SIDE, SIDE), dtype=tl.float32)
    even = tl.zeros((SIDE, SIDE), dtype=tl.float32)
    for step in range(0, steps, 2):
        first = (tl.program_id(0) * steps + step) % 256 * SIDE * SIDE
        second = (tl.program_id(0) * steps + step + 1) % 256 * SIDE * SIDE
        odd += tl.load(x_ptr + first + rs[:, None] * SIDE + cs[None, :])
        even += tl.load(x_ptr + second + rs[:, None] * SIDE + cs[None, :])
    out = even + tl.trans(odd)
    tl.store(out_ptr + tl.program_id(0) * SIDE * SIDE + rs[:, None] * SIDE + cs[None, :], out)


def _turned_sum(once: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        programs, steps = (2, 4) if small else (132 * 8, 64)
        x, out = random(256, 64, 64), empty(programs, 64, 64)
        kernel = sums_turned_once_kernel if once else turned_sum_kernel
        return Launch(kernel, (programs,), (x, out, steps), (out,), {"SIDE": 64, "num_warps": 4})

    return prepare


@triton.jit
def products_across_kernel(x_ptr, y_ptr, out_ptr, steps, TURN: tl.constexpr, SIDE: tl.constexpr):
    """Sum of products of tiles and of other tiles, which may be stored by columns."""
    rs, cs = tl.arange(0, SIDE), tl.arange(0, SIDE)
    acc = tl.zeros((SIDE, SIDE), dtype=tl.float32)
    for step in range(steps):
        offs = (tl.program_id(0) * steps + step) % 256 * SIDE * SIDE + rs[:, None] * SIDE + cs[None, :]
        x, y = tl.load(x_ptr + offs), tl.load(y_ptr + offs)
        if TURN:
            y = tl.trans(y)  # fault
        acc += x * y
    tl.store(out_ptr + tl.program_id(0) * SIDE * SIDE + rs[:, None] * SIDE + cs[None, :], acc)


def _products(turn: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        programs, steps = (2, 4) if small else (132 * 8, 64)
        x, y, out = random(256, 64, 64), random(256, 64, 64), empty(programs, 64, 64)
        if not turn:
            y = y.transpose(1, 2).contiguous()
        options = {"TURN": turn, "SIDE": 64, "num_warps": 4}
        return Launch(products_across_kernel, (programs,), (x, y, out, steps), (out,), options)

    return prepare


CASES = (
    Case("sum turned each step", ("layout-conversion",), _turned_sum(False), _turned_sum(True)),
    Case("operand kept by columns", ("layout-conversion",), _products(True), _products(False)),
)
