"""Faults of shared memory, registers and layouts within a CTA."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from bench.corpus.case import Case, Launch, Prepare, empty, random

# ruff: noqa: N803
__all__ = ["CASES"]


@gluon.jit
def tile_transpose_kernel(x_ptr, out_ptr, rows, cols, TILE: gl.constexpr, SHARED: gl.constexpr):
    """Transposes tiles through shared memory: written by rows, read by columns."""
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    turned: gl.constexpr = gl.BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])
    rs = gl.program_id(0) * TILE + gl.arange(0, TILE, layout=gl.SliceLayout(1, layout))
    cs = gl.program_id(1) * TILE + gl.arange(0, TILE, layout=gl.SliceLayout(0, layout))
    x = gl.load(x_ptr + rs[:, None] * cols + cs[None, :])
    tile = gl.allocate_shared_memory(x.dtype, [TILE, TILE], SHARED, x)
    y = tile.load(turned)  # fault
    rs_turned = gl.program_id(0) * TILE + gl.arange(0, TILE, layout=gl.SliceLayout(1, turned))
    cs_turned = gl.program_id(1) * TILE + gl.arange(0, TILE, layout=gl.SliceLayout(0, turned))
    gl.store(out_ptr + cs_turned[None, :] * rows + rs_turned[:, None], y)


@gluon.jit
def column_passes_kernel(x_ptr, out_ptr, passes, TILE: gl.constexpr, SHARED: gl.constexpr):
    """Passes over the columns of a tile that stays in shared memory, as of a sweep along one axis."""
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    turned: gl.constexpr = gl.BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])
    rs = gl.arange(0, TILE, layout=gl.SliceLayout(1, layout))
    cs = gl.arange(0, TILE, layout=gl.SliceLayout(0, layout))
    base = gl.program_id(0) * TILE * TILE
    offs = base + rs[:, None] * TILE + cs[None, :]
    tile = gl.allocate_shared_memory(gl.float32, [TILE, TILE], SHARED, gl.load(x_ptr + offs))
    for _ in range(passes):
        x = tile.load(turned)  # fault
        tile.store(x * 0.75 + 0.125)  # fault
    gl.store(out_ptr + offs, tile.load(layout))


_PLAIN = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
_SWIZZLED = gl.SwizzledSharedLayout(1, 1, 32, [1, 0])


def _tile_transpose(shared: Any) -> Prepare:
    def prepare(small: bool) -> Launch:
        size = 128 if small else 8192
        x, out = random(size, size), empty(size, size)
        options = {"TILE": 64, "SHARED": shared, "num_warps": 4}
        grid = (size // 64, size // 64)
        return Launch(tile_transpose_kernel, grid, (x, out, size, size), (out,), options)

    return prepare


def _column_passes(shared: Any) -> Prepare:
    def prepare(small: bool) -> Launch:
        programs, passes = (2, 2) if small else (132 * 8, 20)
        x, out = random(programs, 64, 64), empty(programs, 64, 64)
        options = {"TILE": 64, "SHARED": shared, "num_warps": 4}
        return Launch(column_passes_kernel, (programs,), (x, out, passes), (out,), options)

    return prepare


@triton.jit
def gathered_turn_kernel(x_ptr, out_ptr, SIDE: tl.constexpr):
    """Transposes little squares within a row by a gather."""
    at = tl.arange(0, SIDE * SIDE)
    x = tl.load(x_ptr + tl.program_id(0) * SIDE * SIDE + at)
    for _ in tl.static_range(5):
        x = tl.gather(x, at % SIDE * SIDE + at // SIDE, 0) + 1.0  # fault
    tl.store(out_ptr + tl.program_id(0) * SIDE * SIDE + at, x)


@triton.jit
def transposed_turn_kernel(x_ptr, out_ptr, SIDE: tl.constexpr):
    at = tl.arange(0, SIDE * SIDE)
    x = tl.load(x_ptr + tl.program_id(0) * SIDE * SIDE + at)
    x = tl.trans(tl.reshape(x, (SIDE, SIDE))) + 5.0
    tl.store(out_ptr + tl.program_id(0) * SIDE * SIDE + at, tl.reshape(x, (SIDE * SIDE,)))


def _turn(by_gather: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        squares = 4 if small else 1 << 14
        x, out = random(squares, 1024), empty(squares, 1024)
        kernel = gathered_turn_kernel if by_gather else transposed_turn_kernel
        return Launch(kernel, (squares,), (x, out), (out,), {"SIDE": 32, "num_warps": 4})

    return prepare


@triton.jit
def wide_update_kernel(x_ptr, y_ptr, out_ptr, steps, BLOCK: tl.constexpr):
    """Two coupled recurrences whose state is held in registers."""
    offs = tl.arange(0, BLOCK)
    base = tl.program_id(0) * BLOCK
    x, y = tl.load(x_ptr + base + offs), tl.load(y_ptr + base + offs)
    for _ in range(steps):  # fault
        x, y = x * 0.5 + y * 0.25, y * 0.5 - x * 0.25  # fault
    tl.store(out_ptr + base + offs, x + y)


def _wide_update(block: int, warps: int, registers: int | None) -> Prepare:
    def prepare(small: bool) -> Launch:
        n, steps = (1 << 14, 4) if small else (1 << 22, 200)
        x, y, out = random(n), random(n), empty(n)
        options: dict[str, Any] = {"BLOCK": block, "num_warps": warps}
        if registers:
            options["maxnreg"] = registers
        return Launch(wide_update_kernel, (n // block,), (x, y, out, steps), (out,), options)

    return prepare


@triton.jit
def plain_matmul_kernel(
    a_ptr, b_ptr, c_ptr, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + offs_m[:, None] * K + (k + offs_k)[None, :])
        b = tl.load(b_ptr + (k + offs_k)[:, None] * N + offs_n[None, :])
        acc = tl.dot(a, b, acc)  # fault
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.float16))


def _plain_matmul(tile: tuple[int, int, int], warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        m, k = (256, 128) if small else (4096, 4096)
        a, b = random(m, k, dtype=torch.float16), random(k, m, dtype=torch.float16)
        c = empty(m, m, dtype=torch.float16)
        options = dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile, strict=True))
        options |= {"num_warps": warps, "num_stages": 3}
        grid = (m // tile[1], m // tile[0])
        return Launch(plain_matmul_kernel, grid, (a, b, c, m, k), (c,), options)

    return prepare


@triton.jit
def rows_backward_kernel(y_ptr, dy_ptr, x_ptr, dx_ptr, dw_ptr, rows, COLS: tl.constexpr):
    """Backward pass of a scaled softmax over long rows, with the weight's gradient held over the rows."""
    cols = tl.arange(0, COLS)
    dw = tl.zeros((COLS,), dtype=tl.float32)  # fault
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        y = tl.load(y_ptr + row * COLS + cols).to(tl.float32)
        dy = tl.load(dy_ptr + row * COLS + cols).to(tl.float32)
        x = tl.load(x_ptr + row * COLS + cols).to(tl.float32)
        inner = tl.sum(y * dy, 0)
        tl.store(dx_ptr + row * COLS + cols, y * (dy - inner) + x)
        dw += x * dy * inner
    tl.store(dw_ptr + tl.program_id(0) * COLS + cols, dw)


