"""Explicit warp specialisation in Gluon: a default partition with results, two others of other sizes."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from tests.kernels.spec import CUDA80, GFX942, Spec

# ruff: noqa: N803
__all__ = ["gluon_ws_kernel", "gluon_ws_loop_kernel", "specs"]


@gluon.jit
def _default(x_ptr, out_ptr, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    offs = gl.arange(0, BLOCK, layout=layout)
    x = gl.load(x_ptr + offs)
    gl.store(out_ptr + offs, x + 1.0)
    return gl.sum(x, axis=0), gl.max(x, axis=0)


@gluon.jit
def _worker(x_ptr, out_ptr, BLOCK: gl.constexpr, WARPS: gl.constexpr, SCALE: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [WARPS], [0])
    offs = gl.arange(0, BLOCK, layout=layout)
    for i in range(3):
        x = gl.load(x_ptr + i * BLOCK + offs)
        gl.store(out_ptr + (SCALE * 3 + i) * BLOCK + offs, x * SCALE)


@gluon.jit
def gluon_ws_kernel(x_ptr, out_ptr, total_ptr, BLOCK: gl.constexpr):
    pid = gl.program_id(0)
    total, peak = gl.warp_specialize(
        [
            (_default, (x_ptr, out_ptr, BLOCK)),
            (_worker, (x_ptr, out_ptr, BLOCK, 1, 2)),
            (_worker, (x_ptr, out_ptr, BLOCK, 2, 3)),
        ],
        [1, 2],
        [24, 24],
    )
    gl.store(total_ptr + pid, total + peak)


@gluon.jit
def _count_down(x_ptr, out_ptr, tile, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    offs = gl.arange(0, BLOCK, layout=layout)
    total = 0.0
    for i in range(tile):
        total += gl.sum(gl.load(x_ptr + i * BLOCK + offs), axis=0)
    return total, tile


@gluon.jit
def _copy(x_ptr, out_ptr, tile, BLOCK: gl.constexpr, WARPS: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [WARPS], [0])
    offs = gl.arange(0, BLOCK, layout=layout)
    for i in range(tile % 3):
        x = gl.load(x_ptr + i * BLOCK + offs)
        if i == 1:
            for j in range(2):
                gl.store(out_ptr + (tile * 2 + j) * BLOCK + offs, x + j)


@gluon.jit
def gluon_ws_loop_kernel(x_ptr, out_ptr, total_ptr, tiles, BLOCK: gl.constexpr):
    total = 0.0
    for tile in range(gl.program_id(0), tiles):
        summed, rows = gl.warp_specialize(
            [
                (_count_down, (x_ptr, out_ptr, tile, BLOCK)),
                (_copy, (x_ptr, out_ptr, tile, BLOCK, 1)),
                (_copy, (x_ptr, out_ptr, tile, BLOCK, 2)),
            ],
            [1, 2],
            [24, 24],
        )
        total += summed + rows
    gl.store(total_ptr + gl.program_id(0), total)


def specs() -> list[Spec]:
    unsupported = {
        CUDA80: "a register count for each partition needs sm_90 (setmaxnreg)",
        GFX942: "its layouts are those of 32-lane warps",
    }
    return [
        Spec(
            name="gluon_ws",
            fn=gluon_ws_kernel,
            signature={"x_ptr": "*fp32", "out_ptr": "*fp32", "total_ptr": "*fp32"},
            constexprs={"BLOCK": 128},
            options={"num_warps": 4},
            aligned=("x_ptr", "out_ptr"),
            unsupported=unsupported,
        ),
        Spec(
            name="gluon_ws_loop",
            fn=gluon_ws_loop_kernel,
            signature={"x_ptr": "*fp32", "out_ptr": "*fp32", "total_ptr": "*fp32", "tiles": "i32"},
            constexprs={"BLOCK": 128},
            options={"num_warps": 4},
            aligned=("x_ptr", "out_ptr"),
            unsupported=unsupported,
        ),
    ]
