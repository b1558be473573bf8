"""Shared memory whose lanes meet in one bank."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from bench.corpus.case import Case, Launch, Prepare, empty, random

# ruff: noqa: N803
__all__ = ["CASES"]


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


CASES = (
    Case("squares turned by a gather", ("bank-conflict", "layout-conversion"), _turn(True), _turn(False)),
    Case(
        "transpose through plain shared",
        ("bank-conflict",),
        _tile_transpose(_PLAIN),
        _tile_transpose(_SWIZZLED),
    ),
)
