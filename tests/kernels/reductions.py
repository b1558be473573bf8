"""Kernels whose threads exchange values: reductions, scans, sorting, histograms."""

from __future__ import annotations

import triton
import triton.language as tl

# ruff: noqa: N803
__all__ = [
    "argmax_kernel",
    "cumsum_kernel",
    "histogram_kernel",
    "reduce_kernel",
    "row_sums_kernel",
    "scan_kernel",
    "sort_kernel",
]


@triton.jit
def reduce_kernel(x_ptr, out_ptr, cols, OP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    if OP == "sum":
        y = tl.sum(tl.load(x_ptr + row * cols + offs, mask=offs < cols, other=0))
    elif OP == "max":
        y = tl.max(tl.load(x_ptr + row * cols + offs, mask=offs < cols, other=-float("inf")))
    elif OP == "min":
        y = tl.min(tl.load(x_ptr + row * cols + offs, mask=offs < cols, other=float("inf")))
    else:
        y = tl.xor_sum(tl.load(x_ptr + row * cols + offs, mask=offs < cols, other=0))
    tl.store(out_ptr + row, y)


@triton.jit
def row_sums_kernel(x_ptr, out_ptr, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Of fp16 the bare PTX alternates loads and conversions."""
    row, col = tl.arange(0, ROWS), tl.arange(0, COLS)
    x = tl.load(x_ptr + row[:, None] * COLS + col[None, :]).to(tl.float32)
    tl.store(out_ptr + row, tl.sum(x, 1))


@triton.jit
def argmax_kernel(x_ptr, value_ptr, index_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + offs, mask=offs < cols, other=-float("inf"))
    value, index = tl.max(x, axis=0, return_indices=True)
    tl.store(value_ptr + row, value)
    tl.store(index_ptr + row, index)


@triton.jit
def cumsum_kernel(x_ptr, out_ptr, cols, REVERSE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + offs, mask=offs < cols, other=0)
    tl.store(out_ptr + row * cols + offs, tl.cumsum(x, axis=0, reverse=REVERSE), mask=offs < cols)


@triton.jit
def _linear_recurrence(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def scan_kernel(a_ptr, b_ptr, out_ptr, ROWS: tl.constexpr, COLS: tl.constexpr):
    offs = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    _, out = tl.associative_scan((tl.load(a_ptr + offs), tl.load(b_ptr + offs)), 0, _linear_recurrence)
    tl.store(out_ptr + offs, out)


@triton.jit
def sort_kernel(x_ptr, out_ptr, DESCENDING: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.sort(tl.load(x_ptr + offs), descending=DESCENDING))


@triton.jit
def histogram_kernel(x_ptr, out_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0)
    tl.store(out_ptr + tl.arange(0, BINS), tl.histogram(x, BINS, mask=offs < n))
