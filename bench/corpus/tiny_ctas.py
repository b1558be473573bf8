"""CTAs that end soon after their start."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def short_rows_kernel(x_ptr, out_ptr, ROWS: tl.constexpr, COLS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    offs = rows[:, None] * COLS + tl.arange(0, COLS)[None, :]
    x = tl.load(x_ptr + offs).to(tl.float32)
    e = tl.exp(x - tl.max(x, 1)[:, None])
    tl.store(out_ptr + offs, (e / tl.sum(e, 1)[:, None]).to(tl.bfloat16))


def _short_rows(rows_each: int, warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows = 64 if small else 1 << 19
        x, out = random(rows, 64, dtype=torch.bfloat16), empty(rows, 64, dtype=torch.bfloat16)
        options = {"ROWS": rows_each, "COLS": 64, "num_warps": warps}
        return Launch(short_rows_kernel, (rows // rows_each,), (x, out), (out,), options)

    return prepare


@triton.jit
def add_small_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=mask) + tl.load(y_ptr + offs, mask=mask), mask=mask)


def _add_small(block: int, warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 1 << (12 if small else 25)
        x, y, out = random(n), random(n), empty(n)
        options = {"BLOCK": block, "num_warps": warps}
        return Launch(add_small_kernel, (triton.cdiv(n, block),), (x, y, out, n), (out,), options)

    return prepare


CASES = (
    Case("CTAs of one short row", ("tiny-ctas",), _short_rows(1, 1), _short_rows(32, 4), emulator=False),
    Case("add by 64 elements", ("tiny-ctas",), _add_small(64, 1), _add_small(1024, 4), emulator=False),
)
