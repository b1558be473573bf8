"""Explicit warp specialisation in Gluon: a default partition with results, two others of other sizes."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from tests.kernels.spec import CUDA80, GFX942, Spec

# ruff: noqa: N803
__all__ = ["gluon_ws_kernel", "specs"]


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


def specs() -> list[Spec]:
    return [
        Spec(
            name="gluon_ws",
            fn=gluon_ws_kernel,
            signature={"x_ptr": "*fp32", "out_ptr": "*fp32", "total_ptr": "*fp32"},
            constexprs={"BLOCK": 128},
            options={"num_warps": 4},
            aligned=("x_ptr", "out_ptr"),
            unsupported={
                CUDA80: "a register count for each partition needs sm_90 (setmaxnreg)",
                GFX942: "its layouts are those of 32-lane warps",
            },
        )
    ]
