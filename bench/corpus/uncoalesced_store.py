"""Stores whose lanes touch sectors far apart."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def into_records_kernel(x_ptr, out_ptr, stride: tl.constexpr, BLOCK: tl.constexpr):
    """Writes one member of each of an array of records."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs).to(tl.float32)
    tl.store(out_ptr + offs * stride, (x * tl.sigmoid(x)).to(tl.float16))  # fault


def _into_records(stride: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 1 << (12 if small else 23)
        x, out = random(n, dtype=torch.float16), zeros(n, stride, dtype=torch.float16)
        options = {"stride": stride, "BLOCK": 2048}
        return Launch(into_records_kernel, (n // 2048,), (x, out), (out[:, 0],), options)

    return prepare


@triton.jit
def transposing_rows_kernel(x_ptr, out_ptr, rows, COLS: tl.constexpr):
    """Reads a row, and writes it as a column."""
    cols = tl.arange(0, COLS)
    x = tl.load(x_ptr + tl.program_id(0) * COLS + cols)
    tl.store(out_ptr + cols * rows + tl.program_id(0), x * 2.0)  # fault


@triton.jit
def transposing_tiles_kernel(x_ptr, out_ptr, rows, cols, TILE: tl.constexpr):
    rs = tl.program_id(0) * TILE + tl.arange(0, TILE)
    cs = tl.program_id(1) * TILE + tl.arange(0, TILE)
    x = tl.load(x_ptr + rs[:, None] * cols + cs[None, :])
    tl.store(out_ptr + cs[:, None] * rows + rs[None, :], tl.trans(x * 2.0))


def _transposing(tiled: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, cols = (128, 256) if small else (8192, 2048)
        x, out = random(rows, cols), empty(cols, rows)
        if tiled:
            return Launch(
                transposing_tiles_kernel, (rows // 64, cols // 64), (x, out, rows, cols), (out,), {"TILE": 64}
            )
        return Launch(transposing_rows_kernel, (rows,), (x, out, rows), (out,), {"COLS": cols})

    return prepare


CASES = (
    Case("member of a record", ("uncoalesced-store",), _into_records(16), _into_records(1)),
    Case("row written as column", ("uncoalesced-store",), _transposing(False), _transposing(True)),
)
