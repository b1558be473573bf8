"""Loads whose lanes touch sectors far apart."""

from __future__ import annotations

import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def one_field_kernel(points_ptr, out_ptr, FIELDS: tl.constexpr, BLOCK: tl.constexpr):
    """Reads one field of each of an array of structures."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(points_ptr + offs * FIELDS)  # fault
    tl.store(out_ptr + offs, x * 0.5 + 1.0)


def _one_field(fields: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 1 << (12 if small else 23)
        points, out = random(n, 8), empty(n)
        x = points if fields > 1 else points[:, 0].contiguous()
        return Launch(one_field_kernel, (n // 1024,), (x, out), (out,), {"FIELDS": fields, "BLOCK": 1024})

    return prepare


@triton.jit
def column_softmax_kernel(x_ptr, out_ptr, cols, ROWS: tl.constexpr):
    offs = tl.arange(0, ROWS) * cols + tl.program_id(0)
    x = tl.load(x_ptr + offs)  # fault
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + offs, e / tl.sum(e, 0))  # fault


@triton.jit
def wide_column_softmax_kernel(x_ptr, out_ptr, cols, ROWS: tl.constexpr, WIDE: tl.constexpr):
    columns = tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    offs = tl.arange(0, ROWS)[:, None] * cols + columns[None, :]
    x = tl.load(x_ptr + offs)
    e = tl.exp(x - tl.max(x, 0)[None, :])
    tl.store(out_ptr + offs, e / tl.sum(e, 0)[None, :])


def _column_softmax(wide: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, cols = (256, 64) if small else (1024, 16384)
        x, out = random(rows, cols), empty(rows, cols)
        if wide:
            options = {"ROWS": rows, "WIDE": 16, "num_warps": 8}
            return Launch(wide_column_softmax_kernel, (cols // 16,), (x, out, cols), (out,), options)
        return Launch(column_softmax_kernel, (cols,), (x, out, cols), (out,), {"ROWS": rows, "num_warps": 4})

    return prepare


CASES = (
    Case("field of a structure", ("uncoalesced-load",), _one_field(8), _one_field(1)),
    Case(
        "softmax of columns",
        ("uncoalesced-load", "uncoalesced-store"),
        _column_softmax(False),
        _column_softmax(True),
    ),
)
