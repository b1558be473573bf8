"""Rows reduced by more warps than they need."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def rms_row_kernel(x_ptr, w_ptr, out_ptr, COLS: tl.constexpr):
    cols = tl.arange(0, COLS)
    x = tl.load(x_ptr + tl.program_id(0) * COLS + cols).to(tl.float32)
    y = x * tl.rsqrt(tl.sum(x * x, 0) / COLS + 1e-6) * tl.load(w_ptr + cols)
    tl.store(out_ptr + tl.program_id(0) * COLS + cols, y.to(tl.bfloat16))


def _rms_row(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, cols = (4, 1024) if small else (1 << 15, 1024)
        x, w = random(rows, cols, dtype=torch.bfloat16), random(cols)
        out = empty(rows, cols, dtype=torch.bfloat16)
        return Launch(rms_row_kernel, (rows,), (x, w, out), (out,), {"COLS": cols, "num_warps": warps})

    return prepare


@triton.jit
def three_norms_kernel(x_ptr, out_ptr, COLS: tl.constexpr):
    """A row that is normed, clipped, and normed again, by reductions over all warps."""
    cols = tl.arange(0, COLS)
    x = tl.load(x_ptr + tl.program_id(0) * COLS + cols)
    for _ in tl.static_range(6):
        x -= tl.sum(x, 0) / COLS
        x = x / (tl.max(tl.abs(x), 0) + 1e-6)
    tl.store(out_ptr + tl.program_id(0) * COLS + cols, x)


def _three_norms(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, cols = (4, 1024) if small else (1 << 15, 1024)
        x, out = random(rows, cols), empty(rows, cols)
        return Launch(three_norms_kernel, (rows,), (x, out), (out,), {"COLS": cols, "num_warps": warps})

    return prepare


CASES = (
    Case("short row of 32 warps", ("too-many-warps",), _rms_row(32), _rms_row(4)),
    Case("norms of a row by 32 warps", ("too-many-warps",), _three_norms(32), _three_norms(4)),
)