def _rows_backward(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, cols = (4, 2048) if small else (2112, 8192)
        programs = 2 if small else 132
        y, dy, x = (random(rows, cols, dtype=torch.bfloat16) for _ in range(3))
        dx, dw = empty(rows, cols), empty(programs, cols)
        options = {"COLS": cols, "num_warps": warps}
        return Launch(rows_backward_kernel, (programs,), (y, dy, x, dx, dw, rows), (dx, dw), options)

    return prepare


@triton.jit
def turned_sum_kernel(x_ptr, out_ptr, steps, SIDE: tl.constexpr):
    """Sum of tiles that is turned in each step."""
    rs, cs = tl.arange(0, SIDE), tl.arange(0, SIDE)
    acc = tl.zeros((SIDE, SIDE), dtype=tl.float32)
    for step in range(steps):
        base = (tl.program_id(0) * steps + step) % 256 * SIDE * SIDE
        x = tl.load(x_ptr + base + rs[:, None] * SIDE + cs[None, :])
        acc = tl.trans(acc) + x  # fault
    tl.store(out_ptr + tl.program_id(0) * SIDE * SIDE + rs[:, None] * SIDE + cs[None, :], acc)


@triton.jit
def sums_turned_once_kernel(x_ptr, out_ptr, steps, SIDE: tl.constexpr):
    """As turned_sum_kernel: what is turned an odd number of times is summed apart, and turned at the end."""
    rs, cs = tl.arange(0, SIDE), tl.arange(0, SIDE)
    odd = tl.zeros((SIDE, SIDE), dtype=tl.float32)
    even = tl.zeros((SIDE, SIDE), dtype=tl.float32)
    for step in range(0, steps, 2):
        first = (tl.program_id(0) * steps + step) % 256 * SIDE * SIDE
        second = (tl.program_id(0) * steps + step + 1) % 256 * SIDE * SIDE
        odd += tl.load(x_ptr + first + rs[:, None] * SIDE + cs[None, :])
        even += tl.load(x_ptr + second + rs[:, None] * SIDE + cs[None, :])
    out = even + tl.trans(odd)
    tl.store(out_ptr + tl.program_id(0) * SIDE * SIDE + rs[:, None] * SIDE + cs[None, :], out)


def _turned_sum(once: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        programs, steps = (2, 4) if small else (132 * 8, 64)
        x, out = random(256, 64, 64), empty(programs, 64, 64)
        kernel = sums_turned_once_kernel if once else turned_sum_kernel
        return Launch(kernel, (programs,), (x, out, steps), (out,), {"SIDE": 64, "num_warps": 4})

    return prepare


@triton.jit
def products_across_kernel(x_ptr, y_ptr, out_ptr, steps, TURN: tl.constexpr, SIDE: tl.constexpr):
    """Sum of products of tiles and of other tiles, which may be stored by columns."""
    rs, cs = tl.arange(0, SIDE), tl.arange(0, SIDE)
    acc = tl.zeros((SIDE, SIDE), dtype=tl.float32)
    for step in range(steps):
        offs = (tl.program_id(0) * steps + step) % 256 * SIDE * SIDE + rs[:, None] * SIDE + cs[None, :]
        x, y = tl.load(x_ptr + offs), tl.load(y_ptr + offs)
        if TURN:
            y = tl.trans(y)  # fault
        acc += x * y
    tl.store(out_ptr + tl.program_id(0) * SIDE * SIDE + rs[:, None] * SIDE + cs[None, :], acc)


def _products(turn: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        programs, steps = (2, 4) if small else (132 * 8, 64)
        x, y, out = random(256, 64, 64), random(256, 64, 64), empty(programs, 64, 64)
        if not turn:
            y = y.transpose(1, 2).contiguous()
        options = {"TURN": turn, "SIDE": 64, "num_warps": 4}
        return Launch(products_across_kernel, (programs,), (x, y, out, steps), (out,), options)

    return prepare


CASES = (
    Case(
        "transpose through plain shared",
        ("bank-conflict",),
        ("counts",),
        True,
        _tile_transpose(_PLAIN),
        _tile_transpose(_SWIZZLED),
    ),
    Case(
        "sweeps over columns of a tile",
        ("bank-conflict",),
        ("counts",),
        True,
        _column_passes(_PLAIN),
        _column_passes(_SWIZZLED),
    ),
    Case(
        "squares turned by a gather",
        ("bank-conflict", "layout-conversion"),
        ("counts",),
        True,
        _turn(True),
        _turn(False),
    ),
    Case(
        "wide state of 4 warps",
        ("register-spills",),
        ("counts", "resources"),
        False,
        _wide_update(16384, 4, None),
        _wide_update(2048, 4, None),
    ),
    Case(
        "state in 48 registers",
        ("register-spills",),
        ("counts", "resources"),
        False,
        _wide_update(8192, 8, 48),
        _wide_update(8192, 8, None),
    ),
    Case(
        "matmul tile of 4 warps",
        ("register-spills",),
        ("counts", "resources"),
        False,
        _plain_matmul((256, 128, 64), 4),
        _plain_matmul((256, 128, 64), 8),
    ),
    Case(
        "long rows of 2 warps",
        ("register-spills",),
        ("counts", "resources"),
        False,
        _rows_backward(2),
        _rows_backward(16),
    ),
    Case(
        "sum turned each step",
        ("layout-conversion",),
        ("counts", "spans"),
        True,
        _turned_sum(False),
        _turned_sum(True),
    ),
    Case(
        "operand kept by columns",
        ("layout-conversion",),
        ("counts", "spans"),
        True,
        _products(True),
        _products(False),
    ),
)
