"""Kernels of rows without a fault."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def sum_kernel(x_ptr, out_ptr, per_program, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    base = tl.program_id(0) * per_program
    for start in range(0, per_program, BLOCK):
        acc += tl.load(x_ptr + base + start + tl.arange(0, BLOCK))
    tl.store(out_ptr + tl.program_id(0), tl.sum(acc, 0))


def _sum(small: bool) -> Launch:
    programs, each = (2, 16384) if small else (132 * 16, 1 << 15)
    x, out = random(programs * each), empty(programs)
    return Launch(sum_kernel, (programs,), (x, out, each), (out,), {"BLOCK": 4096, "num_warps": 4})


@triton.jit
def softmax_kernel(x_ptr, out_ptr, COLS: tl.constexpr):
    offs = tl.program_id(0) * COLS + tl.arange(0, COLS)
    x = tl.load(x_ptr + offs).to(tl.float32)
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + offs, (e / tl.sum(e, 0)).to(out_ptr.dtype.element_ty))


def _by_row(kernel: Any, rows: int, cols: int, dtype: torch.dtype, warps: int, weights: int = 0) -> Prepare:
    def prepare(small: bool) -> Launch:
        count = 4 if small else rows
        x, out = random(count, cols, dtype=dtype), empty(count, cols, dtype=dtype)
        more = tuple(random(cols) for _ in range(weights))
        return Launch(kernel, (count,), (x, out, *more), (out,), {"COLS": cols, "num_warps": warps})

    return prepare


@triton.jit
def layer_norm_kernel(x_ptr, out_ptr, w_ptr, b_ptr, COLS: tl.constexpr):
    cols = tl.arange(0, COLS)
    offs = tl.program_id(0) * COLS + cols
    x = tl.load(x_ptr + offs).to(tl.float32)
    away = x - tl.sum(x, 0) / COLS
    y = away * tl.rsqrt(tl.sum(away * away, 0) / COLS + 1e-5)
    tl.store(out_ptr + offs, (y * tl.load(w_ptr + cols) + tl.load(b_ptr + cols)).to(tl.bfloat16))


@triton.jit
def running_sum_kernel(x_ptr, out_ptr, COLS: tl.constexpr):
    offs = tl.program_id(0) * COLS + tl.arange(0, COLS)
    tl.store(out_ptr + offs, tl.cumsum(tl.load(x_ptr + offs), 0))


CASES = (
    Case("good sum", (), _sum),
    Case("good softmax", (), _by_row(softmax_kernel, 16384, 4096, torch.float32, 8)),
    Case("good layer norm", (), _by_row(layer_norm_kernel, 16384, 4096, torch.bfloat16, 8, 2)),
    Case("good running sum", (), _by_row(running_sum_kernel, 32768, 2048, torch.float32, 4)),
)
