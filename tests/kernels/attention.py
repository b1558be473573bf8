"""Flash attention, forward: one loop before the diagonal and one on it, two dots a step."""

from __future__ import annotations

import triton
import triton.language as tl

from tests.kernels.spec import Spec

# ruff: noqa: N803
__all__ = ["attention_kernel", "specs"]


@triton.jit
def _accumulate(
    acc, total, peak, q, k_ptr, v_ptr, start, end, offs_m, scale,
    MASKED: tl.constexpr, BLOCK_N: tl.constexpr, HEAD: tl.constexpr,
):  # fmt: skip
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, HEAD)
    for n in range(start, end, BLOCK_N):
        k = tl.load(k_ptr + (n + offs_n)[None, :] * HEAD + offs_d[:, None])
        scores = tl.dot(q, k) * scale
        if MASKED:
            scores = tl.where(offs_m[:, None] >= (n + offs_n)[None, :], scores, -float("inf"))
        new_peak = tl.maximum(peak, tl.max(scores, 1))
        p = tl.exp2(scores - new_peak[:, None])
        shrink = tl.exp2(peak - new_peak)
        total = total * shrink + tl.sum(p, 1)
        v = tl.load(v_ptr + (n + offs_n)[:, None] * HEAD + offs_d[None, :])
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None])
        peak = new_peak
    return acc, total, peak


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, length, scale,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEAD: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    start_m = tl.program_id(0) * BLOCK_M
    base = tl.program_id(1) * length * HEAD
    offs_m = start_m + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, HEAD)
    q = tl.load(q_ptr + base + offs_m[:, None] * HEAD + offs_d[None, :])
    acc = tl.zeros([BLOCK_M, HEAD], dtype=tl.float32)
    total = tl.zeros([BLOCK_M], dtype=tl.float32)
    peak = tl.full([BLOCK_M], -float("inf"), dtype=tl.float32)
    scale = scale * 1.44269504  # exp2, not exp
    full = length
    if CAUSAL:
        full = start_m
    acc, total, peak = _accumulate(
        acc, total, peak, q, k_ptr + base, v_ptr + base, 0, full, offs_m, scale, False, BLOCK_N, HEAD
    )
    if CAUSAL:
        acc, total, peak = _accumulate(
            acc, total, peak, q, k_ptr + base, v_ptr + base,
            start_m, start_m + BLOCK_M, offs_m, scale, True, BLOCK_N, HEAD,
        )  # fmt: skip
    out = acc / total[:, None]
    tl.store(out_ptr + base + offs_m[:, None] * HEAD + offs_d[None, :], out.to(tl.float16))


def specs() -> list[Spec]:
    signature = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "out_ptr"), "*fp16")
    return [
        Spec(
            name="attention",
            fn=attention_kernel,
            signature=signature | {"length": "i32", "scale": "fp32"},
            constexprs={"BLOCK_M": 64, "BLOCK_N": 32, "HEAD": 64, "CAUSAL": True},
            options={"num_warps": 4, "num_stages": 2},
            aligned=(*signature, "length"),
        )
    ]
