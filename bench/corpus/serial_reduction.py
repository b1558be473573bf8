"""Reductions across warps in each step of a loop."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def tile_totals_kernel(x_ptr, out_ptr, steps, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Sums of columns: each tile is reduced over its rows, which are in different warps."""
    rs, cs = tl.arange(0, ROWS), tl.arange(0, COLS)
    acc = tl.zeros((COLS,), dtype=tl.float32)
    for step in range(steps):
        row = (tl.program_id(0) * steps + step) * ROWS
        acc += tl.sum(tl.load(x_ptr + (row + rs)[:, None] * COLS + cs[None, :]).to(tl.float32), 0)  # fault
    tl.store(out_ptr + tl.program_id(0) * COLS + cs, acc)


@triton.jit
def tile_totals_once_kernel(x_ptr, out_ptr, steps, ROWS: tl.constexpr, COLS: tl.constexpr):
    rs, cs = tl.arange(0, ROWS), tl.arange(0, COLS)
    acc = tl.zeros((ROWS, COLS), dtype=tl.float32)
    for step in range(steps):
        row = (tl.program_id(0) * steps + step) * ROWS
        acc += tl.load(x_ptr + (row + rs)[:, None] * COLS + cs[None, :]).to(tl.float32)
    tl.store(out_ptr + tl.program_id(0) * COLS + cs, tl.sum(acc, 0))


def _tile_totals(once: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        programs, steps = (2, 4) if small else (528, 128)
        x, out = random(programs * steps * 16, 128, dtype=torch.float16), empty(programs, 128)
        kernel = tile_totals_once_kernel if once else tile_totals_kernel
        options = {"ROWS": 16, "COLS": 128, "num_warps": 8}
        return Launch(kernel, (programs,), (x, out, steps), (out,), options)

    return prepare


@triton.jit
def byte_matvec_kernel(
    x_ptr, weight_ptr, scale_ptr, out_ptr, DEPTH: tl.constexpr, BLOCK: tl.constexpr, LATE: tl.constexpr
):
    """One token's product with weights of bytes, a program a row; LATE: lanes are added up at the end."""
    row, lane = tl.program_id(0), tl.arange(0, BLOCK)
    weight_ptr += row.to(tl.int64) * DEPTH
    total = tl.zeros((BLOCK,), dtype=tl.float32) if LATE else 0.0
    for start in range(0, DEPTH, BLOCK):
        x = tl.load(x_ptr + start + lane).to(tl.float32)
        product = x * tl.load(weight_ptr + start + lane).to(tl.float32)
        if LATE:
            total += product
        else:
            total += tl.sum(product, 0)  # fault
    if LATE:
        total = tl.sum(total, 0)
    tl.store(out_ptr + row, total * tl.load(scale_ptr + row))


def _byte_matvec(late: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, depth = (8, 8192) if small else (53248, 16384)
        x = random(depth, dtype=torch.bfloat16)
        weight = torch.randint(-127, 128, (rows, depth), dtype=torch.int8)
        scale, out = torch.rand(rows), empty(rows)
        options = {"DEPTH": depth, "BLOCK": 1024, "LATE": late, "num_warps": 8}
        return Launch(byte_matvec_kernel, (rows,), (x, weight, scale, out), (out,), options)

    return prepare


CASES = (
    Case("columns summed each step", ("serial-reduction",), _tile_totals(False), _tile_totals(True)),
    Case(
        "bytes' products summed over warps each step",
        ("serial-reduction",),
        _byte_matvec(False),
        _byte_matvec(True),
    ),
)
