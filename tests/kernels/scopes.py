"""Kernels that name scopes: in Triton, in Gluon, and with the language of Triton's own profiler."""

from __future__ import annotations

import triton
import triton.language as tl
import triton.profiler.language as pl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

import profscope.language as psl
from tests.kernels.spec import CUDA80, GFX942, Spec

# ruff: noqa: N803
__all__ = [
    "gluon_scopes_kernel",
    "matmul_scopes_kernel",
    "matmul_ws_scopes_kernel",
    "proton_scopes_kernel",
    "specs",
]


@triton.jit
def _scaled(x, factor):
    with psl.scope("scale"):
        scaled = x * factor
    return scaled  # noqa: RET504


@triton.jit
def matmul_scopes_kernel(
    a_ptr, b_ptr, c_ptr, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    with psl.scope("setup", program=tl.program_id(0)):
        rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
        cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
        inner = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    psl.enter_scope("main loop")
    for k in tl.range(0, K, BLOCK_K, num_stages=3):
        with psl.scope("fetch", k=k):
            a = tl.load(a_ptr + rows[:, None] * K + (k + inner)[None, :])
            b = tl.load(b_ptr + (k + inner)[:, None] * N + cols[None, :])
        psl.mark("fetched")
        with psl.scope("multiply"):
            total = tl.dot(a, b, total)
    psl.exit_scope("main loop")
    with psl.scope("epilogue", gain=0.5):
        c = _scaled(total, 0.5)
        tl.store(c_ptr + rows[:, None] * N + cols[None, :], _scaled(c, 4.0).to(tl.float16))


@triton.jit
def matmul_ws_scopes_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    a_desc = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    off_m = tl.program_id(0) * BLOCK_M
    off_n = tl.program_id(1) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(0, tl.cdiv(K, BLOCK_K), warp_specialize=True):
        with psl.scope("fetch"):
            a = a_desc.load([off_m, k * BLOCK_K])
            b = b_desc.load([off_n, k * BLOCK_K])
        with psl.scope("multiply"):
            acc = tl.dot(a, b.T, acc)
    with psl.scope("epilogue", program=tl.program_id(0)):
        c_desc.store([off_m, off_n], acc.to(tl.float16))


@triton.jit
def proton_scopes_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    with pl.scope("read"):
        x = tl.load(x_ptr + offs)
    pl.enter_scope("write")
    tl.store(out_ptr + offs, x + 1)
    pl.exit_scope("write")


@gluon.jit
def _double(x_ptr, out_ptr, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    offs = gl.arange(0, BLOCK, layout=layout)
    with psl.scope("read"):
        x = gl.load(x_ptr + offs)
    with psl.scope("write"):
        gl.store(out_ptr + offs, x + x)


@gluon.jit
def _triple(x_ptr, out_ptr, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [2], [0])
    offs = gl.arange(0, BLOCK, layout=layout)
    for i in range(3):
        with psl.scope("worker", step=i):
            psl.mark("pass")
            gl.store(out_ptr + BLOCK + offs, gl.load(x_ptr + offs) * 3.0)


@gluon.jit
def gluon_scopes_kernel(x_ptr, out_ptr, BLOCK: gl.constexpr, WORKERS: gl.constexpr):
    with psl.scope("all"):
        if WORKERS:
            gl.warp_specialize(
                [(_double, (x_ptr, out_ptr, BLOCK)), (_triple, (x_ptr, out_ptr, BLOCK))], [2], [24]
            )
        else:
            _double(x_ptr, out_ptr, BLOCK)


def specs() -> list[Spec]:
    row = {"x_ptr": "*fp32", "out_ptr": "*fp32"}
    lanes = {GFX942: "its layouts are those of 32-lane warps"}
    registers = {CUDA80: "a register count for each partition needs sm_90 (setmaxnreg)"}
    matrices = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16")
    sizes = dict.fromkeys(("M", "N", "K"), "i32")
    blocks = {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 64}
    return [
        Spec(
            "matmul_scopes",
            matmul_scopes_kernel,
            matrices | {"N": "i32", "K": "i32"},
            {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32},
            aligned=(*matrices, "N", "K"),
        ),
        Spec(
            "matmul_ws_scopes",
            matmul_ws_scopes_kernel,
            matrices | sizes,
            blocks,
            {"num_warps": 4, "num_stages": 3},
            aligned=(*matrices, *sizes),
        ),
        Spec("proton_scopes", proton_scopes_kernel, row, {"BLOCK": 256}),
        Spec("gluon_scopes", gluon_scopes_kernel, row, {"BLOCK": 128, "WORKERS": 0}, unsupported=lanes),
        Spec(
            "gluon_ws_scopes",
            gluon_scopes_kernel,
            row,
            {"BLOCK": 128, "WORKERS": 1},
            {"num_warps": 4},
            unsupported=lanes | registers,
        ),
    ]
