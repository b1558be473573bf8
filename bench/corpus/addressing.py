"""Faults of how global memory is addressed."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


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
def thread_by_row_kernel(x_ptr, out_ptr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Each thread walks over a row of its own."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for i in range(WIDTH):
        acc += tl.load(x_ptr + rows * WIDTH + i).to(tl.float32)  # fault
    tl.store(out_ptr + rows, acc)


@triton.jit
def warp_by_row_kernel(x_ptr, out_ptr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + rows[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :])
    tl.store(out_ptr + rows, tl.sum(x.to(tl.float32), 1))


def _rows_summed(coalesced: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, width = (512, 64) if small else (1 << 19, 128)
        x, out = random(rows, width, dtype=torch.bfloat16), empty(rows)
        kernel, block = (warp_by_row_kernel, 32) if coalesced else (thread_by_row_kernel, 256)
        options = {"WIDTH": width, "BLOCK": block, "num_warps": 4 if coalesced else 8}
        return Launch(kernel, (rows // block,), (x, out), (out,), options)

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
def brighten_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)  # fault
    tl.store(out_ptr + offs, x ^ 85)  # fault


def _brighten(offset: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 1 << (13 if small else 28)
        x = integers(n + 16, below=255, dtype=torch.uint8)
        image, out = x[1 : n + 1], empty(n + 16, dtype=torch.uint8)[offset : n + offset]
        if not offset:
            image = image.clone()
        return Launch(brighten_kernel, (n // 4096,), (image, out), (out,), {"BLOCK": 4096, "num_warps": 4})

    return prepare


@triton.jit
def strided_rms_kernel(x_ptr, out_ptr, stride, COLS: tl.constexpr):
    offs = tl.program_id(0) * stride + tl.arange(0, COLS)
    x = tl.load(x_ptr + offs).to(tl.float32)  # fault
    tl.store(out_ptr + offs, (x * tl.rsqrt(tl.sum(x * x, 0) / COLS + 1e-6)).to(tl.float16))  # fault


def _strided_rms(pad: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, cols = (8, 1024) if small else (16384, 4096)
        values = random(rows, cols, dtype=torch.float16)
        x = zeros(rows, cols + pad, dtype=torch.float16)
        x[:, :cols] = values
        out = zeros(rows, cols + pad, dtype=torch.float16)
        options = {"COLS": cols, "num_warps": 4}
        return Launch(strided_rms_kernel, (rows,), (x, out, cols + pad), (out[:, :cols],), options)

    return prepare


@triton.jit
def clipped_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)  # fault
    y = tl.load(y_ptr + offs, mask=offs < n)  # fault
    tl.store(out_ptr + offs, tl.maximum(x, y), mask=offs < n)  # fault


def _clipped(rounded: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        room = 1 << (13 if small else 27)
        n = room - 5
        x, y = (integers(room, below=127, dtype=torch.int8) for _ in range(2))
        out = empty(room, dtype=torch.int8)
        args = (x, y, out, room if rounded else n)
        return Launch(clipped_kernel, (room // 4096,), args, (out[:n],), {"BLOCK": 4096, "num_warps": 4})

    return prepare


CASES = (
    Case(
        "softmax of columns",
        ("uncoalesced-load", "uncoalesced-store"),
        ("counts",),
        True,
        _column_softmax(False),
        _column_softmax(True),
    ),
    Case("field of a structure", ("uncoalesced-load",), ("counts",), True, _one_field(8), _one_field(1)),
    Case(
        "thread walks a row",
        ("uncoalesced-load",),
        ("counts",),
        True,
        _rows_summed(False),
        _rows_summed(True),
    ),
    Case(
        "row written as column",
        ("uncoalesced-store",),
        ("counts",),
        True,
        _transposing(False),
        _transposing(True),
    ),
    Case(
        "member of a record", ("uncoalesced-store",), ("counts",), True, _into_records(16), _into_records(1)
    ),
    Case("image off by a byte", ("unvectorized-access",), ("counts",), True, _brighten(1), _brighten(0)),
    Case(
        "rows of odd stride", ("unvectorized-access",), ("counts",), True, _strided_rms(1), _strided_rms(16)
    ),
    Case(
        "mask of an odd length", ("unvectorized-access",), ("counts",), True, _clipped(False), _clipped(True)
    ),
)
