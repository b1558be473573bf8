"""Launches of fewer programs than a GPU has SMs."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def softmax_loop_kernel(x_ptr, out_ptr, rows, COLS: tl.constexpr):
    """Each program walks over rows of softmax."""
    cols = tl.arange(0, COLS)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * COLS + cols)
        e = tl.exp(x - tl.max(x, 0))
        tl.store(out_ptr + row * COLS + cols, e / tl.sum(e, 0))


def _softmax_loop(programs: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, cols = (16, 512) if small else (8192, 4096)
        x, out = random(rows, cols), empty(rows, cols)
        grid = (max(1, programs // 64) if small else programs,)
        return Launch(softmax_loop_kernel, grid, (x, out, rows), (out,), {"COLS": cols, "num_warps": 8})

    return prepare


@triton.jit
def average_options_kernel(option_ptr, out_ptr, count, batches, dates, BLOCK: tl.constexpr):
    """Mean payoffs, batch by batch of paths, of calls on the average of a share's prices at some dates."""
    option = tl.program_id(0)
    spot, strike = tl.load(option_ptr + option), tl.load(option_ptr + count + option)
    drift, spread = tl.load(option_ptr + 2 * count + option), tl.load(option_ptr + 3 * count + option)
    for batch in range(tl.program_id(1), batches, tl.num_programs(1)):
        path = (option * batches + batch) * BLOCK + tl.arange(0, BLOCK)
        growth = tl.zeros((BLOCK,), dtype=tl.float32)
        total = tl.zeros((BLOCK,), dtype=tl.float32)
        for date in range(0, dates, 4):
            a, b, c, d = tl.randn4x(date, path)
            growth += drift + spread * a
            total += tl.exp(growth)
            growth += drift + spread * b
            total += tl.exp(growth)
            growth += drift + spread * c
            total += tl.exp(growth)
            growth += drift + spread * d
            total += tl.exp(growth)
        payoff = tl.maximum(spot * total / dates - strike, 0.0)
        tl.store(out_ptr + option * batches + batch, tl.sum(payoff, 0) / BLOCK)


def _average_options(programs: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        count, batches, dates = (3, 4, 8) if small else (48, 32, 64)
        low = torch.tensor([90.0, 85.0, 0.0, 0.01])
        high = torch.tensor([110.0, 95.0, 0.002, 0.03])
        option = low[:, None] + (high - low)[:, None] * torch.rand(4, count)
        out = empty(count, batches)
        args = (option, out, count, batches, dates)
        grid = (count, min(programs, batches))
        return Launch(average_options_kernel, grid, args, (out,), {"BLOCK": 256, "num_warps": 4})

    return prepare


CASES = (
    Case("softmax by 24 programs", ("idle-sms",), _softmax_loop(24), _softmax_loop(1056), emulator=False),
    Case(
        "options on averages by one program each",
        ("idle-sms",),
        _average_options(1),
        _average_options(32),
        emulator=False,
    ),
)
