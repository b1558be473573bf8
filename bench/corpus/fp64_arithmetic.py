"""Arithmetic in float64 that float32 does as well."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def double_norm_kernel(x_ptr, out_ptr, COLS: tl.constexpr, DTYPE: tl.constexpr):
    """A norm whose sums are in float64, and the rest with them."""
    offs = tl.program_id(0) * COLS + tl.arange(0, COLS)
    x = tl.load(x_ptr + offs).to(DTYPE)  # fault
    away = x - tl.sum(x, 0) / COLS  # fault
    y = away / tl.sqrt(tl.sum(away * away, 0) / COLS + 1e-5)  # fault
    tl.store(out_ptr + offs, y.to(tl.float16))


def _double_norm(dtype: Any) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, cols = (4, 1024) if small else (8192, 4096)
        x, out = random(rows, cols, dtype=torch.float16), empty(rows, cols, dtype=torch.float16)
        return Launch(
            double_norm_kernel, (rows,), (x, out), (out,), {"COLS": cols, "DTYPE": dtype, "num_warps": 8}
        )

    return prepare


@triton.jit
def running_variance_kernel(x_ptr, out_ptr, COLS: tl.constexpr, BLOCK: tl.constexpr, DTYPE: tl.constexpr):
    """Variances of rows by Welford's update, of each lane, and merged at the end."""
    mean = tl.zeros((BLOCK,), dtype=DTYPE)
    spread = tl.zeros((BLOCK,), dtype=DTYPE)
    for step in range(COLS // BLOCK):
        at = tl.program_id(0) * COLS + step * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at).to(DTYPE)  # fault
        away = x - mean
        mean += away / (step + 1).to(DTYPE)  # fault
        spread += away * (x - mean)  # fault
    away = mean - tl.sum(mean, 0) / BLOCK
    out = (tl.sum(spread, 0) + tl.sum(away * away, 0) * (COLS // BLOCK)) / COLS
    tl.store(out_ptr + tl.program_id(0), out.to(tl.float32))


def _variance(dtype: Any) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, cols = (2, 4096) if small else (4224, 16384)
        x, out = random(rows, cols), empty(rows)
        options = {"COLS": cols, "BLOCK": 1024, "DTYPE": dtype, "num_warps": 4}
        return Launch(running_variance_kernel, (rows,), (x, out), (out,), options)

    return prepare


CASES = (
    Case("norm in float64", ("fp64-arithmetic",), _double_norm(tl.float64), _double_norm(tl.float32)),
    Case("Welford in float64", ("fp64-arithmetic",), _variance(tl.float64), _variance(tl.float32)),
)
