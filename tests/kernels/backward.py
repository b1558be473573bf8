"""Backward passes: layer norm with atomics, flash attention in two loops."""

from __future__ import annotations

import triton
import triton.language as tl

# ruff: noqa: N803
__all__ = ["attention_backward_kernel", "layer_norm_backward_kernel"]


@triton.jit
def layer_norm_backward_kernel(
    x_ptr, dy_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr, cols, BLOCK: tl.constexpr
):
    """One row a program; the weights' gradients are added up by atomics."""
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    mask = offs < cols
    x = tl.load(x_ptr + row * cols + offs, mask=mask, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + row * cols + offs, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + offs, mask=mask, other=0.0)
    rstd = tl.load(rstd_ptr + row)
    normal = tl.where(mask, (x - tl.load(mean_ptr + row)) * rstd, 0.0)
    scaled = w * dy
    along = tl.sum(normal * scaled, axis=0) / cols
    shift = tl.sum(scaled, axis=0) / cols
    tl.store(dx_ptr + row * cols + offs, (scaled - (normal * along + shift)) * rstd, mask=mask)
    tl.atomic_add(dw_ptr + offs, dy * normal, mask=mask)
    tl.atomic_add(db_ptr + offs, dy, mask=mask)


@triton.jit
def attention_backward_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dq_ptr, dk_ptr, dv_ptr, length, scale,
    BLOCK: tl.constexpr, HEAD: tl.constexpr,
):  # fmt: skip
    """Gradients of one block of keys; dq, in float32, is added up by atomics.

    `lse` is the logarithm to base 2 of each row's sum of exponentials, `delta` the row sums of do * out.
    """
    base = tl.program_id(1) * length * HEAD
    rows = tl.program_id(1) * length
    offs_n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    offs_d = tl.arange(0, HEAD)
    k = tl.load(k_ptr + base + offs_n[:, None] * HEAD + offs_d[None, :])
    v = tl.load(v_ptr + base + offs_n[:, None] * HEAD + offs_d[None, :])
    dk = tl.zeros([BLOCK, HEAD], dtype=tl.float32)
    dv = tl.zeros([BLOCK, HEAD], dtype=tl.float32)
    for start in range(0, length, BLOCK):
        offs_m = start + tl.arange(0, BLOCK)
        at = base + offs_m[:, None] * HEAD + offs_d[None, :]
        q = tl.load(q_ptr + at)
        do = tl.load(do_ptr + at)
        scores = tl.dot(q, tl.trans(k)) * (scale * 1.44269504)
        p = tl.exp2(scores - tl.load(lse_ptr + rows + offs_m)[:, None])
        dv += tl.dot(tl.trans(p).to(tl.float16), do)
        dp = tl.dot(do, tl.trans(v))
        ds = (p * (dp - tl.load(delta_ptr + rows + offs_m)[:, None]) * scale).to(tl.float16)
        dk += tl.dot(tl.trans(ds), q)
        tl.atomic_add(dq_ptr + at, tl.dot(ds, k))
    tl.store(dk_ptr + base + offs_n[:, None] * HEAD + offs_d[None, :], dk)
    tl.store(dv_ptr + base + offs_n[:, None] * HEAD + offs_d[None, :], dv)
